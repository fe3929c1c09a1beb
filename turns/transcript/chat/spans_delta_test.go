package chat

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

// otelSpanLine is a span of a conversation that began n seconds after the others' first.
func otelSpanLine(id, conversation string, n int, more string, texts ...string) string {
	line := transcripttest.OtlpLine(id, "T", append(transcripttest.OtlpCall("string", texts...), transcripttest.OtlpText("gen_ai.conversation.id", conversation), `{"key":"gen_ai.usage.input_tokens","value":{"intValue":"10"}}`)...)
	line = strings.Replace(line, `"startTimeUnixNano":"1775919187000000000","endTimeUnixNano":"1775919188500000000"`, fmt.Sprintf(`"startTimeUnixNano":"1775919%03d000000000","endTimeUnixNano":"1775919%03d500000000"`, 100+n, 100+n), 1)
	return strings.Replace(line, `"kind":3`, `"kind":3`+more, 1)
}

// turnTexts is the path of the only session, and what its turns used.
func turnTexts(t *testing.T, steps []transcript.Step) (texts []string, used uint64) {
	t.Helper()
	sessions := 0
	for _, s := range steps {
		switch {
		case s.Append == nil:
			sessions++
		case s.Append.Response != nil:
			for _, m := range append(s.Append.Messages, *s.Append.Response) {
				texts = append(texts, m.Parts[0].Content)
			}
			if u := s.Append.Usage; u != nil {
				used += u.InputTokens
			}
		}
	}
	if sessions != 1 {
		t.Errorf("%d sessions: %v", sessions, transcripttest.OutlineSteps(steps))
	}
	return texts, used
}

// The spans of a conversation are one session, whatever of its history each holds, in
// whatever order they stand in the file, also where an exporter wrote some again.
func TestSpansOfOneConversationAreOneSession(t *testing.T) {
	full := []string{otelSpanLine("1", "c", 1, "", "q1", "a1"), otelSpanLine("2", "c", 2, "", "q1", "a1", "q2", "a2"), otelSpanLine("3", "c", 3, "", "q1", "a1", "q2", "a2", "q3", "a3")}
	delta := []string{full[0], otelSpanLine("2", "c", 2, "", "q2", "a2"), otelSpanLine("3", "c", 3, "", "q3", "a3")}
	cut := []string{full[0], full[1], otelSpanLine("3", "c", 3, "", "", "a2", "q3", "a3")}
	whole := otelSpanLine("9", "c", 0, "", "q1", "a1", "q2", "a2", "q3", "a3")
	part := func(line string) string { return strings.Replace(line, `"kind":3`, `"kind":3,"parentSpanId":"9"`, 1) }
	want := []string{"q1", "a1", "q2", "a2", "q3", "a3"}
	var ids []turns.ID
	for name, spans := range map[string][]string{
		"each with the whole history":    full,
		"each with what is new":          delta,
		"mixed":                          {delta[0], delta[1], full[2]},
		"mixed the other way":            {delta[0], full[1], delta[2]},
		"without the oldest messages":    cut,
		"written when they end":          {delta[2], delta[0], delta[1]},
		"the last first":                 {full[2], full[1], full[0]},
		"written again":                  {delta[0], delta[1], delta[1], delta[2], delta[0]},
		"a span of the whole beside":     {whole, part(full[0]), part(full[1]), part(full[2])},
		"a span of the whole at the end": {part(delta[0]), part(delta[1]), part(delta[2]), whole},
	} {
		t.Run(name, func(t *testing.T) {
			steps, _ := readChat(t, strings.Join(spans, ""), transcript.Options{Final: true})
			texts, used := turnTexts(t, steps)
			if d := cmp.Diff(want, texts); d != "" || used != 30 {
				t.Errorf("used %d, texts (-want +got):\n%s", used, d)
			}
			var got []turns.ID
			for _, s := range steps {
				got = append(got, s.ID())
			}
			if ids == nil {
				ids = got
			}
			if !slices.Equal(ids, got) {
				t.Errorf("ids %v, those of another form are %v", got, ids)
			}
		})
	}
}

// The same words in a later call are another call.
func TestSpanWithTheSameWordsIsAnotherCall(t *testing.T) {
	steps, losses := readChat(t, otelSpanLine("1", "c", 1, "", "go on", "ok")+otelSpanLine("2", "c", 2, "", "go on", "ok")+otelSpanLine("3", "c", 3, "", "go on", "ok"), transcript.Options{})
	texts, used := turnTexts(t, steps)
	if len(texts) != 6 || used != 30 || len(losses) != 0 {
		t.Errorf("texts %v, used %d, losses %+v", texts, used, losses)
	}
	seen := make(map[turns.ID]bool)
	for _, s := range steps {
		if seen[s.ID()] {
			t.Errorf("two steps have the id %s", s.ID())
		}
		seen[s.ID()] = true
	}
}

