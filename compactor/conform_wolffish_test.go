package compactor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/compactortest"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/lineage"
	"nexus/turns"
)

// Rows WOL-1 to WOL-10, 15 and 19: what the Wolffish design promises of a policy.
// What needs a session is in cmd/internal/engine/conform_test.go, the split
// of long summaries and the tries of one request in compactor/llm.

// wolffishWorld returns a world under the policy, in a window of so many tokens.
func wolffishWorld(t *testing.T, window uint64) *world {
	w := newWorld()
	w.Policy = builtin("wolffish")
	w.Limits.ContextWindow = window
	return w
}

// lines is text of n characters, each line its own.
func lines(name string, n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%s line %d\n", name, i)
	}
	return b.String()[:n]
}

// read is a turn in which the agent calls a tool for each text, and the turn of
// the results.
func (w *world) read(t *testing.T, texts ...string) {
	t.Helper()
	var ids []string
	var results []turns.Message
	for i, text := range texts {
		id := fmt.Sprintf("c%d.%d", w.Events, i)
		ids = append(ids, id)
		results = append(results, tool(result(id, text)))
	}
	must(t, w.Turn(nil, says("", ids...)))
	must(t, w.Turn(results, nil))
}

// scribe is a summarizer that answers with text, and keeps what it was given.
type scribe struct {
	text string
	in   []summary.Input
}

func (s *scribe) Summarize(_ context.Context, in summary.Input) (summary.Output, error) {
	s.in = append(s.in, in)
	if s.text == "" {
		return summary.Output{}, errors.New("no model answers")
	}
	return summary.Output{Text: s.text}, nil
}

// pass plans by w's policy, has s summarize, and commits.
func (w *world) pass(t *testing.T, kind string, s summary.Summarizer) (*plan.Plan, Result) {
	t.Helper()
	pl, err := plan.New(w.Path(), w.Policy, turns.Trigger{Kind: kind}, plan.Options{})
	must(t, err)
	r, err := Run(t.Context(), pl, []Tier{{Name: "scribe", Summarizer: s}}, pl.Path.Counter, nil)
	must(t, err)
	must(t, w.compaction(r))
	return pl, r
}

// context returns what the next call is made with; its pairs are whole.
func (w *world) context(t *testing.T) view.Context {
	t.Helper()
	p := w.Path()
	cx, err := view.Render(p, p.Counter)
	must(t, err)
	if err := checkPairs(cx.Messages); err != nil {
		t.Errorf("%v in\n%s", err, compactortest.Show(cx))
	}
	return cx
}

// toolTexts are the results of tools in a context, in order.
func toolTexts(cx view.Context) (out []string) {
	for _, m := range cx.Messages {
		for _, p := range m.Parts {
			if p.Type == turns.ToolCallResponse {
				out = append(out, summary.ResultText(&p))
			}
		}
	}
	return out
}

// WOL-1: a token is 1.5 characters; over 75 % of the budget a context is due,
// system and tools included, and a pass brings it to 50 % or less.
func TestPassBringsAContextOver75PercentTo50(t *testing.T) {
	w := wolffishWorld(t, 100_000)
	pol := w.Policy
	for text, want := range map[string]uint64{strings.Repeat("x", 1500): 1000, strings.Repeat("é", 1500): 1000, strings.Repeat("🐺", 750): 1000} {
		if got := pol.CounterOf().Text(text); got != want {
			t.Errorf("%d tokens for %d bytes of %.4s, want %d", got, len(text), text, want)
		}
	}
	for _, c := range []struct {
		overhead, tokens uint64
		due              bool
	}{{0, 75_000, false}, {0, 75_001, true}, {26_000, 49_000, false}, {26_000, 49_001, true}} {
		p := view.Path{Overhead: c.overhead, Limits: w.Limits}
		trigger, due := plan.Due(p, pol, c.tokens)
		if due != c.due || due && trigger.Kind != plan.TriggerThreshold {
			t.Errorf("%d tokens and %d of overhead: due %v by %q, want %v", c.tokens, c.overhead, due, trigger.Kind, c.due)
		}
	}
	must(t, w.Turn(user("read them all"), nil))
	for i := range 12 {
		w.read(t, lines(fmt.Sprint("page ", i), 9_600))
	}
	before := w.context(t)
	if _, due := plan.Due(w.Path(), pol, before.Tokens); !due {
		t.Fatalf("%d tokens are not due", before.Tokens)
	}
	pl, _ := w.pass(t, plan.TriggerThreshold, &scribe{text: "TASK: read"})
	after := w.context(t)
	if after.Tokens > 50_000 {
		t.Errorf("%d tokens after the pass, want at most half of the budget", after.Tokens)
	}
	if n := pl.Targets(); n < 3 || n > 8 { // of nine that may be: 31,000 of 77,000 tokens have to go, 4,800 a target
		t.Errorf("%d targets, want as many as the excess takes and no more", n)
	}
}

