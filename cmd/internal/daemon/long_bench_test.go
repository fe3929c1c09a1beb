package daemon

import (
	"context"
	"fmt"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger/api"
	"nexus/turns"
)

// BenchmarkLongSession is what an audit asks of one session of so many turns, compacted as
// it grew: the events per second of its verification, against those of the whole
// ledger's, which has little else, and the milliseconds of the first page of its lost facts.
//
//	go test ./cmd/internal/daemon -run '^$' -bench LongSession -benchtime 3x -replay-turns 200000 -timeout 60m
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
	agent := reader.Caller{Tenant: "default", Agent: "main"}
	s := fillLongSession(b, d, agent, *replayTurns)
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
