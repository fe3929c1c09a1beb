package jetstream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
)

const (
	replayBatch = 5000             // messages in flight while replaying
	liveBatch   = 500              // and while following
	replayBytes = 64 << 20         // bytes of a batch, estimated from the mean record of the stream
	idle        = 2 * time.Second  // without a record, before the reader asks for the stream's state
	inactive    = 30 * time.Second // without a reader, before the server drops a consumer
)

// Read implements [ledger.Log]. A log that [groupsync.Stream] syncs is read from its files,
// see [reader.readFiles]. Else each read has an ordered consumer of its own,
// which holds no state on the server that anyone depends on; when it breaks or
// stalls, another goes on from the next record.
func (l *Log) Read(ctx context.Context, from uint64, follow bool) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		r := reader{log: l, next: max(from, 1), follow: follow, yield: yield, pause: newPause(50*time.Millisecond, 2*time.Second)}
		if err := r.read(ctx); err != nil && !(follow && ctx.Err() != nil) {
			yield(ledger.Record{}, fmt.Errorf("read at %d: %w", r.next, err))
		}
	}
}

// reader is one Read.
type reader struct {
	log    *Log
	next   uint64 // position of the next record to yield
	follow bool
	yield  func(ledger.Record, error) bool
	pause  pause
	faults int // in a row
}

// errStopped: the caller stopped the iteration.
var errStopped = errors.New("the caller stopped the read")

