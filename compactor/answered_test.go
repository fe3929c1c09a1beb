package compactor_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"nexus/compactor"
	"nexus/compactor/compactortest"
	"nexus/compactor/extractive"
	"nexus/compactor/plan"
	"nexus/turns"
)

// A cut may part a request from its response, which then stands behind the summary.
// The summary must not call such a request open. It may look no further than the
// split turn: a fork there shows the summary without the turns that follow.
func TestSummaryCallsNoAnsweredRequestOpen(t *testing.T) {
	user, says, result, tool, must := compactortest.User, compactortest.Says, compactortest.Result, compactortest.Tool, compactortest.Must
	for _, c := range []struct {
		name     string
		response *turns.Message
		open     bool
	}{
		{"the response answers", says("The store keeps each record in one file."), false},
		{"the response only calls a tool", says("", "c1"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := compactortest.NewSession()
			for range 3 {
				must(t, w.Turn(user("Read the code. "+compactortest.Words(300)), says("It is read.")))
			}
			must(t, w.Turn(user("Explain the store."), c.response))
			if c.open {
				must(t, w.Turn([]turns.Message{tool(result("c1", "store.go"))}, says("The store keeps each record in one file.")))
			}
			p := w.Path()
			const split = 7 // the response of the fourth turn
			pol, err := compactortest.Builtin("balanced").With(turns.Raw(fmt.Sprintf(`{"keep_tokens":%d}`, p.ShownFrom(split))))
			must(t, err)
			pl, err := plan.New(p, pol, turns.Trigger{Kind: plan.TriggerManual}, plan.Options{})
			must(t, err)
			if !pl.Span.Split || len(pl.Covered) != split {
				t.Fatalf("the cut does not part the fourth turn: %v", pl)
			}
			res, err := compactor.Run(t.Context(), pl, []compactor.Tier{{Name: "extractive", Summarizer: extractive.New(extractive.Config{}), Local: true}}, p.Counter, nil)
			must(t, err)
			if got := strings.Contains(res.Body.Summary, "not answered yet: Explain the store."); got != c.open {
				t.Errorf("open %v, want %v:\n%s", got, c.open, res.Body.Summary)
			}
		})
	}
}

// Turns that are no longer than a summary in their place stay. The error says so in
// tokens, and in words that need no knowledge of the summarizers.
func TestTurnsShorterThanASummaryStay(t *testing.T) {
	must := compactortest.Must
	w := compactortest.NewSession()
	for i := range 3 {
		must(t, w.Turn(compactortest.User(fmt.Sprint("question ", i)), compactortest.Says("fine")))
	}
	p := w.Path()
	pol, err := compactortest.Builtin("balanced").With(turns.Raw(`{"keep_tokens":50}`))
	must(t, err)
	pl, err := plan.New(p, pol, turns.Trigger{Kind: plan.TriggerManual}, plan.Options{})
	must(t, err)
	_, err = compactor.Run(t.Context(), pl, []compactor.Tier{{Name: "extractive", Summarizer: extractive.New(extractive.Config{}), Local: true}}, p.Counter, nil)
	if !errors.Is(err, plan.ErrNothing) || !strings.Contains(err.Error(), "the turns are too short: ") || strings.Contains(err.Error(), "notice") {
		t.Errorf("%v", err)
	}
}
