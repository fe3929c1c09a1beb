package engine_test

import (
	"bytes"
	"fmt"
	"testing"

	"nexus/compactor/overflow"
	"nexus/ledger/api"
	"nexus/turns"
)

// The budget after an overflow, in tokens as the session's policy counts them:
// the session's own, or what the provider's window leaves where that is smaller;
// less by as much as the provider counts more than we do; and a quarter less
// than the context has at least.
func TestOverflowBudget(t *testing.T) {
	const less = 0 // overhead, and three quarters of the messages
	for _, policy := range []string{"balanced", "wolffish"} {
		e := newWorld().Engine(t)
		s := create(t, e, 200_000, policy)
		system := api.System{{Content: long(8_000)}}
		must(e.Sessions.Set(t.Context(), alice, s.ID, api.SetSession{SessionSettings: api.SessionSettings{System: &system}}, nil))(t)
		for i := range 75 {
			add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(2000)), "answer"))
		}
		v := must(e.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t)
		have := v.Tokens + v.Overhead
		if have*3/4 < 30_000 || have > 200_000 || v.Overhead < 2_000 {
			t.Fatalf("%s: %d tokens and %d of overhead", policy, v.Tokens, v.Overhead)
		}
		for _, tc := range []struct {
			set, window uint64  // of the session; of the provider, 0: not stated
			counts      float64 // tokens of the provider's for one of ours, 0: not reported
			want        uint64
		}{
			// Only windows. Of each, 1,000 are for the answer and 500 the margin.
			{1_000_000, 0, 0, less},
			{30_000, 0, 0, 28_500},
			{1_000_000, 30_000, 0, 28_500}, // the provider's is the smaller one
			{20_000, 100_000, 0, 18_500},   // it is the larger one: the session's own counts
			{20_000, 20_000, 0, 18_500},
			{0, 30_000, 0, 28_500}, // none is set
			{1_000_000, 1_000_000, 0, less},
			// What it counted.
			{30_000, 0, 2, 14_250},
			{1_000_000, 30_000, 2, 14_250},
			{20_000, 100_000, 4, 4_625},
			{1_000_000, 0, 2, less}, // half of the budget is more
			{30_000, 0, 1, 28_500},
			{30_000, 0, 0.5, 28_500}, // it counts fewer: nothing is added
			// What makes no sense.
			{30_000, 1, 0, 1},
			{30_000, 0, 1e12, 1},
		} {
			limits := turns.Limits{ContextWindow: tc.set, MaxOutputTokens: 1000, SafetyMargin: 500}
			must(e.Sessions.Set(t.Context(), alice, s.ID, api.SetSession{SessionSettings: api.SessionSettings{Limits: &limits}}, nil))(t)
			want := tc.want
			if want == less {
				want = v.Overhead + v.Tokens*3/4
			}
			refusal := overflow.ProviderError{Kind: overflow.ContextOverflow, Window: tc.window, Tokens: uint64(tc.counts * float64(have))}
			if got := must(e.Contexts.OverflowBudget(t.Context(), alice, s.ID, refusal))(t); got != want {
				t.Errorf("%s, a window of %d, the provider says %d and counts %g for one of %d: %d, want %d", policy, tc.set, tc.window, tc.counts, have, got, want)
			}
		}
	}
}

// What is appended between the commit of an overflow's compaction and the reply
// is not in the reply: the provider was asked without it.
func TestOverflowReturnsWhatItsCompactionLeft(t *testing.T) {
	w := newWorld()
	e, other := w.Engine(t), w.Engine(t)
	s := create(t, e, 200_000, "balanced")
	for i := range 30 {
		add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(2000)), "answer"))
	}
	e.Writer.Notify = func(_, _ string, n api.Notification) {
		if n.Kind == "compaction.applied" {
			add(t, other, s.ID, say("meanwhile", "yes"))
		}
	}
	r := api.Overflow{ID: newID(t), Error: "context_length_exceeded", Status: 400}
	cx := must(e.Contexts.Overflow(t.Context(), alice, s.ID, r, canon(r)))(t)
	if cx.Compacted == nil || bytes.Contains(canon(cx.Messages), []byte("meanwhile")) {
		t.Errorf("compacted %v, then %s", cx.Compacted, cx.Messages[len(cx.Messages)-1])
	}
	now := must(other.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
	if !bytes.Contains(canon(now.Messages), []byte("meanwhile")) {
		t.Error("what came meanwhile is lost")
	}
	verified(t, e)
}

// An overflow is mended as long as there are messages that can go, however much
// of the context is overhead, and whatever usage was reported before.
func TestOverflowBudgetLeavesRoomForTheOverhead(t *testing.T) {
	for _, ratio := range []float64{0, 1.3} {
		for _, system := range []int{12_000, 28_000} {
			e := newWorld().Engine(t)
			s := create(t, e, 16_000, "balanced")
			sections := api.System{{Content: long(system)}}
			must(e.Sessions.Set(t.Context(), alice, s.ID, api.SetSession{SessionSettings: api.SessionSettings{System: &sections}}, nil))(t)
			for i := range 6 {
				cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
				r := say(fmt.Sprintf("question %d %s", i, long(900)), "answer")
				if ratio > 0 {
					r = counted(r, uint64(ratio*float64(cx.Tokens+cx.Overhead)), 10)
				}
				add(t, e, s.ID, r)
			}
			v := must(e.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t)
			r := api.Overflow{Error: "prompt is too long", Status: 400}
			cx, err := e.Contexts.Overflow(t.Context(), alice, s.ID, r, canon(r))
			if err != nil {
				t.Fatalf("overhead %d, messages %d, counted %v times: %v", v.Overhead, v.Tokens, ratio, err)
			}
			if cx.Tokens > v.Tokens*3/4 || cx.Tokens < v.Tokens/10 {
				t.Errorf("overhead %d, counted %v times: %d tokens of %d are left", v.Overhead, ratio, cx.Tokens, v.Tokens)
			}
		}
	}
}
