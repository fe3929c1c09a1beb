package codex

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

// codexStart is when the rollouts of these tests begin.
var codexStart = time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC)

// codexID returns a UUID of version 7 of a time after codexStart.
func codexID(seconds, n int) string {
	ms := codexStart.Add(time.Duration(seconds) * time.Second).UnixMilli()
	return fmt.Sprintf("%08x-%04x-7000-8000-%012x", ms>>16, ms&0xffff, n)
}

// codexLineAt returns a line of a rollout.
func codexLineAt(seconds int, kind, payload string) string {
	return fmt.Sprintf(`{"timestamp":%q,"type":%q,"payload":{%s}}`+"\n", codexStart.Add(time.Duration(seconds)*time.Second).Format("2006-01-02T15:04:05.000Z"), kind, payload)
}

func codexHeaderAt(seconds int, id, more string) string {
	return codexLineAt(seconds, "session_meta", fmt.Sprintf(`"id":%q,"cwd":"/w","base_instructions":{"text":"Be brief."}%s`, id, more))
}

// codexTask is a task of a rollout, a second a line. Its turns are of one prompt each.
type codexTask struct {
	id    string // "": none is written
	lines []string
}

// randomCodex draws the tasks of a rollout that begins at a second: prompts and what Codex
// adds to them, texts, calls and results that often say the same, usage as a count and as a
// record, compactions, rollbacks.
func randomCodex(t *rapid.T, from, tasks int, rollbacks bool) (out []codexTask) {
	pick := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
	at, calls, total := from, 0, 0
	ids := rapid.IntRange(0, 3).Draw(t, "ids") > 0
	for range tasks {
		var task codexTask
		add := func(kind, payload string) {
			at++
			task.lines = append(task.lines, codexLineAt(at, kind, payload))
		}
		if ids {
			task.id = codexID(at+1, len(out))
			add("event_msg", fmt.Sprintf(`"type":"task_started","turn_id":%q`, task.id))
			add("turn_context", fmt.Sprintf(`"turn_id":%q,"model":"m","effort":%q`, task.id, pick("effort", "low", "high")))
		}
		if pick("context", "", "", "x") != "" {
			add("response_item", `"type":"message","role":"developer","content":[{"type":"input_text","text":"rules"}]`)
			add("response_item", `"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>\n</environment_context>"}]`)
		}
		add("response_item", fmt.Sprintf(`"type":"message","role":"user","content":[{"type":"input_text","text":%q}]`, pick("prompt", "go on", "go on", "look", "why?")))
		add("event_msg", `"type":"user_message","message":"x"`)
		for n := rapid.IntRange(0, 3).Draw(t, "responses"); n > 0; n-- {
			if pick("reasons", "", "x") != "" {
				add("response_item", `"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"e"`)
			}
			call := n > 1 || pick("open", "", "", "x") != ""
			text := `"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]`
			if call {
				calls++
				text = fmt.Sprintf(`"type":"function_call","name":"exec","arguments":"{}","call_id":"c%d"`, calls)
			}
			add("response_item", text)
			usage := fmt.Sprintf(`"input_tokens":%d,"cached_input_tokens":1,"output_tokens":2`, 10+len(task.lines))
			total += 12 + len(task.lines)
			count := fmt.Sprintf(`"type":"token_count","info":{"total_token_usage":{"total_tokens":%d},"last_token_usage":{%s}}`, total, usage)
			switch pick("usage", "", "count", "count", "late", "record") {
			case "count":
				add("event_msg", count)
			case "late":
				if call {
					add("response_item", fmt.Sprintf(`"type":"function_call_output","call_id":"c%d","output":"ok"`, calls))
					call = false
				}
				add("event_msg", count)
			case "record":
				add("token_usage_record", fmt.Sprintf(`"response_id":"r%d","usage":{%s}`, total, usage))
				add("event_msg", count)
			}
			if call {
				add("response_item", fmt.Sprintf(`"type":"function_call_output","call_id":"c%d","output":"ok"`, calls))
			}
			if rapid.IntRange(0, 9).Draw(t, "compacts") == 0 {
				add("compacted", fmt.Sprintf(`"message":"","replacement_history":[{"type":"message","role":"user","content":"so far %d"}]`, at))
			}
		}
		if ids && pick("ends", "x", "x", "") != "" {
			add("event_msg", fmt.Sprintf(`"type":"task_complete","turn_id":%q`, task.id))
		}
		if rollbacks && rapid.IntRange(0, 4).Draw(t, "rolls back") == 0 {
			add("event_msg", fmt.Sprintf(`"type":"thread_rolled_back","num_turns":%d`, rapid.IntRange(1, 3).Draw(t, "prompts")))
		}
		out = append(out, task)
	}
	return out
}

func rolloutOf(head string, tasks []codexTask) string {
	var b strings.Builder
	b.WriteString(head)
	for _, x := range tasks {
		b.WriteString(strings.Join(x.lines, ""))
	}
	return b.String()
}

