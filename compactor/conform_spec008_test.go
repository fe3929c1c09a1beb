package compactor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/compactortest"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/render"

	"nexus/turns/render/strict"
	"nexus/turns/tokens"
)

// The rows of SPEC-008 that are planning and rendering, and the tests that its
// Testing Requirements name. S8-18 is in package llm; what a session does is in
// the engine.

func spec008(t *testing.T, set string) policy.Policy {
	t.Helper()
	pol, err := builtin("spec-008").With(turns.Raw(set))
	must(t, err)
	return pol
}

func spec008World(t *testing.T) *world {
	t.Helper()
	w := newWorld()
	w.Policy = spec008(t, `{}`)
	return w
}

func TestEstimateTokensEmptyMessages(t *testing.T) {
	c := builtin("spec-008").CounterOf()
	if n := tokens.Messages(c, nil) + tokens.Messages(c, []turns.Message{{Role: turns.User}, turns.TextMessage(turns.User, "")}); n != 0 {
		t.Errorf("%d tokens of nothing", n)
	}
}

// A quarter of the characters, whatever they are.
func TestEstimateTokensProportionalToContent(t *testing.T) {
	c := builtin("spec-008").CounterOf()
	for _, n := range []int{4, 400, 4000, 40_000} {
		for _, text := range []string{strings.Repeat("x", n), compactortest.Runes(n)} {
			m := turns.TextMessage(turns.User, text)
			if got := c.Message(&m); got != uint64(n/4) {
				t.Errorf("%d characters are %d tokens", n, got)
			}
		}
	}
}

func shouldCompact(t *testing.T, n uint64) bool {
	t.Helper()
	_, due := plan.Due(view.Path{}, spec008(t, `{}`), n)
	return due
}

func TestShouldCompactBelowThresholdReturnsFalse(t *testing.T) {
	for _, n := range []uint64{1, 100_000, 179_999, 180_000} {
		if shouldCompact(t, n) {
			t.Errorf("%d tokens are due", n)
		}
	}
}

func TestShouldCompactAboveThresholdReturnsTrue(t *testing.T) {
	for _, n := range []uint64{180_001, 200_000, 1_000_000} {
		if !shouldCompact(t, n) {
			t.Errorf("%d tokens are not due", n)
		}
	}
}

// S8-3: the check goes by the estimate of the payload, and the trigger says it.
// What pruning hides counts: it is a view.
func TestDueByEstimateOfThePayload(t *testing.T) {
	w := spec008World(t)
	w.Limits.ContextWindow = 8000
	chars := 0
	for i := 0; ; i++ {
		if i == 100 {
			t.Fatal("never due")
		}
		w.ToolTurns(t, 1, 5000)
		p := w.Path()
		total := uint64(0)
		for _, h := range p.Halves {
			for _, m := range h.Messages {
				chars = 0
				for _, q := range m.Parts {
					chars += len(q.Content) + len(q.ID) + len(q.Name) + len(q.Arguments) + len(q.Response)
				}
				total += uint64(chars+3) / 4
			}
		}
		cx, err := view.Render(p, p.Counter)
		must(t, err)
		if i > 4 && cx.Tokens >= total {
			t.Fatalf("pruning hides nothing: %d of %d tokens", cx.Tokens, total)
		}
		trigger, due := plan.Due(p, w.Policy, cx.Tokens)
		if due != (total > 5840) { // the budget: a quarter for the answer, a fiftieth as margin
			t.Fatalf("%d tokens are due: %v", total, due)
		}
		if due {
			if want := fmt.Sprintf(`{"tokens":%d,"overhead":0,"threshold":5840,"budget":5840}`, total); string(trigger.Detail) != want {
				t.Errorf("trigger %s, want %s", trigger.Detail, want)
			}
			return
		}
	}
}

