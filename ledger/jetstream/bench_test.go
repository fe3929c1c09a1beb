package jetstream

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/groupsync"
	"nexus/turns"
)

// benchLog is a fresh R1 ledger on an embedded server, every ack after an fsync
// unless noSync.
func benchLog(b *testing.B, noSync bool) *Log { return benchLogOf(b, noSync, false) }

func benchLogOf(b *testing.B, noSync, group bool) *Log {
	b.Helper()
	dir := b.TempDir()
	s, err := embed.Start(embed.Config{DataDir: dir, MaxStore: 16 << 30, NoSync: noSync})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	nc, err := s.LedgerConn()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	c := Config{Create: true, Ledger: uuid.NewString()}
	if group {
		c.GroupSync = func(stream string) (*groupsync.Stream, error) {
			return groupsync.Open(groupsync.Config{Dir: embed.StreamDir(dir, stream), Top: dir, Failed: func(err error) { b.Error(err) }})
		}
	}
	l, err := Open(context.Background(), stream(b, nc), c)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

const benchPayload = 1 << 10

// appender is Append, or the bare publish that it stands on with the same headers.
type appender func(ctx context.Context, l *Log, subject string, tail uint64, p []byte) (uint64, error)

var appenders = []struct {
	name string
	do   appender
}{
	{"append", func(ctx context.Context, l *Log, s string, tail uint64, p []byte) (uint64, error) {
		return l.Append(ctx, s, tail, p)
	}},
	{"bare", func(ctx context.Context, l *Log, s string, tail uint64, p []byte) (uint64, error) {
		ack, err := l.js.PublishMsg(ctx, &nats.Msg{Subject: s, Data: p, Header: nats.Header{
			expectHeader: {strconv.FormatUint(tail, 10)}, hashHeader: {turns.HashEvent(p).String()}}})
		if err != nil {
			return 0, err
		}
		return ack.Sequence, nil
	}},
}

func BenchmarkSequential(b *testing.B) {
	for _, a := range appenders {
		b.Run(a.name, func(b *testing.B) {
			l, p := benchLog(b, false), make([]byte, benchPayload)
			b.ReportAllocs()
			b.SetBytes(benchPayload)
			var tail uint64
			for b.Loop() {
				var err error
				if tail, err = a.do(context.Background(), l, subjectA, tail, p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// appendAll lets writers append b.N records, each on a subject of its own.
func appendAll(b *testing.B, l *Log, do appender, writers int, p []byte) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			subject := fmt.Sprint("nexus.log.00.t.s.W", w)
			for tail := uint64(0); left.Add(-1) >= 0; {
				var err error
				if tail, err = do(context.Background(), l, subject, tail, p); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkParallel has 64 writers, each on a subject of its own.
func BenchmarkParallel(b *testing.B) {
	const writers = 64
	for _, a := range appenders {
		b.Run(a.name, func(b *testing.B) {
			l, p := benchLog(b, false), make([]byte, benchPayload)
			b.ReportAllocs()
			b.SetBytes(benchPayload)
			appendAll(b, l, a.do, writers, p)
		})
	}
}

// BenchmarkRead replays a log of 50,000 records of 1 KiB; an op is one replay.
func BenchmarkRead(b *testing.B) {
	const records = 50_000
	l, p := benchLog(b, true), make([]byte, benchPayload)
	var wg sync.WaitGroup
	for w := range 50 {
		wg.Go(func() {
			subject := fmt.Sprint("nexus.log.00.t.s.W", w)
			var tail uint64
			for range records / 50 {
				var err error
				if tail, err = l.Append(context.Background(), subject, tail, p); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.SetBytes(records * benchPayload)
	for b.Loop() {
		n := 0
		for _, err := range l.Read(context.Background(), 1, false) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != records {
			b.Fatalf("%d records, want %d", n, records)
		}
	}
	b.ReportMetric(records*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkGroup compares a fsync for each record with one for all that wait, and with none.
func BenchmarkGroup(b *testing.B) {
	for _, writers := range []int{1, 4, 16, 64, 512} {
		for _, m := range []struct {
			name          string
			a             int
			noSync, group bool
		}{{"bare-always", 1, false, false}, {"append-always", 0, false, false}, {"append-group", 0, true, true}, {"append-nosync", 0, true, false}} {
			b.Run(fmt.Sprint(m.name, "/", writers), func(b *testing.B) {
				l, p := benchLogOf(b, m.noSync, m.group), make([]byte, 2*benchPayload)
				appendAll(b, l, appenders[m.a].do, writers, p)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
				if l.sync != nil {
					b.ReportMetric(float64(l.sync.Syncs())/float64(b.N), "fsyncs/op")
				}
			})
		}
	}
}

// BenchmarkCluster compares an append with a bare publish on three servers, all in this
// process: the appends a second and the processor time of each, servers included. A
// follower reads the log meanwhile, as the projections do.
func BenchmarkCluster(b *testing.B) {
	c := newCluster(b)
	l, p := c.empty(b), make([]byte, 2*benchPayload)
	run := 0
	for _, writers := range []int{1, 64} {
		for _, m := range []struct {
			name    string
			a       int
			follow  bool
			confirm bool // as the service does before it answers
		}{{"bare", 1, false, false}, {"append", 0, false, false}, {"append-followed", 0, true, false}, {"append-confirmed", 0, true, true}} {
			b.Run(fmt.Sprint(m.name, "/", writers), func(b *testing.B) {
				run++
				prefix := fmt.Sprint("R", run, "x")
				ctx, stop := context.WithCancel(b.Context())
				var reading sync.WaitGroup
				l.confirmer = nil
				if m.confirm {
					l.confirmer = newConfirmer(l, Config{})
				}
				if m.follow {
					st, err := l.State(ctx)
					if err != nil {
						b.Fatal(err)
					}
					reading.Go(func() {
						for range l.Read(ctx, st.Last+1, true) {
						}
					})
				}
				cpu := processorTime(b)
				appendAll(b, l, func(ctx context.Context, l *Log, subject string, tail uint64, p []byte) (uint64, error) {
					seq, err := appenders[m.a].do(ctx, l, subject+prefix, tail, p)
					if err == nil {
						err = l.Confirm(ctx)
					}
					return seq, err
				}, writers, p)
				b.ReportMetric(float64((processorTime(b)-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
				stop()
				reading.Wait()
			})
		}
	}
}

// processorTime returns the user and system time of this process.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
