package chat

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

// readChat reads conversations, of any form or of the one that is named.
func readChat(t *testing.T, text string, opt transcript.Options, form ...Form) ([]transcript.Step, []transcript.Loss) {
	t.Helper()
	return transcripttest.ReadAll(t, Read(iotest.OneByteReader(strings.NewReader(text)), opt, append(form, "")[0]))
}

func TestChat(t *testing.T) {
	for name, tc := range map[string]struct {
		text  string
		final bool
		want  []string
		loss  []string
	}{
		"openai list": {
			text: `[{"role":"system","content":"be terse"},{"role":"user","content":"hi"},
			 {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{\"p\":1.50}"}}]},
			 {"role":"tool","tool_call_id":"c1","content":"a"},{"role":"assistant","content":"done"},{"role":"user","content":"more"}]`,
			want: []string{"open  [be terse]", `turn user(hi) => assistant(call c1 ls{"p":1.50})`, `turn tool(result c1 "a") => assistant(done)`},
			loss: []string{"skipped 1 messages at the end without an answer; --final takes them"},
		},
		"final": {
			text: `[{"role":"user","content":"hi"}]`, final: true,
			want: []string{"open  []", "turn user(hi) => pending"},
		},
		"request": {
			text: `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yo","audio":{"id":"a"}}]}`,
			want: []string{"open m []", "turn user(hi) => assistant(yo)"},
			loss: []string{`skipped 1 a member of messages that has no place: "audio"`},
		},
		"anthropic": {
			text: `{"system":"s","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"ls","input":{}}]},
			 {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a"},{"type":"text","text":"and?"}]},{"role":"assistant","content":"b"}]}`,
			want: []string{"open  [s]", "turn user(hi) => assistant(call t1 ls{})", `turn tool(result t1 "a"), user(and?) => assistant(b)`},
		},
		"otel attributes, as text": {
			text: `{"gen_ai.conversation.id":"c","gen_ai.request.model":"m","gen_ai.input.messages":"[{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"content\":\"hi\"}]}]",
			 "gen_ai.output.messages":[{"role":"assistant","parts":[{"type":"text","content":"yo"}],"finish_reason":"stop"}]}`,
			want: []string{"open m []", "turn user(hi) => assistant(yo)"},
		},
		"lines, and a list of objects": {
			text: `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"1"}]}
{"messages":[{"role":"user","content":"b"},{"role":"assistant","content":"2"}]}
[{"traj":[{"role":"user","content":"c"},{"role":"assistant","content":"3"}]},{"traj":[{"role":"wizard","content":"d"}]},{"traj":[]}]`,
			want: []string{"open  []", "turn user(a) => assistant(1)", "open  []", "turn user(b) => assistant(2)", "open  []", "turn user(c) => assistant(3)"},
			loss: []string{`skipped 0 a message of role "wizard"`, "skipped 0 a conversation without messages", "skipped 0 a conversation without messages"},
		},
		"a result without its call": {
			text: `[{"role":"user","content":"a"},{"role":"tool","tool_call_id":"x","content":"lost"},{"role":"assistant","content":"1"}]`,
			want: []string{"open  []", "turn user(a), user([result of a tool call that is not in the transcript, id \"x\"]\nlost) => assistant(1)"},
			loss: []string{"repaired 0 a tool result without its call became text"},
		},
		"two answers, one after the other": {
			text: `[{"role":"assistant","content":"1"},{"role":"assistant","content":"2"}]`,
			want: []string{"open  []", "turn  => assistant(1)", "turn  => assistant(2)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			steps, losses := readChat(t, tc.text, transcript.Options{Final: tc.final})
			if d := cmp.Diff(tc.want, transcripttest.Outline(steps)); d != "" {
				t.Errorf("steps (-want +got):\n%s", d)
			}
			var loss []string
			for _, l := range losses {
				loss = append(loss, l.Kind+" "+string('0'+rune(l.Count))+" "+l.Reason)
			}
			if d := cmp.Diff(tc.loss, loss); d != "" {
				t.Errorf("losses (-want +got):\n%s", d)
			}
		})
	}
}

func TestChatErrors(t *testing.T) {
	for _, text := range []string{`{`, `[{"role":"user","content":"a"}`, `{"messages":7}`, `"x"`, `[{"role":"user","content":"a","content":"b"}]`, `{"role":1}`} {
		r := Read(strings.NewReader(text), transcript.Options{Final: true}, "")
		var err error
		for _, err = range r.Steps() {
		}
		if !errors.Is(err, turns.ErrMalformed) {
			t.Errorf("%s: %v, want malformed", text, err)
		}
	}
}

