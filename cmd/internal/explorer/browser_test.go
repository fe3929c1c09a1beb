package explorer_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
	"nexus/turns"
)

var (
	modules  = flag.String("browser", "", "a node_modules folder with playwright-core and axe-core: look at the pages in chromium")
	only     = flag.String("only", "", "look at this page alone, with -browser")
	pictures = flag.String("pictures", "", "a folder for pictures of the pages, with -browser")
)

// The explorer in a real browser: both themes, two widths, keys alone, script off, seven tabs while
// the ledger grows; no request to elsewhere, no message of the browser, nothing wider than the
// window, and no violation that axe finds.
func TestExplorerInABrowser(t *testing.T) {
	if *modules == "" {
		t.Skip("SKIPPED: needs -browser DIR/node_modules (npm install playwright-core axe-core), node and chromium")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("SKIPPED: no node here: ", err)
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("SKIPPED: no chromium here: ", err)
	}
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
		"events": "/ui/events?channel=mail&of=main", "health": "/ui/health", "keys": "/ui/keys", "explorertest.Hostile": "/ui/s/" + bad.ID.String(),
		"takeout": s + "/t/" + x.First.String() + "/takeout", "vanished": "/ui/vanished", "checkpoints": "/ui/checkpoints", "prove": s + "/t/" + x.Call.String() + "/prove", "everywhere": "/ui/takeout",
		"takeout-parts": s + "/t/" + x.Call.String() + "/takeout", "takeout-text": s + "/takeout", "takeout-span": s + "/t/" + x.First.String() + "/takeout", "code": "/ui/s/" + coded.ID.String(), "everywhere-text": "/ui/takeout",
	}
	previews := map[string]string{"takeout-parts": "", "takeout-text": "my real export", "takeout-span": "my real export", "everywhere-text": "it is so"}
	fork := paths["turn"]
	if *only != "" {
		paths = map[string]string{*only: paths[*only]}
	}
	spec, err := json.Marshal(map[string]any{"link": link.URL, "session": s, "turn": fork, "live": "/ui/s/" + grows.ID.String(), "leak": leak, "pictures": *pictures, "paths": paths, "previews": previews})
	if err != nil {
		t.Fatal(err)
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
	cmd := exec.Command(node, filepath.Join("testdata", "browser.mjs"), *modules, chromium, string(spec))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
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

// inEachLanguage has all colours that code has.
const inEachLanguage = "First in Go:\n\n" +
	"```go\n// Import reads an export, one row at a time.\nfunc Import(ctx context.Context, r io.Reader) (n int, err error) {\n\tfor line := range lines(r) {\n\t\tif len(line) > 1<<20 {\n\t\t\treturn n, fmt.Errorf(\"row %d has %d bytes\", n, len(line))\n\t\t}\n\t\tn++\n\t}\n\treturn n, nil\n}\n```\n\n" +
	"In Python:\n\n```python\nclass Store:\n    \"\"\"Rows by their key.\"\"\"\n    @property\n    def rows(self) -> int:\n        return len(self._rows) if self.open else 0  # none\n```\n\n" +
	"Its settings, the change, and how it is run:\n\n```json\n{\"rows\": 1024, \"strict\": true, \"path\": \"/srv/data\"}\n```\n\n```diff\n--- a/store.py\n+++ b/store.py\n@@ -1,2 +1,2 @@\n-    for row in rows: save(row)\n+    save_all(rows)\n```\n\n```bash\nfor f in data/*.csv; do python3 -m store \"$f\" || exit 1; done\n```\n\n```\nwhat has no language is plain\n```\n"
