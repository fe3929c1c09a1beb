package compactor

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nexus/compactor/facts"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/turns"
)

// writes is a summarizer that always writes the same.
type writes string

func (w writes) Summarize(context.Context, summary.Input) (summary.Output, error) {
	return summary.Output{Text: string(w)}, nil
}

// lateWorld plans a compaction of twelve turns, the second of which names retryQuota, has it
// written, appends turns, and returns the plan, the rebased one and the result.
func lateWorld(t *testing.T, pol policy.Policy, text string, appended ...func(w *world)) (old, pl *plan.Plan, res Result) {
	t.Helper()
	w := newWorld()
	w.Policy, w.Limits.ContextWindow = pol, 8000
	for i := range 12 {
		ask := fmt.Sprintf("step %d %s", i, words(300))
		if i == 1 {
			ask = "The broker refuses more than retryQuota = 17 messages at once.\n" + ask
		}
		must(t, w.Turn(user(ask), says("done")))
	}
	old, err := plan.New(w.Path(), pol, turns.Trigger{Kind: plan.TriggerThreshold}, plan.Options{})
	must(t, err)
	res, err = Run(t.Context(), old, []Tier{{Name: "model", Summarizer: writes(text)}}, old.Path.Counter, nil)
	must(t, err)
	for _, f := range appended {
		f(w)
	}
	pl, err = old.Rebase(w.Path())
	must(t, err)
	return old, pl, Resize(pl, res)
}

const thin = "Twelve steps were asked for, one after another, each of a page of words; the agent did all of them."

func uses(t *testing.T, text string) func(w *world) {
	return func(w *world) { must(t, w.Turn(user("go on"), says(text))) }
}

func TestLateSummaryGetsWhatNewerTurnsUse(t *testing.T) {
	old, pl, res := lateWorld(t, builtin("balanced"), thin, uses(t, "I lower retryQuota now"))
	got := Amend(old, pl, res, pl.Path.Counter)
	const want = thin + "\n\nUSED SINCE\nTurns that came while this summary was written use these, from the turns that it stands for:\n" +
		"- The broker refuses more than retryQuota = 17 messages at once. [t2]"
	if got.Body.Summary != want {
		t.Errorf("%s", got.Body.Summary)
	}
	if shown := summary.TextOf(&got.Body.Replacement[0]); !strings.Contains(shown, "retryQuota = 17") {
		t.Errorf("the context shows %s", shown)
	}
	if !strings.Contains(string(got.Body.Meta), `"amended":1`) || got.Body.TokensAfter != pl.TokensKept+got.Replaced || got.Body.Tier != "model" {
		t.Errorf("meta %s, %d tokens after, %d of the replacement", got.Body.Meta, got.Body.TokensAfter, got.Replaced)
	}
}

func TestLateSummaryThatLacksNothingIsUnchanged(t *testing.T) {
	balanced := builtin("balanced")
	inOwnWords := thin + " The limit retryQuota is 17."
	file := func(w *world) {
		must(t, w.Turn(user("go on"), says("", "c1")))
		must(t, w.Turn([]turns.Message{tool(result("c1", "retryQuota = 17"))}, says("retryQuota stays")))
	}
	for name, f := range map[string]struct {
		pol      policy.Policy
		text     string
		appended []func(w *world)
	}{
		"it says it":                   {balanced, inOwnWords, []func(w *world){uses(t, "I lower retryQuota now")}},
		"nothing came":                 {balanced, thin, nil},
		"nothing of it is used":        {balanced, thin, []func(w *world){uses(t, "I lower otherQuota now")}},
		"a tool returned it since":     {balanced, thin, []func(w *world){file}},
		"a design of its own":          {builtin("nexus"), thin, []func(w *world){uses(t, "I lower retryQuota now")}},
		"a template of its own design": {with(builtin("gsv"), func(p *policy.Policy) { p.Mode = policy.Background }), thin, []func(w *world){uses(t, "I lower retryQuota now")}},
	} {
		old, pl, res := lateWorld(t, f.pol, f.text, f.appended...)
		if got := Amend(old, pl, res, pl.Path.Counter); !reflect.DeepEqual(got, res) {
			t.Errorf("%s: %s", name, got.Body.Summary)
		}
	}
}

func with(p policy.Policy, f func(*policy.Policy)) policy.Policy { f(&p); return p }