// WOL-2: the higher of the estimate and the last reported input tokens counts;
// a report is valid for the context that it was made on, plus what came since.
func TestHigherOfEstimateAndReportCounts(t *testing.T) {
	w := wolffishWorld(t, 100_000)
	for _, c := range []struct {
		estimate, reported uint64
		due                bool
	}{{50_000, 0, false}, {50_000, 75_000, false}, {50_000, 75_001, true}, {75_001, 10, true}} {
		trigger, due := plan.DueAt(view.Path{Limits: w.Limits}, w.Policy, view.Load{Tokens: c.estimate, Reported: c.reported})
		if due != c.due {
			t.Errorf("estimate %d, reported %d: due %v, want %v", c.estimate, c.reported, due, c.due)
		}
		if due && c.reported > c.estimate && !strings.Contains(string(trigger.Detail), `"reported":75001`) {
			t.Errorf("the decision does not say what was reported: %s", trigger.Detail)
		}
	}
	must(t, w.Turn(user("read them all"), nil))
	for i := range 8 {
		w.read(t, lines(fmt.Sprint("page ", i), 4_500))
	}
	must(t, w.Turn(nil, says("so far")))
	w.Halves[len(w.Halves)-1].Reported = 76_000 // three times the estimate
	w.read(t, lines("one more", 1_500))
	p := w.Path()
	since := p.Halves[len(p.Halves)-1].Tokens + p.Halves[len(p.Halves)-2].Tokens + p.Halves[len(p.Halves)-3].Tokens
	if got := p.ReportedTokens(); got != 76_000+since || since < 1_000 {
		t.Errorf("reported %d, want 76000 and the estimate of what came since, %d", got, since)
	}
	cx := w.context(t)
	if _, due := plan.Due(p, w.Policy, cx.Tokens); !due || cx.Tokens > 50_000 {
		t.Errorf("due %v at an estimate of %d tokens, a provider reports 76000", due, cx.Tokens)
	}
	w.pass(t, plan.TriggerOverflow, &scribe{text: "TASK: read"})
	if got := w.Path().ReportedTokens(); got != 0 {
		t.Errorf("after a compaction %d tokens are reported, of another context", got)
	}
}

