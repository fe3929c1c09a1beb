package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/turns"
)

// An ack says what the next context decides, under every policy and measure, once
// this daemon has made a context of the session: told from the path then, and from
// what was appended since.
func TestAckPredictsTheNextContext(t *testing.T) {
	policies := map[string]*api.Policy{"spec-008, cold": whenCold()}
	for _, name := range policy.Names() {
		policies[name] = &api.Policy{Name: name}
	}
	for _, patience := range []int{1, 4} {
		policies[fmt.Sprint("balanced, ", patience)] = &api.Policy{Name: "balanced", Set: turns.Raw(fmt.Sprintf(`{"cost":{"patience":%d}}`, patience))}
	}
	for _, measure := range []string{"reported", "higher", "calibrated"} {
		policies["nexus, "+measure] = &api.Policy{Name: "nexus", Set: turns.Raw(fmt.Sprintf(`{"measure":%q}`, measure))}
	}
	for name, policy := range policies {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			e, other := w.Engine(t), w.Engine(t)
			r := api.CreateSession{}
			r.Policy, r.Limits = policy, &turns.Limits{ContextWindow: 12_000}
			s := must(e.Sessions.Create(t.Context(), alice, r, canon(r)))(t).ID
			must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t)
			rng := rand.New(rand.NewPCG(1, 2))
			due, idle := 0, 0
			check := func(ack *api.Appended) {
				t.Helper()
				view, err := other.Contexts.Context(t.Context(), operator, s, api.GetContext{Budget: 1 << 30})
				if err != nil {
					t.Fatal(err)
				}
				says := ack.Compaction.State
				if says == "paused" { // tried by this daemon: nothing was gained
					says = "due"
				}
				if says != view.Compaction.State {
					t.Errorf("at depth %d: the ack says %s, the context %s", ack.Depth, ack.Compaction.State, view.Compaction.State)
				}
				if view.Compaction.State != "due" {
					idle++
					return
				}
				due++
				if cx, err := e.Contexts.Context(t.Context(), alice, s, api.GetContext{}); err != nil || (cx.Compacted == nil && !cx.Flush.Due && cx.Compaction.State != "paused") {
					t.Fatalf("at depth %d: due, and not compacted: %v", ack.Depth, err)
				} else if cx.Flush.Due {
					runFlush(t, e, s, cx.Flush.Cycle)
					must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t)
				}
			}
			for i := range 40 {
				id := fmt.Sprintf("call-%d", i)
				ask := say("question über "+long(rng.IntN(900)), "")
				ask.Response = &turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: id, Name: "run", Arguments: turns.Raw(`{}`)}}}
				check(add(t, e, s, ask))
				answer := turns.TextMessage(turns.Assistant, "answer")
				got := api.AppendTurn{Messages: []turns.Message{result(id, long(rng.IntN(1500)))}}
				if rng.IntN(2) == 0 {
					got.Response, got.Usage = &answer, &turns.Usage{InputTokens: uint64(1000 + rng.IntN(9000)), OutputTokens: 10}
				}
				check(add(t, e, s, got))
			}
			if due == 0 || idle == 0 {
				t.Errorf("%d times due, %d times not", due, idle)
			}
		})
	}
}

func runFlush(t *testing.T, e *Engine, s turns.ID, cycle uint64) {
	t.Helper()
	must(e.Compactions.BeginFlush(t.Context(), alice, s, api.BeginFlush{Cycle: cycle}, nil))(t)
	must(e.Compactions.DoneFlush(t.Context(), alice, s, api.DoneFlush{Cycle: cycle, Response: "SILENT"}, nil))(t)
}
