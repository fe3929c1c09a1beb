package explorer_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

var (
	long = flag.Int("long", 10_000, "turns of the long session of BenchmarkExplorer")
	many = flag.Int("many", 1_000, "sessions that BenchmarkExplorer ends with")
	each = flag.Int("compact-each", 500, "turns after which the sessions of BenchmarkExplorer are compacted, as those of agents are; 0: never")
)

// fill appends n turns, many at a time in their order.
func fill(b *testing.B, c *client.Client, s turns.ID, n int) {
	b.Helper()
	for i := range n {
		m := turns.TextMessage(turns.Assistant, fmt.Sprintf("Answer %d: it is in **file-%d.go**, below `func main`.", i, i))
		if _, err := c.Append(context.Background(), s, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, fmt.Sprint("Where is thing ", i, "?"))}, Response: &m}); err != nil {
			b.Fatal(err)
		}
		if *each > 0 && i%*each == *each-1 {
			if _, err := c.Compact(context.Background(), s, api.RunCompaction{AtOnce: true}); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// settle waits until the process allocates nothing any more: what a page before reads behind itself (the cost of a
// session) is not of the page that is measured next.
func settle() {
	var before, now runtime.MemStats
	for runtime.ReadMemStats(&before); ; before = now {
		time.Sleep(time.Second)
		if runtime.ReadMemStats(&now); now.TotalAlloc-before.TotalAlloc < 1<<20 {
			return
		}
	}
}

func drain(b *testing.B, a *http.Response) int {
	b.Helper()
	defer a.Body.Close()
	n, err := io.Copy(io.Discard, a.Body)
	if err != nil {
		b.Fatal(err)
	}
	return int(n)
}

// BenchmarkExplorer has the time to the first byte, the bytes, and the memory that is allocated, of
// pages of a ledger with a short session and few sessions, and of the same ledger with a long
// session and many.
func BenchmarkExplorer(b *testing.B) {
	d, c := explorertest.Start(b, config.Config{})
	ctx := context.Background()
	sessions := 0
	for _, size := range []struct{ turns, sessions int }{{100, 100}, {*long, *many}} {
		s, err := c.Create(ctx, api.CreateSession{})
		if err != nil {
			b.Fatal(err)
		}
		fill(b, c, s.ID, size.turns)
		for ; sessions < size.sessions; sessions++ {
			other, err := c.Create(ctx, api.CreateSession{})
			if err != nil {
				b.Fatal(err)
			}
			fill(b, c, other.ID, 1)
		}
		middle := ""
		for t, err := range c.Turns(ctx, s.ID, api.ListTurns{From: uint64(size.turns / 2), Page: api.Page{Limit: 1}}) {
			if err != nil {
				b.Fatal(err)
			}
			middle = t.ID.String()
			break
		}
		look, id := explorertest.LoggedIn(b, d, c.As(api.Operator), api.OpenPages{}), s.ID.String()
		for _, page := range []struct{ name, path string }{
			{"sessions", "/ui/"}, {"session", "/ui/s/" + id}, {"session-middle", fmt.Sprintf("/ui/s/%s?from=%d", id, size.turns/2)}, {"session-last", "/ui/s/" + id + "?from=last"},
			{"turn-middle", "/ui/s/" + id + "/t/" + middle}, {"context-middle", "/ui/s/" + id + "/x/" + middle}, {"search", "/ui/search?q=thing"}, {"cost", "/ui/cost"}, {"health", "/ui/health"}, {"checkpoints", "/ui/checkpoints"}, {"compaction-preview", "/ui/s/" + id + "/compact"},
		} {
			b.Run(fmt.Sprintf("turns=%d,sessions=%d/%s", size.turns, size.sessions, page.name), func(b *testing.B) {
				bytes, first := 0, time.Duration(0)
				settle()
				b.ReportAllocs()
				for b.Loop() {
					began := time.Now()
					a, err := look.Get(look.Base + page.path)
					if err != nil || a.StatusCode != http.StatusOK {
						b.Fatal(a, err)
					}
					first += time.Since(began)
					bytes = drain(b, a)
				}
				b.ReportMetric(float64(bytes)/1000, "kB/page")
				b.ReportMetric(float64(first.Microseconds())/float64(b.N)/1000, "first-byte-ms/op")
			})
		}
	}
}
