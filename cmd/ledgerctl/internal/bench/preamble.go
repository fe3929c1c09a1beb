package bench

import (
	"context"
	"time"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/turns"
)

// preambleSizes are the system parts, in bytes, that verbs are measured with.
var preambleSizes = []int{0, 40_000, 400_000}

// preambles measures verbs on sessions whose system parts differ, and nothing else.
func (f *fleet) preambles(ctx context.Context, term *terminal.Terminal, out *AgentsResult) error {
	const warm = 30
	at := make([][]*agent, len(preambleSizes))
	for p, n := range preambleSizes {
		term.Say("%s with a system part of %s bytes", prose.Plural(uint64(f.Agents.Agents), "session"), prose.Grouped(uint64(n)))
		at[p] = make([]*agent, f.Agents.Agents)
		if _, err := atOnce(ctx, f.Agents.Agents, func(w int) (_ []lap, err error) {
			a, err := f.open(ctx, w, n)
			for i := 0; err == nil && i < warm; i++ {
				err = a.say(ctx)
			}
			at[p][w] = a
			return nil, err
		}); err != nil {
			return err
		}
	}
	verbs := []struct {
		name string
		many int // calls of each session in a round
		do   func(a *agent) error
	}{
		{"turn.append", f.Turns * 4, func(a *agent) error { return a.say(ctx) }},
		{"context.get, have", f.Turns * 4, func(a *agent) error {
			_, err := a.reader.Context(ctx, api.GetContext{Format: "anthropic"})
			return err
		}},
		{"context.get", f.Turns, func(a *agent) error {
			_, err := a.client.Context(ctx, a.session, api.GetContext{Format: "anthropic"})
			return err
		}},
		{"fork.create", f.Turns, func(a *agent) error {
			_, err := a.client.Fork(ctx, a.session, api.CreateFork{Turn: a.head})
			return err
		}},
		{"compaction.run", 1, func(a *agent) error {
			_, err := a.client.Compact(ctx, a.session, api.RunCompaction{AtOnce: true, Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"keep_tokens":4000}`)}})
			return err
		}},
	}
	for _, v := range verbs {
		rounds := make([][]round, len(preambleSizes))
		for n := range f.Rounds {
			for i := range preambleSizes {
				p := (i + n) % len(preambleSizes)
				term.Say("round %d of %d: %s, %s bytes", n+1, f.Rounds, v.name, prose.Grouped(uint64(preambleSizes[p])))
				if v.many == 1 { // it needs something to compact
					if _, err := atOnce(ctx, len(at[p]), func(w int) (_ []lap, err error) {
						for i := 0; err == nil && i < warm; i++ {
							err = at[p][w].say(ctx)
						}
						return nil, err
					}); err != nil {
						return err
					}
				}
				if err := f.settle(ctx); err != nil {
					return err
				}
				r, err := f.measure(ctx, len(at[p]), func(w int) (laps []lap, err error) {
					for range v.many {
						began := time.Now()
						if err := v.do(at[p][w]); err != nil {
							return laps, err
						}
						laps = append(laps, lap{append: time.Since(began)})
					}
					return laps, nil
				})
				if err != nil {
					return err
				}
				rounds[p] = append(rounds[p], r)
			}
		}
		for p, n := range preambleSizes {
			x := Verb{Verb: v.name, Preamble: n}
			var p50, cpu, rel, rel50, sent []float64
			var laps []lap
			for i, r := range rounds[p] {
				count, base := float64(len(r.laps)), rounds[0][i]
				laps = append(laps, r.laps...)
				p50, cpu, sent = append(p50, quantile(r.laps, 0.5, lap.whole)), append(cpu, float64(r.used.CPU)/count), append(sent, float64(r.used.in)/count)
				rel = append(rel, float64(r.used.CPU)/count/(float64(base.used.CPU)/float64(len(base.laps))))
				rel50 = append(rel50, quantile(r.laps, 0.5, lap.whole)/quantile(base.laps, 0.5, lap.whole))
			}
			x.P50, x.P99, x.CPU, x.Relative, x.RelP50, x.Sent = middle(p50), quantile(laps, 0.99, lap.whole), middle(cpu), middle(rel), middle(rel50), middle(sent)
			out.Verbs = append(out.Verbs, x)
		}
	}
	return nil
}

// say appends a turn of 2 kB.
func (a *agent) say(ctx context.Context) error {
	a.depth++
	answer := turns.TextMessage(turns.Assistant, Load{TurnBytes: 1000}.text(int(a.rng.Uint32()), a.depth))
	t, err := a.client.Append(ctx, a.session, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, Load{TurnBytes: 1000}.text(int(a.rng.Uint32()), a.depth))}, Response: &answer})
	if err == nil {
		a.head = t.ID
	}
	return err
}