func (r *reader) read(ctx context.Context) error {
	end, batch, err := r.start(ctx)
	if err != nil {
		return err
	}
	stored, following := func() error { return r.consume(ctx, end, batch) }, func() error { return r.consume(ctx, math.MaxUint64, min(batch, liveBatch)) }
	if r.log.sync != nil {
		stored, following = func() error { return r.readFiles(ctx, end) }, func() error { return r.followOwn(ctx) }
	}
	err = r.until(ctx, end, stored)
	if err == nil && r.follow {
		err = r.until(ctx, math.MaxUint64, following)
	}
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// start returns the log's last position and how many messages to have in flight.
// The server accepts a consumer that starts past the end, and that consumer skips
// what is stored there next: start refuses such a position.
func (r *reader) start(ctx context.Context) (end uint64, batch int, err error) {
	st, size, err := r.log.state(ctx)
	if err != nil {
		return 0, 0, err
	}
	if err := r.check(st); err != nil {
		return 0, 0, err
	}
	batch = replayBatch
	if st.Count > 0 {
		batch = min(max(int(replayBytes/(size/st.Count+1)), 8), replayBatch)
	}
	return st.Last, batch, nil
}

// check compares the reader's position with the log's state.
func (r *reader) check(st ledger.State) error {
	if r.next > st.Last+1 {
		return fmt.Errorf("%w: the log ends at %d", ledger.ErrCorrupt, st.Last)
	}
	if !st.Created.Equal(r.log.created) {
		return fmt.Errorf("%w: the stream was created anew at %v", ledger.ErrCorrupt, st.Created)
	}
	return nil
}

// until yields the records up to end, by read. When it breaks, until calls it again.
func (r *reader) until(ctx context.Context, end uint64, read func() error) error {
	for r.next <= end {
		err := read()
		if err == nil || errors.Is(err, errStopped) || errors.Is(err, ledger.ErrCorrupt) {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", ledger.ErrUnavailable, ctx.Err())
		}
		r.faults++
		gone := r.log.js.Conn().IsClosed() || errors.Is(err, js.ErrStreamNotFound)
		file := (*fs.PathError)(nil) // of a file that can't be read: a bad sector stays one
		if gone || (!r.follow || errors.As(err, &file)) && r.faults >= tries {
			return readError(err)
		}
		if !r.pause.wait(ctx) {
			return fmt.Errorf("%w: %w", ledger.ErrUnavailable, ctx.Err())
		}
	}
	return nil
}

// errSkipped: the consumer left out records that the stream's leader has.
var errSkipped = errors.New("the consumer's server lacks records of the log")

// errStalled: records are there, but the consumer does not deliver them.
var errStalled = errors.New("the consumer has stalled")

// consume yields records from one consumer until end, or until it breaks. It asks for no
// more than there are up to end: what it is sent it has to hold.
func (r *reader) consume(ctx context.Context, end uint64, batch int) error {
	c, err := r.consumer(ctx)
	if err != nil {
		return err
	}
	defer r.drop(ctx, c)
	it, err := c.Messages(js.PullMaxMessages(int(min(uint64(batch), end-r.next+1))))
	if err != nil {
		return err
	}
	defer it.Stop()
	defer context.AfterFunc(ctx, it.Stop)()
	for r.next <= end {
		m, err := it.Next(js.NextMaxWait(idle))
		if errors.Is(err, nats.ErrTimeout) {
			if err = r.diagnose(ctx); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		if err := r.deliver(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// consumer makes an ordered consumer of what follows, of some subjects if any are named.
func (r *reader) consumer(ctx context.Context, subjects ...string) (js.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return r.log.js.OrderedConsumer(ctx, StreamName, js.OrderedConsumerConfig{
		DeliverPolicy: js.DeliverByStartSequencePolicy, OptStartSeq: r.next, FilterSubjects: subjects,
		InactiveThreshold: inactive, MaxResetAttempts: 1,
	})
}

// diagnose says why the consumer delivers nothing: nil if there is nothing, else
// the log has lost its tail, or the consumer has stalled.
func (r *reader) diagnose(ctx context.Context) error {
	st, err := r.log.State(ctx)
	if err != nil {
		return err
	}
	if err := r.check(st); err != nil {
		return err
	}
	if st.Last >= r.next {
		return errStalled
	}
	return nil
}

// deliver yields m.
func (r *reader) deliver(ctx context.Context, m js.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("metadata of a delivered message: %w", err)
	}
	if seq := meta.Sequence.Stream; seq != r.next {
		// A server of a cluster that lost records serves consumers as any other.
		if _, err := r.log.get(ctx, r.next); err == nil && r.log.copies > 1 {
			return errSkipped
		}
		return fmt.Errorf("%w: the log has no record from %d to %d", ledger.ErrCorrupt, r.next, seq-1)
	}
	if err := r.log.onDisk(ctx, meta.Sequence.Stream); err != nil {
		return err
	}
	return r.yieldNext(ctx, recordOf(meta.Sequence.Stream, m.Subject(), m.Data(), m.Headers().Get(hashHeader), meta.Timestamp))
}

// recordOf returns the record of a message. Where the hash beside the payload is another
// one, it is the record's: whoever reads compares the two, and whoever may publish to the
// stream of an external server can store anything.
func recordOf(seq uint64, subject string, data []byte, beside string, stored time.Time) ledger.Record {
	rec, err := checked(seq, subject, data, beside, stored)
	if err != nil {
		rec.Hash, _ = turns.ParseHash(beside)
		rec.Hashed = false
	}
	return rec
}

// yieldNext yields a record, and goes on with the position behind it.
func (r *reader) yieldNext(ctx context.Context, rec ledger.Record) error {
	r.next = rec.Seq + 1
	r.log.Reached(rec.Seq)
	if r.follow && r.log.confirmer != nil {
		if err := r.log.confirmer.read(ctx, mark.Place{Seq: rec.Seq, Sum: rec.Hash}); err != nil {
			return err
		}
	}
	if r.faults > 0 {
		r.faults = 0
		r.pause.b.Reset()
	}
	if !r.yield(rec, nil) {
		return errStopped
	}
	return nil
}

// drop deletes the consumer. If that fails, the server drops it after [inactive].
func (r *reader) drop(ctx context.Context, c js.Consumer) {
	info := c.CachedInfo()
	if info == nil || r.log.js.Conn().IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = r.log.js.DeleteConsumer(ctx, StreamName, info.Name)
}
