package daemon

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// BenchmarkCreate measures what opens a session beside an append of 2 kB, over NATS, by clients with a
// connection each that wait for their answers.
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
	for _, clients := range []int{1, 32} {
		for name, do := range map[string]func(c *client.Client, s, t turns.ID) error{
			"append": func(c *client.Client, s, _ turns.ID) error {
				_, err := c.Append(b.Context(), s, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, benchText)}})
				return err
			},
			"create": func(c *client.Client, _, _ turns.ID) error {
				_, err := c.Create(b.Context(), api.CreateSession{})
				return err
			},
			"fork": func(c *client.Client, s, t turns.ID) error {
				_, err := c.Fork(b.Context(), s, api.CreateFork{Turn: t})
				return err
			},
		} {
			b.Run(fmt.Sprintf("%s by %d", name, clients), func(b *testing.B) {
				type worker struct {
					c    *client.Client
					s, t turns.ID
				}
				var workers []worker
				for range clients {
					w := worker{c: connect()}
					s, err := w.c.Create(b.Context(), api.CreateSession{})
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
				var mu sync.Mutex
				var took []time.Duration
				work := make(chan struct{})
				var wg sync.WaitGroup
				b.ResetTimer()
				for _, w := range workers {
					wg.Go(func() {
						for range work {
							began := time.Now()
							if err := do(w.c, w.s, w.t); err != nil {
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