// ranSteps reads a rollout as r would be told of it.
func ranSteps(t *rapid.T, text string, opt transcript.Options) (steps []transcript.Step) {
	c := Read(strings.NewReader(text), opt)
	for s, err := range c.Steps() {
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, s)
	}
	return steps
}

// turnIDs returns the turns of steps with their sessions, and the compactions.
func turnIDs(steps []transcript.Step) map[turns.ID]turns.ID {
	out := make(map[turns.ID]turns.ID)
	for _, s := range steps {
		switch {
		case s.Append != nil:
			out[s.Append.ID] = s.Append.Session
		case s.Compaction != nil:
			out[s.Compaction.ID] = s.Compaction.Session
		}
	}
	return out
}

// Lines that the reader does not know change no step, wherever they stand.
func TestCodexUnknownLinesChangeNothing(t *testing.T) {
	unknown := []string{
		`{"timestamp":"2026-05-01T08:00:00Z","type":"future","payload":{"turn_id":"x"}}`,
		`{"timestamp":"2026-05-01T08:00:00Z","type":"event_msg","payload":{"type":"future"}}`,
		`{"timestamp":"2026-05-01T08:00:00Z","type":"response_item","payload":{"type":"future","role":"user","content":"x"}}`,
		`{"timestamp":"2026-05-01T08:00:00Z","type":"response_item","payload":{"type":"ghost_snapshot"}}`,
		`{"timestamp":"2026-05-01T08:00:00Z","type":"world_state","payload":{}}`,
		`{"timestamp":"2026-05-01T08:00:00Z","type":"response_item","payload":7}`,
	}
	rapid.Check(t, func(r *rapid.T) {
		lines := slices.Collect(strings.Lines(rolloutOf(codexHeaderAt(0, codexID(0, 1), ""), randomCodex(r, 1, rapid.IntRange(1, 5).Draw(r, "tasks"), true))))
		want := ranSteps(r, strings.Join(lines, ""), transcript.Options{Final: true})
		for range rapid.IntRange(1, 8).Draw(r, "unknown") {
			at := rapid.IntRange(1, len(lines)).Draw(r, "at")
			lines = slices.Insert(lines, at, rapid.SampledFrom(unknown).Draw(r, "line")+"\n")
		}
		if d := cmp.Diff(want, ranSteps(r, strings.Join(lines, ""), transcript.Options{Final: true})); d != "" {
			r.Fatalf("(-without +with):\n%s", d)
		}
	})
}

// A file that grows has the steps of its shorter copies, and a shorter copy that is read to
// its end has no other turns.
func TestCodexGrowsByWholeSteps(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := rolloutOf(codexHeaderAt(0, codexID(0, 1), ""), randomCodex(r, 1, rapid.IntRange(1, 5).Draw(r, "tasks"), true))
		whole := transcripttest.NewStepIndex(ranSteps(r, text, transcript.Options{}))
		final := turnIDs(ranSteps(r, text, transcript.Options{Final: true}))
		short := ""
		for line := range strings.Lines(text) {
			short += line
			if err := whole.Contains(ranSteps(r, short, transcript.Options{})); err != nil {
				r.Fatalf("%s\n%v", short, err)
			}
			for id, session := range turnIDs(ranSteps(r, short, transcript.Options{Final: true})) {
				if final[id] != session {
					r.Fatalf("%s\nturn %s of %s is not of the whole: %s", short, id, session, final[id])
				}
			}
		}
	})
}

// A file that Codex wrote anew, from a compaction or a task on, has the turns that it had.
func TestCodexRewrittenHasTheSameTurns(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		head, tasks := codexHeaderAt(0, codexID(0, 1), ""), randomCodex(r, 1, rapid.IntRange(2, 6).Draw(r, "tasks"), false)
		whole := turnIDs(ranSteps(r, rolloutOf(head, tasks), transcript.Options{Final: true}))
		check := func(text string, newFirst bool) {
			for _, s := range ranSteps(r, text, transcript.Options{Final: true}) {
				if s.Append != nil && newFirst {
					newFirst = false
					continue
				}
				if s.Open == nil && whole[s.ID()].IsZero() {
					r.Fatalf("%s\n%s is not of the whole file", text, transcripttest.OutlineSteps([]transcript.Step{s}))
				}
			}
		}
		lines := slices.Collect(strings.Lines(rolloutOf(head, tasks)))
		for i := range lines {
			if strings.Contains(lines[i], `"type":"compacted"`) {
				rest := lines[i:]
				// The task that goes on is named again by its settings.
				for j := i; j > 0; j-- {
					if strings.Contains(lines[j], `"type":"turn_context"`) {
						rest = append([]string{lines[i], lines[j]}, lines[i+1:]...)
						break
					}
				}
				check(head+strings.Join(rest, ""), false)
			}
		}
		for i := range tasks {
			if tasks[i].id != "" { // the first turn also has what was left without an answer before it
				check(rolloutOf(head, tasks[i:]), i > 0 && !endsWithAnswer(tasks[i-1]))
			}
		}
	})
}