// Spans of one conversation in several files are one session: a file that does not begin it
// says that its first turn may follow others.
func TestSpansOfOneConversationInSeveralFiles(t *testing.T) {
	all := []string{otelSpanLine("1", "c", 1, "", "q1", "a1"), otelSpanLine("2", "c", 2, "", "q2", "a2"), otelSpanLine("3", "c", 3, "", "q3", "a3")}
	whole, _ := readChat(t, strings.Join(all, ""), transcript.Options{})
	index := transcripttest.NewStepIndex(whole)
	for i, text := range all {
		steps, _ := readChat(t, text, transcript.Options{})
		if len(steps) != 2 || steps[0].Open == nil || steps[0].Open.ID != whole[0].Open.ID || !steps[1].Append.Continues || index[steps[1].Append.ID].Append == nil {
			t.Errorf("file %d: %v", i, transcripttest.OutlineSteps(steps))
		}
	}
}

// What the history of a call says was said before it.
func TestTurnWithoutASpanHasABound(t *testing.T) {
	steps, _ := readChat(t, otelSpanLine("2", "c", 2, "", "q1", "a1", "q2", "a2"), transcript.Options{})
	a, b := steps[1].Append, steps[2].Append
	if turns.TimeBoundOf(a.Meta) != turns.TimeNotAfter || a.Time.IsZero() || turns.TimeBoundOf(b.Meta) != "" || a.Time.After(b.Time) {
		t.Errorf("times %v %s, %v %s", a.Time, a.Meta, b.Time, b.Meta)
	}
}

// A file of many defects has a report of some.
func TestChatLossesAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 3 * transcript.MaxLosses {
		fmt.Fprintf(&b, `{"id":"%d","messages":[]}`+"\n", i)
		b.WriteString(transcripttest.OtlpLine(fmt.Sprint(i), "T", transcripttest.OtlpText("gen_ai.input.messages", "[{}]")))
		fmt.Fprintf(&b, `{"id":"x%d","messages":[{"role":"user","content":"a"},{"role":"tool","tool_call_id":"c","content":"x"},{"role":"note%d","content":"y"}]}`+"\n", i, i)
	}
	_, losses := readChat(t, b.String(), transcript.Options{})
	if len(losses) > 2*transcript.MaxLosses+10 {
		t.Errorf("%d losses", len(losses))
	}
}

// The messages of a call may stand in the log, and its usage in the span.
func TestUsageOfASpanWhoseMessagesAreInTheLog(t *testing.T) {
	span := transcripttest.OtlpLine("1", "T", transcripttest.OtlpText("gen_ai.response.model", "m-1"), `{"key":"gen_ai.usage.input_tokens","value":{"intValue":"10"}}`)
	log := `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1775919188500000000","eventName":"gen_ai.client.inference.operation.details","traceId":"T","spanId":"1","attributes":[` + strings.Join(transcripttest.OtlpCall("structured", "a", "1"), ",") + `]}]}]}]}` + "\n"
	for _, text := range []string{span + log, log + span} {
		steps, _ := readChat(t, text, transcript.Options{})
		if a := steps[len(steps)-1].Append; len(steps) != 2 || a.Usage == nil || a.Usage.InputTokens != 10 || a.Model != "m-1" {
			t.Errorf("%v", transcripttest.OutlineSteps(steps))
		}
	}
}

// A call that holds only what is new stands where the history of a later call has it.
func TestSpanTakesTheHistoryOfALaterOne(t *testing.T) {
	delta := otelSpanLine("2", "c", 2, "", "q2", "a2")
	full := otelSpanLine("3", "c", 3, "", "q1", "a1", "q2", "a2", "q3", "a3")
	for _, text := range []string{delta + full, full + delta} {
		steps, _ := readChat(t, text, transcript.Options{})
		texts, used := turnTexts(t, steps)
		if want := []string{"q1", "a1", "q2", "a2", "q3", "a3"}; !slices.Equal(texts, want) || used != 20 {
			t.Errorf("turns %v, %d tokens", texts, used)
		}
	}
	// Which of two equal turns it is, nobody says.
	twice := otelSpanLine("3", "c", 3, "", "q2", "a2", "q2", "a2", "q3", "a3")
	steps, _ := readChat(t, delta+twice, transcript.Options{})
	if a := steps[1].Append; !a.Continues || len(a.Messages) != 1 || a.Usage == nil {
		t.Errorf("steps %v", transcripttest.OutlineSteps(steps))
	}
}
