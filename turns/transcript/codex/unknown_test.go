package codex

import (
	"strings"
	"testing"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
)

// An output of a type that is not known ends no response by itself: the usage of the response
// does. The turns around it are those of the same file without it.
func TestCodexOutputOfAnUnknownType(t *testing.T) {
	read := func(sent, usageBetween bool, kind string) (calls int, usage uint64, ids []turns.ID, text string) {
		w := newCodexLines(1_700_000_000, codexID(1_700_000_000, 0), "").task("find the lamp")
		if sent {
			w.line("response_item", `"type":"lantern_call","call_id":"l1","glow":{"color":"amber"}`)
			if usageBetween {
				w.counts(7, 6, 1)
			}
			w.line("response_item", `"type":"`+kind+`","call_id":"l1","output":"it glows"`)
		}
		w.final("found").counts(100, 90, 10)
		w.at = 1_700_000_100
		w.task("and now").final("done").counts(200, 99, 1)
		steps, _ := readCodex(t, w.String(), transcript.Options{Final: true})
		for _, s := range steps {
			if a := s.Append; a != nil {
				calls++
				ids = append(ids, a.ID)
				if a.Usage != nil {
					usage += a.Usage.InputTokens
				}
				text += string(values.Encoded(a.Messages)) + string(values.Encoded(a.Response))
			}
		}
		return calls, usage, ids, text
	}
	_, _, plain, _ := read(false, false, "")
	for _, kind := range []string{"lantern_call_output", "lantern_output"} {
		calls, usage, ids, text := read(true, false, kind)
		if calls != 2 || usage != 189 || ids[0] != plain[0] || ids[1] != plain[1] {
			t.Errorf("%s: %d calls of %d tokens, %v; without it %v", kind, calls, usage, ids, plain)
		}
		for _, want := range []string{"it glows", "amber", "found", "done"} {
			if strings.Count(text, want) != 1 {
				t.Errorf("%s: %q is in the turns %d times:\n%s", kind, want, strings.Count(text, want), text)
			}
		}
		if calls, usage, _, _ := read(true, true, kind); calls != 3 || usage != 195 {
			t.Errorf("%s: after a usage: %d calls of %d tokens", kind, calls, usage)
		}
	}
}

// What the model asked a tool of the provider for is in the text of the turn.
func TestCodexAskedOfTheProvider(t *testing.T) {
	w := newCodexLines(1_700_000_000, codexID(1_700_000_000, 0), "").task("paint the harbour")
	w.line("response_item", `"type":"web_search_call","id":"w1","action":{"type":"search","query":"harbour at dusk","queries":["harbour at dusk","old cranes"]}`)
	w.line("response_item", `"type":"web_search_call","id":"w2","action":{"type":"find_in_page","url":"https://a.example/x","pattern":"quay"}`)
	w.line("response_item", `"type":"image_generation_call","id":"i1","revised_prompt":"a red crane","result":"aGk="`)
	w.final("done").counts(10, 9, 1)
	steps, _ := readCodex(t, w.String(), transcript.Options{Final: true})
	var got []string
	for _, p := range steps[len(steps)-1].Append.Response.Parts {
		got = append(got, p.Content)
	}
	const want = "[web_search_call] harbour at dusk old cranes|[web_search_call] https://a.example/x quay|[image_generation_call] a red crane|done"
	if strings.Join(got, "|") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// What a copy holds before its first task has that task's time as its bound.
func TestCodexBoundBeforeTheFirstTask(t *testing.T) {
	const at = 1_700_000_000
	fork := newCodexLines(at+1000, codexID(at+1000, 9), `,"forked_from_id":"`+codexID(at, 0)+`"`)
	fork.b.WriteString(codexHeaderAt(at+1000, codexID(at, 0), ""))
	fork.line("compacted", `"message":"","replacement_history":[{"type":"message","role":"user","content":"so far"}]`)
	task := codexID(at+60, 1)
	fork.line("event_msg", `"type":"task_started","turn_id":"`+task+`"`).says("user", "go on")
	fork.line("response_item", `"type":"message","role":"assistant","content":[{"type":"output_text","text":"on"}]`)
	fork.task("in the fork").final("forked").counts(10, 9, 1)
	steps, _ := readCodex(t, fork.String(), transcript.Options{Final: true, Copied: true})
	for _, s := range steps {
		if k := s.Compaction; k != nil {
			if !k.Time.Equal(timeInID(task)) || turns.TimeBoundOf(k.Meta) != turns.TimeNotAfter {
				t.Errorf("%v, %s; want %v", k.Time, k.Meta, timeInID(task))
			}
			return
		}
	}
	t.Errorf("no compaction: %v", steps)
}
