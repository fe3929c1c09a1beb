package claude

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

// dumpClaude writes steps and losses as a story, one line a message. IDs are
// named in the order in which they come.
func dumpClaude(t *testing.T, steps []transcript.Step, losses []transcript.Loss) string {
	t.Helper()
	var b strings.Builder
	names := map[turns.ID]string{}
	name := func(id turns.ID, kind string) string {
		if id.IsZero() {
			return "-"
		}
		if names[id] == "" {
			n := 1
			for _, s := range names {
				if strings.HasPrefix(s, kind) {
					n++
				}
			}
			names[id] = fmt.Sprintf("%s%d", kind, n)
		}
		return names[id]
	}
	message := func(head string, m *turns.Message) {
		j, err := turns.EncodeJSON(m)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "  %s %s\n", head, j)
	}
	for _, s := range steps {
		switch {
		case s.Open != nil:
			fmt.Fprintf(&b, "open %s model=%s spawned=%s/%s meta=%s\n", name(s.Open.ID, "S"), s.Open.Model, name(s.Open.SpawnedBy.Session, "S"), name(s.Open.SpawnedBy.Turn, "T"), hideIDs(s.Open.Meta))
		case s.Fork != nil:
			fmt.Fprintf(&b, "fork %s at %s/%s meta=%s\n", name(s.Fork.ID, "S"), name(s.Fork.At.Session, "S"), name(s.Fork.At.Turn, "T"), hideIDs(s.Fork.Meta))
		case s.Append != nil:
			a := s.Append
			fmt.Fprintf(&b, "append %s %s after %s %s model=%s meta=%s\n", name(a.Session, "S"), name(a.ID, "T"), name(a.Parent, "T"), a.Time.Format("05"), a.Model, a.Meta)
			for i := range a.Messages {
				message(">", &a.Messages[i])
			}
			if a.Response == nil {
				b.WriteString("  < pending\n")
			} else {
				message("<", a.Response)
			}
			if u := a.Usage; u != nil {
				fmt.Fprintf(&b, "  usage in=%d out=%d read=%d write=%d\n", u.InputTokens, u.OutputTokens, u.CacheRead, u.CacheCreation)
			}
		case s.Compaction != nil:
			c := s.Compaction
			fmt.Fprintf(&b, "compaction %s %s after %s trigger=%s before=%d dropped=%v kept=%s summary=%q meta=%s\n", name(c.Session, "S"), name(c.ID, "T"), name(c.Parent, "T"), c.Trigger, c.TokensBefore, c.Dropped, name(c.FirstKept, "T"), c.Summary, c.Meta)
			for i := range c.Replacement {
				message("=", &c.Replacement[i])
			}
			for _, cl := range c.Cleared {
				fmt.Fprintf(&b, "  cleared %s %s\n", name(cl.Turn, "T"), cl.Call)
			}
		}
	}
	for _, l := range losses {
		fmt.Fprintf(&b, "loss line=%d %s: %s x%d %s\n", l.Line, l.Kind, l.Reason, max(l.Count, 1), l.Record)
	}
	return b.String()
}

// hideIDs leaves the derived IDs out of a meta object.
func hideIDs(m turns.Raw) string {
	s := string(m)
	for _, k := range []string{`"spawned_by_turn":"`, `"restarts":"`} {
		if i := strings.Index(s, k); i >= 0 {
			s = s[:i+len(k)] + "ID" + s[i+len(k)+26:]
		}
	}
	return s
}

// Each file of testdata/claudecode-*.jsonl is one rule or defect; the story
// beside it is what must come of it. CLAUDECODE_GOLDEN=write writes the stories.
func TestClaudeGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/claudecode-*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			in, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			steps, losses := readClaude(t, in, true)
			got := dumpClaude(t, steps, losses)
			if strings.Contains(file, "forksession") {
				steps, losses := transcripttest.ReadAll(t, Read(bytes.NewReader(in), transcript.Options{Final: true, Copied: true}))
				checkClaudeSteps(t, steps, false)
				got += "\nwhere the ledger lacks the session that it was forked from:\n" + dumpClaude(t, steps, losses)
			}
			golden := strings.TrimSuffix(file, ".jsonl") + ".golden"
			if os.Getenv("CLAUDECODE_GOLDEN") == "write" {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			whole, index := claudeDigests(t, steps), transcripttest.NewStepIndex(steps)
			for cut := 0; cut < len(in); cut += 1 + len(in)/1000 {
				if !isPrefix(claudeDigests(t, transcripttest.StepsBeforeEnd(t, Format(), in[:cut])), whole) {
					t.Fatalf("cut at byte %d: not a prefix", cut)
				}
				if err := index.Contains(claudeSteps(t, in[:cut], false)); err != nil {
					t.Fatalf("cut at byte %d: %v", cut, err)
				}
			}
		})
	}
}