// WOL-3: an overflow has the largest messages shortened below any threshold.
// That every provider's error is known is TestReadRealProviderErrors; what comes
// back to retry with is in the engine's test of this row.
func TestOverflowShortensTheLargestMessages(t *testing.T) {
	w := wolffishWorld(t, 100_000)
	must(t, w.Turn(user("read them all"), nil))
	sizes := []int{12_000, 15_000, 10_000, 14_000, 700, 600, 1_000, 1_000, 1_000}
	for i, n := range sizes {
		w.read(t, lines(fmt.Sprint("page ", i), n))
	}
	before := w.context(t)
	if _, due := plan.Due(w.Path(), w.Policy, before.Tokens); due {
		t.Fatal("due: the test is of a context that is not")
	}
	pl, err := plan.New(w.Path(), w.Policy, turns.Trigger{Kind: plan.TriggerOverflow}, plan.Options{Budget: before.Tokens * 3 / 4})
	must(t, err)
	var got []int
	for at := range pl.Shortens {
		got = append(got, len(summary.ResultText(pl.Path.Part(at))))
	}
	slices.Sort(got)
	if want := []int{10_000, 12_000, 14_000, 15_000}; !slices.Equal(got, want) || pl.TokensAfter() > before.Tokens*3/4 {
		t.Errorf("shortened are results of %v characters, to %d tokens; want the largest, %v", got, pl.TokensAfter(), want)
	}
}

// choice returns the path of WOL-4 and WOL-5, and what may be shortened in the order
// of the design: the largest results, the oldest texts of the assistant, those of
// the user. Everything else is protected.
func choice(t *testing.T) (w *world, order []view.PartAt) {
	w = wolffishWorld(t, 0)
	name := map[string]int{}
	result := func(name string, n int, failed bool) turns.Part {
		p := result("call "+name, lines(name, n))
		p.IsError = failed
		return p
	}
	sent := func(user string, size int, results ...turns.Part) {
		var ms []turns.Message
		for _, r := range results {
			ms = append(ms, tool(r))
		}
		if user != "" {
			ms = append(ms, turns.TextMessage(turns.User, lines(user, size)))
		}
		must(t, w.Turn(ms, nil))
		name[user] = len(w.Halves) - 1
		for _, r := range results {
			name[strings.TrimPrefix(r.ID, "call ")] = len(w.Halves) - 1
		}
	}
	respond := func(text string, size int, calls ...string) {
		for i := range calls {
			calls[i] = "call " + calls[i]
		}
		must(t, w.Turn(nil, says(lines(text, size), calls...)))
		name[text] = len(w.Halves) - 1
	}
	sent("task", 5_000)
	respond("a1", 900, "r1", "r2", "failed", "small")
	sent("u1", 800, result("r1", 3_000, false), result("r2", 9_000, false), result("failed", 20_000, true), result("small", 499, false))
	respond("a2", 4_000, "r3", "r4")
	sent("u2", 6_000, result("r3", 500, false), result("r4", 30_000, false))
	respond("a3", 499)
	sent("u3", 499)
	respond("a4", 700, "late1", "late2", "late3")
	sent("u4", 7_000, result("late1", 50_000, false), result("late2", 600, false), result("late3", 700, false))
	respond("a5", 5_000)
	sent("u5", 700)
	respond("a6", 5_000)
	sent("u6", 700)
	part := map[string]view.PartAt{
		"r1": {Half: name["r1"], Message: 0, Part: 0}, "r2": {Half: name["r2"], Message: 1, Part: 0}, "r3": {Half: name["r3"], Message: 0, Part: 0}, "r4": {Half: name["r4"], Message: 1, Part: 0},
		"a1": {Half: name["a1"], Message: 0, Part: 0}, "a2": {Half: name["a2"], Message: 0, Part: 0}, "u1": {Half: name["u1"], Message: 4, Part: 0}, "u2": {Half: name["u2"], Message: 2, Part: 0},
	}
	for _, n := range []string{"r4", "r2", "r1", "r3", "a1", "a2", "u1", "u2"} {
		order = append(order, part[n])
	}
	return w, order
}

