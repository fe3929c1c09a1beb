package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"nexus/ledger"
)

// Bounds on the records that are held for the readers that follow.
const (
	maxOwn      = 4096
	maxOwnBytes = 8 << 20 // of payloads; one record may have more
)

// ownPatience is how long a reader waits for a record that is on the disk, and whose append
// has not taken its answer yet. Then it reads the files.
const ownPatience = 20 * time.Millisecond

// own holds the newest records that this process appended, so that a reader that follows
// the log needs no consumer of the server for them. Safe for concurrent use.
//
// A record is put here when the server has acknowledged it, before its fsync. So a reader
// takes it only if [groupsync.Stream] says that its position is on the disk. An append
// that was under way when the files may have changed under it puts nothing here: see era.
type own struct {
	mu      sync.Mutex
	era     uint64 // counts the calls of clear
	records map[uint64]ledger.Record
	oldest  uint64 // no position below it is held
	bytes   int
	wanted  uint64        // position that a reader waits for; 0: none
	arrived chan struct{} // has one when it came
}

func newOwn() *own {
	return &own{records: make(map[uint64]ledger.Record), arrived: make(chan struct{}, 1)}
}

// now returns the era, which a write reads before it begins, and once more before it is
// acknowledged.
func (o *own) now() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.era
}

// add holds a record that was appended in an era. It drops the oldest ones over the bounds.
func (o *own) add(era uint64, r ledger.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if era != o.era || o.records[r.Seq].Seq != 0 {
		return
	}
	if len(o.records) == 0 {
		o.oldest = r.Seq
	}
	o.records[r.Seq] = r
	o.oldest, o.bytes = min(o.oldest, r.Seq), o.bytes+len(r.Payload)
	for len(o.records) > 1 && (len(o.records) > maxOwn || o.bytes > maxOwnBytes) {
		o.bytes -= len(o.records[o.oldest].Payload)
		delete(o.records, o.oldest)
		o.oldest++
	}
	if r.Seq == o.wanted {
		select {
		case o.arrived <- struct{}{}:
		default:
		}
	}
}

// clear drops everything, and what the appends that have begun would add.
func (o *own) clear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.era++
	clear(o.records)
	o.bytes = 0
}

// get returns the record at a position. It reports false if the record is not held, and
// late if it may come: newer ones are held, or none.
func (o *own) get(seq uint64) (r ledger.Record, ok, late bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r, ok = o.records[seq]
	late = !ok && (len(o.records) == 0 || seq >= o.oldest)
	if o.wanted = 0; late {
		o.wanted = seq
		select {
		case <-o.arrived: // of another position
		default:
		}
	}
	return r, ok, late
}

// take returns the record at a position, and waits for it a little. It reports false if the
// record is not held.
func (o *own) take(ctx context.Context, seq uint64) (ledger.Record, bool) {
	r, ok, late := o.get(seq)
	if !late {
		return r, ok
	}
	t := time.NewTimer(ownPatience)
	defer t.Stop()
	select {
	case <-o.arrived:
	case <-t.C:
	case <-ctx.Done():
	}
	r, ok, _ = o.get(seq)
	return r, ok
}

// followOwn yields the records that this process appended as soon as they are on the disk,
// and reads others from the files. It is for a log that [groupsync.Stream] syncs: nobody
// else appends to it, so others are those whose answer an append did not get, and those
// that a slow reader left behind.
func (r *reader) followOwn(ctx context.Context) error {
	for {
		synced, err := r.synced(ctx)
		if err != nil {
			return err
		}
		for r.next <= synced {
			if err := ctx.Err(); err != nil { // nothing else asks while records are held
				return err
			}
			rec, ok := r.log.own.take(ctx, r.next)
			if !ok {
				if err := r.readFiles(ctx, synced); err != nil {
					return err
				}
				continue
			}
			if err := r.yieldNext(ctx, rec); err != nil {
				return err
			}
		}
	}
}

// synced returns the last position on the disk once it is r.next or more. Where it does not
// get there for a while, synced looks for records that nobody waits for.
func (r *reader) synced(ctx context.Context) (uint64, error) {
	for {
		limited, cancel := context.WithTimeout(ctx, idle)
		synced, err := r.log.sync.Follow(limited, r.next)
		cancel()
		switch {
		case err == nil:
			return synced, nil
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case !errors.Is(err, context.DeadlineExceeded):
			return 0, fmt.Errorf("%w: %v", ledger.ErrUnavailable, err)
		}
		switch err := r.diagnose(ctx); {
		case errors.Is(err, errStalled): // its append ended without an answer
			if err := r.log.onDisk(ctx, r.next); err != nil {
				return 0, err
			}
		case err != nil:
			return 0, err
		}
	}
}
