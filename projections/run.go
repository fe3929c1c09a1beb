package projections

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/semaphore"

	"nexus/ledger"
	"nexus/projections/apply"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Records that are parsed before they are applied: so many, and so many bytes of payloads.
const readAhead, readAheadBytes = 1000, 16 << 20

// DivergedError says that the log is not the one the projections were made
// of, or lost records that were applied here. Appends must stop: a shorter log
// would assign positions a second time. Unwrap returns [ledger.ErrCorrupt].
type DivergedError struct {
	Have rows.Checkpoint
	Log  ledger.State
	Why  string
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("the log does not match the projections: %s (projections: log %s up to %d; log: %s up to %d)",
		e.Why, e.Have.Identity, e.Have.Seq, e.Log.Identity, e.Log.Last)
}

// Unwrap returns ErrCorrupt.
func (e *DivergedError) Unwrap() error { return ledger.ErrCorrupt }

// Check compares the checkpoint with the log, before anything is appended.
// A log that is unsound, has another identity, is shorter than the checkpoint or
// holds another event there returns a *DivergedError, or [ledger.ErrCorrupt].
func (s *Store) Check(ctx context.Context, log ledger.Log) error {
	st, err := log.State(ctx)
	if err != nil {
		return err
	}
	if err := st.Sound(); err != nil {
		return err
	}
	cp := s.Applied()
	if cp.Seq == 0 {
		return nil
	}
	diverged := func(why string) error { return &DivergedError{Have: cp, Log: st, Why: why} }
	switch {
	case cp.Identity != st.Identity:
		return diverged("it is another log")
	case st.Last < cp.Seq:
		return diverged(fmt.Sprintf("its last %d records are gone", cp.Seq-st.Last))
	}
	r, err := log.Get(ctx, cp.Seq)
	if errors.Is(err, ledger.ErrCorrupt) { // Read gives a record with another hash, too
		for r, err = range log.Read(ctx, cp.Seq, false) {
			break
		}
	}
	if err != nil {
		return err
	}
	if got := turns.HashEvent(r.Payload); got != cp.Hash {
		return diverged(fmt.Sprintf("record %d has hash %v, applied was %v", cp.Seq, got, cp.Hash))
	}
	return nil
}

// Run applies the log from the checkpoint on, and follows it until ctx ends
// (then it returns nil) or the log or the store fails. After a failure of the
// store that Pebble can't go on from, reads go on as far as they can, and
// [Store.Reopen] must be called before another Run.
func (s *Store) Run(ctx context.Context, log ledger.Log) error {
	s.start()
	d := s.db()
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-d.Failed(): // found by a read
			cancel()
		case <-reading.Done():
		}
	}()
	err := d.Guard(func() error { return s.tail(reading, d, log) })
	if ctx.Err() != nil && d.Fault() == nil {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("apply the log: %w", err)
	}
	s.stop(err)
	return err
}

// tail applies the log from the checkpoint on, and what follows, until reading it
// ends. It leaves no goroutine behind.
func (s *Store) tail(ctx context.Context, d *apply.Database, log ledger.Log) error {
	if err := s.Check(ctx, log); err != nil {
		return err
	}
	st, err := log.State(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	records, failed := s.pump(ctx, d, log)
	defer func() {
		cancel()
		for range records { // until the pump has ended
		}
	}()
	for {
		first, ok := <-records
		if !ok {
			return <-failed
		}
		if err := s.applyBatch(d, st.Identity, first, records); err != nil {
			return err
		}
	}
}

// queued is a record that was read.
type queued struct {
	apply.Parsed
	applied func() // gives back the room that the record took; may be nil
}

// pump reads the log into a channel, so that a batch can receive what is there
// and stop. The channel is closed when reading ends, after failed has the reason.
//
// It parses the records too: a catch-up decodes and hashes on one processor what it
// applies, in order, on another.
func (s *Store) pump(ctx context.Context, d *apply.Database, log ledger.Log) (<-chan queued, <-chan error) {
	records, room := make(chan queued, readAhead), semaphore.NewWeighted(readAheadBytes)
	failed := make(chan error, 1)
	go func() {
		defer close(records)
		for r, err := range log.Read(ctx, s.Applied().Seq+1, true) {
			if err != nil {
				failed <- err
				return
			}
			n := min(int64(len(r.Payload)), readAheadBytes)
			if err := room.Acquire(ctx, n); err != nil {
				failed <- err
				return
			}
			select {
			case records <- queued{d.Parse(r), func() { room.Release(n) }}:
			case <-ctx.Done():
				failed <- ctx.Err()
				return
			}
		}
		failed <- ctx.Err()
	}()
	return records, failed
}

func (s *Store) applyBatch(d *apply.Database, identity string, first queued, more <-chan queued) error {
	cp, last := s.Applied(), first
	a, err := apply.Begin(d, s.ledger, s.SetAside(), cp.Seq)
	if err != nil {
		if read := (*db.ReadError)(nil); errors.As(err, &read) && read.Damage() {
			return d.Damaged(err.Error())
		}
		return err
	}
	defer a.Close()
	bytes := 0
	for r, n := first, 1; ; n++ {
		if r.Seq != cp.Seq+1 {
			return fmt.Errorf("%w: record %d follows %d", ledger.ErrCorrupt, r.Seq, cp.Seq)
		}
		if err := a.Apply(r.Parsed); err != nil {
			if read := (*db.ReadError)(nil); errors.As(err, &read) && read.Damage() {
				return d.Damaged(err.Error()) // Pebble does not know of a row that can't be decoded
			}
			return fmt.Errorf("record %d: %w", r.Seq, err)
		}
		if r.applied != nil {
			r.applied()
		}
		cp.Seq, last = r.Seq, r
		if bytes += len(r.Payload); n >= apply.BatchRecords || bytes >= apply.BatchBytes {
			break
		}
		var ok bool
		select {
		case r, ok = <-more:
		default:
		}
		if !ok {
			break
		}
	}
	cp = rows.Checkpoint{Identity: identity, Seq: cp.Seq, Hash: last.EventHash(), Schema: rows.Schema}
	if err := a.Commit(cp); err != nil {
		return err
	}
	for _, x := range a.Aside() {
		s.logger.Error("a chain is set aside: it is read-only here", "subject", x.Subject, "seq", x.Seq, "why", x.Why)
	}
	s.advance(d, cp, len(a.Aside()))
	return nil
}