// S8-13: due over context_window − reserve_tokens.
func TestSpec008IsDueOverWindowLessReserve(t *testing.T) {
	for _, c := range []struct {
		set               string
		window, threshold uint64
	}{
		{`{}`, 0, 180_000}, {`{}`, 128_000, 108_000}, {`{}`, 1_000_000, 980_000},
		{`{"reserve_tokens":40000}`, 200_000, 160_000}, {`{"context_window":300000}`, 0, 280_000},
	} {
		p := view.Path{Limits: turns.Limits{ContextWindow: c.window}}
		for over := range uint64(2) {
			trigger, due := plan.Due(p, spec008(t, c.set), c.threshold+over)
			if due != (over == 1) || (due && trigger.Kind != plan.TriggerThreshold) {
				t.Errorf("%s, window %d: %d tokens are due: %v, by %q", c.set, c.window, c.threshold+over, due, trigger.Kind)
			}
		}
	}
}

// answered returns a world of n turns, each a question and its answer.
func answered(t *testing.T, n, size int) *world {
	t.Helper()
	w := spec008World(t)
	for i := range n {
		must(t, w.Turn(user(fmt.Sprintf("question %d %s", i, words(size))), says(fmt.Sprintf("answer %d %s", i, words(size)))))
	}
	return w
}

// compactBy commits a compaction whose summary says text, and returns what the
// summarizer was given.
func (w *world) compactBy(t *testing.T, pol policy.Policy, text string) (summary.Input, *plan.Plan) {
	t.Helper()
	pl, err := plan.New(w.Path(), pol, turns.Trigger{Kind: plan.TriggerThreshold}, plan.Options{})
	must(t, err)
	var seen summary.Input
	r, err := Run(t.Context(), pl, []Tier{{Name: "scripted", Summarizer: summarizerFunc(func(_ context.Context, in summary.Input) (summary.Output, error) {
		seen = in
		return summary.Output{Text: text}, nil
	})}}, pl.Path.Counter, nil)
	must(t, err)
	must(t, w.compaction(r))
	return seen, pl
}

// S8-14: the older messages become one system message, by the design's prompt.
func TestOlderMessagesBecomeOneSystemMessage(t *testing.T) {
	w := answered(t, 12, 100)
	in, pl := w.compactBy(t, w.Policy, "Everything is decided.")
	want := turns.TextMessage(turns.System, "[Session compacted. Summary of prior conversation:]\n\nEverything is decided.")
	cx, err := view.Render(w.Path(), approx)
	must(t, err)
	if d := cmp.Diff(want, cx.Messages[0]); d != "" || len(cx.Messages) != 1+10 {
		t.Errorf("%d messages (-want +got):\n%s", len(cx.Messages), d)
	}
	prompt, err := os.ReadFile("testdata/txt1/spec-008.txt")
	must(t, err)
	if !strings.HasPrefix(summary.Prompt(in), string(prompt)) {
		t.Errorf("the summarizer is asked %q", summary.Prompt(in))
	}
	if len(in.Halves) != 14 || len(pl.Covered) != 14 {
		t.Errorf("it reads %d halves, %d are covered", len(in.Halves), len(pl.Covered))
	}
	// The next summary takes in this one, and takes its place.
	for range 7 {
		must(t, w.Turn(user(words(100)), says(words(100))))
	}
	in, _ = w.compactBy(t, w.Policy, "And more.")
	cx, err = view.Render(w.Path(), approx)
	must(t, err)
	if in.Previous != "Everything is decided." || cx.Messages[0].Parts[0].Content != "[Session compacted. Summary of prior conversation:]\n\nAnd more." || cx.Messages[1].Role != turns.User {
		t.Errorf("the second one was given %q; %+v", in.Previous, cx.Messages[:2])
	}
}