// WOL-4: passes over results, assistants and users in the design's order, greedy
// until projected savings cover the excess; the constants of its table.
func TestPassesFollowTheDesignsOrder(t *testing.T) {
	w, order := choice(t)
	p := w.Path()
	projected := uint64(0)
	for k, at := range order {
		chosen := plan.ChooseShortened(p, w.Policy.Elide, projected+1)
		var got []view.PartAt
		for at := range chosen {
			got = append(got, at)
		}
		want := slices.Clone(order[:k+1])
		slices.SortFunc(got, view.PartAt.Compare)
		slices.SortFunc(want, view.PartAt.Compare)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(view.PartAt{})); diff != "" {
			t.Fatalf("to save %d tokens (-want +got):\n%s", projected+1, diff)
		}
		size := p.Counter.Part(p.Part(at))
		projected += size - size/4 // COMPACTION_RATIO
	}
	if chosen := plan.ChooseShortened(p, w.Policy.Elide, 0); len(chosen) != 0 {
		t.Errorf("nothing is over, and %d parts are shortened", len(chosen))
	}
	pol, e := w.Policy, w.Policy.Elide
	got := []any{pol.Counter, pol.TriggerRatio, pol.TargetRatio, e.ProtectRecent, e.MinChars, e.Retain, e.HeadRatio, e.HeadCap, e.TailRatio, e.TailCap}
	want := []any{"wolffish-1", 0.75, 0.5, uint64(3), uint64(500), 0.25, 0.15, uint64(6_000), 0.08, uint64(3_000)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table of constants (-seed +policy):\n%s", diff)
	}
}

// WOL-5: never shortened are the first user message, the last three of each
// role, results that are errors, and what has fewer than 500 characters; an
// earlier summary is compacted again.
func TestProtectedMessagesStayWhole(t *testing.T) {
	w, order := choice(t)
	p := w.Path()
	chosen := plan.ChooseShortened(p, w.Policy.Elide, policy.MaxTokens)
	for _, at := range order {
		delete(chosen, at)
	}
	for at := range chosen {
		t.Errorf("%.20q is shortened, which is protected", summary.PartText(p.Part(at)))
	}

	w = wolffishWorld(t, 20_000)
	must(t, w.Turn(user("read them all"), nil))
	first, second := &scribe{text: "TASK: the first summary"}, &scribe{text: "TASK: the second one"}
	for i := range 10 {
		w.read(t, lines(fmt.Sprint("page ", i), 2_400))
	}
	w.pass(t, plan.TriggerThreshold, first)
	for i := range 8 {
		w.read(t, lines(fmt.Sprint("leaf ", i), 2_400))
	}
	w.pass(t, plan.TriggerThreshold, second)
	if in := second.in[0]; in.Previous != first.text {
		t.Errorf("the second summary was made from %q, not from the first one", in.Previous)
	}
	var nudges []string
	for _, m := range w.context(t).Messages {
		if text := summary.TextOf(&m); strings.Contains(text, "[Compaction Summary]") {
			nudges = append(nudges, text)
		}
	}
	if len(nudges) != 1 || !strings.Contains(nudges[0], second.text) || strings.Contains(nudges[0], first.text) {
		t.Errorf("the summaries in the context: %q, want the second one alone", nudges)
	}
}

const screenshot = `{"type":"blob","modality":"image","mime_type":"image/png","content":"AAAA"}`

// WOL-6: images go from every result of a tool, the newest and the failed ones
// too; the marker comes first, once. A user's image stays.
func TestImagesLeaveEveryToolResult(t *testing.T) {
	const mark = "[Screenshot analyzed — image omitted from context]"
	w := wolffishWorld(t, 20_000)
	look := user("what is this?")
	look[0].Parts = append(look[0].Parts, turns.Part{Type: turns.Blob, Modality: "image", MimeType: "image/png", Data: []byte("png")})
	must(t, w.Turn(look, says("", "a", "b", "c", "d")))
	with := func(id, text string) turns.Part {
		response := turns.Raw("[" + screenshot + "]")
		if text != "" {
			response = turns.Raw(`[{"type":"text","content":` + string(turns.RawText(text)) + `},` + screenshot + `]`)
		}
		return turns.Part{Type: turns.ToolCallResponse, ID: id, Response: response}
	}
	failed := with("c", "no such window")
	failed.IsError = true
	must(t, w.Turn([]turns.Message{tool(with("a", "a dialog"), with("b", mark+"\nseen before"), failed, with("d", ""))}, nil))
	for i := range 7 {
		w.read(t, lines(fmt.Sprint("page ", i), 1_500))
	}
	w.pass(t, plan.TriggerThreshold, &scribe{text: "TASK: look"})
	cx := w.context(t)
	want := []string{mark + "\na dialog", mark + "\nseen before", mark + "\nno such window", mark}
	if got := toolTexts(cx)[:4]; !slices.Equal(got, want) {
		t.Errorf("results %q, want %q", got, want)
	}
	if n := summary.Images([]summary.HalfTurn{{Messages: cx.Messages}}); n != 1 {
		t.Errorf("%d images in the context, want the user's", n)
	}
}

