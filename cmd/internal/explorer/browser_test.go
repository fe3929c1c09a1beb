package explorer_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/build"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/cmd/internal/transcripts"
	"nexus/ledger/api"
	"nexus/turns"
)

var (
	modules  = flag.String("browser", "", "a node_modules folder with playwright-core and axe-core: look at the pages in chromium")
	only     = flag.String("only", "", "look at this page alone, with -browser")
	pictures = flag.String("pictures", "", "a folder for pictures of the pages, with -browser: those of the docs, by TestPicturesOfTheDocs")
)

// look has chromium look at pages, as testdata/browser.mjs says. It skips where there is no browser.
func look(t *testing.T, spec map[string]any) {
	t.Helper()
	node, chromium := browserOf(t)
	arg, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, filepath.Join("testdata", "browser.mjs"), *modules, chromium, string(arg))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 77 {
		t.Skip("SKIPPED: chromium does not start here")
	}
	if err != nil {
		t.Fatal(err)
	}
	var wrong []struct {
		Where string `json:"where"`
		What  string `json:"what"`
	}
	if err := json.Unmarshal(out, &wrong); err != nil {
		t.Fatal(err)
	}
	for _, w := range wrong {
		t.Errorf("%s: %s", w.Where, w.What)
	}
}

// browserOf returns the programs of a real browser. It skips where there is none.
func browserOf(t *testing.T) (node, chromium string) {
	t.Helper()
	if *modules == "" {
		t.Skip("SKIPPED: needs -browser DIR/node_modules (npm install playwright-core axe-core), node and chromium")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("SKIPPED: no node here: ", err)
	}
	if chromium, err = exec.LookPath("chromium"); err != nil {
		t.Skip("SKIPPED: no chromium here: ", err)
	}
	return node, chromium
}

// inBrief are the pages that -short looks at.
var inBrief = []string{"session", "context", "takeout-text"}

// The explorer in a real browser: both themes, two widths, keys alone, script off, seven tabs while
// the ledger grows; no request to elsewhere, no message of the browser, nothing wider than the
// window, and no violation that axe finds. With -short three pages, at one width in one theme.
func TestExplorerInABrowser(t *testing.T) {
	browserOf(t)
	_, c := explorertest.Start(t, config.Config{Checkpoint: config.CheckpointTable{Every: "1s", Out: []string{t.TempDir(), "/nowhere"}}})
	x := explorertest.Tell(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := c.SaveMemory(ctx, api.SaveMemory{Kind: "semantic", Text: "The export is in UTF-16; `store.py` reads it.", Session: x.Session}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AppendEvent(ctx, api.AppendEvent{Channel: "mail", Kind: "received", Body: turns.Raw(`{"subject":"slow again"}`)}); err != nil {
		t.Fatal(err)
	}
	bad, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	explorertest.Add(t, c, bad.ID, strings.Join(explorertest.Hostile, "\n\n"), strings.Join(explorertest.Hostile, "\n\n")+"\n\n| a | b |\n|-|-|\n| "+strings.Repeat("w", 300)+" | 2 |\n")
	const leak = "7351-9920 opens the door"
	leaks, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	explorertest.Add(t, c, leaks.ID, "Keep it: "+leak+".", "I keep it.")
	coded, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		explorertest.Add(t, c, coded.ID, "Show me each.", inEachLanguage)
	}
	gone, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.As(api.Operator).Erase(ctx, gone.ID, api.EraseSession{Ground: "request-1234"}); err != nil {
		t.Fatal(err)
	}
	grows, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		explorertest.Add(t, c, grows.ID, fmt.Sprint("question ", i), "an answer")
	}
	link, err := c.As(api.Operator).OpenPages(ctx, api.OpenPages{})
	if err != nil {
		t.Fatal(err)
	}
	s := "/ui/s/" + x.Session.String()
	paths := map[string]string{
		"sessions": "/ui/", "session": s, "turn": s + "/t/" + x.Edit.String(), "call": s + "/t/" + x.Call.String(), "context": s + "/x/" + x.Last.String(), "compaction": s + "/c/" + x.Compaction.String(),
		"compact": s + "/compact", "search": "/ui/search?q=export", "nothing": "/ui/search?q=zzzz", "compare": "/ui/diff/" + x.Session.String() + "/" + x.Fork.String(), "cost": "/ui/cost", "memory": "/ui/memory",
		"events": "/ui/events?channel=mail&of=main", "health": "/ui/health", "keys": "/ui/keys", "hostile": "/ui/s/" + bad.ID.String(),
		"takeout": s + "/t/" + x.First.String() + "/takeout", "vanished": "/ui/vanished", "checkpoints": "/ui/checkpoints", "prove": s + "/t/" + x.Call.String() + "/prove", "everywhere": "/ui/takeout",
		"takeout-parts": s + "/t/" + x.Call.String() + "/takeout", "takeout-text": s + "/takeout", "takeout-span": s + "/t/" + x.First.String() + "/takeout", "code": "/ui/s/" + coded.ID.String(), "everywhere-text": "/ui/takeout", "erase": s + "/takeout", "key": s + "/t/" + x.Call.String() + "/prove",
	}
	inText := func(text string) map[string]string {
		return map[string]string{"form": "form:has(textarea[name=text])", "text": text}
	}
	previews := map[string]map[string]string{"takeout-text": inText("my real export"), "takeout-span": inText("my real export"), "everywhere-text": inText("it is so"),
		"takeout-parts": {"form": "form:has(input[name=part])", "check": "part"}, "erase": {"form": "form:has(input[name=forks])", "check": "forks"}, "key": {"form": `form[action="/ui/do/prove"]`}}
	fork := paths["turn"]
	if *only != "" {
		paths = map[string]string{*only: paths[*only]}
	}
	if testing.Short() {
		maps.DeleteFunc(paths, func(name, _ string) bool { return !slices.Contains(inBrief, name) })
	}
	go func() { // the session grows
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-time.After(400 * time.Millisecond):
			}
			m := turns.TextMessage(turns.Assistant, "more")
			_, _ = c.Append(ctx, grows.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, fmt.Sprint("more ", i))}, Response: &m})
		}
	}()
	look(t, map[string]any{"link": link.URL, "session": s, "turn": fork, "live": "/ui/s/" + grows.ID.String(), "leak": leak, "pictures": *pictures, "paths": paths, "previews": previews, "brief": testing.Short()})
}

