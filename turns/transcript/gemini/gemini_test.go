package gemini

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

func readGeminiCLI(t *testing.T, text string, final bool) ([]transcript.Step, []transcript.Loss) {
	t.Helper()
	return transcripttest.ReadAll(t, Read(strings.NewReader(text), transcript.Options{Final: final}))
}

func TestGeminiCLI(t *testing.T) {
	steps, losses := readGeminiCLI(t, transcripttest.GeminiCLIChat, true)
	want := []string{
		"open  []",
		`turn user(make a file) => assistant(Plan` + "\n" + `Write it. I will. call w1 write_file{"p":1.50} call w2 run{} call w3 run{})`,
		`turn tool(result w1 "done"), tool(result w2 "no") => assistant(Made.)`,
		"turn user(and this? ) => pending",
	}
	if d := cmp.Diff(want, transcripttest.Outline(steps)); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	if u := steps[1].Append.Usage; u == nil || *u != (turns.Usage{InputTokens: 101, OutputTokens: 12, CacheRead: 80}) {
		t.Errorf("usage %+v", u)
	}
	if d := turns.UsageDetailsOf(steps[1].Append.Meta); d != (turns.UsageDetails{Reasoning: 7}) {
		t.Errorf("details of the usage: %+v", d)
	}
	if p := steps[2].Append.Messages[1].Parts[0]; !p.IsError {
		t.Error("the error of a call is no error")
	}
	wantLoss := []transcript.Loss{
		{Kind: "skipped", Reason: `members of messages without a place: "later"`, Count: 1},
		{Kind: "skipped", Reason: `messages of type "info"`, Count: 1},
		{Kind: "skipped", Reason: "what the terminal showed of a tool call; call and result are stored", Count: 3},
	}
	if d := cmp.Diff(wantLoss, losses); d != "" {
		t.Errorf("losses (-want +got):\n%s", d)
	}
	growing, _ := readGeminiCLI(t, transcripttest.GeminiCLIChat, false)
	if d := cmp.Diff(steps[:3], growing); d != "" {
		t.Errorf("while it grows (-final +growing):\n%s", d)
	}
	if !Sniff([]byte(transcripttest.GeminiCLIChat[:200])) || Sniff([]byte(`{"sessionId":"x","messages":[]}`)) {
		t.Error("not recognized by its beginning")
	}
}

func TestGeminiCLIErrors(t *testing.T) {
	for _, text := range []string{`[]`, `{`, `{"messages":[]}`, transcripttest.GeminiCLIChat[:len(transcripttest.GeminiCLIChat)-40], `{"sessionId":"x","sessionId":"y"}`} {
		var err error
		for _, err = range Read(strings.NewReader(text), transcript.Options{Final: true}).Steps() {
		}
		if !errors.Is(err, turns.ErrMalformed) {
			t.Errorf("%.40s: %v, want malformed", text, err)
		}
	}
}

// Real chats against an independent count; a longer copy gives what the shorter
// one gave, and more.
func TestGeminiCLIReal(t *testing.T) {
	var files []string
	for _, p := range []string{"gemini-cli-entire-cli/*.json", "agentcmd-fixtures/gemini*.json"} {
		m, _ := filepath.Glob(filepath.Join(transcripttest.Data(t), p))
		files = append(files, m...)
	}
	if len(files) == 0 {
		t.Skip("real transcripts are not next to the project (../shared/data)")
	}
	bySession := make(map[turns.ID][][]transcript.Step)
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var plain struct {
			Messages []struct {
				Type  string `json:"type"`
				Calls []struct {
					Result turns.Raw `json:"result"`
				} `json:"toolCalls"`
				Tokens struct {
					Input uint64 `json:"input"`
				} `json:"tokens"`
			} `json:"messages"`
		}
		if err := values.Decode(b, &plain); err != nil {
			t.Fatal(err)
		}
		want, got := map[string]int{}, map[string]int{}
		for _, m := range plain.Messages {
			want[m.Type]++
			want["input"] += int(m.Tokens.Input)
			for _, c := range m.Calls {
				want["calls"]++
				if c.Result != nil {
					want["results"]++
				}
			}
		}
		delete(want, "info")
		steps, _ := readGeminiCLI(t, string(b), true)
		for _, s := range steps[1:] {
			for _, m := range s.Append.Messages {
				if m.Role == turns.Tool {
					got["results"]++
				} else {
					got["user"]++
				}
			}
			if r := s.Append.Response; r != nil {
				got["gemini"]++
				got["calls"] += len(r.Calls(nil))
				got["input"] += int(s.Append.Usage.InputTokens)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-count of the source +steps):\n%s", filepath.Base(name), d)
		}
		growing, _ := readGeminiCLI(t, string(b), false)
		bySession[steps[0].Open.ID] = append(bySession[steps[0].Open.ID], growing)
	}
	for id, copies := range bySession {
		for _, a := range copies {
			for _, b := range copies {
				if len(a) > len(b) {
					continue
				}
				if err := transcripttest.NewStepIndex(b).Contains(a); err != nil {
					t.Errorf("session %s: copies differ: %v\n%s", id, err, cmp.Diff(a, b[:len(a)]))
				}
			}
		}
	}
}

func FuzzGeminiCLI(f *testing.F) {
	f.Add([]byte(transcripttest.GeminiCLIChat))
	f.Fuzz(func(t *testing.T, b []byte) {
		g := Read(strings.NewReader(string(b)), transcript.Options{Final: true})
		var parent turns.ID
		for s, err := range g.Steps() {
			if err != nil {
				return
			}
			if s.Append != nil {
				if s.Append.Parent != parent {
					t.Fatalf("turn %s follows %s, not %s", s.Append.ID, s.Append.Parent, parent)
				}
				parent = s.Append.ID
			}
		}
	})
}

