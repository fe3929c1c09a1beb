package engine_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/compactor"
	"nexus/compactor/extractive"
	"nexus/ledger/api"
	"nexus/turns"
)

// BenchmarkAgentTurns is a turn of a coding agent, context.get by a caller that has the one before and turn.append, in
// sessions of several depths with 40 kB of system text and a window of 200,000 tokens: the processor time of this process,
// and the compactions that were stored meanwhile. 200 turns see some ten compactions at depth 1,000 and none at 10.
//
//	go test ./cmd/internal/engine -run '^$' -bench AgentTurns -benchtime 200x
func BenchmarkAgentTurns(b *testing.B) {
	for _, depth := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(depth), func(b *testing.B) {
			e := benchEngine(b, newWorld())
			e.Loader.Tiers = []compactor.Tier{{Name: "extractive", Summarizer: extractive.New(extractive.Config{}), Local: true, Version: extractive.Version}} // as nexusd
			system, tools := enginetest.Preamble(40_000)
			r := api.CreateSession{SessionSettings: api.SessionSettings{System: &system, Tools: &tools, Limits: &turns.Limits{ContextWindow: 200_000}}}
			s := must(e.Sessions.Create(b.Context(), alice, r, nil))(b).ID
			a := codingAgent{rng: rand.New(rand.NewPCG(1, 7))}
			var have *api.Have
			compactions := 0
			turn := func(call bool) {
				if call {
					c := must(e.Contexts.Context(b.Context(), alice, s, api.GetContext{Format: "anthropic", Have: have}))(b)
					have = &api.Have{Fingerprint: c.Fingerprint, Preamble: c.PreambleDigest}
					if c.Compacted != nil {
						compactions++
					}
				}
				must(e.Sessions.Append(b.Context(), alice, s, a.next(), nil))(b)
			}
			for i := range depth {
				turn(i%10 == 9)
			}
			compactions = 0
			before := processorTime()
			for b.Loop() {
				turn(true)
			}
			b.ReportMetric((processorTime()-before)*1e6/float64(b.N), "cpu-µs/op")
			b.ReportMetric(float64(compactions), "compactions")
		})
	}
}

// codingAgent makes turns as coding agents do: calls, and results of 1 to 30 kB.
type codingAgent struct {
	rng   *rand.Rand
	turn  int
	calls []string
}

func (a *codingAgent) text(n int) string {
	var s strings.Builder
	for s.Len() < n {
		fmt.Fprintf(&s, "word%d ", a.rng.IntN(5000))
	}
	return s.String()[:n]
}

func (a *codingAgent) next() (r api.AppendTurn) {
	sizes := []int{1000, 1000, 1500, 2000, 2000, 3000, 4000, 6000, 8000, 12_000, 20_000, 30_000}
	for _, id := range a.calls {
		part := turns.Part{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText(a.text(sizes[a.rng.IntN(len(sizes))]))}
		r.Messages = append(r.Messages, turns.Message{Role: turns.Tool, Parts: []turns.Part{part}})
	}
	if len(a.calls) == 0 {
		r.Messages = []turns.Message{turns.TextMessage(turns.User, a.text(300))}
	}
	answer := turns.TextMessage(turns.Assistant, a.text(400))
	a.calls = nil
	if a.turn%20 != 19 {
		for i := range 1 + a.rng.IntN(2) {
			id := fmt.Sprintf("call_%d_%d", a.turn, i)
			a.calls = append(a.calls, id)
			answer.Parts = append(answer.Parts, turns.Part{Type: turns.ToolCall, ID: id, Name: fmt.Sprint("tool_", i), Arguments: turns.Raw(fmt.Sprintf(`{"path":%q}`, a.text(60)))})
		}
	}
	a.turn++
	r.Response, r.Model = &answer, "claude-sonnet-4-5"
	return r
}
