package compactor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/interchange"
	"nexus/turns/interchange/strict"
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

// toolTurns appends n rounds of a tool loop: a call, its result of size
// characters, and no word of the user between.
func (w *world) toolTurns(t *testing.T, n, size int) {
	t.Helper()
	first := len(w.Halves) == 0
	for i := range n {
		id := fmt.Sprintf("c%d", int(w.Events)+1)
		if first && i == 0 {
			must(t, w.Turn(user("begin"), says("", id)))
		} else {
			last := w.Halves[len(w.Halves)-1].Messages[0].Calls(nil)
			must(t, w.Turn([]turns.Message{tool(result(last[0], fmt.Sprintf("%d ", w.Events)+strings.Repeat("r", size)))}, says("", id)))
		}
	}
}

// runes is n different characters of two to four bytes each.
func runes(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteRune([]rune{'à', '漢', '😀', 'Ж'}[i%4] + rune(i%40))
	}
	return b.String()
}

// behind is a context whose first message after the call is a result of the text
// given, behind n assistant messages.
func behind(t *testing.T, pol policy.Policy, n int, res turns.Part) view.Context {
	t.Helper()
	w := newWorld()
	w.Policy = pol
	must(t, w.Turn(user("look"), says("", res.ID)))
	must(t, w.Turn([]turns.Message{tool(res)}, nil))
	for i := range n {
		must(t, w.Turn(nil, says(fmt.Sprintf("answer %d", i))))
	}
	cx, err := view.Render(w.Path(), w.Path().Counter)
	must(t, err)
	return cx
}

