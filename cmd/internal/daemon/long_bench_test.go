package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// BenchmarkLongSession is what an audit asks of one session of so many turns, compacted as
// it grew. whole: the events per second of its verification, against those of the whole
// ledger's, which has little else, and the milliseconds of the first page of its lost facts. pages: the
// first page of its verification, of 2,000 events, against that of a session of 2,000 turns, by time and
// by processor time; then all of its pages, and the longest of them.
//
//	go test ./cmd/internal/daemon -run '^$' -bench LongSession/pages -benchtime 5x -replay-turns 200000 -timeout 60m
func BenchmarkLongSession(b *testing.B) {
	d, err := Open(b.Context(), config.Config{Data: b.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 4 << 30, Search: "off"})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := d.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	long, short := reader.Caller{Tenant: "default", Agent: "main"}, reader.Caller{Tenant: "default", Agent: "short"}
	s := fillLongSession(b, d, long, *replayTurns)
	b.Run("whole", func(b *testing.B) { benchmarkWhole(b, d, long, s) })
	b.Run("pages", func(b *testing.B) { benchmarkPages(b, d, short, fillLongSession(b, d, short, 2000), long, s) })
}

func benchmarkWhole(b *testing.B, d *Daemon, agent reader.Caller, s turns.ID) {
	took := map[string][]float64{}
	for b.Loop() {
		for name, r := range map[string]struct {
			c   reader.Caller
			req api.Verify
		}{
			"ledger":  {reader.Caller{Tenant: "default", Agent: "_"}, api.Verify{}},
			"session": {agent, api.Verify{Sessions: []turns.ID{s}}},
		} {
			u := usageOf(func() {
				v, err := d.engine.Audit.Verify(b.Context(), r.c, r.req)
				if err != nil || !v.OK || v.Turns < uint64(*replayTurns) {
					b.Fatal(v, err)
				}
				took[name+"-events/s"] = append(took[name+"-events/s"], float64(v.Events))
			})
			all := took[name+"-events/s"]
			took[name+"-cpu-µs/event"] = append(took[name+"-cpu-µs/event"], u[1]*1e6/all[len(all)-1])
			all[len(all)-1] /= u[0]
		}
		u := usageOf(func() {
			if _, err := d.engine.Covered.Lost(b.Context(), agent, s, api.ListLost{PerKind: 20}); err != nil {
				b.Fatal(err)
			}
		})
		took["lost-ms"] = append(took["lost-ms"], u[0]*1e3)
		took["lost-cpu-ms"] = append(took["lost-cpu-ms"], u[1]*1e3)
	}
	reportMedians(b, took)
}

func benchmarkPages(b *testing.B, d *Daemon, short reader.Caller, of turns.ID, long reader.Caller, s turns.ID) {
	took := map[string][]float64{}
	page := func(name string, c reader.Caller, s turns.ID, after string) (next string) {
		for {
			var v *api.Verified
			var err error
			u := usageOf(func() {
				v, err = d.engine.Audit.Verify(b.Context(), c, api.Verify{Sessions: []turns.ID{s}, Page: api.Page{After: after, Limit: 2000}})
			})
			if errors.Is(err, ledger.ErrBusy) {
				time.Sleep(200 * time.Millisecond) // the one before waits for its next page
				continue
			}
			if err != nil || v.Count > 0 {
				b.Fatal(v, err)
			}
			took[name+"-ms"] = append(took[name+"-ms"], u[0]*1e3)
			took[name+"-cpu-ms"] = append(took[name+"-cpu-ms"], u[1]*1e3)
			return v.Next
		}
	}
	for b.Loop() {
		page("short", short, of, "")
		page("long", long, s, "")
	}
	began := time.Now()
	for next := page("all", long, s, ""); next != ""; {
		next = page("all", long, s, next)
	}
	all := took["all-ms"]
	took["pages"], took["longest-ms"], took["all-s"] = []float64{float64(len(all))}, []float64{slices.Max(all)}, []float64{time.Since(began).Seconds()}
	took["ratio"] = []float64{median(took["long-ms"]) / median(took["short-ms"])}
	took["cpu-ratio"] = []float64{median(took["long-cpu-ms"]) / median(took["short-cpu-ms"])}
	reportMedians(b, took)
}

func reportMedians(b *testing.B, took map[string][]float64) {
	b.ReportMetric(0, "ns/op")
	for unit, values := range took {
		b.ReportMetric(median(values), unit)
	}
}

// fillLongSession makes a session of n turns of some 1 KiB, whose context has 60,000 tokens,
// and compacts it as it is due.
func fillLongSession(b *testing.B, d *Daemon, agent reader.Caller, n int) turns.ID {
	s, err := d.engine.Sessions.Create(b.Context(), agent, api.CreateSession{SessionSettings: api.SessionSettings{Limits: &turns.Limits{ContextWindow: 60_000}}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		text := ""
		for j := range 12 {
			text += fmt.Sprintf("%x and what follows from it; ", (i+7)*(j+3)*2654435761)
		}
		m := turns.TextMessage(turns.Assistant, text)
		if _, err := d.engine.Sessions.Append(b.Context(), agent, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, text+text)}, Response: &m}, nil); err != nil {
			b.Fatal(err)
		}
		if i%50 == 49 { // a compaction that is due is made
			if _, err := d.engine.Contexts.Context(b.Context(), agent, s.ID, api.GetContext{}); err != nil {
				b.Fatal(err)
			}
		}
	}
	return s.ID
}
