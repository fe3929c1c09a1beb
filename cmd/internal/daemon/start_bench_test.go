package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	js "github.com/nats-io/nats.go/jetstream"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/embed"
	"nexus/turns"
)

var startFolder = flag.String("start-folder", "", "folder in which BenchmarkStart keeps its ledgers for the next run")

// BenchmarkStart measures what a history costs a daemon that was stopped cleanly: the time
// from its start to the first read that it serves, beside a daemon with one session of one
// turn; and then appends, contexts and forks over NATS, beside the same of the small one.
// Before each start it starts the NATS server alone on the same folder, and reads the last
// record: that is the part of a start that nexusd can't change. It reports its medians too,
// and how much of the newest block is full: server and daemon read that block at a start.
// All of them take turns. It reports the medians of the large ledger and their ratios to those
// of the small one, of the time and of the processor time of this process, clients included.
//
//	go test ./cmd/internal/daemon -run '^$' -bench Start -benchtime 5x -replay-turns 1000000 -timeout 60m
func BenchmarkStart(b *testing.B) {
	n := *replayTurns
	top := *startFolder
	if top == "" {
		top = b.TempDir()
	}
	large, small := filepath.Join(top, fmt.Sprint(n)), filepath.Join(top, "64")
	open := func(dir string) (*Daemon, *client.Client, func()) {
		d, err := Open(b.Context(), config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 16 << 30})
		if err != nil {
			b.Fatal(err)
		}
		nc, err := d.Connect()
		if err != nil {
			b.Fatal(err)
		}
		return d, client.New(nc, "default", "main"), func() {
			nc.Close()
			if err := d.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
	for dir, turns := range map[string]int{large: n, small: 64} {
		if _, err := os.Stat(dir); err == nil {
			continue // of an earlier run
		}
		d, _, end := open(dir)
		fillForReplay(b, d, turns)
		st, err := d.storage.Log.State(b.Context())
		if err == nil {
			err = d.storage.Projections.WaitFor(b.Context(), st.Last)
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
			var c *client.Client
			var end func()
			var old api.Session
			var server *embed.Server
			measure("bare", func() (err error) {
				server, err = startBare(b.Context(), dir)
				return err
			})
			if err := server.Close(); err != nil {
				b.Fatal(err)
			}
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
	newest, err := newestBlock(embed.StreamDir(large, jetstream.StreamName))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(newest)/(1<<20), "newest-block-MiB")
	for name := range took[large] {
		b.ReportMetric(median(took[large][name])*1e3, name+"-ms")
		b.ReportMetric(median(took[large][name])/median(took[small][name]), name+"-ratio")
	}
}

// startBare starts the server on a data folder that no daemon has open, and reads the last record.
func startBare(ctx context.Context, dir string) (*embed.Server, error) {
	s, err := embed.Start(embed.Config{DataDir: dir, MaxStore: 16 << 30, NoSync: true})
	if err != nil {
		return nil, err
	}
	nc, err := s.LedgerConn()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	defer nc.Close()
	log, err := js.New(nc)
	if err != nil {
		return s, err
	}
	stream, err := log.Stream(ctx, jetstream.StreamName)
	if err != nil {
		return s, err
	}
	_, err = stream.GetMsg(ctx, stream.CachedInfo().State.LastSeq)
	return s, err
}

// newestBlock returns the size of the newest block of a stream.
func newestBlock(dir string) (int64, error) {
	numbers, err := blocks.Numbers(dir)
	if err != nil || len(numbers) == 0 {
		return 0, err
	}
	st, err := os.Stat(filepath.Join(dir, blocks.Path(numbers[len(numbers)-1])))
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}