// A summary that fills its bound is not shortened for it: it stays as it is.
func TestFullSummaryIsNotAmended(t *testing.T) {
	old, pl, _ := lateWorld(t, builtin("balanced"), thin, uses(t, "I lower retryQuota now"))
	out, err := filling{}.Summarize(t.Context(), pl.Input())
	must(t, err)
	res, err := Accept(pl, summary.Output{Text: out.Text, Tier: "model"}, pl.Path.Counter)
	must(t, err)
	if got := Amend(old, pl, res, pl.Path.Counter); !reflect.DeepEqual(got, res) {
		t.Errorf("%d bytes were added", len(got.Body.Summary)-len(res.Body.Summary))
	}
}

// filling writes as much as it may.
type filling struct{}

func (filling) Summarize(_ context.Context, in summary.Input) (summary.Output, error) {
	text := strings.Repeat("and so on ", int(in.MaxTokens)*4)
	for approx.Text(text) > in.MaxTokens {
		text = text[:len(text)-10]
	}
	return summary.Output{Text: text}, nil
}

// handle is what ends an added line.
var handle = regexp.MustCompile(` \[t\d+\]\s*$`)

// textHas reports whether a text stands in one of some messages.
func textHas(ms []turns.Message, text string) bool {
	return slices.ContainsFunc(ms, func(m turns.Message) bool { return strings.Contains(summary.TextOf(&m), text) })
}

// Whatever is said and used, an amended summary stays within the bound of its plan, and
// what it adds stood in a covered turn.
func TestAmendedSummaryFitsItsPlan(t *testing.T) {
	amended := 0
	defer func() {
		if amended == 0 {
			t.Error("no summary was amended")
		}
	}()
	rapid.Check(t, func(t *rapid.T) {
		g := newGrower()
		pol := builtin("balanced")
		g.Policy, g.Limits.ContextWindow = pol, rapid.SampledFrom([]uint64{2000, 8000, 32_000}).Draw(t, "window")
		name := func() string {
			return fmt.Sprintf("name_%d of file/part_%d.go", rapid.IntRange(0, 30).Draw(t, "name"), rapid.IntRange(0, 30).Draw(t, "file"))
		}
		said := func() {
			var lines []string
			for range rapid.IntRange(1, 12).Draw(t, "lines") {
				lines = append(lines, "it was said that "+name()+strings.Repeat(" äöü", rapid.IntRange(0, 90).Draw(t, "long")))
			}
			if err := g.Turn(user(strings.Join(lines, "\n")), says("so be it")); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(2, 20).Draw(t, "turns") {
			said()
			g.grow(t, int(g.Limits.ContextWindow/20))
		}
		old, err := plan.New(g.Path(), pol, turns.Trigger{Kind: plan.TriggerManual}, plan.Options{})
		if err != nil {
			return
		}
		tiers := []Tier{{Name: "stub", Summarizer: stub{}, Local: rapid.Bool().Draw(t, "local")}}
		if rapid.Bool().Draw(t, "short") {
			tiers[0].Summarizer = writes(thin)
		}
		res, err := Run(context.Background(), old, tiers, old.Path.Counter, nil)
		if err != nil {
			return
		}
		for range rapid.IntRange(1, 5).Draw(t, "newer") {
			if err := g.Turn(user("and"), says("now "+name()+" and "+name())); err != nil {
				t.Fatal(err)
			}
		}
		pl, err := old.Rebase(g.Path())
		if err != nil {
			t.Fatal(err)
		}
		c := pl.Path.Counter
		res = Resize(pl, res)
		got := Amend(old, pl, res, c)
		if reflect.DeepEqual(got, res) {
			return
		}
		amended++
		if n := c.Text(summary.Data(got.Body.Summary)); n > pl.SummaryTokens || got.Replaced > pl.OutputBound()+16 {
			t.Fatalf("%d tokens of %d, with all around it %d of %d", n, pl.SummaryTokens, got.Replaced, pl.OutputBound()+16)
		}
		_, section, ok := strings.Cut(got.Body.Summary, facts.LateHead)
		if !ok {
			t.Fatalf("changed, and no section: %s", got.Body.Summary)
		}
		for _, l := range strings.Split(section, "\n- ")[1:] {
			text := strings.Trim(handle.ReplaceAllString(l, ""), "…")
			if text == "" || !slices.ContainsFunc(pl.Reads, func(h summary.HalfTurn) bool { return textHas(h.Messages, text) }) {
				t.Fatalf("%q stood in no covered turn", l)
			}
		}
		if err := g.compaction(got); err != nil {
			t.Fatal(err)
		}
	})
}
