package compactor

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
)

// The rows of the GSV design that are planning and rendering. Those of its
// summarizer are in package llm, GSV-14 is in the engine.

// measured returns the size that the policy takes p's context for: the least
// threshold at which it is not due.
func measured(p view.Path, pol policy.Policy) uint64 {
	pol.ReserveTokens = 1
	least := p.Overhead + 1
	n := sort.Search(1<<20, func(n int) bool {
		p.Limits = turns.Limits{ContextWindow: least + uint64(n) + 2, MaxOutputTokens: 1, SafetyMargin: 1}
		_, due := plan.Due(p, pol, p.Tokens())
		return !due
	})
	return least + uint64(n)
}

// gsvEstimate returns the design's JSON.stringify(message).length / 4 * 1.2, rounded
// up for each message.
func gsvEstimate(t *testing.T, ms ...turns.Message) (n uint64) {
	t.Helper()
	for i := range ms {
		b, err := turns.EncodeJSON(&ms[i])
		must(t, err)
		n += (uint64(len(utf16.Encode([]rune(string(b)))))*12 + 39) / 40
	}
	return n
}

// gsvSized returns a world under the policy gsv, of n turns: a question, a call, its
// result of about size tokens, and an answer.
func gsvSized(t *testing.T, n, size int) *world {
	t.Helper()
	w := newWorld()
	w.Policy = builtin("gsv")
	for i := range n {
		id := fmt.Sprintf("c%d", i)
		must(t, w.Turn(user(fmt.Sprintf("question %d 漢字😀", i)), says("", id)))
		must(t, w.Turn([]turns.Message{tool(result(id, words(size+7*i)))}, says(fmt.Sprintf("answer %d", i))))
	}
	return w
}

func gsvWith(t *testing.T, set string) policy.Policy {
	t.Helper()
	pol, err := builtin("gsv").With(turns.Raw(set))
	must(t, err)
	return pol
}

// GSV-1: what the provider last reported of this very context, and an estimate of
// what was appended since; without a report, characters of the JSON / 4 × 1.2.
func TestSizeIsTheReportPlusAnEstimate(t *testing.T) {
	w := gsvSized(t, 4, 100)
	pol := w.Policy
	all := func() (ms []turns.Message) {
		for _, h := range w.Path().Halves {
			ms = append(ms, h.Messages...)
		}
		return ms
	}
	check := func(what string, p view.Path, want uint64) {
		t.Helper()
		if got := measured(p, pol); got != want {
			t.Errorf("%s: %d tokens, want %d", what, got, want)
		}
	}
	check("no report", w.Path(), gsvEstimate(t, all()...))
	p := w.Path()
	p.Overhead = 500 // a report has it, an estimate has not
	check("no report, beside an overhead", p, 500+gsvEstimate(t, all()...))

	last := len(w.Halves) - 1
	w.Halves[last-2].Reported = 111 // of an older call
	w.Halves[last].Reported = 5000
	check("reported", w.Path(), 5000+gsvEstimate(t, w.Halves[last].Messages...))
	p = w.Path()
	p.Overhead = 500
	check("reported, beside an overhead", p, 5000+gsvEstimate(t, w.Halves[last].Messages...))
	w.Halves[last].Reported = 20 // less than the estimate: the report counts all the same
	check("reported less", w.Path(), 20+gsvEstimate(t, w.Halves[last].Messages...))

	w.Halves[last].Reported = 5000
	more := user("more 漢字😀 " + words(300))
	must(t, w.Turn(more, nil))
	check("appended since", w.Path(), 5000+gsvEstimate(t, append(more, w.Halves[last].Messages...)...))
	p = w.Path()
	p.Changed = w.Halves[last].Depth // another preamble, another compaction
	check("measured on another context", p, gsvEstimate(t, all()...))

	_, err := w.compact(gsvWith(t, `{"keep_tokens":450}`), plan.TriggerManual, plan.Options{})
	must(t, err)
	if w.Path().Halves[0].Depth > w.Halves[last].Depth {
		t.Fatal("the reported response is not kept: the next check would say nothing")
	}
	cx, err := view.Render(w.Path(), w.Path().Counter)
	must(t, err)
	check("measured before the compaction", w.Path(), gsvEstimate(t, cx.Messages...))
	if n := w.Path().ReportedTokens(); n != 0 {
		t.Errorf("a report of before the compaction counts as %d tokens after it", n)
	}
	must(t, w.Turn(nil, says("and on "+words(2000))))
	w.Halves[len(w.Halves)-1].Reported = 2600
	check("reported after the compaction", w.Path(), 2600+gsvEstimate(t, w.Halves[len(w.Halves)-1].Messages...))
}

