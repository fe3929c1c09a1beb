package explorer_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

var long = flag.Int("long", 10_000, "turns of the long session of BenchmarkExplorer")

// fill appends n turns, many at a time in their order.
func fill(b *testing.B, c *client.Client, s turns.ID, n int) {
	b.Helper()
	for i := range n {
		m := turns.TextMessage(turns.Assistant, fmt.Sprintf("Answer %d: it is in **file-%d.go**, below `func main`.", i, i))
		if _, err := c.Append(context.Background(), s, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, fmt.Sprint("Where is thing ", i, "?"))}, Response: &m}); err != nil {
			b.Fatal(err)
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

// BenchmarkExplorer has the time to the first byte and the bytes of pages of a short and of a
// long session.
func BenchmarkExplorer(b *testing.B) {
	d, c := start(b, config.Config{})
	for _, n := range []int{100, *long} {
		s, err := c.Create(context.Background(), api.CreateSession{})
		if err != nil {
			b.Fatal(err)
		}
		fill(b, c, s.ID, n)
		look := loggedIn(b, d, c.As(api.Operator), api.OpenPages{})
		for name, path := range map[string]string{"first": "", "middle": fmt.Sprint("?from=", n/2), "last": "?from=last"} {
			b.Run(fmt.Sprintf("turns=%d/%s", n, name), func(b *testing.B) {
				size, first := 0, time.Duration(0)
				for b.Loop() {
					began := time.Now()
					a, err := look.Get(look.base + "/ui/s/" + s.ID.String() + path)
					if err != nil || a.StatusCode != http.StatusOK {
						b.Fatal(a, err)
					}
					first += time.Since(began)
					size = drain(b, a)
				}
				b.ReportMetric(float64(size), "bytes/page")
				b.ReportMetric(float64(first.Microseconds())/float64(b.N)/1000, "first-byte-ms/op")
			})
		}
	}
}
