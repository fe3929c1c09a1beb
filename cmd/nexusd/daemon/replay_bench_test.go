package daemon

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/ledger/api"
	"nexus/projections"
	"nexus/turns"
)

var replayTurns = flag.Int("replay-turns", 10_000, "turns of the ledger that BenchmarkReplay builds")

// BenchmarkReplay compares what reads the whole stream with a copy of the stream's bytes into
// Pebble, in turns: the rebuild of the projections, and the verification. It reports the
// ratios of the time and of the processor time of this process, which has the server too.
//
//	go test ./cmd/nexusd/daemon -run '^$' -bench Replay -benchtime 5x -replay-turns 100000 -timeout 30m
func BenchmarkReplay(b *testing.B) {
	dir := b.TempDir()
	d, err := Open(b.Context(), Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 4 << 30, Search: "off"}) // the index of words would catch up beside what is measured
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := d.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	fillForReplay(b, d, *replayTurns)
	st, err := d.log.State(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	took := map[string]*[2][]float64{"rebuild": {}, "verify": {}}
	rates := map[string][]float64{}
	for b.Loop() {
		bare := usageOf(func() { copyStream(b, d, filepath.Join(dir, "bare")) })
		for name, f := range map[string]func(){
			"rebuild": func() { rebuildBeside(b, d, filepath.Join(dir, "again"), st.Last) },
			"verify": func() {
				v, err := d.engine.Verify(b.Context(), reader.Caller{Tenant: "default", Agent: "_"}, api.Verify{})
				if err != nil || !v.OK || v.Events != st.Last {
					b.Fatal(v, err)
				}
			},
		} {
			u := usageOf(f)
			for i := range u {
				took[name][i] = append(took[name][i], bare[i]/u[i])
			}
			rates[name] = append(rates[name], float64(st.Last)/u[0])
		}
	}
	b.ReportMetric(0, "ns/op")
	for name, r := range took {
		b.ReportMetric(median(r[0]), name+"-of-copy")
		b.ReportMetric(median(r[1]), name+"-of-its-cpu")
		b.ReportMetric(median(rates[name]), name+"-events/s")
	}
}

// fillForReplay appends turns of some 1 KiB to 64 sessions.
func fillForReplay(b testing.TB, d *Daemon, n int) {
	nc, err := d.Connect()
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	c := api.NewClient(nc, "default", "main")
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

func copyStream(b *testing.B, d *Daemon, dir string) {
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatValueSeparation, MemTableSize: 16 << 20})
	if err != nil {
		b.Fatal(err)
	}
	batch := db.NewBatch()
	for r, err := range d.log.Read(b.Context(), 1, false) {
		if err == nil {
			err = batch.Set(binary.BigEndian.AppendUint64([]byte{'q'}, r.Seq), r.Payload, nil)
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
	go func() { done <- s.Run(ctx, d.log) }()
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