func TestClaudeReaderErrors(t *testing.T) {
	line := `{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"S","message":{"content":"` + strings.Repeat("x", 200) + `"}}` + "\n"
	boom := errors.New("boom")
	c := Read(io.MultiReader(strings.NewReader(line), iotest.ErrReader(boom)), transcript.Options{})
	for _, err := range c.Steps() {
		if !errors.Is(err, boom) {
			t.Errorf("got %v, want the source's error", err)
		}
	}
	if _, err := c.Next(); !errors.Is(err, boom) {
		t.Errorf("again: %v", err)
	}
	c = Read(strings.NewReader(line), transcript.Options{Final: true, MaxLine: 100})
	for range c.Steps() {
		t.Error("a step of a line over the limit")
	}
	want := []transcript.Loss{{Line: 1, Kind: "skipped", Reason: "the line is longer than 100 bytes"}}
	if d := cmp.Diff(want, c.Losses()); d != "" {
		t.Error(d)
	}
}

// claudeStream makes turns without end, in one long tool loop.
type claudeStream struct {
	n, turns int
	buf      bytes.Buffer
	text     string
}

func (s *claudeStream) Read(p []byte) (int, error) {
	if s.buf.Len() == 0 {
		if s.n == s.turns {
			return 0, io.EOF
		}
		s.n++
		at := "2026-01-01T00:00:00Z"
		parent := "null"
		if s.n > 1 {
			parent = fmt.Sprintf(`"r%d"`, s.n-1)
		}
		fmt.Fprintf(&s.buf, `{"type":"assistant","uuid":"a%d","parentUuid":%s,"sessionId":"S","timestamp":%q,"message":{"id":"m%d","content":[{"type":"tool_use","id":"c%d","name":"Bash","input":{}}]}}`+"\n", s.n, parent, at, s.n, s.n)
		fmt.Fprintf(&s.buf, `{"type":"user","uuid":"r%d","parentUuid":"a%d","sessionId":"S","timestamp":%q,"message":{"content":[{"type":"tool_result","tool_use_id":"c%d","content":%q}]}}`+"\n", s.n, s.n, at, s.n, s.text)
	}
	return s.buf.Read(p)
}

// Memory grows with the number of lines, not with their content.
func TestClaudeMemory(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC() // of pools, too
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const n, size = 10_000, 10_000
	before := heap()
	c := Read(&claudeStream{turns: n, text: strings.Repeat("x", size)}, transcript.Options{})
	steps := 0
	for _, err := range c.Steps() {
		if err != nil {
			t.Fatal(err)
		}
		steps++
	}
	grown := heap() - before
	runtime.KeepAlive(c)
	if steps != n { // the open step, and all turns but the last, which may grow
		t.Errorf("%d steps", steps)
	}
	perLine := grown / (2 * n)
	t.Logf("%d MB read, %d bytes held a line", n*size>>20, perLine)
	if perLine > 1000 {
		t.Errorf("%d bytes held a line", perLine)
	}
}

func TestSniffClaudeCode(t *testing.T) {
	for head, want := range map[string]bool{
		`{"type":"summary","summary":"x","leafUuid":"y"}`:                                                 true,
		`{"type":"file-history-snapshot","messageId":"x","snapshot":{}`:                                   true,
		`{"parentUuid":null,"isSidechain":false,"sessionId":"x","type":"user","message":{"content":"trun`: true,
		`{"type":"mode","sessionId":"x"}` + "\n" + `{"parentUuid":null,"sessionId":"x","type":"user"}`:    true,
		`{"type":"last-prompt","leafUuid":"x","sessionId":"y"}`:                                           true,
		`{"type":"permission-mode","permissionMode":"default","sessionId":"y"}`:                           true,
		`{"type":"mode","mode":"normal"}`:                                                                 false,
		`{"timestamp":"x","type":"session_meta","payload":{}}`:                                            false,
		`{"type":"session","id":"x","cwd":"/"}`:                                                           false,
		`{"sessionId":"x","projectHash":"y","messages":[`:                                                 false,
		`[{"role":"user"}]`: false, ``: false, "\x00": false,
	} {
		if got := Sniff([]byte(head)); got != want {
			t.Errorf("%s: %v", head, got)
		}
	}
}

// Whatever the bytes: no panic, steps that can be done, and a shorter copy
// gives a prefix.
func FuzzClaudeCode(f *testing.F) {
	files, _ := filepath.Glob("testdata/claudecode-*.jsonl")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, len(b)/2)
	}
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		steps, _ := readClaude(t, b, true)
		whole := claudeDigests(t, steps)
		readClaude(t, b, false)
		if cut >= 0 && cut < len(b) {
			if !isPrefix(claudeDigests(t, transcripttest.StepsBeforeEnd(t, Format(), b[:cut])), whole) {
				t.Errorf("cut at %d: not a prefix", cut)
			}
		}
	})
}
