package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/agents"
	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/watch"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

// piLines returns exchanges [from, to) of a session of pi, the header before the first.
func piLines(session, from, to int) string {
	var b strings.Builder
	if from == 0 {
		fmt.Fprintf(&b, `{"type":"session","version":3,"id":"019d7d08-46c9-7f73-a000-%012d","timestamp":"2026-04-11T14:00:00Z","cwd":"/w"}`+"\n", session)
	}
	for i := from; i < to; i++ {
		up := "null"
		if i > 0 {
			up = fmt.Sprintf(`"p%d"`, i-1)
		}
		fmt.Fprintf(&b, `{"type":"message","id":"q%d","parentId":%s,"timestamp":"2026-04-11T14:00:01Z","message":{"role":"user","content":"a private question"}}`+"\n", i, up)
		fmt.Fprintf(&b, `{"type":"message","id":"p%d","parentId":"q%d","timestamp":"2026-04-11T14:00:02Z","message":{"role":"assistant","content":"answer %d"}}`+"\n", i, i, i)
	}
	return b.String()
}

func addTo(t *testing.T, file, text string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// storedTurns returns the number of turns of each session, sorted.
func storedTurns(t *testing.T, c *client.Client) (out []int) {
	t.Helper()
	for s, err := range c.Sessions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range c.Turns(t.Context(), s.ID, api.ListTurns{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// following returns a daemon whose configuration file says what it follows, and its log.
func following(t *testing.T, toml string) (d *daemon.Daemon, c *client.Client, log *lockedBuffer) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nexus.toml")
	addTo(t, file, toml)
	cfg, err := parse([]string{"--config", file, "--data", t.TempDir(), "--http", "127.0.0.1:0"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	log = new(lockedBuffer)
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	if cfg.Follow, err = follow(cfg); err != nil {
		t.Fatal(err)
	}
	d, c = startDaemon(t, cfg)
	return d, c, log
}

// A daemon brings in what agents write while it runs. A watch beside it, with the same
// folders, stores nothing twice.
func TestDaemonFollowsTranscriptsBesideAWatch(t *testing.T) {
	root := t.TempDir()
	const sessions, exchanges = 4, 6
	file := func(i int) string { return filepath.Join(root, fmt.Sprintf("s%d.jsonl", i)) }
	for i := range sessions {
		addTo(t, file(i), piLines(i, 0, 2))
	}
	_, c, log := following(t, fmt.Sprintf("[watch]\npi = [%q]\n", root))
	w, err := watch.New(watch.Config{Sources: []watch.Source{{Agent: "pi", Root: root}}, State: t.TempDir(), Ledger: "test", Connect: watch.Dialed(c), Rescan: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(t.Context()) }()
	for n := 2; n < exchanges; n++ {
		for i := range sessions {
			addTo(t, file(i), piLines(i, n, n+1))
		}
	}
	want := slices.Repeat([]int{exchanges}, sessions)
	until(t, "the turns are stored", func() bool { return slices.Equal(storedTurns(t, c), want) })
	// What another run of the same files stores is what the two left out.
	again, err := watch.New(watch.Config{Sources: []watch.Source{{Agent: "pi", Root: root}}, State: t.TempDir(), Ledger: "test", Connect: watch.Dialed(c), Once: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := storedTurns(t, c); !slices.Equal(got, want) {
		t.Errorf("after another run: %v", got)
	}
	if text := log.String(); strings.Contains(text, "private") || !strings.Contains(text, "s0.jsonl") {
		t.Errorf("the log: %s", text)
	}
}

// A folder that can't be read, and one that is not there, are lines of the log. The daemon
// is ready, and its other folders are followed.
func TestBrokenFolderLeavesTheDaemonReady(t *testing.T) {
	root, broken := t.TempDir(), filepath.Join(t.TempDir(), "a-file")
	addTo(t, broken, "no folder")
	addTo(t, filepath.Join(root, "s.jsonl"), piLines(0, 0, 1))
	addTo(t, filepath.Join(root, "t.jsonl"), "{\"secret\": 1}\n")
	d, c, log := following(t, fmt.Sprintf("[watch]\nclaude = [%q]\ncodex = [%q]\npi = [%q]\nagent = \"owner\"\n", filepath.Join(broken, "below"), filepath.Join(root, "none"), root))
	owner := c.As("owner")
	until(t, "the turn is stored", func() bool { return slices.Equal(storedTurns(t, owner), []int{1}) })
	until(t, "the log names the folder", func() bool { return strings.Contains(log.String(), broken) })
	until(t, "the log names the file", func() bool { return strings.Contains(log.String(), "t.jsonl: not imported") })
	for _, path := range []string{"/readyz", "/metrics"} {
		r, err := http.Get(d.HTTPURL() + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK || strings.Contains(string(text), "a-file") {
			t.Errorf("%s: %s, %v", path, r.Status, err)
		}
	}
	if strings.Contains(log.String(), "secret") {
		t.Error(log.String())
	}
}

// A table without folders follows nothing. One that can't mean what it says is refused at
// the start.
func TestWatchTable(t *testing.T) {
	for name, x := range map[string]struct {
		table config.WatchTable
		want  []watch.Source
		fault string
	}{
		"empty":    {},
		"home":     {table: config.WatchTable{Claude: []string{"~/a/"}, Gemini: []string{"/b", "/c"}}, want: []watch.Source{{Agent: "claude", Root: "/h/a"}, {Agent: "gemini", Root: "/b"}, {Agent: "gemini", Root: "/c"}}},
		"relative": {table: config.WatchTable{Pi: []string{"sessions"}}, fault: `"sessions" of pi`},
		"no name":  {table: config.WatchTable{Codex: []string{""}}, fault: "codex"},
	} {
		got, err := watched(x.table, "/h")
		if !slices.Equal(got, x.want) || (err == nil) != (x.fault == "") || err != nil && !strings.Contains(err.Error(), x.fault) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if f, err := follow(config.Config{}); f != nil || err != nil {
		t.Error(err)
	}
	for _, bad := range []config.WatchTable{{Agent: "_"}, {Tenant: "a b"}} {
		if err := (config.Config{Watch: bad}).Validate(); err == nil || !strings.Contains(err.Error(), "watch") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// Each agent has its setting in [watch], and its name where people look for the agents that
// are read. A row of agents.All that lacks one fails here, with the place.
func TestEachAgentIsNamedWhereAgentsAreListed(t *testing.T) {
	for _, a := range agents.All() {
		file := filepath.Join(t.TempDir(), "nexus.toml")
		addTo(t, file, fmt.Sprintf("[watch]\n%s = [\"/x\"]\n", a.Name))
		cfg, err := parse([]string{"--config", file}, nil)
		if err != nil {
			t.Errorf("WatchTable (cmd/internal/daemon/config/config.go) has no list %s: %v", a.Name, err)
			continue
		}
		if got, err := watched(cfg.Watch, ""); err != nil || !slices.Equal(got, []watch.Source{{Agent: a.Name, Root: "/x"}}) {
			t.Errorf("WatchTable.Folders (cmd/internal/daemon/config/config.go) lacks %s: %v, %v", a.Name, got, err)
		}
	}
	title := func(a agents.Agent) string { return a.Title }
	for _, x := range []struct {
		file, after, before string // the list is between two texts
		word                func(agents.Agent) string
	}{
		{"README.md", "the folders of", "\n", title},
		{"docs/GUIDE.md", "## Live capture", "```", title},
		{"docs/LIMITS.md", "agents are read:**", "\n", title},
		{"docs/AGENTS.md", "| client |", "\n\n", func(a agents.Agent) string { return "[" + a.Title + "]" }},
		{"docs/OPERATIONS.md", "| `[watch]` |", "\n", func(a agents.Agent) string { return "`" + a.Name + "`" }},
		{"cmd/ledgerctl/internal/help/watch.txt", "Follows the transcripts of", "\n\n", title},
		{"cmd/ledgerctl/internal/help/watch.txt", "--from AGENT=DIR ", "--state", func(a agents.Agent) string { return a.Name }},
		{"cmd/ledgerctl/internal/help/import.txt", "--format auto|", "\n", func(a agents.Agent) string { return a.Format }},
	} {
		b, err := os.ReadFile(filepath.Join(root, x.file))
		if err != nil {
			t.Fatal(err)
		}
		_, list, found := strings.Cut(string(b), x.after)
		list, _, ends := strings.Cut(list, x.before)
		if !found || !ends {
			t.Errorf("%s has no list after %q", x.file, x.after)
			continue
		}
		list = " " + strings.Join(strings.Fields(list), " ") + " "
		for _, a := range agents.All() {
			if !regexp.MustCompile(`\W` + regexp.QuoteMeta(x.word(a)) + `(\W|$)`).MatchString(list) {
				t.Errorf("%s does not name %s after %q", x.file, x.word(a), x.after)
			}
		}
	}
}

// An erasure reaches what the daemon keeps of the folders that it follows: the receipt is done when neither the transcript nor the
// session is named there.
func TestADaemonForgetsAnErasedTranscript(t *testing.T) {
	root, data := t.TempDir(), t.TempDir()
	file := func(i int) string { return filepath.Join(root, fmt.Sprintf("transcript-%d.jsonl", i)) }
	for i := range 2 {
		addTo(t, file(i), piLines(i, 0, 2))
	}
	toml := filepath.Join(t.TempDir(), "nexus.toml")
	addTo(t, toml, fmt.Sprintf("[watch]\npi = [%q]\n", root))
	cfg, err := parse([]string{"--config", toml, "--data", data, "--http", "off"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Follow, err = follow(cfg); err != nil {
		t.Fatal(err)
	}
	cfg.Unfollow = unfollow(cfg)
	_, c := startDaemon(t, cfg)
	until(t, "the turns are stored", func() bool { return slices.Equal(storedTurns(t, c), []int{2, 2}) })
	var sessions []api.Session
	for s, err := range c.Sessions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, s)
	}
	one := slices.IndexFunc(sessions, func(s api.Session) bool { return strings.Contains(string(s.Meta), "000000000000") })
	id := sessions[one].ID
	erase := func() *api.Receipt {
		r, err := c.As(api.Operator).Erase(t.Context(), id, api.EraseSession{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := erase(); r.Done || !slices.ContainsFunc(r.Stores, func(s api.ErasedStore) bool { return s.Store == "watch" && s.State == api.StorePending }) {
		t.Errorf("the first receipt: %+v", r)
	}
	until(t, "the receipt is done", func() bool { return erase().Done })
	for _, name := range []string{"state.json", "erased"} {
		p := filepath.Join(data, "watch", name)
		text, err := os.ReadFile(p)
		if err != nil {
			list, _ := os.ReadDir(p)
			text = []byte(fmt.Sprint(list))
		}
		if strings.Contains(string(text), id.String()) || strings.Contains(string(text), file(0)) {
			t.Errorf("%s names it: %s", name, text)
		}
	}
	addTo(t, file(1), piLines(1, 2, 3))
	addTo(t, file(0), piLines(0, 2, 3))
	until(t, "the other is followed", func() bool { return slices.Contains(storedTurns(t, c), 3) })
}
