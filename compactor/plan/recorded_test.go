package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
)

// An import may bring any token count, and a half whose count is too low must
// not make a difference of counts wrap around.
func TestCountsTooLowNeverWrap(t *testing.T) {
	long := strings.Repeat("one line of a log\n", 4000)
	for _, name := range policy.Names() {
		for _, kind := range []string{plan.TriggerThreshold, plan.TriggerManual, plan.TriggerOverflow, plan.TriggerLargeOutput} {
			for _, recorded := range []uint64{0, 1, 11_000} {
				p := view.Path{Session: turns.ID{1}, Limits: turns.Limits{ContextWindow: 12_000}}
				for i := range uint64(3) {
					ref := turns.Ref{Session: p.Session, Turn: turns.ID{2, byte(i)}}
					id := fmt.Sprint("c", i)
					p.Halves = append(p.Halves,
						summary.HalfTurn{Ref: ref, Depth: i + 1, Half: turns.MessagesHalf, Tokens: recorded, Messages: []turns.Message{
							turns.TextMessage(turns.User, "go on"),
							{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: id, Name: "read"}}},
							{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText(long)}}},
						}},
						summary.HalfTurn{Ref: ref, Depth: i + 1, Half: turns.ResponseHalf, Tokens: recorded, Messages: []turns.Message{turns.TextMessage(turns.Assistant, long)}})
				}
				p.Head.Depth = 3
				p.Halves = p.Halves[:5] // the newest result waits for a response
				p.Halves[4].Tokens = 11_000
				pl, err := plan.New(p, builtin(name), turns.Trigger{Kind: kind}, plan.Options{})
				if err != nil {
					continue
				}
				for what, n := range map[string]uint64{"kept": pl.TokensKept, "before": pl.TokensBefore, "summary": pl.SummaryTokens, "target": pl.TargetTokens, "after": pl.TokensAfter()} {
					if n > 1<<32 {
						t.Errorf("%s by %s, %d tokens recorded a half: %d tokens %s", name, kind, recorded, n, what)
					}
				}
			}
		}
	}
}
