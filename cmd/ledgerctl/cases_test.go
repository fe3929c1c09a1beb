package main

import (
	"bufio"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
	"nexus/turns"
)

// The inputs of ../shared/cases, each with the value that is right (a README in each
// folder says why). A case is imported into a ledger of its own, in each order of its
// files; what is in the ledger then is the same.
func TestSharedCases(t *testing.T) {
	root := filepath.Join("..", "..", "..", "shared", "cases")
	if _, err := os.Stat(root); err != nil {
		t.Skip("the cases are not beside the project (../shared/cases)")
	}
	for _, c := range sharedCases {
		orders := c.orders
		if orders == nil {
			orders = [][]string{{"."}}
		}
		for _, order := range orders {
			name := c.name
			if len(orders) > 1 {
				name += "/" + strings.Join(order, "+")
			}
			t.Run(name, func(t *testing.T) {
				l := newCaseLedger(t, filepath.Join(root, c.name))
				for _, file := range order {
					l.run(0, "import", "--final", "--losses", filepath.Join(l.dir, filepath.FromSlash(file)))
				}
				c.check(t, l)
				l.run(0, "verify")
			})
		}
	}
}

type sharedCase struct {
	name   string
	orders [][]string // of files and folders of the case, each an import of its own; nil: the folder
	check  func(*testing.T, *caseLedger)
}