// WOL-7: 15 % of the beginning and 8 % of the end stay, at most 6,000 and 3,000
// characters, with the design's notice between; reasoning goes, calls stay.
func TestTruncationKeepsBothEnds(t *testing.T) {
	e := builtin("wolffish").Elide
	whole := lines("mail", 45_000)
	// The numbers of the design's own example.
	want := whole[:6_000] + "\n[TRUNCATED — 45,000 chars original, 36,000 chars omitted,\nshowing first 6,000 + last 3,000 chars]\n" + whole[42_000:]
	if got := plan.TrimToEnds(e, whole); got != want {
		t.Errorf("%.100s … of %d bytes, want %.100s … of %d", got[5_950:], len(got), want[5_950:], len(want))
	}
	part := lines("page", 2_000)
	want = part[:300] + "\n[TRUNCATED — 2,000 chars original, 1,540 chars omitted,\nshowing first 300 + last 160 chars]\n" + part[1_840:]
	if got := plan.TrimToEnds(e, part); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	// JavaScript counts a wolf as two; none is cut in half.
	wolves := strings.Repeat("🐺", 1_001)
	if got := plan.TrimToEnds(e, wolves); !strings.HasPrefix(got, strings.Repeat("🐺", 150)+"\n[TRUNCATED — 2,002 chars original, 1,542 chars omitted") || strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("%.700q", got)
	}

	w := wolffishWorld(t, 20_000)
	thought := says(lines("plan", 3_000), "a", "b")
	thought.Parts = append([]turns.Part{{Type: turns.Reasoning, Content: "let me think"}}, thought.Parts...)
	must(t, w.Turn(user("go"), thought))
	must(t, w.Turn([]turns.Message{tool(result("a", lines("page", 2_000)), result("b", "ok"))}, nil))
	for i := range 3 {
		w.read(t, lines(fmt.Sprint("page ", i), 4_000)) // the last three of each role
	}
	must(t, w.Turn(user(lines("more", 9_000)), nil))
	w.pass(t, plan.TriggerThreshold, &scribe{text: "TASK: go"})
	cx := w.context(t)
	var got turns.Message
	for _, m := range cx.Messages {
		if m.Role == turns.Assistant {
			got = m
			break
		}
	}
	if len(got.Parts) != 3 || got.Parts[0].Type != turns.Text || !strings.Contains(got.Parts[0].Content, "[TRUNCATED — 3,000 chars original") {
		t.Fatalf("the assistant's message: %+v", got)
	}
	if diff := cmp.Diff(thought.Parts[2:], got.Parts[1:]); diff != "" {
		t.Errorf("its calls (-before +after):\n%s", diff)
	}
}

