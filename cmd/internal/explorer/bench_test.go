package explorer_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
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

// turnAt returns the id of the turn of a session at a depth.
func turnAt(b *testing.B, c *client.Client, s turns.ID, depth int) string {
	b.Helper()
	list, err := c.TurnPage(context.Background(), s, api.ListTurns{From: uint64(depth), Page: api.Page{Limit: 1}})
	if err != nil || len(list.Turns) == 0 {
		b.Fatal(list, err)
	}
	return list.Turns[0].ID.String()
}

// until asks for a page until it lacks a text.
func until(b *testing.B, look *explorertest.Browser, page, without string) {
	b.Helper()
	for {
		a, err := look.Get(look.Base + page)
		if err != nil || a.StatusCode != http.StatusOK {
			b.Fatal(a, err)
		}
		body, err := io.ReadAll(a.Body)
		if a.Body.Close(); err != nil {
			b.Fatal(err)
		}
		if !strings.Contains(string(body), without) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
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
		middle := turnAt(b, c, s.ID, size.turns/2)
		look, id := explorertest.LoggedIn(b, d, c.As(api.Operator), api.OpenPages{}), s.ID.String()
		pages := []struct{ name, path, until string }{ // until: it is asked for until it lacks this
			{"sessions", "/ui/", ""}, {"session-first", "/ui/s/" + id, ""}, {"session-cost", "/ui/s/" + id, "being added up"}, {"session", "/ui/s/" + id, ""},
			{"session-middle", fmt.Sprintf("/ui/s/%s?from=%d", id, size.turns/2), ""}, {"session-last", "/ui/s/" + id + "?from=last", ""},
			{"turn-middle", "/ui/s/" + id + "/t/" + middle, ""}, {"context-middle", "/ui/s/" + id + "/x/" + middle, ""}, {"search", "/ui/search?q=thing", ""},
			{"cost-first", "/ui/cost", ""}, {"cost-calls", "/ui/cost", "being added up"}, {"cost", "/ui/cost", ""},
			{"health", "/ui/health", ""}, {"checkpoints", "/ui/checkpoints", ""}, {"compaction-preview", "/ui/s/" + id + "/compact", ""},
		}
		if size.turns == 100 && *each > 0 { // as large a context as that in the middle of the long session
			n := *each + *long/2%(*each+1)
			other, err := c.Create(ctx, api.CreateSession{})
			if err != nil {
				b.Fatal(err)
			}
			like := other.ID
			fill(b, c, like, n)
			pages = append(pages, struct{ name, path, until string }{"context-as-large", "/ui/s/" + like.String() + "/x/" + turnAt(b, c, like, n), ""})
		}
		for _, page := range pages {
			b.Run(fmt.Sprintf("turns=%d,sessions=%d/%s", size.turns, size.sessions, page.name), func(b *testing.B) {
				bytes, first := 0, time.Duration(0)
				if page.until == "" { // else it measures what is left of what the page before began behind itself
					settle()
				}
				b.ReportAllocs()
				for b.Loop() {
					if page.until != "" {
						until(b, look, page.path, page.until)
						continue
					}
					began := time.Now()
					a, err := look.Get(look.Base + page.path)
					if err != nil || a.StatusCode != http.StatusOK {
						b.Fatal(a, err)
					}
					first += time.Since(began)
					bytes = drain(b, a)
				}
				if page.until == "" {
					b.ReportMetric(float64(bytes)/1000, "kB/page")
					b.ReportMetric(float64(first.Microseconds())/float64(b.N)/1000, "first-byte-ms/op")
				}
			})
		}
	}
}
