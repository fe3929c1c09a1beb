package formats

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

// scene builds the turns of a path, a second apart.
type scene []transcript.WrittenTurn

func (s *scene) turn(response *turns.Message, messages ...turns.Message) *scene {
	n := byte(len(*s) + 1)
	*s = append(*s, transcript.WrittenTurn{ID: turns.ID{0: 1, 5: 1, 15: n}, Time: time.UnixMilli(1_700_000_000_000 + int64(n)*1000).UTC(), Model: "claude-opus-4-5", Messages: messages, Response: response})
	return s
}

func (s *scene) compaction(summary string) *scene {
	s.turn(nil)
	t := &(*s)[len(*s)-1]
	t.Model, t.Compaction, t.Summary = "", true, summary
	return s
}

func asks(text string) turns.Message { return turns.TextMessage(turns.User, text) }

func answers(text string, calls ...string) *turns.Message {
	m := turns.TextMessage(turns.Assistant, text)
	for _, id := range calls {
		m.Parts = append(m.Parts, turns.Part{Type: turns.ToolCall, ID: id, Name: "run", Arguments: turns.Raw(`{"n":1}`)})
	}
	return &m
}

// returns is a message with the results of calls: each is the call's id in capitals.
func returns(calls ...string) turns.Message {
	m := turns.Message{Role: turns.Tool}
	for _, id := range calls {
		m.Parts = append(m.Parts, turns.Part{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText(strings.ToUpper(id))})
	}
	return m
}

// line is what a path says, a word each: "?x" asked, "!x" answered, "call>" and "call<RESULT".
func line(path []transcript.WrittenTurn) string {
	var out []string
	for _, t := range path {
		if t.Compaction {
			out = append(out, "#"+t.Summary)
			continue
		}
		for _, m := range t.Messages {
			for i := range m.Parts {
				p := &m.Parts[i]
				switch s, _ := p.Response.Text(); {
				case p.Type != turns.ToolCallResponse && strings.HasPrefix(p.Content, transcript.LateResult):
					out = append(out, "?late")
				case p.Type != turns.ToolCallResponse:
					out = append(out, "?"+p.Content)
				case s == transcript.NoResult:
					out = append(out, p.ID+"<none")
				default:
					out = append(out, p.ID+"<"+s)
				}
			}
		}
		if t.Response != nil {
			for _, p := range t.Response.Parts {
				if p.Type == turns.ToolCall {
					out = append(out, p.ID+">")
				} else {
					out = append(out, "!"+p.Content)
				}
			}
		}
	}
	return strings.Join(out, " ")
}

// unpaired says what is wrong with a path: a call that another turn follows has exactly one
// result before the next answer, and a result has a call.
func unpaired(path []transcript.WrittenTurn) string {
	var open []string
	for _, t := range path {
		for _, m := range t.Messages {
			for _, p := range m.Parts {
				if p.Type != turns.ToolCallResponse {
					continue
				}
				i := slices.Index(open, p.ID)
				if i < 0 {
					return "a result without a call: " + p.ID
				}
				open = slices.Delete(open, i, i+1)
			}
		}
		if t.Response != nil {
			if len(open) > 0 {
				return fmt.Sprintf("calls without a result: %v", open)
			}
			open = t.Response.Calls(nil)
		}
	}
	return ""
}