func endsWithAnswer(x codexTask) bool {
	i := len(x.lines) - 1
	for !strings.Contains(x.lines[i], `"response_item"`) && !strings.Contains(x.lines[i], `"compacted"`) {
		i--
	}
	return !strings.Contains(x.lines[i], `"role":"user","content":[`) && !strings.Contains(x.lines[i], "_output")
}

// A rollout that is spaced otherwise, with members in another order, has the same turns.
func TestCodexIDsAreOfContent(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := rolloutOf(codexHeaderAt(0, codexID(0, 1), ""), randomCodex(r, 1, 3, true))
		other := strings.NewReplacer(`":`, `" : `, `"type":"message","role":"user"`, `"role":"user","type":"message"`).Replace(text)
		if d := cmp.Diff(turnIDs(ranSteps(r, text, transcript.Options{Final: true})), turnIDs(ranSteps(r, other, transcript.Options{Final: true}))); d != "" {
			r.Fatal(d)
		}
	})
}

// An item more or less, as one that a later reader understands, names no turn anew but the one
// that it begins.
func TestCodexItemNamesOneTurn(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		lines := slices.Collect(strings.Lines(rolloutOf(codexHeaderAt(0, codexID(0, 1), ""), randomCodex(r, 1, rapid.IntRange(1, 6).Draw(r, "tasks"), true))))
		whole := turnIDs(ranSteps(r, strings.Join(lines, ""), transcript.Options{Final: true}))
		at := rapid.IntRange(1, len(lines)-1).Draw(r, "at")
		if !strings.Contains(lines[at], `"response_item"`) {
			r.Skip("no item")
		}
		renamed := 0
		for id := range turnIDs(ranSteps(r, strings.Join(slices.Delete(slices.Clone(lines), at, at+1), ""), transcript.Options{Final: true})) {
			if whole[id].IsZero() {
				renamed++
			}
		}
		if renamed > 1 {
			r.Fatalf("%s\nwithout line %d, %d turns have other ids", strings.Join(lines, ""), at+1, renamed)
		}
	})
}

// The rollout of an agent that copied its parent's history names the parent's turns, whether
// the parent's header is in it or not; of a part of the history it takes no turn.
func TestCodexCopiedHistoryIsTheParents(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		parentID, childID := codexID(0, 1), codexID(5000, 2)
		head := codexHeaderAt(0, parentID, "")
		tasks := randomCodex(r, 1, rapid.IntRange(1, 4).Draw(r, "tasks"), true)
		if tasks[0].id == "" {
			r.Skip("the tasks have no ids")
		}
		parent := turnIDs(ranSteps(r, rolloutOf(head, tasks), transcript.Options{Final: true}))
		n := rapid.IntRange(1, len(tasks)).Draw(r, "copied")
		spawn := fmt.Sprintf(`,"source":{"subagent":{"thread_spawn":{"parent_thread_id":%q}}}`, parentID)
		fork := fmt.Sprintf(`,"forked_from_id":%q`, parentID)
		copied := rolloutOf("", tasks[:n])
		if rapid.Bool().Draw(r, "new times") {
			lines := slices.Collect(strings.Lines(copied))
			for i := range lines {
				lines[i] = `{"timestamp":"2026-05-01T09:23:20.100Z"` + lines[i][strings.Index(lines[i], `,"type"`):]
			}
			copied = strings.Join(lines, "")
		}
		shapes := []string{spawn + fork + "\n" + head, spawn + fork, spawn, fork, fork + "\n" + head}
		shape, second, _ := strings.Cut(rapid.SampledFrom(shapes).Draw(r, "shape"), "\n")
		own := randomCodex(r, 5001, 2, false)
		if own[0].id == "" {
			r.Skip("its own tasks have no ids")
		}
		text := codexHeaderAt(5000, childID, shape) + second + copied + rolloutOf("", own)
		steps := ranSteps(r, text, transcript.Options{Final: true})
		if steps[0].Fork == nil {
			if worked := strings.Contains(copied, `"function_call"`) || strings.Contains(copied, `"output_text"`); steps[0].Open == nil || worked && !strings.Contains(copied, "rolled_back") {
				r.Fatalf("%s\nno fork: %v", text, transcripttest.OutlineSteps(steps))
			}
			if strings.Contains(shape, "spawn") == steps[0].Open.SpawnedBy.IsZero() {
				r.Fatalf("spawned by %v", steps[0].Open.SpawnedBy)
			}
		} else if at := steps[0].Fork.At; parent[at.Turn] != at.Session {
			r.Fatalf("%s\nforked at %v, which is no turn of the parent: %v", text, at, parent)
		}
		for id := range turnIDs(steps) {
			if _, ok := parent[id]; ok {
				r.Fatalf("turn %s is the parent's", id)
			}
		}
		mine := turnIDs(steps)
		for id, session := range turnIDs(ranSteps(r, text, transcript.Options{Final: true, Copied: true})) {
			if mine[id] != session && parent[id] != session {
				r.Fatalf("%s\nturn %s of %s is neither's", text, id, session)
			}
		}
	})
}
