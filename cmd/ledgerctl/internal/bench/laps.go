package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// used is what the server and the connections have used.
type used struct {
	counted
	in, out uint64
}

func (f *fleet) used() (u used, err error) {
	if u.counted, err = f.server.counted(); err != nil {
		return u, err
	}
	for _, nc := range f.conns {
		st := nc.Stats()
		u.in, u.out = u.in+st.InBytes, u.out+st.OutBytes
	}
	return u, nil
}

// settle waits until the server does next to nothing: its index may be behind what was stored.
// It gives up after a minute.
func (f *fleet) settle(ctx context.Context) error {
	const pause = 200 * time.Millisecond
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		before, err := f.server.counted()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		after, err := f.server.counted()
		if err != nil || time.Duration(after.CPU-before.CPU)*time.Microsecond < pause/20 {
			return err
		}
	}
	return nil
}

// atOnce runs do for workers at once, and returns what all returned.
func atOnce(ctx context.Context, workers int, do func(w int) ([]lap, error)) ([]lap, error) {
	all, errs := make([][]lap, workers), make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { all[w], errs[w] = do(w) })
	}
	wg.Wait()
	return slices.Concat(all...), errors.Join(append(errs, ctx.Err())...)
}

// round is one measurement of turns.
type round struct {
	laps []lap
	used used // since its begin
}

// measure runs do at once, and returns what it used.
func (f *fleet) measure(ctx context.Context, workers int, do func(w int) ([]lap, error)) (r round, err error) {
	before, err := f.used()
	if err != nil {
		return r, err
	}
	if r.laps, err = atOnce(ctx, workers, do); err != nil {
		return r, err
	}
	after, err := f.used()
	r.used = used{counted{after.CPU - before.CPU, after.Fsyncs - before.Fsyncs, after.Disk - before.Disk}, after.in - before.in, after.out - before.out}
	return r, err
}

// quantile returns a quantile of what get returns of laps, in ms; 0 if it never is above 0.
func quantile(laps []lap, share float64, get func(lap) time.Duration) float64 {
	var ds []time.Duration
	for _, l := range laps {
		if d := get(l); d > 0 {
			ds = append(ds, d)
		}
	}
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	return float64(ds[min(int(share*float64(len(ds))), len(ds)-1)]) / 1e6
}

func middle(xs []float64) float64 {
	slices.Sort(xs)
	return xs[len(xs)/2]
}

// worked puts rounds together.
func worked(what string, rounds []round) Worked {
	var laps []lap
	for _, r := range rounds {
		laps = append(laps, r.laps...)
	}
	per := func(get func(used) float64) float64 {
		var xs []float64
		for _, r := range rounds {
			xs = append(xs, get(r.used)/float64(len(r.laps)))
		}
		return middle(xs)
	}
	p50 := func(get func(lap) time.Duration) float64 {
		var xs []float64
		for _, r := range rounds {
			xs = append(xs, quantile(r.laps, 0.5, get))
		}
		return middle(xs)
	}
	ofContext, ofAppend := func(l lap) time.Duration { return l.context }, func(l lap) time.Duration { return l.append }
	ofTurn := func(l lap) time.Duration { return l.context + l.append }
	w := Worked{What: what, Turns: len(laps), ContextP50: p50(ofContext), AppendP50: p50(ofAppend), TurnP50: p50(ofTurn),
		ContextP99: quantile(laps, 0.99, ofContext), AppendP99: quantile(laps, 0.99, ofAppend), TurnP99: quantile(laps, 0.99, ofTurn),
		CPU: per(func(u used) float64 { return float64(u.CPU) }), Disk: per(func(u used) float64 { return float64(u.Disk) }),
		Sent: per(func(u used) float64 { return float64(u.in) }), Wrote: per(func(u used) float64 { return float64(u.out) }),
		Fsyncs: per(func(u used) float64 { return float64(u.Fsyncs) }), ForkP50: quantile(laps, 0.5, func(l lap) time.Duration { return l.fork })}
	for _, l := range laps {
		if l.compacted {
			w.Compacted++
		}
	}
	return w
}
