package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/compactor"
	"nexus/compactor/summary"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// blocked is a summarizer that works until it is released.
type blocked struct{ begun, end chan struct{} }

func (h *blocked) Summarize(ctx context.Context, _ summary.Input) (summary.Output, error) {
	h.begun <- struct{}{}
	select {
	case <-h.end:
		return summary.Output{Text: "what was said so far"}, nil
	case <-ctx.Done():
		return summary.Output{}, ctx.Err()
	}
}

// BenchmarkAppendWhileCompacting measures what an append costs while a
// summarizer is at work on the same session, against one without, in turns, so
// that a noisy machine is as noisy for both. It reports the median of the ratios
// of the 99th percentiles of each pair of rounds, and of the medians:
//
//	go test ./cmd/internal/daemon -run '^$' -bench AppendWhileCompacting -benchtime 20x
func BenchmarkAppendWhileCompacting(b *testing.B) {
	h := &blocked{make(chan struct{}), make(chan struct{})}
	d, err := Open(b.Context(), config.Config{
		Data: b.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30,
		Models: []compactor.Tier{{Name: "blocked", Summarizer: h}},
	})
	if err != nil {
		b.Fatal(err)
	}
	nc, err := d.Connect()
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		nc.Close()
		if err := d.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	c := client.New(nc, "default", "main")
	s, err := c.Create(b.Context(), api.CreateSession{})
	if err != nil {
		b.Fatal(err)
	}
	const each = 300
	text := strings.Repeat("some text of a turn, ", 40)
	round := func() []time.Duration {
		took := make([]time.Duration, each)
		for i := range took {
			m := turns.TextMessage(turns.Assistant, text)
			began := time.Now()
			if _, err := c.Append(b.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, text)}, Response: &m}); err != nil {
				b.Fatal(err)
			}
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		return took
	}
	round() // what a compaction can cover
	var p99, p50 []float64
	for b.Loop() {
		var without []time.Duration
		if len(p99)%2 == 0 { // as often before as after: a session grows, a machine warms up
			without = round()
		}
		run, err := c.Compact(b.Context(), s.ID, api.RunCompaction{})
		if err != nil || run.State != "running" {
			b.Fatal(fmt.Sprintf("%+v", run), err)
		}
		<-h.begun
		with := round()
		h.end <- struct{}{}
		if run, err = c.Compact(b.Context(), s.ID, api.RunCompaction{ID: run.ID, WaitMS: 20_000}); err != nil || run.State != "done" {
			b.Fatal(fmt.Sprintf("%+v", run), err)
		}
		if without == nil {
			without = round()
		}
		p99 = append(p99, float64(with[each*99/100])/float64(without[each*99/100]))
		p50 = append(p50, float64(with[each/2])/float64(without[each/2]))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(p99), "p99-ratio")
	b.ReportMetric(median(p50), "p50-ratio")
}

func median(xs []float64) float64 {
	slices.Sort(xs)
	return xs[len(xs)/2]
}

// BenchmarkAppends measures appends over NATS, sealed, chained and projected, by writers
// that each append to a session of their own, over four connections of four agents.
//
//	go test ./cmd/internal/daemon -run '^$' -bench Appends -benchtime 5000x
func BenchmarkAppends(b *testing.B) {
	for _, writers := range []int{1, 64, 512} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			d, err := Open(b.Context(), config.Config{Data: b.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 4 << 30})
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := d.Close(context.Background()); err != nil {
					b.Error(err)
				}
			}()
			clients := make([]*client.Client, min(4, writers))
			for i := range clients {
				nc, err := d.Connect()
				if err != nil {
					b.Fatal(err)
				}
				defer nc.Close()
				clients[i] = client.New(nc, "default", fmt.Sprint("agent", i))
			}
			text := strings.Repeat("some text of a turn, ", 48) // a turn of 2 KiB
			sessions := make([]turns.ID, writers)
			for w := range sessions {
				s, err := clients[w%len(clients)].Create(b.Context(), api.CreateSession{})
				if err != nil {
					b.Fatal(err)
				}
				sessions[w] = s.ID
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			took := make([][]time.Duration, writers)
			b.ResetTimer()
			var wg sync.WaitGroup
			for w, id := range sessions {
				wg.Go(func() {
					m := turns.TextMessage(turns.Assistant, text)
					for left.Add(-1) >= 0 {
						began := time.Now()
						if _, err := clients[w%len(clients)].Append(b.Context(), id, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, text)}, Response: &m}); err != nil {
							b.Error(err)
							return
						}
						took[w] = append(took[w], time.Since(began))
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			all := slices.Concat(took...)
			slices.Sort(all)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
			b.ReportMetric(float64(all[len(all)/2])/1e6, "p50-ms")
			b.ReportMetric(float64(all[len(all)*99/100])/1e6, "p99-ms")
		})
	}
}