// GSV-2: due before the call, over context_window − reserve_tokens.
func TestDueOverWindowLessReserve(t *testing.T) {
	for _, c := range []struct {
		set               string
		window, threshold uint64
	}{
		{`{}`, 0, 180_000},
		{`{}`, 200_000, 180_000},
		{`{}`, 128_000, 108_000},
		{`{}`, 1_000_000, 980_000},
		{`{"reserve_tokens":30000}`, 200_000, 170_000},
		{`{"context_window":100000}`, 0, 80_000},
		{`{}`, 40_000, 29_200}, // reserve a quarter at most, and never over the budget
	} {
		pol := gsvWith(t, c.set)
		if pol.Mode != policy.BeforeCall {
			t.Fatalf("mode %s", pol.Mode)
		}
		limits := turns.Limits{ContextWindow: c.window}
		reported := view.Path{Limits: limits, Halves: []summary.HalfTurn{{Half: turns.ResponseHalf, Depth: 1}}}
		for _, over := range []uint64{0, 1} {
			if _, due := plan.Due(view.Path{Limits: limits}, pol, c.threshold+over); due != (over == 1) {
				t.Errorf("%s, window %d: an estimate of %d is due: %v", c.set, c.window, c.threshold+over, due)
			}
			if _, due := plan.Due(view.Path{Limits: limits, Overhead: 9000}, pol, c.threshold-9000+over); due != (over == 1) {
				t.Errorf("%s, window %d: system and tools do not count", c.set, c.window)
			}
			reported.Halves[0].Reported = c.threshold + over
			trigger, due := plan.Due(reported, pol, 10)
			if due != (over == 1) {
				t.Errorf("%s, window %d: %d reported is due: %v", c.set, c.window, c.threshold+over, due)
			}
			want := fmt.Sprintf(`{"tokens":10,"overhead":0,"reported":%d,"threshold":%d,"budget":%d}`, c.threshold+1, c.threshold, pol.Budget(limits))
			if due && (trigger.Kind != plan.TriggerThreshold || string(trigger.Detail) != want) {
				t.Errorf("trigger %s %s, want %s", trigger.Kind, trigger.Detail, want)
			}
		}
	}
}

// GSV-3: the newest keep_tokens stay, walking back, to the byte; everything before
// is summarized. A cut inside a tool call's pair moves back before the call.
func TestNewestKeepTokensStayVerbatim(t *testing.T) {
	moved := 0
	for keep := uint64(200); keep < 3000; keep += 37 {
		w := gsvSized(t, 12, 150)
		before := w.Path()
		want, sum := len(before.Halves), uint64(0)
		for want > 0 && sum+before.Halves[want-1].Tokens <= keep {
			want--
			sum += before.Halves[want].Tokens
		}
		if before.Halves[want].Half == turns.MessagesHalf && before.Halves[want].Messages[0].Role == turns.Tool {
			want-- // its call
			moved++
		}
		pl, err := w.compact(gsvWith(t, fmt.Sprintf(`{"keep_tokens":%d}`, keep)), plan.TriggerManual, plan.Options{})
		must(t, err)
		if len(pl.Covered) != want || len(pl.Reads) != want {
			t.Fatalf("keep %d: covers %d halves and reads %d, want %d", keep, len(pl.Covered), len(pl.Reads), want)
		}
		cx, err := view.Render(w.Path(), w.Path().Counter)
		must(t, err)
		var tail []turns.Message
		for _, h := range before.Halves[want:] {
			tail = append(tail, h.Messages...)
		}
		if d := cmp.Diff(string(jsonOf(t, tail)), string(jsonOf(t, cx.Messages[1:]))); d != "" {
			t.Fatalf("keep %d: the recent part (-said +shown):\n%s", keep, d)
		}
	}
	if moved == 0 {
		t.Error("no cut fell between a call and its result")
	}
}

func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	b, err := turns.EncodeJSON(v)
	must(t, err)
	return b
}