// The id of a conversation is its own, with how it begins; else it comes from all
// that was said. Equal beginnings alone never make two chats one.
func TestChatIdentity(t *testing.T) {
	short := `[{"role":"user","content":"a"},{"role":"assistant","content":"1"}]`
	long := `[{"role":"user","content":"a"},{"role":"assistant","content":"1"},{"role":"user","content":"b"},{"role":"assistant","content":"2"}]`
	other := `[{"role":"user","content":"z"},{"role":"assistant","content":"1"}]`
	with := func(members, messages string) string { return `{` + members + `,"messages":` + messages + `}` }
	for _, c := range []struct {
		name, a, b string
		same       bool
	}{
		{"all of it", short, short, true},
		{"written otherwise", short, strings.ReplaceAll(short, ",", " ,\n"), true},
		{"an equal beginning", short, long, false},
		{"an equal beginning, an id", with(`"id":"x"`, short), with(`"id":"x"`, long), true},
		{"another id", with(`"id":"x"`, short), with(`"id":"y"`, short), false},
		{"an id that another chat has too", with(`"id":1`, short), with(`"id":1`, other), false},
		{"a task of another run", with(`"task_id":1,"trial":0`, short), with(`"task_id":1,"trial":0`, long), false},
		{"a task of the same run", with(`"task_id":1,"trial":0`, short), with(`"task_id":1,"trial":0`, short), true},
		{"another trial", with(`"task_id":1,"trial":0`, short), with(`"task_id":1,"trial":1`, short), false},
		{"another model", with(`"model":"m"`, short), with(`"model":"n"`, short), false},
	} {
		for _, final := range []bool{true, false} {
			a, _ := readChat(t, c.a, transcript.Options{Final: final})
			b, _ := readChat(t, c.b, transcript.Options{})
			if same := a[0].Open.ID == b[0].Open.ID; same != c.same {
				t.Errorf("%s, final %v: the same session: %v, want %v", c.name, final, same, c.same)
			} else if same {
				if err := transcripttest.NewStepIndex(b).Contains(a); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
			}
		}
	}
	twice, _ := readChat(t, short+short, transcript.Options{})
	if twice[0].Open.ID == twice[2].Open.ID {
		t.Error("two conversations of a file, one session")
	}
	stamped, _ := readChat(t, `{"id":"x","created":1700000000,"messages":`+short+`}`, transcript.Options{})
	if got, want := stamped[0].Open.ID.Time(), time.Unix(1700000000, 0).UTC(); !got.Equal(want) {
		t.Errorf("time of the id %v, want %v", got, want)
	}
}

// The trajectories of tau-bench, against a count that knows nothing of the reader.
func TestChatRealTrajectories(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(transcripttest.Data(t), "tau-bench", "*.json"))
	if len(files) == 0 {
		t.Skip("no ../shared/data/tau-bench")
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var plain []struct {
			Traj []struct {
				Role  string      `json:"role"`
				Calls []turns.Raw `json:"tool_calls"`
			} `json:"traj"`
		}
		if err := values.Decode(b, &plain); err != nil {
			t.Fatal(err)
		}
		want := map[string]int{"conversations": len(plain)}
		for _, p := range plain {
			for _, m := range p.Traj {
				want[m.Role]++
				want["calls"] += len(m.Calls)
			}
		}
		got := map[string]int{}
		r := Read(strings.NewReader(string(b)), transcript.Options{Final: true}, "")
		ids := map[turns.ID]bool{}
		for s, err := range r.Steps() {
			if err != nil {
				t.Fatal(err)
			}
			if o := s.Open; o != nil {
				got["conversations"]++
				got["system"] += len(o.System)
				if ids[o.ID] {
					t.Errorf("session %s twice", o.ID)
				}
				ids[o.ID] = true
				continue
			}
			ms := s.Append.Messages
			if s.Append.Response != nil {
				ms = append(slices.Clip(ms), *s.Append.Response)
			}
			for _, m := range ms {
				got[string(m.Role)]++
				got["calls"] += len(m.Calls(nil))
			}
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s (-count of the source +steps):\n%s", filepath.Base(name), d)
		}
		t.Logf("%s: %v, losses %v", filepath.Base(name), got, r.Losses())
	}
}

func FuzzChat(f *testing.F) {
	f.Add([]byte(`[{"role":"user","content":"a"},{"role":"assistant","content":"1"}]`))
	f.Add([]byte(`{"id":"x","gen_ai.input.messages":"[{\"role\":\"user\",\"parts\":[]}]"}`))
	f.Add([]byte(`[{"traj":[{"role":"tool","tool_call_id":"x","content":"l"}]},{}]`))
	f.Add([]byte(transcripttest.OtlpLine("1", "T", transcripttest.OtlpCall("structured", "a", "1", "b", "2")...) + transcripttest.OtlpLine("2", "T", transcripttest.OtlpCall("string", "a", "1", "c", "3")...)))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := Read(strings.NewReader(string(b)), transcript.Options{Final: true}, "")
		open := map[turns.ID]bool{}
		for s, err := range r.Steps() {
			if err != nil {
				if err == io.EOF {
					t.Fatal("the end as an error")
				}
				return
			}
			switch {
			case s.Open != nil:
				open[s.Open.ID] = true
			case s.Fork != nil:
				if !open[s.Fork.At.Turn] {
					t.Fatalf("fork at %s, which is no turn", s.Fork.At.Turn)
				}
				open[s.Fork.ID] = true
			case s.Append != nil:
				if a := s.Append; !open[a.Session] || !a.Parent.IsZero() && !open[a.Parent] {
					t.Fatalf("a turn of session %s after %s: that is not there", a.Session, a.Parent)
				}
				open[s.Append.ID] = true
				if err := turns.ValidateMessages("", s.Append.Messages); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// What is called messages is a conversation where it is a list, or the text of one
// as an attribute holds it.
func TestSniffChatWantsListOrText(t *testing.T) {
	for head, want := range map[string]bool{
		`{"messages":[{"role":"user","content":"a"}]}`:           true,
		`{"messages":"[{\"role\":\"user\",\"content\":\"a\"}]"}`: true,
		`{"messages":12}`:                       false,
		`{"messages":{"role":"user"}}`:          false,
		`{"id":1,"messages":null}`:              false,
		`[{"role":"user","content":"a"}]`:       true,
		`{"role":"user","content":"a"}`:         false,
		`[{"role":12}]`:                         false,
		`{"x":1,"traj":[{"role":"user"}]}`:      true,
		`{"gen_ai.input.messages":{"a":"b"}}`:   false,
		`{"rest":{"a":[1,2,3,"cut","messages":`: false,
	} {
		got := false
		for _, form := range []Form{OpenAI, Anthropic, OTel} {
			got = got || Sniff([]byte(head), form)
		}
		if got != want {
			t.Errorf("%s: %v, want %v", head, got, want)
		}
	}
}