// The pictures of README, EXPLORER and design are of the transcript that quickstart brings: its second session with a label,
// compacted and forked twice. With -pictures it makes them: docs/TESTING.md has the command.
func TestPicturesOfTheDocs(t *testing.T) {
	browserOf(t)
	if *pictures == "" {
		t.Skip("SKIPPED: needs -pictures, the folder of the pictures")
	}
	_, c := explorertest.Start(t, config.Config{Version: build.Version(), Vanished: func() ([]config.VanishedFile, error) { return nil, nil }})
	transcript, err := os.Open("../../ledgerctl/internal/quickstart/session.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer transcript.Close()
	im := transcripts.Importer{Client: c, Stdin: transcript, Format: "auto", Final: true}
	report, err := im.File(t.Context(), "-")
	if err != nil || len(report.Sessions) != 2 {
		t.Fatalf("%+v, %v", report, err)
	}
	id, label := report.Sessions[1], "shelf"
	if _, err := c.Set(t.Context(), id, api.SetSession{SessionSettings: api.SessionSettings{Label: &label}}); err != nil {
		t.Fatal(err)
	}
	for depth, label := range map[uint64]string{32: "second-try", 45: "with-a-lock"} {
		at, err := c.TurnPage(t.Context(), id, api.ListTurns{From: depth, Page: api.Page{Limit: 1}})
		if err != nil || len(at.Turns) != 1 {
			t.Fatal(err)
		}
		if _, err := c.Fork(t.Context(), id, api.CreateFork{Turn: at.Turns[0].ID, Label: &label, Mode: "full"}); err != nil {
			t.Fatal(err)
		}
	}
	made, err := c.Compact(t.Context(), id, api.RunCompaction{AtOnce: true})
	if err != nil || made.Compaction == nil {
		t.Fatalf("%+v, %v", made, err)
	}
	link, err := c.As(api.Operator).OpenPages(t.Context(), api.OpenPages{})
	if err != nil {
		t.Fatal(err)
	}
	type shot struct {
		Name        string `json:"name"`
		Path        string `json:"path"`
		Width       int    `json:"width"`
		ColorScheme string `json:"colorScheme"`
		At          string `json:"at,omitempty"`
	}
	session := "/ui/s/" + id.String()
	look(t, map[string]any{"link": link.URL, "pictures": *pictures, "paths": map[string]string{}, "previews": map[string]any{}, "shots": []shot{
		{"explorer-sessions", "/ui/", 1280, "light", ""}, {"explorer-session", session + "?from=25", 1280, "light", ""},
		{"explorer-session-390", session + "?from=25", 390, "dark", "t26"}, {"explorer-context", session + "/x/" + made.Compaction.ID.String(), 1280, "light", ""},
	}})
}

// inEachLanguage has all colours that code has.
const inEachLanguage = "First in Go:\n\n" +
	"```go\n// Import reads an export, one row at a time.\nfunc Import(ctx context.Context, r io.Reader) (n int, err error) {\n\tfor line := range lines(r) {\n\t\tif len(line) > 1<<20 {\n\t\t\treturn n, fmt.Errorf(\"row %d has %d bytes\", n, len(line))\n\t\t}\n\t\tn++\n\t}\n\treturn n, nil\n}\n```\n\n" +
	"In Python:\n\n```python\nclass Store:\n    \"\"\"Rows by their key.\"\"\"\n    @property\n    def rows(self) -> int:\n        return len(self._rows) if self.open else 0  # none\n```\n\n" +
	"Its settings, the change, and how it is run:\n\n```json\n{\"rows\": 1024, \"strict\": true, \"path\": \"/srv/data\"}\n```\n\n```diff\n--- a/store.py\n+++ b/store.py\n@@ -1,2 +1,2 @@\n-    for row in rows: save(row)\n+    save_all(rows)\n```\n\n```bash\nfor f in data/*.csv; do python3 -m store \"$f\" || exit 1; done\n```\n\n```\nwhat has no language is plain\n```\n"