// GSV-7: the summary is one user message behind the design's line, first in the
// context; the next compaction takes its place.
func TestSummaryIsTheFirstUserMessage(t *testing.T) {
	w := gsvSized(t, 8, 100)
	pol := gsvWith(t, `{"keep_tokens":400}`)
	for round := range 3 {
		text := fmt.Sprintf("summary %d", round)
		pl, err := plan.New(w.Path(), pol, turns.Trigger{Kind: plan.TriggerManual}, plan.Options{})
		must(t, err)
		r, err := Run(t.Context(), pl, []Tier{{Name: "says", Summarizer: says100(text)}}, w.Path().Counter, nil)
		must(t, err)
		must(t, w.compaction(r))
		cx, err := view.Render(w.Path(), w.Path().Counter)
		must(t, err)
		want := turns.TextMessage(turns.User, "[Conversation summary from automatic context compaction]\n\n"+text)
		if d := cmp.Diff([]turns.Message{want}, r.Body.Replacement); d != "" {
			t.Errorf("replacement (-want +got):\n%s", d)
		}
		summaries := 0
		for i, m := range cx.Messages {
			if cx.Sources[cx.Origins[i]].Status == view.InSummary {
				summaries++
				if d := cmp.Diff(want, m); d != "" || i != 0 {
					t.Errorf("message %d (-want +got):\n%s", i, d)
				}
			}
		}
		if summaries != 1 || (round > 0 && pl.Previous != fmt.Sprintf("summary %d", round-1)) {
			t.Errorf("round %d: %d summaries, the one before was %q", round, summaries, pl.Previous)
		}
		for i := range 4 {
			id := fmt.Sprintf("r%d-%d", round, i)
			must(t, w.Turn(user("go on"), says("", id)))
			must(t, w.Turn([]turns.Message{tool(result(id, words(150)))}, says("done")))
		}
	}
}

// GSV-13, of every summarizer: the images of what is summarized are counted in
// the summary; the notice is the design's sentence alone.
func TestSummaryCountsImages(t *testing.T) {
	w := newWorld()
	w.Policy = builtin("gsv")
	image := turns.Part{Type: turns.Blob, Modality: "image", MimeType: "image/png", Data: []byte("\x89PNG")}
	for i := range 3 {
		ms := user(fmt.Sprintf("look at %d %s", i, words(400)))
		ms[0].Parts = append(ms[0].Parts, image)
		must(t, w.Turn(ms, says("seen")))
	}
	must(t, w.Turn(user(words(200)), says(words(200))))
	pl, err := plan.New(w.Path(), gsvWith(t, `{"keep_tokens":485}`), turns.Trigger{Kind: plan.TriggerManual}, plan.Options{})
	must(t, err)
	if len(pl.Covered) != 6 {
		t.Fatalf("covers %d halves", len(pl.Covered))
	}
	counted := "what was said\n\n" + summary.ImagesNote(3)
	for _, c := range []struct {
		what, text, want string
		local            bool
	}{
		{"a tier that does not count", "what was said", counted, true},
		{"a tier that counts", counted, counted, false},
	} {
		r, err := Run(t.Context(), pl, []Tier{{Name: "says", Summarizer: says100(c.text), Local: c.local}}, w.Path().Counter, nil)
		must(t, err)
		if r.Body.Summary != c.want {
			t.Errorf("%s: %q, want %q", c.what, r.Body.Summary, c.want)
		}
	}
	// There is room for the note, however long the summarizer writes.
	full := summarizerFunc(func(_ context.Context, in summary.Input) (summary.Output, error) {
		text := words(int(in.MaxTokens))
		for approx.Text(text) > in.MaxTokens {
			text = text[:len(text)-4]
		}
		return summary.Output{Text: text}, nil
	})
	r, err := Run(t.Context(), pl, []Tier{{Name: "full", Summarizer: full}}, w.Path().Counter, nil)
	must(t, err)
	if r.Body.Tier != "full" || !strings.HasSuffix(r.Body.Summary, summary.ImagesNote(3)) {
		t.Errorf("a full summary: tier %s, %v", r.Body.Tier, r.Tried)
	}
	r, err = Run(t.Context(), pl, nil, w.Path().Counter, nil)
	must(t, err)
	if want := "[Context contained 6 messages that were compacted. Summary unavailable due to size limits.]"; r.Body.Summary != want {
		t.Errorf("notice %q, want %q", r.Body.Summary, want)
	}
}
