package jetstream

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"nexus/ledger"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/groupsync"
	"nexus/ledger/ledgertest"
	"nexus/turns"
)

// grouped is a fresh R1 ledger on an embedded server whose files this process syncs.
func grouped(t *testing.T) *Log {
	t.Helper()
	dir := t.TempDir()
	s, err := embed.Start(embed.Config{DataDir: dir, MaxStore: 1 << 30, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := s.LedgerConn()
	if err != nil {
		t.Fatal(err)
	}
	var syncs []*groupsync.Stream
	t.Cleanup(func() {
		nc.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for _, g := range syncs {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	l, err := Open(ledgertest.Within(t), stream(t, nc), Config{Create: true, Ledger: uuid.NewString(), GroupSync: func(name string) (*groupsync.Stream, error) {
		g, err := groupsync.Open(groupsync.Config{Dir: embed.StreamDir(dir, name), Top: dir, Failed: func(err error) { t.Error(err) }})
		syncs = append(syncs, g)
		return g, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAGroupSyncedLogIsALog(t *testing.T) {
	ledgertest.TestLog(t, func(t *testing.T) ledger.Log { return grouped(t) })
}

func TestAGroupSyncedLogResolvesFaults(t *testing.T) {
	ledgertest.TestFaults(t, tries, func(t *testing.T, f *ledgertest.Faults) ledger.Log { return faulty(grouped(t), f) })
}

// follow yields what Read gives with follow, one record a call, and at the end stops it.
func follow(t *testing.T, l *Log) (next func() ledger.Record) {
	t.Helper()
	ctx, cancel := context.WithCancel(ledgertest.Within(t))
	records, done := make(chan ledger.Record), make(chan struct{})
	go func() {
		defer close(done)
		defer close(records)
		for r, err := range l.Read(ctx, 1, true) {
			if err != nil {
				t.Error(err)
				return
			}
			select {
			case records <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() ledger.Record {
		t.Helper()
		r, ok := <-records
		if !ok {
			t.Fatal("the read ended")
		}
		return r
	}
}

// What this process appends reaches its reader without a consumer of the server, with the
// bytes and the hash that the server has.
func TestAFollowerReadsOwnAppendsFromMemory(t *testing.T) {
	ctx, l := ledgertest.Within(t), grouped(t)
	next := follow(t, l)
	for n := range uint64(20) {
		want := fmt.Append(nil, "record ", n)
		if _, err := l.Append(ctx, fmt.Sprint("nexus.log.00.t.s.W", n), 0, want); err != nil {
			t.Fatal(err)
		}
		got := next()
		stored, err := l.Get(ctx, n+1)
		if err != nil {
			t.Fatal(err)
		}
		if got.Seq != n+1 || got.Subject != stored.Subject || string(got.Payload) != string(want) || got.Hash != stored.Hash || got.Hash != turns.HashEvent(want) {
			t.Errorf("followed %+v, the server has %+v", got, stored)
		}
	}
	wantNoConsumer(t, ctx, l)
}

// wantNoConsumer fails the test if the server has a consumer of the log.
func wantNoConsumer(t *testing.T, ctx context.Context, l *Log) {
	t.Helper()
	info, err := l.stream.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n := info.State.Consumers; n != 0 {
		t.Errorf("the server has %d consumers, want none", n)
	}
}

// A record that is on the disk, and whose append took no answer, is read from the server.
func TestAFollowerReadsFromTheServerWhatIsNotInMemory(t *testing.T) {
	ctx, l := ledgertest.Within(t), grouped(t)
	next := follow(t, l)
	for n := range 3 {
		if _, err := l.publish(ctx, fmt.Sprint("nexus.log.00.t.s.P", n), 0, []byte("published"), turns.HashEvent([]byte("published")).String()); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(ctx, fmt.Sprint("nexus.log.00.t.s.A", n), 0, []byte("appended")); err != nil {
			t.Fatal(err)
		}
	}
	for seq := uint64(1); seq <= 6; seq++ {
		want := "published"
		if seq%2 == 0 {
			want = "appended"
		}
		if r := next(); r.Seq != seq || string(r.Payload) != want {
			t.Errorf("record %d is %q, want record %d, %q", r.Seq, r.Payload, seq, want)
		}
	}
}

// A reader that is slower than the appends gets every record, in order.
func TestASlowFollowerGetsEveryRecord(t *testing.T) {
	ctx, l := ledgertest.Within(t), grouped(t)
	next := follow(t, l)
	const records = 40
	payload := make([]byte, 512<<10) // 20 MiB in all: more than is held
	for n := range records {
		payload := append([]byte{byte(n)}, payload...)
		if _, err := l.Append(ctx, fmt.Sprint("nexus.log.00.t.s.W", n), 0, payload); err != nil {
			t.Fatal(err)
		}
	}
	if l.own.bytes > maxOwnBytes {
		t.Errorf("%d bytes are held, at most %d may be", l.own.bytes, maxOwnBytes)
	}
	for n := range records {
		if r := next(); r.Seq != uint64(n)+1 || r.Payload[0] != byte(n) {
			t.Fatalf("record %d begins with %d, want record %d, %d", r.Seq, r.Payload[0], n+1, n)
		}
	}
}

// An append that was under way when the log was paused adds nothing: after the disk failed
// its position may hold another record.
func TestAnAppendUnderAPauseIsNotHeldInMemory(t *testing.T) {
	ctx, l := ledgertest.Within(t), grouped(t)
	send := l.send
	l.send = func(ctx context.Context, subject string, expect uint64, payload []byte, hash string) (uint64, error) {
		seq, err := send(ctx, subject, expect, payload, hash)
		l.Pause(errPaused)
		l.Resume()
		return seq, err
	}
	if _, err := l.Append(ctx, subjectA, 0, []byte("before")); !errors.Is(err, ledger.ErrIndeterminate) {
		t.Errorf("append under a pause: %v, want indeterminate", err)
	}
	if _, ok, _ := l.own.get(1); ok {
		t.Error("the record of before the pause is held")
	}
	l.send = send
	if _, err := l.Append(ctx, subjectA, 1, []byte("after")); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := l.own.get(2); !ok {
		t.Error("the record of after the pause is not held")
	}
	next := follow(t, l)
	for seq := uint64(1); seq <= 2; seq++ {
		if r := next(); r.Seq != seq {
			t.Errorf("record %d, want %d", r.Seq, seq)
		}
	}
	l.Pause(errPaused)
	if _, ok, _ := l.own.get(2); ok {
		t.Error("a record is held in a pause")
	}
}

// What was appended between two looks at the streams is not held after the second: it may
// be gone, and its position another record's.
func TestAnAppendBeforeAnotherLookIsNotHeldInMemory(t *testing.T) {
	ctx, l := ledgertest.Within(t), grouped(t)
	l.Pause(errPaused)
	l.Resume()
	appended(t, ctx, l, 0, []byte("between"))
	l.Resume() // the first look came to nothing, and nothing paused the log again
	if _, ok, _ := l.own.get(1); ok {
		t.Error("a record of before the second look is held")
	}
	if r := follow(t, l)(); r.Seq != 1 || string(r.Payload) != "between" {
		t.Errorf("record %d is %q", r.Seq, r.Payload)
	}
}

// A reader finds a record that nobody waits for, since its append ended without an answer.
func TestAFollowerFindsARecordThatNobodyWaitsFor(t *testing.T) {
	ctx, l := ledgertest.Within(t), grouped(t)
	next := follow(t, l)
	if _, err := publish(ctx, l.js, &nats.Msg{Subject: subjectA, Data: []byte("x"), Header: nats.Header{hashHeader: {turns.HashEvent([]byte("x")).String()}}}); err != nil {
		t.Fatal(err)
	}
	if r := next(); r.Seq != 1 || string(r.Payload) != "x" {
		t.Errorf("record %d is %q", r.Seq, r.Payload)
	}
}

// A follower whose context has ended yields nothing more, however much is held.
func TestAFollowerEndsWithItsContext(t *testing.T) {
	l := grouped(t)
	ctx, cancel := context.WithCancel(ledgertest.Within(t))
	defer cancel()
	var tail uint64
	for n := range 3 {
		tail = appended(t, ctx, l, tail, fmt.Append(nil, "before ", n))
	}
	after := 0
	for r, err := range l.Read(ctx, 1, true) {
		switch {
		case err != nil:
			t.Fatal(err)
		case ctx.Err() != nil:
			after++
		case r.Seq == 3:
			for n := range 10 {
				tail = appended(t, ctx, l, tail, fmt.Append(nil, "new ", n))
			}
		case r.Seq == 5:
			cancel()
		}
	}
	if after > 0 {
		t.Errorf("it yields %d records after its context ended", after)
	}
}

// A follower that is behind what is held in memory reads what it lacks from the files.
func TestASlowFollowerReadsWhatItLacksFromTheFiles(t *testing.T) {
	ctx, l := ledgertest.Within(t), grouped(t)
	next := follow(t, l)
	appended(t, ctx, l, 0, []byte("first"))
	next()                            // it follows, and holds at most one record more
	const records, size = 20, 4 << 20 // 80 MiB in all, more than is held
	tail := uint64(1)
	for n := range records {
		payload := make([]byte, size)
		payload[0] = byte(n)
		tail = appended(t, ctx, l, tail, payload)
	}
	for n := range records {
		if r := next(); r.Seq != uint64(n+2) || len(r.Payload) != size || r.Payload[0] != byte(n) || r.Hash != turns.HashEvent(r.Payload) {
			t.Fatalf("it yields record %d of %d bytes, want %d of %d", r.Seq, len(r.Payload), n+2, size)
		}
	}
	wantNoConsumer(t, ctx, l)
}

// appended appends to the first subject and returns the position.
func appended(t *testing.T, ctx context.Context, l *Log, expect uint64, payload []byte) uint64 {
	t.Helper()
	seq, err := l.Append(ctx, subjectA, expect, payload)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}