// Ids do not depend on records that are not understood, on notes, or on the order of the
// document's members; a message without an id or a time is still one.
func TestGeminiCLIIDsAreNoPositions(t *testing.T) {
	for name, text := range map[string]string{"log": transcripttest.GeminiCLILogText, "without ids of messages": strings.NewReplacer(`"id":"u3",`, `"id":"",`, `"id":"g4","timestamp":"2026-04-11T14:53:08Z",`, `"id":"g4",`).Replace(transcripttest.GeminiCLILogText)} {
		whole := transcripttest.StepsOf(t, Format(), text, transcript.Options{Final: true})
		index := transcripttest.NewStepIndex(whole)
		var lines []string
		for line := range strings.Lines(text) {
			lines = append(lines, line)
		}
		for at := 1; at <= len(lines); at++ {
			for _, unknown := range []string{`{"$note":"x"}`, `{"id":"i` + fmt.Sprint(at) + `","timestamp":"2026-04-11T14:53:01Z","type":"info","content":"shown"}`, `{"id":"torn","ty`} {
				if strings.HasPrefix(unknown, `{"id":"i`) && (at < 6 || strings.Contains(text[:strings.Index(text, lines[at-1])+1], "$rewindTo") || strings.Contains(lines[min(at, len(lines)-1)], `"$set":{"messages"`)) {
					continue // between the records of one message, or in a list that is compared
				}
				got := transcripttest.StepsOf(t, Format(), strings.Join(lines[:at], "")+unknown+"\n"+strings.Join(lines[at:], ""), transcript.Options{Final: true})
				if err := index.Contains(got); err != nil || len(got) != len(whole) {
					t.Errorf("%s, %s at %d: %d steps, want %d, %v", name, unknown, at, len(got), len(whole), err)
				}
			}
		}
	}
}

// What Gemini CLI writes in the name of the user is marked.
func TestGeminiCLINotesAreOfAProgram(t *testing.T) {
	steps := transcripttest.StepsOf(t, Format(), `{"sessionId":"s","projectHash":"p","startTime":"2026-04-11T14:53:00Z","messages":[{"id":"1","timestamp":"2026-04-11T14:53:01Z","type":"user","content":"<session_context>\nToday is"},{"id":"2","timestamp":"2026-04-11T14:53:02Z","type":"user","content":"hello"},{"id":"3","type":"gemini","content":"hi"}],"summary":"a title"}`, transcript.Options{Final: true})
	a := steps[1].Append
	if at := turns.ProgramMessages(a.Meta); len(at) != 1 || at[0] != 0 || turns.TimeBoundOf(a.Meta) != turns.TimeNotBefore || a.Time.Second() != 2 {
		t.Errorf("of programs %v, time %v, meta %s", at, a.Time, a.Meta)
	}
}

// A chat that was resumed in another file begins with what a compression left. The compaction
// and what follows it have the ids that the first file gives them.
func TestGeminiCLIFileThatBeginsWithACompression(t *testing.T) {
	const (
		head     = `{"sessionId":"s","projectHash":"p","startTime":"2026-03-01T10:00:00Z","kind":"main"}` + "\n"
		ask      = `{"id":"m1","timestamp":"2026-03-01T10:01:00Z","type":"user","content":"how many oaks"}` + "\n" + `{"id":"m2","timestamp":"2026-03-01T10:02:00Z","type":"gemini","content":"nine","tokens":{"input":10,"output":1}}` + "\n"
		snapshot = `{"id":"k1","timestamp":"2026-03-01T10:03:00Z","type":"user","content":[{"text":"<state_snapshot>nine oaks</state_snapshot>"}]},{"id":"k2","timestamp":"2026-03-01T10:03:01Z","type":"gemini","content":"Noted."}`
		more     = `{"id":"m3","timestamp":"2026-03-01T10:04:00Z","type":"user","content":"and elms"}`
		answer   = `{"id":"m4","timestamp":"2026-03-01T10:05:00Z","type":"gemini","content":"two","tokens":{"input":5,"output":1}}`
	)
	first := head + ask + `{"$set":{"messages":[` + snapshot + `]}}` + "\n" + more + "\n" + answer + "\n"
	second := head + `{"$set":{"messages":[` + snapshot + "," + more + "," + answer + `]}}` + "\n"
	read := func(text string) (steps []transcript.Step) {
		for s, err := range Read(strings.NewReader(text), transcript.Options{Final: true}).Steps() {
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, s)
		}
		return steps
	}
	a, b := read(first), read(second)
	if len(a) != 4 || len(b) != 3 || a[2].Compaction == nil || b[1].Compaction == nil {
		t.Fatalf("%v\n%v", transcripttest.OutlineSteps(a), transcripttest.OutlineSteps(b))
	}
	if a[2].ID() != b[1].ID() || len(b[1].Compaction.Replacement) != 2 || !b[1].Compaction.Parent.IsZero() {
		t.Errorf("compactions %+v, %+v", a[2].Compaction, b[1].Compaction)
	}
	if x, y := a[3].Append, b[2].Append; x.ID != y.ID || x.Parent != y.Parent || x.Session != y.Session || x.Usage == nil {
		t.Errorf("turns after it: %+v, %+v", x, y)
	}
}