// S8-17: the newest five assistant turns, with what was sent for them, stay to the
// byte; the number is a setting.
func TestNewestFiveTurnsStay(t *testing.T) {
	for _, c := range []struct {
		set  string
		keep int
	}{{`{}`, 5}, {`{"keep_turns":1}`, 1}, {`{"keep_turns":9}`, 9}} {
		for n := c.keep + 1; n < 20; n++ {
			w := answered(t, n, 60+n)
			before := w.Path()
			_, pl := w.compactBy(t, spec008(t, c.set), "s")
			if len(pl.Kept) != 2*c.keep {
				t.Fatalf("%s: of %d turns %d halves stay", c.set, n, len(pl.Kept))
			}
			cx, err := view.Render(w.Path(), approx)
			must(t, err)
			var want []turns.Message
			for _, h := range before.Halves[2*(n-c.keep):] {
				want = append(want, h.Messages...)
			}
			if d := cmp.Diff(string(jsonOf(t, want)), string(jsonOf(t, cx.Messages[1:]))); d != "" {
				t.Fatalf("%s: of %d turns (-said +shown):\n%s", c.set, n, d)
			}
		}
	}
	// In a tool loop an assistant turn is a call; its result is sent for the next one.
	w := spec008World(t)
	w.ToolTurns(t, 20, 300)
	_, pl := w.compactBy(t, w.Policy, "s")
	responses := 0
	for _, h := range pl.Kept {
		if h.Half == turns.ResponseHalf {
			responses++
		}
	}
	if responses < 5 || responses > 6 {
		t.Errorf("%d responses of a loop stay", responses)
	}
}

func TestCompactPreservesRecentMessages(t *testing.T) {
	w := answered(t, 12, 100)
	w.compactBy(t, w.Policy, "s")
	cx, err := view.Render(w.Path(), approx)
	must(t, err)
	for i, m := range cx.Messages[1:] {
		if want := fmt.Sprintf("%s %d ", []string{"question", "answer"}[i%2], 7+i/2); !strings.HasPrefix(m.Parts[0].Content, want) {
			t.Errorf("message %d begins with %.20q, want %q", i+1, m.Parts[0].Content, want)
		}
	}
}

func TestCompactSummarizesOldMessages(t *testing.T) {
	w := answered(t, 12, 100)
	in, _ := w.compactBy(t, w.Policy, "s")
	text := summary.Transcript(in)
	for i := range 12 {
		if got := strings.Contains(text, fmt.Sprintf("question %d ", i)) && strings.Contains(text, fmt.Sprintf("answer %d ", i)); got != (i < 7) {
			t.Errorf("turn %d is summarized: %v", i, got)
		}
	}
}

// TestCompactUsesHaikuModel is in package llm.

func TestCompactNoopWhenFewMessages(t *testing.T) {
	for n := range 6 {
		w := answered(t, n, 100)
		for _, kind := range []string{plan.TriggerThreshold, plan.TriggerManual} {
			if _, err := plan.New(w.Path(), w.Policy, turns.Trigger{Kind: kind}, plan.Options{}); !errors.Is(err, plan.ErrNothing) {
				t.Errorf("%d turns, %s: %v, want %v", n, kind, err, plan.ErrNothing)
			}
		}
	}
}

