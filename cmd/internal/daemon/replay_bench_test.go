package daemon

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream"
	"nexus/projections"
	"nexus/turns"
)

var replayTurns = flag.Int("replay-turns", 10_000, "turns of the ledger that BenchmarkReplay builds")

// BenchmarkReplay compares what reads the whole stream with a copy of the stream's bytes into
// Pebble, in turns: the rebuild of the projections, and the verification. It reports the
// ratios of the time and of the processor time of this process, which has the server too.
// The copy is a bare replay: it reads through a consumer of the server, as any program does.
// The file copy reads as the rebuild does, from the stream's files, and hashes each record.
//
//	go test ./cmd/internal/daemon -run '^$' -bench Replay -benchtime 5x -replay-turns 100000 -timeout 30m
func BenchmarkReplay(b *testing.B) {
	dir := b.TempDir()
	d, err := Open(b.Context(), config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 4 << 30, Search: "off"}) // the index of words would catch up beside what is measured
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := d.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	fillForReplay(b, d, *replayTurns)
	st, err := d.storage.Log.State(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	peers := map[string]iter.Seq2[[]byte, error]{"copy": consumed(b, d, st.Last), "file-copy": payloads(d.storage.Log.Read(b.Context(), 1, false))}
	took := map[string][]float64{}
	for b.Loop() {
		bare := map[string][2]float64{}
		for peer, stream := range peers {
			bare[peer] = usageOf(func() { copyStream(b, stream, filepath.Join(dir, "bare")) })
		}
		for name, f := range map[string]func(){
			"rebuild": func() { rebuildBeside(b, d, filepath.Join(dir, "again"), st.Last) },
			"verify": func() {
				v, err := d.engine.Audit.Verify(b.Context(), reader.Caller{Tenant: "default", Agent: "_"}, api.Verify{})
				if err != nil || !v.OK || v.Events != st.Last {
					b.Fatal(v, err)
				}
			},
		} {
			u := usageOf(f)
			for peer, of := range bare {
				took[name+"-of-"+peer] = append(took[name+"-of-"+peer], of[0]/u[0])
				took[name+"-of-"+peer+"-cpu"] = append(took[name+"-of-"+peer+"-cpu"], of[1]/u[1])
			}
			took[name+"-events/s"] = append(took[name+"-events/s"], float64(st.Last)/u[0])
		}
	}
	b.ReportMetric(0, "ns/op")
	for unit, values := range took {
		b.ReportMetric(median(values), unit)
	}
}

// consumed yields the payloads of the stream up to a position, through a consumer.
func consumed(b *testing.B, d *Daemon, last uint64) iter.Seq2[[]byte, error] {
	j, err := js.New(d.ledgerConn)
	if err != nil {
		b.Fatal(err)
	}
	return func(yield func([]byte, error) bool) {
		c, err := j.OrderedConsumer(b.Context(), jetstream.StreamName, js.OrderedConsumerConfig{})
		if err != nil {
			yield(nil, err)
			return
		}
		it, err := c.Messages(js.PullMaxMessages(5000))
		if err != nil {
			yield(nil, err)
			return
		}
		defer it.Stop()
		for range last {
			m, err := it.Next()
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(m.Data(), nil) {
				return
			}
		}
	}
}

func payloads(records iter.Seq2[ledger.Record, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for r, err := range records {
			if !yield(r.Payload, err) {
				return
			}
		}
	}
}

// fillForReplay appends turns of some 1 KiB to 64 sessions.
func fillForReplay(b testing.TB, d *Daemon, n int) {
	nc, err := d.Connect()
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	c := client.New(nc, "default", "main")
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			s, err := c.Create(b.Context(), api.CreateSession{})
			for i := 0; err == nil && i < n/64; i++ {
				text := ""
				for j := range 12 {
					text += fmt.Sprintf("%x and what follows from it; ", (w+1)*(i+7)*(j+3)*2654435761)
				}
				m := turns.TextMessage(turns.Assistant, text)
				_, err = c.Append(b.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, text+text)}, Response: &m})
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
}

// usageOf returns the seconds that f takes, and those of processor time of this process.
func usageOf(f func()) (out [2]float64) {
	cpu := func() float64 {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	began, used := time.Now(), cpu()
	f()
	return [2]float64{time.Since(began).Seconds(), cpu() - used}
}

func copyStream(b *testing.B, stream iter.Seq2[[]byte, error], dir string) {
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatValueSeparation, MemTableSize: 16 << 20})
	if err != nil {
		b.Fatal(err)
	}
	batch, n := db.NewBatch(), uint64(0)
	for payload, err := range stream {
		if n++; err == nil {
			err = batch.Set(binary.BigEndian.AppendUint64([]byte{'q'}, n), payload, nil)
		}
		if err == nil && batch.Count() == 500 {
			err = batch.Commit(pebble.NoSync)
			batch = db.NewBatch()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := batch.Commit(pebble.NoSync); err != nil {
		b.Fatal(err)
	}
	if err := db.Flush(); err != nil { // as the projections do when they are closed
		b.Fatal(err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	_ = os.RemoveAll(dir)
}

func rebuildBeside(b *testing.B, d *Daemon, dir string, last uint64) {
	s, err := projections.Open(projections.Config{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, d.storage.Log) }()
	if err := s.WaitFor(ctx, last); err != nil {
		b.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	_ = os.RemoveAll(dir)
}
