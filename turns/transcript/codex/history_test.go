package codex

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

// codexLines writes a rollout line by line, a second apart.
type codexLines struct {
	b  strings.Builder
	at int
	n  int // tasks
}

func newCodexLines(at int, id, more string) *codexLines {
	w := &codexLines{at: at}
	w.b.WriteString(codexHeaderAt(at, id, more))
	return w
}

func (w *codexLines) line(kind, payload string) *codexLines {
	w.at++
	w.b.WriteString(codexLineAt(w.at, kind, payload))
	return w
}

// task begins a task, and says what the user did.
func (w *codexLines) task(prompt string) *codexLines {
	w.n++
	id := codexID(w.at+1, w.n)
	w.line("event_msg", fmt.Sprintf(`"type":"task_started","turn_id":%q`, id))
	w.line("turn_context", fmt.Sprintf(`"turn_id":%q,"model":"m"`, id))
	return w.says("user", prompt)
}

func (w *codexLines) says(role, text string) *codexLines {
	return w.line("response_item", fmt.Sprintf(`"type":"message","role":%q,"content":[{"type":"input_text","text":%q}]`, role, text))
}

func (w *codexLines) final(text string) *codexLines {
	return w.line("response_item", fmt.Sprintf(`"type":"message","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":%q}]`, text))
}

func (w *codexLines) calls(id string) *codexLines {
	w.line("response_item", fmt.Sprintf(`"type":"function_call","name":"ls","arguments":"{}","call_id":%q`, id))
	return w.line("response_item", fmt.Sprintf(`"type":"function_call_output","call_id":%q,"output":"x"`, id))
}

func (w *codexLines) counts(total, input, output int) *codexLines {
	return w.line("event_msg", fmt.Sprintf(`"type":"token_count","info":{"total_token_usage":{"total_tokens":%d},"last_token_usage":{"input_tokens":%d,"output_tokens":%d}}`, total, input, output))
}

func (w *codexLines) records(response string, input, output int) *codexLines {
	return w.line("token_usage_record", fmt.Sprintf(`"turn_id":"t","response_id":%q,"usage":{"input_tokens":%d,"output_tokens":%d}`, response, input, output))
}

func (w *codexLines) compacts(response, text string) *codexLines {
	return w.line("compacted", fmt.Sprintf(`"message":"","compaction_response_id":%q,"replacement_history":[{"type":"message","role":"user","content":%q}]`, response, text))
}

func (w *codexLines) rollsBack(prompts int) *codexLines {
	return w.line("event_msg", fmt.Sprintf(`"type":"thread_rolled_back","num_turns":%d`, prompts))
}

func (w *codexLines) String() string { return w.b.String() }

var (
	codexA = codexID(0, 1)
	codexB = codexID(1000, 2)
)

func spawnedBy(parent string) string {
	return fmt.Sprintf(`,"source":{"subagent":{"thread_spawn":{"parent_thread_id":%q}}}`, parent)
}