// WOL-8: one request, by the five-section template, summarizes the originals of
// the targets; nothing is cut, so nothing is covered.
func TestOneRequestSummarizesTheOriginals(t *testing.T) {
	w := wolffishWorld(t, 20_000)
	must(t, w.Turn(user("read them all"), nil))
	for i := range 10 {
		w.read(t, lines(fmt.Sprint("page ", i), 2_400))
	}
	s := &scribe{text: "TASK: read\nPROGRESS: 1. all\nREMAINING: none\nDATA: none\nDECISIONS: none"}
	pl, r := w.pass(t, plan.TriggerThreshold, s)
	if len(s.in) != 1 || s.in[0].Template != "wolffish" || s.in[0].Style == nil || !s.in[0].Style.Merge {
		t.Fatalf("%d requests, %+v", len(s.in), s.in)
	}
	prompt := summary.Prompt(s.in[0])
	at := -1
	for _, section := range []string{"TASK:", "PROGRESS:", "REMAINING:", "DATA:", "DECISIONS:"} {
		i := strings.Index(prompt, "\n"+section)
		if i <= at {
			t.Errorf("%s is not asked for in its place", section)
		}
		at = i
	}
	input := summary.Transcript(s.in[0])
	for at := range pl.Shortens {
		if text := summary.ResultText(pl.Path.Part(at)); !strings.Contains(input, text) {
			t.Errorf("the original %.12q is not whole in what is summarized", text)
		}
	}
	if r.Body.Summary != s.text || !r.Span.Through.IsZero() || r.Span.Covered != 0 || len(r.Span.Elisions) != len(pl.Shortens) || !r.Span.Call {
		t.Errorf("summary %q, covers %d turns through %v, %d elisions of %d", r.Body.Summary, r.Span.Covered, r.Span.Through, len(r.Span.Elisions), len(pl.Shortens))
	}
	path, err := lineage.Path(&w.Forest, w.Head, 1)
	must(t, err)
	chain, err := lineage.Chain(&w.Forest, w.Head)
	must(t, err)
	for _, h := range lineage.Cover(path, chain, lineage.ElidedBy(r.Span.Elisions)) {
		if h.State != lineage.Verbatim && h.State != lineage.Elided {
			t.Errorf("%v %v is %v", h.Ref, h.Half, h.State)
		}
	}
}

// WOL-9: a request is tried again after 1, 2, 4, 8 and 16 seconds (package llm
// holds to it); when all fail the design's notice replaces the summary.
func TestNoticeReplacesAFailedSummary(t *testing.T) {
	w := wolffishWorld(t, 20_000)
	must(t, w.Turn(user("read them all"), nil))
	for i := range 10 {
		w.read(t, lines(fmt.Sprint("page ", i), 2_400))
	}
	s := &scribe{}
	_, r := w.pass(t, plan.TriggerThreshold, s)
	if want := []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9}; len(s.in) != 1 || !slices.Equal(s.in[0].Style.Retries, want) {
		t.Errorf("asked to wait %v, want %v", s.in[0].Style, want)
	}
	const notice = `[Compaction Notice: Context was compacted by truncating older messages
(showing first and last portions of each). A conversation summary could
not be generated. Review the truncated content carefully to reconstruct
what has been completed and what remains. Continue where you left off.
Do NOT produce final output until ALL steps are complete.]`
	ms := w.context(t).Messages
	if last := ms[len(ms)-1]; last.Role != turns.User || summary.TextOf(&last) != notice || r.Body.Tier != plan.NoticeTier {
		t.Errorf("by %s: %s says\n%s", r.Body.Tier, last.Role, summary.TextOf(&last))
	}
}