func resultIn(t *testing.T, cx view.Context) turns.Part {
	t.Helper()
	for _, m := range cx.Messages {
		for _, p := range m.Parts {
			if p.Type == turns.ToolCallResponse {
				return p
			}
		}
	}
	t.Fatal("no result in the context")
	return turns.Part{}
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
		for _, text := range []string{strings.Repeat("x", n), runes(n)} {
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
func TestS8_3(t *testing.T) {
	w := spec008World(t)
	w.Limits.ContextWindow = 8000
	chars := 0
	for i := 0; ; i++ {
		if i == 100 {
			t.Fatal("never due")
		}
		w.toolTurns(t, 1, 5000)
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

// S8-4: a result older than 3 assistant turns and over 4,000 characters shows its
// first and last 1,500, and "..." between.
func TestS8_4(t *testing.T) {
	for _, c := range []struct {
		text    string
		trimmed bool
	}{
		{strings.Repeat("a", 4000), false},
		{strings.Repeat("a", 2000) + "|" + strings.Repeat("b", 2000), true},
		{runes(4000), false},
		{runes(4001), true},
		{"<|>" + runes(90_000) + "<|>", true},
	} {
		for n := range 10 {
			cx := behind(t, spec008(t, `{}`), n, result("c", c.text))
			want, status := c.text, view.Verbatim
			if c.trimmed && n >= 3 {
				r := []rune(c.text)
				want, status = string(r[:1500])+"..."+string(r[len(r)-1500:]), view.Trimmed
			}
			got := resultIn(t, cx)
			if s, _ := got.Response.Text(); s != want || got.ID != "c" {
				t.Errorf("%d characters behind %d assistant messages: %d characters are shown, want %d", len([]rune(c.text)), n, len([]rune(s)), len([]rune(want)))
			}
			if s := cx.Sources[2].Status; s != status {
				t.Errorf("behind %d assistant messages: status %s, want %s", n, s, status)
			}
		}
	}
}

// S8-5: a result older than 10 assistant turns becomes "[Tool result cleared]";
// an error stays one. One that is no longer than those words stays: in place of
// it they would take room, where pruning is there to make some.
func TestS8_5(t *testing.T) {
	const shortResult = "a result of some words, or a few lines"
	for _, c := range []struct {
		set    string
		behind int
		want   string
	}{
		{`{}`, 9, shortResult},
		{`{}`, 10, "[Tool result cleared]"},
		{`{}`, 40, "[Tool result cleared]"},
		{`{"prune":{"clear_after_assistants":4}}`, 3, shortResult},
		{`{"prune":{"clear_after_assistants":4}}`, 4, "[Tool result cleared]"},
		{`{"prune":{"clear_after_assistants":0}}`, 40, shortResult},
		{`{"prune":{"clear_mark":"[gone]"}}`, 10, "[gone]"},
		{`{"prune":{"when":""}}`, 40, shortResult},
	} {
		r := result("c", shortResult)
		r.IsError = true
		cx := behind(t, spec008(t, c.set), c.behind, r)
		got := resultIn(t, cx)
		if s, _ := got.Response.Text(); s != c.want || !got.IsError || got.ID != "c" {
			t.Errorf("%s, behind %d: %q, want %q", c.set, c.behind, s, c.want)
		}
		if cleared := cx.Sources[2].Status == view.Cleared; cleared != (c.want != shortResult) {
			t.Errorf("%s, behind %d: status %s", c.set, c.behind, cx.Sources[2].Status)
		}
	}
	if got := resultIn(t, behind(t, spec008(t, `{}`), 40, result("c", "ok"))); string(got.Response) != `"ok"` {
		t.Errorf("a short result became %s", got.Response)
	}
}

func TestPrunePreservesRecentToolResults(t *testing.T) {
	w := spec008World(t)
	w.toolTurns(t, 30, 5000)
	cx, err := view.Render(w.Path(), w.Path().Counter)
	must(t, err)
	whole := 0
	for i := len(cx.Messages) - 1; i > len(cx.Messages)-7; i-- { // the newest three rounds
		if m := cx.Messages[i]; m.Role == turns.Tool && m.Parts[0].ID != w.Halves[len(w.Halves)-1].Messages[0].Calls(nil)[0] {
			if s, _ := m.Parts[0].Response.Text(); len(s) < 5000 {
				t.Errorf("message %d has %d characters", i, len(s))
			}
			whole++
		}
	}
	if whole != 2 { // the third waits for its response
		t.Errorf("%d recent results", whole)
	}
}

func TestPruneSoftTrimsOversizedOldResults(t *testing.T) {
	got := resultIn(t, behind(t, spec008(t, `{}`), 3, result("c", strings.Repeat("a", 9000))))
	if s, _ := got.Response.Text(); len(s) != 1500+3+1500 {
		t.Errorf("%d characters", len(s))
	}
}

func TestPruneHardClearsVeryOldResults(t *testing.T) {
	got := resultIn(t, behind(t, spec008(t, `{}`), 10, result("c", strings.Repeat("a", 9000))))
	if s, _ := got.Response.Text(); s != "[Tool result cleared]" {
		t.Errorf("%q", s)
	}
}

// unpruned is the same path with no view.
func unpruned(p view.Path) view.Path {
	p.View = policy.Prune{}
	return p
}

// onlyResults checks that a pruned context differs from the whole one in results
// of tools alone.
func onlyResults(whole, pruned []turns.Message) error {
	if len(whole) != len(pruned) {
		return fmt.Errorf("%d messages became %d", len(whole), len(pruned))
	}
	for i := range whole {
		a, b := whole[i], pruned[i]
		if a.Role != b.Role || a.Name != b.Name || len(a.Parts) != len(b.Parts) {
			return fmt.Errorf("message %d by %s became one by %s", i, a.Role, b.Role)
		}
		for j := range a.Parts {
			p, q := a.Parts[j], b.Parts[j]
			const late = "[Late: the result of tool call "
			switch {
			case p.Type == turns.ToolCallResponse:
				p.Response, q.Response = nil, nil
			case strings.HasPrefix(p.Content, late) && strings.HasPrefix(q.Content, late): // a result too
				p.Content, q.Content = "", ""
			}
			if d := cmp.Diff(p, q); d != "" {
				return fmt.Errorf("message %d by %s, part %d (-whole +pruned):\n%s", i, a.Role, j, d)
			}
		}
	}
	return nil
}

// S8-7: pruning never changes a message of a user or of the assistant, a call, or
// anything that is stored; pairs stay, and no context grows.
func TestS8_7(t *testing.T) {
	shortened := 0
	rapid.Check(t, func(t *rapid.T) {
		pol, _ := policy.Builtin("spec-008")
		g := &grower{world: newWorld()}
		g.Policy = pol
		for range rapid.IntRange(1, 40).Draw(t, "turns") {
			g.grow(t, 2000)
		}
		p := g.Path()
		stored := fmt.Sprint(p.Halves)
		whole, err := view.Render(unpruned(p), p.Counter)
		if err != nil {
			t.Fatal(err)
		}
		pruned, err := view.Render(p, p.Counter)
		if err != nil {
			t.Fatal(err)
		}
		if err := onlyResults(whole.Messages, pruned.Messages); err != nil {
			t.Fatal(err)
		}
		if err := checkPairs(pruned.Messages); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(g.Path().Halves) != stored || p.Tokens() != unpruned(p).Tokens() {
			t.Fatal("what is stored was changed")
		}
		if pruned.Tokens < whole.Tokens {
			shortened++
		}
	})
	if shortened == 0 {
		t.Error("nothing was ever pruned")
	}
}

func TestPruneNeverModifiesUserMessages(t *testing.T) { pruneLeaves(t, turns.User) }

func TestPruneNeverModifiesAssistantMessages(t *testing.T) { pruneLeaves(t, turns.Assistant) }

func pruneLeaves(t *testing.T, role turns.Role) {
	t.Helper()
	w := spec008World(t)
	for i := range 20 {
		id := fmt.Sprintf("c%d", i)
		must(t, w.Turn(user(fmt.Sprint("U", i, strings.Repeat("u", 9000))), says(fmt.Sprint("A", i, strings.Repeat("a", 9000)), id)))
		must(t, w.Turn([]turns.Message{tool(result(id, strings.Repeat("r", 9000)))}, says("done "+strings.Repeat("d", 9000))))
	}
	whole, err := view.Render(unpruned(w.Path()), approx)
	must(t, err)
	pruned, err := view.Render(w.Path(), approx)
	must(t, err)
	n := 0
	for i := range whole.Messages {
		if whole.Messages[i].Role == role {
			n++
			if d := cmp.Diff(whole.Messages[i], pruned.Messages[i]); d != "" {
				t.Errorf("message %d (-whole +pruned):\n%s", i, d)
			}
		}
	}
	if n < 20 || pruned.Tokens > whole.Tokens*5/6 {
		t.Errorf("%d messages by %s; %d of %d tokens are left", n, role, pruned.Tokens, whole.Tokens)
	}
}

// Text beside an image in a result is pruned, the image is not: it reaches the
// provider as the image that it was.
func TestPruneSkipsImageContentBlocks(t *testing.T) {
	image := turns.Part{Type: turns.Blob, Modality: "image", MimeType: "image/png", Data: []byte("\x89PNG" + strings.Repeat("p", 9000))}
	with := func(parts ...turns.Part) turns.Part {
		return turns.Part{Type: turns.ToolCallResponse, ID: "c", Name: "see", Response: jsonOf(t, parts)}
	}
	long := strings.Repeat("x", 9000)
	for _, c := range []struct {
		behind int
		text   string
	}{{2, long}, {3, long[:1500] + "..." + long[:1500]}, {10, "[Tool result cleared]"}} {
		cx := behind(t, spec008(t, `{}`), c.behind, with(turns.TextPart(long), image))
		if d := cmp.Diff(string(with(turns.TextPart(c.text), image).Response), string(resultIn(t, cx).Response)); d != "" {
			t.Fatalf("behind %d (-want +got):\n%s", c.behind, d)
		}
		r, err := interchange.Anthropic(nil, nil, cx.Messages)
		must(t, err)
		if b := string(jsonOf(t, r.Messages)); !strings.Contains(b, `"type":"image"`) || !strings.Contains(b, c.text) {
			t.Errorf("behind %d: the provider sees %.300s", c.behind, b)
		}
		messagesOnly := with(image)
		if got := resultIn(t, behind(t, spec008(t, `{}`), c.behind, messagesOnly)); string(got.Response) != string(messagesOnly.Response) {
			t.Errorf("behind %d: an image alone became %.100s", c.behind, got.Response)
		}
	}
}

// S8-13: due over context_window − reserve_tokens.
func TestS8_13(t *testing.T) {
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

// answered is a world of n turns, each a question and its answer.
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
func TestS8_14(t *testing.T) {
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
func TestS8_17(t *testing.T) {
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
	w.toolTurns(t, 20, 300)
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
func TestS8_23(t *testing.T) {
	broken := 0
	for n := 8; n < 40; n++ {
		for answers := range 3 {
			w := spec008World(t)
			w.toolTurns(t, n, 200)
			last := w.Halves[len(w.Halves)-1].Messages[0].Calls(nil)
			must(t, w.Turn([]turns.Message{tool(result(last[0], "end"))}, says("done")))
			for i := range answers {
				must(t, w.Turn(user(fmt.Sprint("and ", i)), says("yes", fmt.Sprint("a", i), fmt.Sprint("b", i))))
				must(t, w.Turn([]turns.Message{tool(result(fmt.Sprint("a", i), "1")), tool(result(fmt.Sprint("b", i), "2"))}, says("good")))
			}
			whole, err := view.Render(unpruned(w.Path()), approx)
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

// strictly is all providers' rules for a request.
func strictly(ms []turns.Message) error {
	for _, f := range []struct {
		render func([]turns.Section, []turns.Raw, []turns.Message) (interchange.Rendered, error)
		check  func(system, messages []byte) error
	}{
		{interchange.Anthropic, func(system, ms []byte) error { return strict.Anthropic(system, ms) }},
		{interchange.OpenAI, func(_, ms []byte) error { return strict.OpenAI(ms) }},
		{interchange.Gemini, func(system, ms []byte) error { return strict.Gemini(system, ms, strict.Thinking) }},
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
func TestS8_25(t *testing.T) {
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
