package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// BenchmarkStart measures what a history costs a daemon that was stopped cleanly: the time
// from its start to the first read that it serves, beside a daemon with one session of one
// turn; and then appends, contexts and forks over NATS, beside the same of the small one.
// All of them take turns. It reports the ratios of the medians, of the time and of the
// processor time of this process, clients included.
//
//	go test ./cmd/nexusd/daemon -run '^$' -bench Start -benchtime 5x -replay-turns 1000000 -timeout 60m
func BenchmarkStart(b *testing.B) {
	large, small := filepath.Join(b.TempDir(), "large"), filepath.Join(b.TempDir(), "small")
	open := func(dir string) (*Daemon, *api.Client, func()) {
		d, err := Open(b.Context(), Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 16 << 30})
		if err != nil {
			b.Fatal(err)
		}
		nc, err := d.Connect()
		if err != nil {
			b.Fatal(err)
		}
		return d, api.NewClient(nc, "default", "main"), func() {
			nc.Close()
			if err := d.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
	n := *replayTurns
	for dir, turns := range map[string]int{large: n, small: 64} {
		d, _, end := open(dir)
		fillForReplay(b, d, turns)
		st, err := d.log.State(b.Context())
		if err == nil {
			err = d.store.WaitFor(b.Context(), st.Last)
		}
		if err != nil {
			b.Fatal(err)
		}
		end()
	}
	took := map[string]map[string][]float64{large: {}, small: {}}
	for b.Loop() {
		for dir, took := range took {
			measure := func(name string, f func() error) {
				used := usageOf(func() {
					if err := f(); err != nil {
						b.Fatal(name, err)
					}
				})
				took[name], took[name+"-cpu"] = append(took[name], used[0]), append(took[name+"-cpu"], used[1])
			}
			var c *api.Client
			var end func()
			var old api.Session
			measure("start", func() error {
				_, c, end = open(dir)
				for s, err := range c.Sessions(b.Context()) {
					old = s
					return err
				}
				return errors.New("no session")
			})
			for range 20 {
				s, err := c.Create(b.Context(), api.CreateSession{})
				if err != nil {
					b.Fatal(err)
				}
				m := turns.TextMessage(turns.Assistant, "and that")
				for range 5 {
					measure("append", func() error {
						_, err := c.Append(b.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "this")}, Response: &m})
						return err
					})
					measure("context", func() error {
						_, err := c.Context(b.Context(), s.ID, api.GetContext{})
						return err
					})
				}
				measure("fork", func() error {
					_, err := c.Fork(b.Context(), old.ID, api.CreateFork{Turn: *old.Head})
					return err
				})
			}
			end()
		}
	}
	b.ReportMetric(0, "ns/op")
	for name := range took[large] {
		b.ReportMetric(median(took[large][name])*1e3, name+"-ms")
		b.ReportMetric(median(took[large][name])/median(took[small][name]), name+"-ratio")
	}
}