// WOL-10: the summary and the nudge to go on are a user message after the newest
// message, and never between a call and its result.
func TestNudgeFollowsTheNewestMessage(t *testing.T) {
	const text = "TASK: Read all unread emails and produce a briefing."
	const nudge = "[Compaction Summary]\n\n" + text + `

[Status: Context was compacted. The messages above contain truncated
versions of older content. This summary captures the full conversation
state. Continue where you left off. Do NOT produce final output until
ALL steps are complete. Do NOT re-do completed work.]`
	for _, open := range []bool{false, true} {
		w := wolffishWorld(t, 20_000)
		must(t, w.Turn(user("read them all"), nil))
		for i := range 10 {
			w.read(t, lines(fmt.Sprint("page ", i), 2_400))
		}
		if open {
			must(t, w.Turn(nil, says("", "x", "y")))
			must(t, w.Turn([]turns.Message{tool(result("x", "done"))}, nil))
		}
		w.pass(t, plan.TriggerThreshold, &scribe{text: text})
		ms := w.context(t).Messages
		if last := ms[len(ms)-1]; last.Role != turns.User || summary.TextOf(&last) != nudge {
			t.Errorf("open %v: at the end %s says\n%s", open, last.Role, summary.TextOf(&last))
		}
		if open {
			must(t, w.Turn([]turns.Message{tool(result("y", "done too"))}, nil))
		}
		must(t, w.Turn(nil, says("I go on")))
		ms = w.context(t).Messages
		if m := ms[len(ms)-2]; summary.TextOf(&m) != nudge || summary.TextOf(&ms[len(ms)-1]) != "I go on" {
			t.Errorf("open %v: later the nudge is not where it was:\n%s", open, compactortest.Show(w.context(t)))
		}
		if p := ms[len(ms)-3].Parts[0]; open && p.ID != "y" {
			t.Errorf("before the nudge stands %+v, want the last result of the open pair", p)
		}
	}
}

// WOL-15: the trigger of a compaction holds the numbers of the decision. Those of the design's sample line
// are due; the line itself says that they are not, above its own threshold.
func TestTriggerHoldsItsNumbers(t *testing.T) {
	pol := builtin("wolffish")
	const overhead = 30_000
	p := view.Path{Overhead: overhead, Limits: turns.Limits{ContextWindow: 1_000_000, MaxOutputTokens: 32_768}}
	trigger, due := plan.DueAt(p, pol, view.Load{Tokens: 839_203 - overhead, Reported: 541_090})
	if want := `{"tokens":809203,"overhead":30000,"threshold":725424,"budget":967232}`; !due || string(trigger.Detail) != want {
		t.Errorf("due %v: %s, want %s", due, trigger.Detail, want)
	}
	if _, due = plan.DueAt(p, pol, view.Load{Tokens: 500_000, Reported: 541_090}); due {
		t.Error("541,090 of 967,232 are due, where the estimate is no higher")
	}
}

// WOL-19: targets are selected and their originals saved before anything is
// changed; then images go, targets are truncated, the originals are summarized,
// and the summary comes last. The engine's test holds that it is announced at once.
func TestOriginalsAreSavedBeforeTheChange(t *testing.T) {
	w := wolffishWorld(t, 20_000)
	must(t, w.Turn(user("read them all"), says("", "shot")))
	page := lines("page", 9_000)
	must(t, w.Turn([]turns.Message{tool(turns.Part{Type: turns.ToolCallResponse, ID: "shot",
		Response: turns.Raw(`[` + screenshot + `,{"type":"text","content":` + string(turns.RawText(page)) + `}]`)})}, nil))
	for i := range 6 {
		w.read(t, lines(fmt.Sprint("leaf ", i), 2_400))
	}
	s := &scribe{text: "TASK: read them all, page and leaf 0 to leaf 5, line by line"}
	w.pass(t, plan.TriggerThreshold, s)
	if input := summary.Transcript(s.in[0]); !strings.Contains(input, page) {
		t.Error("what is summarized is not the original")
	}
	if summary.Images(s.in[0].Halves) != 1 {
		t.Error("the original came without its image: it was saved too late")
	}
	marked := "[Screenshot analyzed — image omitted from context]\n" + page
	got := toolTexts(w.context(t))[0]
	if want := plan.TrimToEnds(w.Policy.Elide, marked); got != want {
		t.Errorf("shown is %.120q, want the ends of the text that the images went from, %.120q", got, want)
	}
	ms := w.context(t).Messages
	if !strings.HasPrefix(summary.TextOf(&ms[len(ms)-1]), "[Compaction Summary]") {
		t.Errorf("the summary is not last: %s", summary.TextOf(&ms[len(ms)-1]))
	}
}
