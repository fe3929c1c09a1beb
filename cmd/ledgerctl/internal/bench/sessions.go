package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/turns"
)

// openers is how many clients open sessions at once.
const openers = 32

// many measures many sessions of which few are awake: the same few again and again, sessions
// by Zipf's law, and each in turn. Before that it measures how fast they are opened.
func (f *fleet) many(ctx context.Context, term *terminal.Terminal, out *AgentsResult) error {
	term.Say("%s", prose.Plural(uint64(f.Sessions), "session"))
	all := make([]*agent, f.Sessions)
	if _, err := atOnce(ctx, openers, func(w int) ([]lap, error) {
		for i := w; i < len(all) && ctx.Err() == nil; i += openers {
			a, err := f.open(ctx, i, systemBytes)
			if err != nil {
				return nil, err
			}
			if a.reader = nil; i < 2*openers { // those that are forked need a turn; the others begin in the rounds
				if _, err := a.turn(ctx, false); err != nil {
					return nil, err
				}
			}
			all[i] = a
		}
		return nil, nil
	}); err != nil {
		return err
	}
	if err := f.opens(ctx, term, all[:min(openers, len(all))], out); err != nil {
		return err
	}
	awake := min(f.Awake, f.Sessions)
	var mu sync.Mutex
	inTurn := 0
	orders := []struct {
		name string
		pick func(w int, rng *rand.Rand, zipf *rand.Zipf) int
	}{
		{fmt.Sprintf("the same %d", awake), func(w int, _ *rand.Rand, _ *rand.Zipf) int { return w }},
		{"by Zipf", func(_ int, _ *rand.Rand, zipf *rand.Zipf) int { return int(zipf.Uint64()) }},
		{"in turn", func(int, *rand.Rand, *rand.Zipf) int {
			mu.Lock()
			defer mu.Unlock()
			inTurn++
			return inTurn % len(all)
		}},
	}
	rounds := make([][]round, len(orders))
	for n := range f.Rounds {
		for i := range orders {
			o := (i + n) % len(orders)
			term.Say("round %d of %d: %s", n+1, f.Rounds, orders[o].name)
			if err := f.settle(ctx); err != nil {
				return err
			}
			end := time.Now().Add(f.Each)
			r, err := f.measure(ctx, awake, func(w int) (laps []lap, err error) {
				rng := rand.New(rand.NewPCG(uint64(w), uint64(n)))
				zipf := rand.NewZipf(rng, 1.1, 1, uint64(len(all)-1))
				for ctx.Err() == nil && (len(laps) == 0 || time.Now().Before(end)) {
					a := all[orders[o].pick(w, rng, zipf)]
					if !a.mu.TryLock() { // another worker's agent has it
						continue
					}
					l, err := a.turn(ctx, true)
					a.mu.Unlock()
					if err != nil {
						return laps, err
					}
					laps = append(laps, l)
				}
				return laps, nil
			})
			if err != nil {
				return err
			}
			rounds[o] = append(rounds[o], r)
		}
	}
	for o := range orders {
		out.Orders = append(out.Orders, worked(orders[o].name, rounds[o]))
	}
	return nil
}

// opens measures session.create and fork.create beside turn.append, each by as many clients.
func (f *fleet) opens(ctx context.Context, term *terminal.Terminal, all []*agent, out *AgentsResult) error {
	text := Load{TurnBytes: 2000}
	verbs := []struct {
		name string
		do   func(a *agent) error
	}{
		{"turn.append", func(a *agent) error {
			answer := turns.TextMessage(turns.Assistant, text.text(int(a.rng.Uint32()), a.depth))
			t, err := a.client.Append(ctx, a.session, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "go on")}, Response: &answer})
			if err == nil {
				a.head, a.calls = t.ID, nil
			}
			return err
		}},
		{"session.create", func(a *agent) error {
			_, err := a.client.Create(ctx, api.CreateSession{})
			return err
		}},
		{"fork.create", func(a *agent) error {
			_, err := a.client.Fork(ctx, a.session, api.CreateFork{Turn: a.head})
			return err
		}},
	}
	rounds := make([][]round, len(verbs))
	took := make([][]time.Duration, len(verbs))
	for n := range f.Rounds {
		for i := range verbs {
			v := (i + n) % len(verbs)
			term.Say("round %d of %d: %s", n+1, f.Rounds, verbs[v].name)
			if err := f.settle(ctx); err != nil {
				return err
			}
			began := time.Now()
			r, err := f.repeat(ctx, len(all), began.Add(f.Each/2), func(w int) error { return verbs[v].do(all[w]) })
			if err != nil {
				return err
			}
			rounds[v], took[v] = append(rounds[v], r), append(took[v], time.Since(began))
		}
	}
	for v := range verbs {
		o := Opened{What: verbs[v].name}
		var rate, p50, cpu, rel []float64
		var laps []lap
		for n, r := range rounds[v] {
			x := quantile(r.laps, 0.5, lap.whole)
			laps = append(laps, r.laps...)
			rate, p50 = append(rate, float64(len(r.laps))/took[v][n].Seconds()), append(p50, x)
			cpu, rel = append(cpu, float64(r.used.CPU)/float64(len(r.laps))), append(rel, x/quantile(rounds[0][n].laps, 0.5, lap.whole))
		}
		o.Rate, o.P50, o.CPU, o.Append, o.P99 = middle(rate), middle(p50), middle(cpu), middle(rel), quantile(laps, 0.99, lap.whole)
		out.Opens = append(out.Opens, o)
	}
	return nil
}

func (l lap) whole() time.Duration { return l.append }

// repeat measures one call again and again by workers at once, until end, at least once each.
func (f *fleet) repeat(ctx context.Context, workers int, end time.Time, do func(w int) error) (round, error) {
	return f.measure(ctx, workers, func(w int) (laps []lap, err error) {
		for ctx.Err() == nil && (len(laps) == 0 || time.Now().Before(end)) {
			began := time.Now()
			if err := do(w); err != nil {
				return laps, err
			}
			laps = append(laps, lap{append: time.Since(began)})
		}
		return laps, nil
	})
}
