package daemon

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// BenchmarkCreate measures what opens a session beside an append of 2 kB, over NATS, by clients with a
// connection each that wait for their answers. With 40 kB, the sessions have a system part of that size
// and 20 tools: of create in its request, of fork in the session that it forks.
func BenchmarkCreate(b *testing.B) {
	d, err := Open(b.Context(), config.Config{Data: b.TempDir(), Listen: "127.0.0.1:0", HTTP: "off"})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close(b.Context())
	connect := func() *client.Client {
		nc, err := d.Connect()
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(nc.Close)
		return client.New(nc, "default", "main")
	}
	system, tools := enginetest.Preamble(40_000)
	large := api.CreateSession{SessionSettings: api.SessionSettings{System: &system, Tools: &tools}}
	create := func(r api.CreateSession) func(*client.Client, turns.ID, turns.ID) error {
		return func(c *client.Client, _, _ turns.ID) error {
			_, err := c.Create(b.Context(), r)
			return err
		}
	}
	fork := func(c *client.Client, s, t turns.ID) error {
		_, err := c.Fork(b.Context(), s, api.CreateFork{Turn: t})
		return err
	}
	for _, clients := range []int{1, 32} {
		for _, verb := range []struct {
			name string
			of   api.CreateSession // what the clients' sessions are
			do   func(c *client.Client, s, t turns.ID) error
		}{
			{"append", api.CreateSession{}, func(c *client.Client, s, _ turns.ID) error {
				_, err := c.Append(b.Context(), s, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, benchText)}})
				return err
			}},
			{"create", api.CreateSession{}, create(api.CreateSession{})},
			{"fork", api.CreateSession{}, fork},
			{"create with 40 kB", api.CreateSession{}, create(large)},
			{"fork with 40 kB", large, fork},
		} {
			b.Run(fmt.Sprintf("%s by %d", verb.name, clients), func(b *testing.B) {
				type worker struct {
					c    *client.Client
					s, t turns.ID
				}
				var workers []worker
				for range clients {
					w := worker{c: connect()}
					s, err := w.c.Create(b.Context(), verb.of)
					if err != nil {
						b.Fatal(err)
					}
					t, err := w.c.Append(b.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, benchText)}})
					if err != nil {
						b.Fatal(err)
					}
					w.s, w.t = s.ID, t.ID
					workers = append(workers, w)
				}
				runtime.GC()
				before := processorTime(b)
				var mu sync.Mutex
				var took []time.Duration
				work := make(chan struct{})
				var wg sync.WaitGroup
				b.ResetTimer()
				for _, w := range workers {
					wg.Go(func() {
						for range work {
							began := time.Now()
							if err := verb.do(w.c, w.s, w.t); err != nil {
								b.Error(err)
							}
							mu.Lock()
							took = append(took, time.Since(began))
							mu.Unlock()
						}
					})
				}
				for range b.N {
					work <- struct{}{}
				}
				close(work)
				wg.Wait()
				b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-µs")
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "1/s")
			})
		}
	}
}

// benchText is 2 kB of words.
var benchText = func() string {
	var s string
	for i := 0; len(s) < 2048; i++ {
		s += fmt.Sprintf("word %d of what was said, ", i*i)
	}
	return s
}()
