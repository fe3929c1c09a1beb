package groupsync_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/groupsync"
	"nexus/ledger/ledgertest"
)

const subject = "nexus.log.00.t.s.A"

// disk is the fsync of a test.
type disk struct {
	hold   chan struct{} // not nil: each fsync waits for it
	fail   atomic.Bool
	failed atomic.Int64 // calls of Failed
	count  atomic.Int64
	files  sync.Map // path → true, of what was synced
}

func (d *disk) sync(f *os.File) error {
	if d.hold != nil {
		<-d.hold
	}
	d.count.Add(1)
	if d.fail.Load() {
		return errors.New("input/output error")
	}
	d.files.Store(filepath.Base(f.Name()), true)
	return f.Sync()
}

// open returns a log on a real server that leaves the fsync to d.
func open(t *testing.T, d *disk) (l *jetstream.Log, logSync *groupsync.Stream, dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := embed.Start(embed.Config{DataDir: dir, MaxStore: 1 << 30, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	nc, err := s.LedgerConn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	j, err := js.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	l, err = jetstream.Open(ledgertest.Within(t), j, jetstream.Config{Create: true, Ledger: "L", GroupSync: func(stream string) (*groupsync.Stream, error) {
		g, err := groupsync.Open(groupsync.Config{Dir: embed.StreamDir(dir, stream), Top: dir, Failed: func(error) { d.failed.Add(1) }, Fsync: d.sync})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = g.Close() })
		if stream == jetstream.StreamName {
			logSync = g
		}
		return g, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return l, logSync, dir
}

// What was acknowledged is synced, in every block that it is in.
func TestAnAcknowledgedRecordIsSynced(t *testing.T) {
	d := &disk{}
	l, g, dir := open(t, d)
	var tail uint64
	for n := range 20 { // three blocks
		seq, err := l.Append(ledgertest.Within(t), subject, tail, bytes.Repeat([]byte{byte(n)}, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		if tail = seq; g.Synced() < seq {
			t.Fatalf("record %d was acknowledged, synced is %d", seq, g.Synced())
		}
	}
	names, err := filepath.Glob(filepath.Join(embed.StreamDir(dir, jetstream.StreamName), "msgs", "*.blk"))
	if err != nil || len(names) < 3 {
		t.Fatalf("blocks %v, %v, want three", names, err)
	}
	for _, name := range names {
		if _, ok := d.files.Load(filepath.Base(name)); !ok {
			t.Errorf("%s was never synced", filepath.Base(name))
		}
	}
}

// Writers that come together share a fsync.
func TestWritersShareAFsync(t *testing.T) {
	const writers, each = 64, 20
	d := &disk{}
	l, g, _ := open(t, d)
	before := g.Syncs()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			var tail uint64
			for range each {
				var err error
				if tail, err = l.Append(t.Context(), fmt.Sprint("nexus.log.00.t.s.W", w), tail, []byte("x")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := g.Syncs() - before; n > writers*each/2 {
		t.Errorf("%d fsyncs for %d records", n, writers*each)
	}
}

// Nobody sees a record that a power cut may take away: neither the writer who waits,
// nor a reader.
func TestARecordIsNotReadBeforeItsFsync(t *testing.T) {
	d := &disk{hold: make(chan struct{})}
	close(d.hold) // free until the log is open
	l, g, _ := open(t, d)
	d.hold = make(chan struct{})
	acked := make(chan error, 1)
	go func() {
		_, err := l.Append(t.Context(), subject, 0, []byte("x"))
		acked <- err
	}()
	for { // until the server has it
		st, err := l.State(ledgertest.Within(t))
		if err != nil {
			t.Fatal(err)
		}
		if st.Last == 1 {
			break
		}
	}
	over, end := context.WithCancel(t.Context())
	end()
	reads := map[string]func() error{
		"Wait": func() error { return g.Wait(over, 1) },
	}
	for name, read := range reads {
		if err := read(); !errors.Is(err, ledger.ErrIndeterminate) {
			t.Errorf("%s of a record that is not synced: %v", name, err)
		}
	}
	got := make(chan error, 4)
	go func() { _, err := l.Get(t.Context(), 1); got <- err }()
	go func() { _, err := l.Last(t.Context(), subject); got <- err }()
	for _, records := range []iter.Seq2[ledger.Record, error]{l.Read(t.Context(), 1, false), l.Chain(t.Context(), subject, 0)} {
		go func() {
			for _, err := range records {
				got <- err
				return
			}
			got <- errors.New("nothing was read")
		}()
	}
	select {
	case err := <-got:
		t.Errorf("a read returned before the fsync: %v", err)
	case err := <-acked:
		t.Errorf("the append returned before the fsync: %v", err)
	default:
	}
	if g.Synced() != 0 {
		t.Errorf("synced is %d before the fsync", g.Synced())
	}
	close(d.hold)
	for range 4 {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
	if err := <-acked; err != nil {
		t.Error(err)
	}
}

// After a failed fsync nothing is acknowledged any more, though the server goes on.
func TestAFailedFsyncEndsAcknowledgements(t *testing.T) {
	d := &disk{}
	l, g, _ := open(t, d)
	seq, err := l.Append(ledgertest.Within(t), subject, 0, []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	d.fail.Store(true)
	if _, err := l.Append(ledgertest.Within(t), subject, seq, []byte("2")); !errors.Is(err, ledger.ErrIndeterminate) {
		t.Errorf("append whose fsync fails: %v, want indeterminate", err)
	}
	d.fail.Store(false)
	if _, err := l.Append(ledgertest.Within(t), "nexus.log.00.t.s.B", 0, []byte("3")); !errors.Is(err, ledger.ErrIndeterminate) {
		t.Errorf("append after a failed fsync: %v, want indeterminate", err)
	}
	if _, err := l.Get(ledgertest.Within(t), seq+1); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("read of what was not synced: %v, want unavailable", err)
	}
	if r, err := l.Get(ledgertest.Within(t), seq); err != nil || string(r.Payload) != "1" {
		t.Errorf("read of what was synced: %q, %v", r.Payload, err)
	}
	if n := d.failed.Load(); n != 1 || g.Synced() != seq {
		t.Errorf("Failed was called %d times, synced is %d; want once, %d", n, g.Synced(), seq)
	}
}

// A record that the server acknowledged and that is not in the blocks is no durable
// one: the server is not the one that this package knows.
func TestAnAcknowledgedRecordThatIsNotInTheBlocksFails(t *testing.T) {
	d := &disk{}
	_, g, _ := open(t, d)
	if err := g.Wait(ledgertest.Within(t), 7); !errors.Is(err, ledger.ErrIndeterminate) {
		t.Errorf("%v, want indeterminate", err)
	}
	if d.failed.Load() != 1 {
		t.Error("Failed was not called")
	}
}

func TestCloseEndsThoseThatWait(t *testing.T) {
	d := &disk{}
	_, g, _ := open(t, d)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(t.Context(), 1); !errors.Is(err, ledger.ErrIndeterminate) {
		t.Errorf("%v, want indeterminate", err)
	}
}

// After a failure the files are opened again, and acknowledgements go on.
func TestReopenGoesOnAfterAFailure(t *testing.T) {
	d := &disk{}
	l, g, _ := open(t, d)
	d.fail.Store(true)
	if _, err := l.Append(ledgertest.Within(t), subject, 0, []byte("1")); !errors.Is(err, ledger.ErrIndeterminate) {
		t.Fatalf("append whose fsync fails: %v, want indeterminate", err)
	}
	d.fail.Store(false)
	if err := g.Reopen(); err != nil {
		t.Fatal(err)
	}
	if seq, err := l.Append(ledgertest.Within(t), subject, 0, []byte("1")); err != nil || seq != 1 || g.Synced() != 1 {
		t.Errorf("the same append again: %d, %v, synced %d; want 1", seq, err, g.Synced())
	}
	if seq, err := l.Append(ledgertest.Within(t), subject, 1, []byte("2")); err != nil || seq != 2 || g.Synced() != 2 {
		t.Errorf("another append: %d, %v, synced %d; want 2", seq, err, g.Synced())
	}
}

// What the package relies on: a message is in its block when it is acknowledged.
func TestTheServerWritesBeforeItAcknowledges(t *testing.T) {
	l, _, dir := open(t, &disk{})
	var tail uint64
	for n := range 50 {
		var err error
		if tail, err = l.Append(ledgertest.Within(t), subject, tail, bytes.Repeat([]byte{1}, n*1000)); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(filepath.Join(embed.StreamDir(dir, jetstream.StreamName), blocks.Path(1)))
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		seq, _, err := blocks.LastSeq(f, 0, info.Size())
		if cerr := f.Close(); seq != tail || err != nil || cerr != nil {
			t.Fatalf("the block ends at record %d (%v), %d was acknowledged", seq, err, tail)
		}
	}
}

// Who follows hears of a record after its fsync, causes none, and hears of a failure.
func TestFollowWaitsForTheFsync(t *testing.T) {
	d := &disk{hold: make(chan struct{})}
	close(d.hold) // free until the log is open
	l, g, _ := open(t, d)
	d.hold = make(chan struct{})
	type result struct {
		synced uint64
		err    error
	}
	followed := make(chan result, 1)
	follow := func(seq uint64) {
		go func() {
			synced, err := g.Follow(ledgertest.Within(t), seq)
			followed <- result{synced, err}
		}()
	}
	follow(1)
	before := d.count.Load()
	acked := make(chan error, 1)
	go func() {
		_, err := l.Append(ledgertest.Within(t), subject, 0, []byte("x"))
		acked <- err
	}()
	select {
	case r := <-followed:
		t.Errorf("Follow returned %v before the fsync", r)
	case d.hold <- struct{}{}: // the fsync of the append
	}
	if r := <-followed; r.synced != 1 || r.err != nil {
		t.Errorf("Follow after the fsync: %d, %v", r.synced, r.err)
	}
	if err := <-acked; err != nil {
		t.Error(err)
	}
	if n := d.count.Load() - before; n != 1 {
		t.Errorf("%d fsyncs for one append and one who follows", n)
	}
	follow(2)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if r := <-followed; !errors.Is(r.err, ledger.ErrIndeterminate) {
		t.Errorf("Follow of a closed stream: %v", r.err)
	}
}