// S8-23: the design keeps the last ten messages, and so parts calls from their
// results; ours moves back to a cut that parts none.
func TestCutPartsNoCallFromItsResult(t *testing.T) {
	broken := 0
	for n := 8; n < 40; n++ {
		for answers := range 3 {
			w := spec008World(t)
			w.ToolTurns(t, n, 200)
			last := w.Halves[len(w.Halves)-1].Messages[0].Calls(nil)
			must(t, w.Turn([]turns.Message{tool(result(last[0], "end"))}, says("done")))
			for i := range answers {
				must(t, w.Turn(user(fmt.Sprint("and ", i)), says("yes", fmt.Sprint("a", i), fmt.Sprint("b", i))))
				must(t, w.Turn([]turns.Message{tool(result(fmt.Sprint("a", i), "1")), tool(result(fmt.Sprint("b", i), "2"))}, says("good")))
			}
			p := w.Path()
			p.View = policy.Prune{}
			whole, err := view.Render(p, approx)
			must(t, err)
			if checkPairs(whole.Messages[len(whole.Messages)-10:]) != nil {
				broken++
			}
			_, pl := w.compactBy(t, w.Policy, "s")
			cx, err := view.Render(w.Path(), approx)
			must(t, err)
			must(t, checkPairs(cx.Messages))
			must(t, strictly(cx.Messages))
			kept := whole.Messages[len(whole.Messages)-len(cx.Messages)+1:]
			if d := cmp.Diff(string(jsonOf(t, kept)), string(jsonOf(t, cx.Messages[1:]))); d != "" {
				t.Fatalf("%d rounds, %d answers (-said +shown):\n%s", n, answers, d)
			}
			responses := 0
			for _, h := range pl.Kept {
				if h.Half == turns.ResponseHalf {
					responses++
				}
			}
			if responses < 5 || responses > 6 {
				t.Errorf("%d rounds, %d answers: %d responses stay", n, answers, responses)
			}
			for _, s := range cx.Sources {
				if s.Status == view.Synthetic {
					t.Errorf("%d rounds, %d answers: a call lost its result", n, answers)
				}
			}
		}
	}
	if broken == 0 {
		t.Error("the design's cut broke no pair: this test says nothing")
	}
}

// strictly returns all providers' rules for a request.
func strictly(ms []turns.Message) error {
	for _, f := range []struct {
		render func([]turns.Section, []turns.Raw, []turns.Message) (render.Rendered, error)
		check  func(system, messages []byte) error
	}{
		{render.Anthropic, func(system, ms []byte) error { return strict.Anthropic(system, ms) }},
		{render.OpenAI, func(_, ms []byte) error { return strict.OpenAI(ms) }},
		{render.Gemini, func(system, ms []byte) error { return strict.Gemini(system, ms, strict.Thinking) }},
	} {
		r, err := f.render(nil, nil, ms)
		if err != nil {
			return err
		}
		b, err := turns.EncodeJSON(r.Messages)
		if err != nil {
			return err
		}
		if err := f.check(r.System, b); err != nil {
			return err
		}
	}
	return nil
}

// S8-25: the design's configuration defaults, each of them a setting.
func TestDefaultsAreTheDesigns(t *testing.T) {
	p := builtin("spec-008")
	got := map[string]any{
		"context_window": p.ContextWindow, "reserve_tokens": p.ReserveTokens, "keep_recent_turns": p.KeepTurns,
		"prune_keep_last_assistants": p.Prune.KeepAssistants, "prune_soft_trim_chars": p.Prune.SoftTrimChars,
		"head_chars": p.Prune.HeadChars, "tail_chars": p.Prune.TailChars, "compaction_model": p.SummaryModel,
	}
	want := map[string]any{
		"context_window": uint64(200_000), "reserve_tokens": uint64(20_000), "keep_recent_turns": uint64(5),
		"prune_keep_last_assistants": uint64(3), "prune_soft_trim_chars": uint64(4_000),
		"head_chars": uint64(1_500), "tail_chars": uint64(1_500), "compaction_model": "claude-haiku-4-5-20251001",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-seed +ours):\n%s", d)
	}
	set := spec008(t, `{"context_window":100000,"reserve_tokens":1,"keep_turns":2,"summary_model":"m","prune":{"keep_last_assistants":4,"soft_trim_chars":50,"head_chars":6,"tail_chars":7}}`)
	p.ContextWindow, p.ReserveTokens, p.KeepTurns, p.SummaryModel = 100_000, 1, 2, "m"
	p.Prune.KeepAssistants, p.Prune.SoftTrimChars, p.Prune.HeadChars, p.Prune.TailChars = 4, 50, 6, 7
	if d := cmp.Diff(p, set); d != "" {
		t.Errorf("settings (-want +got):\n%s", d)
	}
}