func TestPathIsPaired(t *testing.T) {
	for _, c := range []struct {
		name string
		path *scene
		want string
	}{
		{"complete", new(scene).turn(answers("1", "a", "b"), asks("one")).turn(answers("2"), returns("a", "b")), "?one !1 a> b> a<A b<B !2"},
		{"none came", new(scene).turn(answers("1", "a"), asks("one")).turn(answers("2"), asks("two")), "?one !1 a> a<none ?two !2"},
		{"one of two came", new(scene).turn(answers("1", "a", "b"), asks("one")).turn(answers("2"), returns("a"), asks("two")), "?one !1 a> b> b<none a<A ?two !2"},
		{"answered at once", new(scene).turn(answers("1", "a"), asks("one")).turn(answers("2")), "?one !1 a> a<none !2"},
		{"results in two turns", new(scene).turn(answers("1", "a", "b"), asks("one")).turn(nil, returns("b")).turn(answers("2"), returns("a")), "?one !1 a> b> b<B a<A !2"},
		{"waits", new(scene).turn(answers("1", "a", "b"), asks("one")).turn(nil, returns("b")), "?one !1 a> b> b<B"},
		{"waits with a question behind it", new(scene).turn(answers("1", "a"), asks("one")).turn(nil, asks("two")), "?one !1 a> a<none ?two"},
		{"late", new(scene).turn(answers("1", "a"), asks("one")).turn(answers("2"), asks("two")).turn(answers("3"), returns("a")), "?one !1 a> a<none ?two !2 ?late !3"},
		{"twice", new(scene).turn(answers("1", "a"), asks("one")).turn(answers("2"), returns("a", "a")), "?one !1 a> a<A ?late !2"},
		{"of no call", new(scene).turn(answers("1"), asks("one")).turn(answers("2"), returns("z")), "?one !1 ?late !2"},
		{"an id again", new(scene).turn(answers("1", "a"), asks("one")).turn(answers("2", "a"), asks("two")).turn(answers("3"), returns("a")), "?one !1 a> a<none ?two !2 a> a<A !3"},
		{"compaction between", new(scene).turn(answers("1", "a", "b"), asks("one")).compaction("s").turn(answers("2"), returns("a"), asks("two")), "?one !1 a> b> b<none a<A #s ?two !2"},
		{"compaction and two turns of results", new(scene).turn(answers("1", "a", "b"), asks("one")).compaction("s").turn(nil, returns("a")).turn(answers("2"), returns("b")), "?one !1 a> b> a<A b<B #s !2"},
		{"compaction at the end", new(scene).turn(answers("1", "a"), asks("one")).compaction("s"), "?one !1 a> #s"},
		{"two compactions", new(scene).turn(answers("1", "a"), asks("one")).compaction("s").compaction("t").turn(answers("2"), asks("two")), "?one !1 a> a<none #s #t ?two !2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := []transcript.WrittenTurn(*c.path)
			was := line(path)
			got := transcript.Paired(path)
			if line(path) != was {
				t.Errorf("the path was changed: %s", line(path))
			}
			if s := line(got); s != c.want {
				t.Errorf("%s, want %s", s, c.want)
			}
			if s := unpaired(got); s != "" {
				t.Error(s)
			}
			if d := gocmp.Diff(got, transcript.Paired(got)); d != "" {
				t.Errorf("a paired path is not left as it is:\n%s", d)
			}
			ids := make(map[turns.ID]bool)
			for _, x := range got {
				if ids[x.ID] {
					t.Errorf("two turns have the id %s", x.ID)
				}
				ids[x.ID] = true
			}
			// In each format, calls and results pair as they stand in the lines.
			for _, format := range Written() {
				for _, resumed := range []bool{false, true} {
					text := write(t, format, transcript.WrittenSession{ID: turns.ID{0: 1, 5: 1, 15: 100}, Time: path[0].Time, Cwd: "/w", Resumed: resumed}, path)
					back, _ := transcripttest.ReadAll(t, formatOf(t, format).Open(bytes.NewReader(text), transcript.Options{Final: true}))
					read := pathOf(back, back[0].Open.ID)
					if s := unpaired(read); s != "" {
						t.Errorf("%s, resumed %v: %s\n%s", format, resumed, s, text)
					}
					if want, got := strings.Count(c.want, "<none"), strings.Count(line(read), "<none"); got != want {
						t.Errorf("%s, resumed %v: %d marked results, want %d\n%s", format, resumed, got, want, line(read))
					}
				}
			}
		})
	}
}

// A result in what a compaction kept, whose call is before that, is a text.
func TestKeptResultsHaveTheirCalls(t *testing.T) {
	s := new(scene).turn(answers("1", "a"), asks("one")).turn(answers("2", "b"), returns("a")).turn(answers("3"), returns("b")).compaction("s")
	path := []transcript.WrittenTurn(*s)
	k := &path[3]
	k.FirstKept = path[1].ID
	for _, x := range path[1:3] {
		k.Kept = append(append(k.Kept, x.Messages...), *x.Response)
	}
	text := string(write(t, "codex", transcript.WrittenSession{ID: turns.ID{15: 9}, Time: path[0].Time, Resumed: true}, path))
	i := strings.Index(text, "replacement_history")
	if i < 0 {
		t.Fatal(text)
	}
	kept := text[i:]
	if strings.Contains(kept, `"function_call_output","call_id":"a"`) || strings.Count(kept, "function_call_output") != 1 || !strings.Contains(kept, `\nA`) {
		t.Error(kept)
	}
}

// The calls in ../shared/cases/38-continue-roundtrip, in each format.
func TestOpenCallInTheMiddleHasAResultInEachFormat(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(transcripttest.Data(t), "..", "cases", "38-continue-roundtrip", "14-claude-unpaired-calls.jsonl"))
	if err != nil {
		t.Skip("the cases are not next to the project (../shared/cases)")
	}
	steps, _ := transcripttest.ReadAll(t, formatOf(t, "claude-code").Open(bytes.NewReader(b), transcript.Options{Final: true}))
	path := pathOf(steps, steps[0].Open.ID)
	for _, format := range Written() {
		text := write(t, format, transcript.WrittenSession{ID: steps[0].Open.ID, Time: path[0].Time}, path)
		back, _ := transcripttest.ReadAll(t, formatOf(t, format).Open(bytes.NewReader(text), transcript.Options{Final: true}))
		read := pathOf(back, back[0].Open.ID)
		if s := unpaired(read); s != "" || !strings.Contains(line(read), "t2<none") {
			t.Errorf("%s: %s\n%s", format, s, line(read))
		}
	}
}