var sharedCases = []sharedCase{
	{"02-codex-subagent-replay-nometa", bothOrders("rollout-2026-09-01T10-00-01-01a05c69-4d00-7001-8000-000000abc001.jsonl", "rollout-2026-09-01T10-10-01-01a05c72-74c0-7004-8000-000000abc004.jsonl"), func(t *testing.T, l *caseLedger) {
		l.cost(3, 1600, 2200, 143)
		l.sessions(2)
	}},
	{"03-codex-rollback", nil, func(t *testing.T, l *caseLedger) {
		l.cost(3, 210, 200, 18)
		l.hasContext("Name a colour", "Blue", "Name an animal", "Otter")
		if l.search("durian") == 0 {
			t.Error("what was rolled back is not found")
		}
	}},
	{"04c-codex-total-resets", nil, func(t *testing.T, l *caseLedger) { l.cost(2, 200, 0, 20) }},
	{"05-pi-fork-copies", [][]string{{"."},
		{"2026-09-01T10-00-00-000Z_11111111-0000-4000-8000-000000000001.jsonl", "2026-09-01T11-00-02-000Z_11111111-0000-4000-8000-000000000002.jsonl", "2026-09-01T11-00-03-000Z_11111111-0000-4000-8000-000000000003.jsonl"},
		{"2026-09-01T11-00-03-000Z_11111111-0000-4000-8000-000000000003.jsonl", "2026-09-01T11-00-02-000Z_11111111-0000-4000-8000-000000000002.jsonl", "2026-09-01T10-00-00-000Z_11111111-0000-4000-8000-000000000001.jsonl"},
	}, func(t *testing.T, l *caseLedger) {
		l.cost(4, 270, 400, 30)
		l.dollars("$0.12")
		l.sessions(3)
	}},
	{"09-advisor-iterations", nil, func(t *testing.T, l *caseLedger) {
		if s := l.run(0, "cost"); !strings.Contains(s, "≥") && !strings.Contains(s, "$1.10") {
			t.Errorf("the advisor's call is neither priced nor said to be missing:\n%s", s)
		}
		// The provider's count of the input, and that of the answer: the provider's or the ledger's own.
		if got := l.list()[0].Reported; got < 117550 || got > 117550+446 {
			t.Errorf("the context is that of the last iteration, %d tokens at most, not %d", 117550+446, got)
		}
	}},
	{"12-claude-preserved-messages", nil, func(t *testing.T, l *caseLedger) {
		l.sessions(1)
		l.hasContext("This session is being continued. SUMMARY-ONE", "KEPT question", "KEPT answer", "gamma question", "gamma answer")
	}},
	{"15b-claude-torn-line", nil, func(t *testing.T, l *caseLedger) {
		for _, s := range l.list() {
			text := strings.Join(l.context(s.ID), "\n")
			if strings.Contains(text, "B again") && (strings.Contains(text, "client A asks") || strings.Contains(text, "answer to A")) {
				t.Errorf("B's next prompt stands in A's conversation:\n%s", text)
			}
		}
		if l.search("again") == 0 || l.search("done") == 0 {
			t.Error("what follows the torn line is not in the ledger")
		}
	}},
	{"17-claude-subagents", bothOrders("projects/-w-shop/0d7e7650-d2a6-5ccd-acde-71355c00a7e7.jsonl", "projects/-w-shop/0d7e7650-d2a6-5ccd-acde-71355c00a7e7/subagents"), func(t *testing.T, l *caseLedger) {
		var main *api.Session
		for _, s := range l.list() {
			if s.SpawnedBy == nil {
				main = &s
			}
		}
		if main == nil {
			t.Fatal("no session that nobody started")
		}
		for _, s := range l.list() {
			if s.ID != main.ID && (s.SpawnedBy == nil || s.SpawnedBy.Session != main.ID) {
				t.Errorf("%s was spawned by %v, not by %s", s.ID, s.SpawnedBy, main.ID)
			}
		}
		l.cost(4, 2250, 0, 215, main.ID.String())
		l.cost(4, 2250, 0, 215)
	}},
	{"18-claude-fork-session", bothOrders("p/a61f138c-d78e-5a15-a8d2-16e14727e258.jsonl", "p/b7a61de1-7e35-5021-bd7b-0f2823809de5.jsonl"), func(t *testing.T, l *caseLedger) {
		if got := l.total(); got.Calls != 3 {
			t.Errorf("%d calls, want 3", got.Calls)
		}
		l.sessions(2)
		forks := 0
		for _, s := range l.list() {
			if s.ForkedFrom != nil {
				forks++
			}
		}
		if forks != 1 {
			t.Errorf("%d forks, want 1", forks)
		}
		if got := l.search("Two"); got != 1 {
			t.Errorf("turn 2 is found %d times", got)
		}
	}},
	{"21-thinking-model-switch", nil, func(t *testing.T, l *caseLedger) {
		s := l.run(0, "context", l.list()[0].ID.String(), "--format", "anthropic")
		if strings.Contains(s, "U0lHLU9QVVM0Nw==") || !strings.Contains(s, "U0lHLU9QVVM0OA==") || strings.Contains(s, "unsigned") {
			t.Errorf("the model in force is claude-opus-4-8; its signature alone goes to it:\n%s", s)
		}
	}},
	{"25-mcp-stateless", [][]string{{}}, func(t *testing.T, l *caseLedger) {
		in, write := io.Pipe()
		read, out := io.Pipe()
		done := make(chan int, 1)
		go func() {
			done <- run(t.Context(), []string{"--server", l.url, "--creds", l.creds, "mcp"}, in, out, io.Discard)
			out.Close()
		}()
		if _, err := io.WriteString(write, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`+"\n"); err != nil {
			t.Fatal(err)
		}
		s, err := bufio.NewReader(read).ReadString('\n')
		write.Close()
		if status := <-done; err != nil || status != 0 || !strings.Contains(s, `"tools"`) || strings.Contains(s, `"error":{"code"`) {
			t.Errorf("tools/list without a handshake and a version: %v, status %d, %s", err, status, s)
		}
	}},
	{"27-codex-token-usage-record", nil, func(t *testing.T, l *caseLedger) {
		l.cost(3, 105200, 100000, 3110)
		l.dollars("$0.25")
	}},
	{"35d-otel-delta", nil, func(t *testing.T, l *caseLedger) {
		if got := l.total(); got.Calls != 3 || got.Tokens.Input != 30 {
			t.Errorf("%+v, want 3 calls with 30 tokens of input", got)
		}
		l.hasContext("q1", "a1", "q2", "a2", "q3", "a3")
	}},
	{"38-continue-roundtrip", nil, func(t *testing.T, l *caseLedger) {
		id := l.list()[0].ID.String()
		dir := t.TempDir()
		for agent, home := range map[string]string{"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME", "pi": "PI_CODING_AGENT_DIR", "gemini": "GEMINI_CLI_HOME"} {
			dir := filepath.Join(dir, agent)
			t.Setenv(home, dir)
			l.run(0, "continue", id, "--in", agent, "--dir", l.dir)
			text := filesIn(t, dir)
			for _, call := range []string{"t2", "t5"} {
				_, after, _ := strings.Cut(text, `"`+call+`"`)
				if agent == "gemini" { // it has the result beside the call
					after, _, _ = strings.Cut(after, `"timestamp"`)
					after = strings.ReplaceAll(after, `"cancelled"`, `"`+call+`"`)
				}
				if !strings.Contains(after, `"`+call+`"`) {
					t.Errorf("%s: call %s has no result", agent, call)
				}
			}
		}
	}},
	{"60-codex-rewritten", [][]string{{"before", "after"}}, func(t *testing.T, l *caseLedger) {
		for _, w := range []string{"question 2", "NEW question 6", "NEW answer 7"} {
			if l.search(w) == 0 {
				t.Errorf("%q is not in the ledger", w)
			}
		}
		got := strings.Join(l.context(l.newest()), "\n")
		if !strings.Contains(got, "NEW question 6") || !strings.Contains(got, "NEW answer 7") || strings.Contains(got, "answer 2") {
			t.Errorf("the newest context is not that after the compaction:\n%s", got)
		}
	}},
	{"61-codex-agent-message", nil, func(t *testing.T, l *caseLedger) {
		l.cost(2, 300, 0, 10)
		got := strings.Join(l.context(l.newest()), "\n")
		for _, w := range []string{"TASK: find dead code in pkg/store", "There is none.", "OLD FORM: look at pkg/api too", "None either."} {
			if !strings.Contains(got, w) {
				t.Errorf("the context lacks %q:\n%s", w, got)
			}
		}
	}},
	{"67-codex-spawn-filtered-history", bothOrders("rollout-2026-09-01T10-00-01-01a05c69-4d00-7046-8000-000000abc046.jsonl", "rollout-2026-09-01T10-01-01-01a05c6a-3760-7047-8000-000000abc047.jsonl"), func(t *testing.T, l *caseLedger) {
		l.cost(8, 460, 1550, 44)
		var child []string
		for _, s := range l.list() {
			if c := l.context(s.ID); slices.ContainsFunc(c, func(s string) bool { return strings.Contains(s, "CHILD task") }) {
				child = c
			}
		}
		text := strings.Join(child, "\n")
		at := -1
		for _, w := range []string{"first question", "FIRST final", "second question", "SECOND final", "third question", "CHILD task"} {
			i := strings.Index(text, w)
			if i <= at {
				t.Errorf("the child's context has %q not after what stands before it:\n%s", w, text)
			}
			at = i
		}
	}},
	{"75-verify-empty-ledger", [][]string{{}}, func(t *testing.T, l *caseLedger) {
		if s := l.run(0, "verify"); !strings.Contains(s, "0 events") {
			t.Error(s)
		}
	}},
}

func bothOrders(a, b string) [][]string { return [][]string{{"."}, {a, b}, {b, a}} }

// caseLedger is a ledger with a copy of a case.
type caseLedger struct {
	t          *testing.T
	dir        string // of the copy
	url, creds string
}

func newCaseLedger(t *testing.T, from string) *caseLedger {
	l := &caseLedger{t: t, dir: t.TempDir()}
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		to := filepath.Join(l.dir, rel)
		if err != nil || d.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		b, err := os.ReadFile(name)
		if err != nil || rel == "README" {
			return err
		}
		return os.WriteFile(to, bytes.ReplaceAll(b, []byte("@DIR@"), []byte(l.dir)), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	url, creds, stop, err := startDaemon(t, filepath.Join(t.TempDir(), "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	l.url, l.creds = url, creds
	return l
}

// run runs a command to its end, and returns what it printed on stdout.
func (l *caseLedger) run(status int, args ...string) string {
	l.t.Helper()
	var out, errw bytes.Buffer
	got := run(l.t.Context(), append([]string{"--server", l.url, "--creds", l.creds}, args...), strings.NewReader(""), &out, &errw)
	if got != status {
		l.t.Fatalf("ledgerctl %s ends with status %d, want %d\n%s%s", strings.Join(args, " "), got, status, &out, &errw)
	}
	return out.String()
}

func (l *caseLedger) list() (out []api.Session) {
	l.t.Helper()
	for line := range splitLines(l.run(0, "sessions", "--json")) {
		var s api.Session
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			l.t.Fatal(err)
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		l.t.Fatal("no session")
	}
	return out
}

func (l *caseLedger) sessions(want int) {
	l.t.Helper()
	if got := len(l.list()); got != want {
		l.t.Errorf("%d sessions, want %d", got, want)
	}
}

// newest returns the session whose head has the latest time.
func (l *caseLedger) newest() turns.ID {
	l.t.Helper()
	list := l.list()
	return slices.MaxFunc(list, func(a, b api.Session) int {
		return strings.Compare(headTime(a), headTime(b))
	}).ID
}

func headTime(s api.Session) string {
	b, _ := json.Marshal(s.HeadTime)
	return string(b)
}

type caseCost struct {
	Calls  int
	Tokens struct {
		Input     uint64 `json:"input"`
		CacheRead uint64 `json:"cache_read"`
		Output    uint64 `json:"output"`
	}
}

func (l *caseLedger) total(session ...string) caseCost {
	l.t.Helper()
	var c struct {
		Total caseCost `json:"total"`
	}
	if err := json.Unmarshal([]byte(l.run(0, append([]string{"cost", "--json"}, session...)...)), &c, json.MatchCaseInsensitiveNames(true)); err != nil {
		l.t.Fatal(err)
	}
	return c.Total
}

func (l *caseLedger) cost(calls int, input, cacheRead, output uint64, session ...string) {
	l.t.Helper()
	got := l.total(session...)
	if got.Calls != calls || got.Tokens.Input != input || got.Tokens.CacheRead != cacheRead || got.Tokens.Output != output {
		l.t.Errorf("cost %v: %+v, want %d calls, %d input, %d cache read, %d output", session, got, calls, input, cacheRead, output)
	}
}

func (l *caseLedger) dollars(want string) {
	l.t.Helper()
	if s := l.run(0, "cost"); !strings.Contains(s, want) {
		l.t.Errorf("cost does not say %s:\n%s", want, s)
	}
}

func (l *caseLedger) search(text string) int {
	l.t.Helper()
	n := 0
	for range splitLines(l.run(0, "search", text, "--json")) {
		n++
	}
	return n
}

// context returns the texts that a session's next call would have, in their order.
func (l *caseLedger) context(session turns.ID) (out []string) {
	l.t.Helper()
	var c api.Context
	if err := json.Unmarshal([]byte(l.run(0, "context", session.String(), "--json")), &c); err != nil {
		l.t.Fatal(err)
	}
	for _, b := range c.Messages {
		var m turns.Message
		if err := json.Unmarshal(b, &m); err != nil {
			l.t.Fatal(err)
		}
		for _, p := range m.Parts {
			if p.Type == turns.Text {
				out = append(out, p.Content)
			}
		}
	}
	return out
}

// hasContext checks that one session has a context of exactly these texts.
func (l *caseLedger) hasContext(want ...string) {
	l.t.Helper()
	var all []string
	for _, s := range l.list() {
		got := l.context(s.ID)
		if slices.Equal(got, want) {
			return
		}
		all = append(all, strings.Join(got, " | "))
	}
	l.t.Errorf("no session has the context %q; there are:\n%s", want, strings.Join(all, "\n"))
}

func filesIn(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		out.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