// checkOutline compares what steps do with want.
func checkOutline(t *testing.T, steps []transcript.Step, want ...string) {
	t.Helper()
	got := transcripttest.OutlineSteps(steps)
	for i := range got {
		got[i] = strings.Replace(got[i], "  =>", " =>", 1)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
}

func lossReasons(losses []transcript.Loss) (out []string) {
	for _, l := range losses {
		if !strings.HasPrefix(l.Reason, "copies for the terminal") {
			out = append(out, l.Kind+": "+l.Reason)
		}
	}
	return out
}

// A rollback takes back prompts: what follows is a fork before the first of them, and the
// turns that were taken back stay.
func TestCodexRollback(t *testing.T) {
	two := func() *codexLines {
		return newCodexLines(0, codexA, "").says("developer", "rules").task("one").final("1").task("two").calls("c").final("2")
	}
	begin := []string{"open S1", "S1 T1 after - system(rules), user(one) => assistant(1)", "S1 T2 after T1 user(two) => assistant(call c ls{})", `S1 T3 after T2 tool(result c "x") => assistant(2)`}
	const context = "<environment_context>now</environment_context>"
	for name, tc := range map[string]struct {
		text fmt.Stringer
		want []string
	}{
		"the last":               {two().rollsBack(1).task("three").final("3"), append(begin, "fork S2 at T1 of S1", "S2 T4 after T1 user(three) => assistant(3)")},
		"at the end of the file": {two().rollsBack(1), append(begin, "fork S2 at T1 of S1")},
		"none":                   {two().rollsBack(0), begin},
		"one by one":             {two().task("x").final("y").rollsBack(1).rollsBack(1).task("three").final("3"), append(begin, "S1 T4 after T3 user(x) => assistant(y)", "fork S2 at T1 of S1", "S2 T5 after T1 user(three) => assistant(3)")},
		"all, and more":          {two().rollsBack(7).task("three").final("3"), append(begin, "open S2", "S2 T4 after - system(rules), user(three) => assistant(3)")},
		"with what Codex said before the prompt": {newCodexLines(0, codexA, "").task("one").final("1").says("developer", "more").says("user", context).says("user", "two").final("2").rollsBack(1).task("three").final("3"),
			[]string{"open S1", "S1 T1 after - user(one) => assistant(1)", "S1 T2 after T1 system(more), user(" + context + "), user(two) => assistant(2)", "fork S2 at T1 of S1", "S2 T3 after T1 user(three) => assistant(3)"}},
		"a prompt without an answer": {newCodexLines(0, codexA, "").task("one").final("1").task("two").rollsBack(1).task("three").final("3"),
			[]string{"open S1", "S1 T1 after - user(one) => assistant(1)", "S1 T2 after T1 user(two) => pending", "fork S2 at T1 of S1", "S2 T3 after T1 user(three) => assistant(3)"}},
		"a compaction": {two().compacts("", "short").task("three").final("3").rollsBack(2).task("four").final("4"),
			append(begin, "S1 compaction after T3 keeps -: ", "S1 T4 after T3 user(three) => assistant(3)", "fork S2 at T1 of S1", "S2 T5 after T1 user(four) => assistant(4)")},
		"after a compaction": {two().compacts("", "short").task("three").final("3").rollsBack(1).task("four").final("4"),
			append(begin, "S1 compaction after T3 keeps -: ", "S1 T4 after T3 user(three) => assistant(3)", "fork S2 at T5 of S1", "S2 T6 after T5 user(four) => assistant(4)")},
		"twice": {two().rollsBack(1).task("three").final("3").rollsBack(1).task("four").final("4"),
			append(begin, "fork S2 at T1 of S1", "S2 T4 after T1 user(three) => assistant(3)", "fork S3 at T1 of S1", "S3 T5 after T1 user(four) => assistant(4)")},
		"a prompt while a task ran": {newCodexLines(0, codexA, "").task("one").calls("c").says("user", "stop").final("1").rollsBack(1).task("two").final("2"),
			[]string{"open S1", "S1 T1 after - user(one) => assistant(call c ls{})", `S1 T2 after T1 tool(result c "x"), user(stop) => assistant(1)`, "fork S2 at T1 of S1", `S2 T3 after T1 tool(result c "x"), user(two) => assistant(2)`}},
	} {
		t.Run(name, func(t *testing.T) {
			steps, _ := readCodex(t, tc.text.String(), transcript.Options{Final: true})
			checkOutline(t, steps, tc.want...)
		})
	}
}

// filteredChild is the rollout of an agent that was given messages and final answers of its
// parent, with the events that Codex copies along.
func filteredChild(header string) *codexLines {
	w := newCodexLines(1000, codexB, spawnedBy(codexA)+fmt.Sprintf(`,"forked_from_id":%q`, codexA))
	w.b.WriteString(header)
	w.at, w.n = 0, 0
	w.task("one").counts(15, 10, 5).final("1").counts(35, 15, 5).task("two").counts(60, 20, 5)
	w.at = 1000
	return w.task("do it").final("done").counts(80, 19, 1)
}

// Of a history of which an agent got only a part nothing is the parent's, with the parent's
// header or without. It is what its first turn was sent, and its calls are not counted.
func TestCodexFilteredHistory(t *testing.T) {
	for _, header := range []string{"", codexHeaderAt(0, codexA, "")} {
		for _, copied := range []bool{false, true} {
			steps, losses := readCodex(t, filteredChild(header).String(), transcript.Options{Final: true, Copied: copied})
			checkOutline(t, steps, "open S1", "S1 T1 after - user(one), assistant(1), user(two), user(do it) => assistant(done)")
			o, a := steps[0].Open, steps[1].Append
			if want := newCodexThread(&codexMeta{ID: codexA}).root; o.SpawnedBy.Session != want {
				t.Errorf("spawned by %v, want %v", o.SpawnedBy, want)
			}
			if *a.Usage != (turns.Usage{InputTokens: 19, OutputTokens: 1}) || !slices.Equal(turns.ProgramMessages(a.Meta), []int{0, 2}) {
				t.Errorf("usage %v, meta %s", a.Usage, a.Meta)
			}
			if want := []string{"repaired: the history that the agent was given is kept as what its first turn was sent: it is a part of the parent's"}; !cmp.Equal(want, lossReasons(losses)) {
				t.Errorf("losses %q", lossReasons(losses))
			}
		}
	}
}

// A history of answers that are not said to be final is whole if each usage has its answer. A
// compaction and a rollback in a part of a history are those of the agent.
func TestCodexHistoryOfMessages(t *testing.T) {
	given := func(w *codexLines) *codexLines {
		w.at = 1000
		return w.task("do it").says("assistant", "done")
	}
	child := func() *codexLines {
		w := newCodexLines(1000, codexB, spawnedBy(codexA)+fmt.Sprintf(`,"forked_from_id":%q`, codexA))
		w.at = 0
		return w
	}
	for name, tc := range map[string]struct {
		text fmt.Stringer
		want []string
	}{
		"whole": {given(child().task("one").says("assistant", "1").counts(15, 10, 5)), []string{"fork S1 at T1 of S2", "S1 T2 after T1 user(do it) => assistant(done)"}},
		"usage of calls that are left out": {given(child().task("one").counts(15, 10, 5).counts(35, 10, 10).says("assistant", "1").counts(45, 5, 5)),
			[]string{"open S1", "S1 T1 after - user(one), assistant(1), user(do it) => assistant(done)"}},
		"a compaction": {given(child().task("one").final("1").compacts("", "short").task("two").final("2")), []string{"open S1", "S1 T1 after - user(short), user(two), assistant(2), user(do it) => assistant(done)"}},
		"a rollback":   {given(child().task("one").final("1").task("two").final("2").rollsBack(1)), []string{"open S1", "S1 T1 after - user(one), assistant(1), user(do it) => assistant(done)"}},
		"a rollback of its own": {given(child().task("one").final("1")).rollsBack(1).task("again").final("3"),
			[]string{"open S1", "S1 T1 after - user(one), assistant(1), user(do it) => assistant(done)", "open S2", "S2 T2 after - user(one), assistant(1), user(again) => assistant(3)"}},
		"no messages": {given(child().line("event_msg", fmt.Sprintf(`"type":"task_started","turn_id":%q`, codexID(3, 7)))), []string{"open S1", "S1 T1 after - user(do it) => assistant(done)"}},
	} {
		t.Run(name, func(t *testing.T) {
			steps, _ := readCodex(t, tc.text.String(), transcript.Options{Final: true})
			checkOutline(t, steps, tc.want...)
			for _, s := range steps {
				if a := s.Append; a != nil && s.Append.Parent.IsZero() && len(a.Messages) > 1 && !slices.Contains(turns.ProgramMessages(a.Meta), 0) {
					t.Errorf("meta %s", a.Meta)
				}
			}
		})
	}
}

// Where tasks have no ids, the history is of the thread that the second header names, though
// that was started by another.
func TestCodexHistoryWithoutTasks(t *testing.T) {
	first := func(w *codexLines) *codexLines { return w.says("user", "one").says("assistant", "1") }
	parent, _ := readCodex(t, first(newCodexLines(1000, codexB, spawnedBy(codexA))).String(), transcript.Options{Final: true})
	w := newCodexLines(2000, codexID(2000, 3), fmt.Sprintf(`,"forked_from_id":%q`, codexB))
	w.b.WriteString(codexHeaderAt(1000, codexB, spawnedBy(codexA)))
	w.at = 1000
	first(w)
	w.at = 2000
	steps, _ := readCodex(t, w.task("two").final("2").String(), transcript.Options{Final: true})
	if steps[0].Fork == nil || steps[0].Fork.At != (turns.Ref{Session: parent[0].ID(), Turn: parent[1].ID()}) {
		t.Errorf("%v, want a fork of %v", transcripttest.OutlineSteps(steps), transcripttest.OutlineSteps(parent))
	}
}

// A history of a thread that no header names is nobody's turns; its calls come along.
func TestCodexHistoryOfAStranger(t *testing.T) {
	child := codexID(2000, 3)
	w := newCodexLines(2000, child, spawnedBy(codexB))
	w.at = 0
	w.task("one").calls("c").final("1")
	w.at = 2000
	w.task("do it").final("done")
	steps, losses := readCodex(t, w.String(), transcript.Options{Final: true, Copied: true})
	checkOutline(t, steps, "open S1", `S1 T1 after - user(one), assistant(call c ls{}), tool(result c "x"), assistant(1), user(do it) => assistant(done)`)
	if got := lossReasons(losses); len(got) != 1 || !strings.HasSuffix(got[0], "it is of a session that no header names") {
		t.Errorf("losses %q", got)
	}
}

// An agent whose rollout has no history begins with its own turns.
func TestCodexSpawnedWithoutHistory(t *testing.T) {
	w := newCodexLines(1000, codexB, spawnedBy(codexA)).says("developer", "rules").task("do it").calls("c").final("done")
	steps, losses := readCodex(t, w.String(), transcript.Options{Final: true})
	checkOutline(t, steps, "open S1", "S1 T1 after - system(rules), user(do it) => assistant(call c ls{})", `S1 T2 after T1 tool(result c "x") => assistant(done)`)
	if steps[0].Open.SpawnedBy.IsZero() || len(lossReasons(losses)) > 0 {
		t.Errorf("spawned by %v, losses %v", steps[0].Open.SpawnedBy, losses)
	}
}

// A copy of a history has its old times, or the task's as a bound, or that of the fork.
func TestCodexTimesOfACopy(t *testing.T) {
	w := newCodexLines(1000, codexB, fmt.Sprintf(`,"forked_from_id":%q`, codexA))
	w.says("developer", "rules").says("assistant", "hello")
	task := codexID(5, 9)
	w.line("event_msg", fmt.Sprintf(`"type":"task_started","turn_id":%q`, task)).says("user", "new time").says("assistant", "1")
	w.at = 7
	w.says("user", "old time").says("assistant", "2")
	w.at = 1000
	w.task("own").final("3")
	steps, _ := readCodex(t, w.String(), transcript.Options{Final: true, Copied: true})
	type dated struct {
		at    int
		bound turns.TimeBound
	}
	var got []dated
	for _, s := range steps {
		if a := s.Append; a != nil {
			got = append(got, dated{int(a.Time.Sub(codexStart) / time.Second), turns.TimeBoundOf(a.Meta)})
		}
	}
	if want := []dated{{1000, turns.TimeNotAfter}, {5, turns.TimeNotBefore}, {9, ""}, {1004, ""}}; !slices.Equal(want, got) {
		t.Errorf("times %v, want %v\n%v", got, want, transcripttest.OutlineSteps(steps))
	}
}

// A file that was written anew begins with a compaction. It follows what the session has.
func TestCodexBeginsWithACompaction(t *testing.T) {
	whole := newCodexLines(0, codexA, "").task("one").final("1").compacts("", "so far")
	at := whole.at
	steps, _ := readCodex(t, whole.task("two").final("2").String(), transcript.Options{Final: true})
	rest := newCodexLines(0, codexA, "")
	rest.at = at - 1
	rest.compacts("", "so far")
	rest.n = 1
	after, losses := readCodex(t, rest.task("two").final("2").String(), transcript.Options{Final: true})
	checkOutline(t, after, "open S1", "S1 compaction after - keeps -: ", "S1 T1 after T2 user(two) => assistant(2)")
	if after[1].ID() != steps[2].ID() || after[2].ID() != steps[3].ID() || !after[1].Compaction.Parent.IsZero() || after[2].Append.Parent != after[1].ID() {
		t.Errorf("%v, then %v", transcripttest.OutlineSteps(steps), transcripttest.OutlineSteps(after))
	}
	if got := lossReasons(losses); len(got) != 1 || !strings.HasPrefix(got[0], "skipped: the file begins with a compaction") {
		t.Errorf("losses %q", got)
	}
}

// So may that of a forked agent, of which the ledger has the fork.
func TestCodexForkBeginsWithACompaction(t *testing.T) {
	for _, more := range []string{spawnedBy(codexA), fmt.Sprintf(`,"forked_from_id":%q`, codexA) + "}}\n" + strings.TrimSuffix(codexHeaderAt(0, codexA, ""), "}}\n")} {
		w := newCodexLines(1000, codexB, more).compacts("", "so far").task("two").final("2")
		steps, losses := readCodex(t, w.String(), transcript.Options{Final: true})
		checkOutline(t, steps, "open S1", "S1 compaction after - keeps -: ", "S1 T1 after T2 user(two) => assistant(2)")
		if got := lossReasons(losses); len(got) != 1 || !strings.HasPrefix(got[0], "skipped: the file begins with a compaction") {
			t.Errorf("losses %q", got)
		}
	}
}

// Usage is that of each response, however it is told: as a record and a count, twice, by
// totals that begin anew, of a compaction.
func TestCodexUsageOfEachResponse(t *testing.T) {
	start := func() *codexLines { return newCodexLines(0, codexA, "").task("one").final("1") }
	for name, tc := range map[string]struct {
		text fmt.Stringer
		want string
	}{
		"records and counts":          {start().records("r1", 10, 1).counts(11, 10, 1).task("two").final("2").records("r2", 20, 2).counts(33, 20, 2), "10/1 20/2"},
		"a record twice":              {start().records("r1", 10, 1).records("r1", 10, 1).task("two").final("2").counts(33, 20, 2), "10/1 20/2"},
		"a count twice":               {start().counts(11, 10, 1).task("two").counts(11, 10, 1).final("2").counts(33, 20, 2), "10/1 20/2"},
		"a count twice, in a call":    {start().counts(111, 10, 1).task("two").final("2").counts(111, 10, 1).counts(133, 20, 2), "10/1 20/2"},
		"totals that begin anew":      {start().counts(11, 10, 1).task("two").final("2").counts(11, 10, 1), "10/1 10/1"},
		"totals anew, and tools":      {start().counts(11, 10, 1).task("two").calls("c").counts(11, 10, 1).final("2").counts(31, 19, 1), "10/1 10/1 19/1"},
		"a compaction's record":       {start().records("r1", 10, 1).task("two").records("rc", 50, 5).compacts("rc", "so far").final("2").records("r2", 20, 2), "10/1 - k50/5 20/2"},
		"a compaction's count":        {start().counts(11, 10, 1).task("two").counts(66, 50, 5).compacts("", "so far").final("2").counts(88, 20, 2), "10/1 - k50/5 20/2"},
		"an answer in two responses":  {start().counts(11, 10, 1).final("more").counts(33, 20, 2), "10/1 20/2"},
		"of an item that is not read": {start().counts(11, 10, 1).line("response_item", `"type":"future"`).final("2").counts(33, 20, 2), "10/1 20/2"},
		"two tasks without a prompt":  {start().line("event_msg", `"type":"task_complete"`).line("event_msg", `"type":"task_started","turn_id":"x"`).final("2").counts(22, 20, 2), "- 20/2"},
	} {
		t.Run(name, func(t *testing.T) {
			steps, losses := readCodex(t, tc.text.String(), transcript.Options{Final: true})
			var got []string
			for _, s := range steps {
				u, mark := (*turns.Usage)(nil), ""
				switch {
				case s.Append != nil:
					u = s.Append.Usage
				case s.Compaction != nil:
					u, mark = s.Compaction.Usage, "k"
					if s.Compaction.Model != "m" {
						t.Errorf("model %q of the compaction", s.Compaction.Model)
					}
				default:
					continue
				}
				if u == nil {
					got = append(got, "-")
					continue
				}
				got = append(got, fmt.Sprintf("%s%d/%d", mark, u.InputTokens, u.OutputTokens))
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("usage %s, want %s: %v, %v", s, tc.want, transcripttest.OutlineSteps(steps), losses)
			}
		})
	}
}

// What another agent says is input, and no person's; so is what Codex says as the user.
func TestCodexInputOfPrograms(t *testing.T) {
	w := newCodexLines(0, codexA, "").says("user", "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nx\n</INSTRUCTIONS>").says("user", "<environment_context>\n</environment_context>").
		says("user", "do it").says("user", "<turn_aborted>\nx\n</turn_aborted>").says("user", "<b>bold</b>").final("1").
		line("response_item", `"type":"agent_message","author":"/root","recipient":"/root/a","content":[{"type":"input_text","text":"look"}]`).final("2").
		line("inter_agent_communication", `"author":"/root","recipient":"/root/a","content":"look again","trigger_turn":true`).final("3")
	steps, losses := readCodex(t, w.String(), transcript.Options{Final: true})
	checkOutline(t, steps[2:], "S1 T1 after T2 user(look) => assistant(2)", "S1 T3 after T1 user(look again) => assistant(3)")
	for i, want := range [][]int{{0, 1, 3}, {0}, {0}} {
		if got := turns.ProgramMessages(steps[i+1].Append.Meta); !slices.Equal(got, want) {
			t.Errorf("turn %d: messages of programs %v, want %v", i+1, got, want)
		}
	}
	if ext := string(steps[2].Append.Messages[0].Parts[0].Ext); ext != `{"openai":{"agent_message":{"author":"/root","recipient":"/root/a"}}}` {
		t.Errorf("ext %s", ext)
	}
	if len(lossReasons(losses)) > 0 {
		t.Errorf("losses %v", losses)
	}
}

// What the model saw and the ledger can't hold is a loss; what it did not see is counted
// apart from that.
func TestCodexItemsThatAreNotRead(t *testing.T) {
	w := newCodexLines(0, codexA, "").task("one").
		line("response_item", `"type":"additional_tools","role":"developer","tools":[]`).
		line("response_item", `"type":"ghost_snapshot"`).
		line("response_item", `"type":"tool_search_call","execution":"server","arguments":{"q":1}`).
		line("response_item", `"type":"tool_search_output","execution":"server","tools":[{"name":"x"}]`).
		line("response_item", `"type":"image_generation_call","status":"completed","result":"aGk="`).
		line("response_item", `"type":"local_shell_call","id":"sh","status":"completed","action":{"command":["ls"]}`).
		line("response_item", `"type":"function_call_output","call_id":"sh","output":"x"`).
		line("response_item", `"type":"compaction","encrypted_content":"e"`).
		line("response_item", `"type":"future"`).line("event_msg", `"type":"future"`).line("future", `"x":1`).line("rollout_reference", `"x":1`).
		final("1")
	steps, losses := readCodex(t, w.String(), transcript.Options{Final: true})
	checkOutline(t, steps, "open S1", `S1 T1 after - user(one) => assistant([tool_search_call] [tool_search_output] [image_generation_call] call sh local_shell{"command":["ls"]})`, `S1 T2 after T1 tool(result sh "x") => assistant([compaction] 1)`)
	want := []string{
		"skipped: tools that the model got later than the session began",
		"repaired: a summary that only the provider can read is kept as reasoning; what it stands for stays in the context",
		"skipped: history that is in another file, which the rollout names",
		"repaired: calls of the provider's own tools are kept as reasoning",
		`skipped: events of a type that is not known: "future"`,
		`skipped: items of type "future"`,
		`skipped: records of type "future"`,
		"skipped: snapshots of the work tree, which the model does not see",
	}
	if d := cmp.Diff(want, lossReasons(losses)); d != "" {
		t.Errorf("losses (-want +got):\n%s", d)
	}
}

// The cases of reports, against what is right of them.
func TestCodexCases(t *testing.T) {
	dir := filepath.Join(filepath.Dir(transcripttest.Data(t)), "cases")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the cases are not next to the project (../shared/cases)")
	}
	for _, tc := range []struct {
		files         string
		turns, calls  int
		usage         turns.Usage
		forks, stored int // stored: compactions
	}{
		{"02-*/*.jsonl", 3, 3, turns.Usage{InputTokens: 3800, CacheRead: 2200, OutputTokens: 143}, 1, 0},
		{"03-*/*.jsonl", 3, 3, turns.Usage{InputTokens: 410, CacheRead: 200, OutputTokens: 18}, 1, 0},
		{"04c-*/*.jsonl", 2, 2, turns.Usage{InputTokens: 200, OutputTokens: 20}, 0, 0},
		{"27-*/*.jsonl", 3, 3, turns.Usage{InputTokens: 205200, CacheRead: 100000, OutputTokens: 3110}, 0, 1},
		{"60-*/*/*.jsonl", 7, 7, turns.Usage{InputTokens: 3000, OutputTokens: 35}, 0, 1},
		{"61-*/*.jsonl", 2, 2, turns.Usage{InputTokens: 300, OutputTokens: 10}, 0, 0},
		{"67-*/*.jsonl", 8, 8, turns.Usage{InputTokens: 2010, CacheRead: 1550, OutputTokens: 44}, 0, 0},
	} {
		t.Run(tc.files, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(dir, tc.files))
			if err != nil || len(files) == 0 {
				t.Skip("the case is not there")
			}
			for range 2 {
				seen := make(map[turns.ID]bool)
				var n struct{ turns, calls, forks, compactions int }
				var sum turns.Usage
				for _, name := range files {
					b, err := os.ReadFile(name)
					if err != nil {
						t.Fatal(err)
					}
					steps, _ := readCodex(t, string(b), transcript.Options{Final: true})
					for _, s := range steps {
						u := (*turns.Usage)(nil)
						switch {
						case seen[s.ID()]:
							continue
						case s.Fork != nil:
							n.forks++
						case s.Compaction != nil:
							n.compactions++
							u = s.Compaction.Usage
						case s.Append != nil:
							n.turns++
							u = s.Append.Usage
						}
						seen[s.ID()] = true
						if u != nil {
							n.calls++
							sum = sum.Plus(*u)
						}
					}
				}
				if n.turns != tc.turns || n.calls != tc.calls || n.forks != tc.forks || n.compactions != tc.stored || sum != tc.usage {
					t.Errorf("%+v, %+v; want %+v", n, sum, tc)
				}
				slices.Reverse(files)
			}
		})
	}
}
