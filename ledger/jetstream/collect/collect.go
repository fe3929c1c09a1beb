package collect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"nexus/ledger"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/disk"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
)

// Config says what [Run] works with.
type Config struct {
	Data  string // data folder, which this process has locked
	Log   ledger.Log
	Blobs *jetstream.Blobs
	Mark  *mark.Keeper
	// After is the grace time: an unreferenced blob is collected when its newest chunk was
	// first stored longer ago.
	After time.Duration
	// Share is how much of the stream's bytes must be collectable before Run replaces
	// the stream, from 0 (any) to 1. A replacement writes all that stays again.
	Share float64
	Now   time.Time
	// Room returns an error if the disk or the store has no room for so many bytes more;
	// nil: there is always room.
	Room func(bytes int64) error
	// Pace is called with the bytes of each record that is read; its error ends Run. nil:
	// as fast as the disk.
	Pace func(bytes int64) error
	// Step is called before each step, for tests that end the process there. nil: nothing.
	Step func(step string)
}

// ErrSwitch: the mark could not be written, so that nobody knows which of two equal streams
// it names. No blob is stored any more: the process must end. The next start reads the mark.
var ErrSwitch = errors.New("the switch to another stream of blobs failed")

// Report is what [Run] found, and did.
type Report struct {
	Bytes        int64 // of all chunks, before
	Unreferenced int64 // bytes of the chunks of blobs that no event names
	Collectable  int64 // those of them that are older than the grace time
	Collected    int64 // bytes that are gone: Collectable less what was needed meanwhile; 0 if the stream was not replaced
	Number       uint64
}

const (
	parallel = 16 // chunks that are copied at a time
	// maxLate is how many chunks may be missing from the new stream when writers are stopped
	// to copy them.
	maxLate = 64
	rounds  = 100 // tries to come so close
)

// Run finds the blobs that no event names, and replaces the stream by one without those
// that are older than the grace time, if they are worth it. One Run at a time.
//
// Errors: [ErrSwitch]; [ledger.ErrCorrupt] if a record is damaged or is no event that this build knows: it
// might name any blob. [ledger.ErrUnavailable]; those of Room, Pace, the file system and
// ctx. After an error nothing was collected, unless Report.Collected says so: then only
// the removal of the old stream failed, and the next Run or start removes it.
func Run(ctx context.Context, c Config) (out Report, err error) {
	if c.Room == nil {
		c.Room = func(int64) error { return nil }
	}
	if c.Pace == nil {
		c.Pace = func(int64) error { return nil }
	}
	if c.Step == nil {
		c.Step = func(string) {}
	}
	if err := removeOld(ctx, c.Blobs); err != nil { // what an earlier Run could not remove
		return out, fmt.Errorf("remove what a collection left: %w", err)
	}
	r := &run{Config: c, live: make(map[jetstream.BlobKey]struct{})}
	if out, err = r.survey(ctx); err != nil {
		return out, fmt.Errorf("look for unreferenced blobs: %w", err)
	}
	if out.Collectable == 0 || float64(out.Collectable) < c.Share*float64(out.Bytes) {
		return out, nil
	}
	if err := c.Room(2 * (out.Bytes - out.Collectable)); err != nil { // the stream and its second copy
		return out, fmt.Errorf("collect blobs: %w", err)
	}
	if err := r.replace(ctx); err != nil {
		return out, fmt.Errorf("collect blobs: %w", errors.Join(err, r.abandon(ctx)))
	}
	for _, bytes := range r.drop {
		out.Collected += bytes
	}
	out.Number = c.Blobs.Number()
	r.Step("remove")
	if err := removeOld(ctx, c.Blobs); err != nil {
		return out, fmt.Errorf("remove the collected blobs: %w", err)
	}
	r.Step("removed")
	return out, nil
}

// run is one collection.
type run struct {
	Config
	live    map[jetstream.BlobKey]struct{} // blobs that an event names
	logRead uint64                         // live holds what the log names up to here
	asOf    time.Time                      // when the end of the log was asked for
	drop    map[jetstream.BlobKey]int64    // bytes of the blobs that are not copied
	read    uint64                         // position up to which the old stream was copied

	next     *jetstream.Successor
	want     tally  // of what was copied
	have     tally  // of what was read back
	haveRead uint64 // position up to which the new stream was read back
}

// survey finds out what is referenced, and what else is old enough to be dropped.
func (r *run) survey(ctx context.Context) (out Report, err error) {
	out.Number = r.Blobs.Number()
	if err := r.readLog(ctx); err != nil {
		return out, err
	}
	type unreferenced struct {
		newest time.Time
		bytes  int64
	}
	found := make(map[jetstream.BlobKey]unreferenced)
	last, _, err := r.Blobs.State(ctx)
	if err != nil {
		return out, err
	}
	for c, err := range r.chunks(ctx, r.Blobs.Number(), 1, last) {
		if err != nil {
			return out, err
		}
		out.Bytes += c.Bytes
		if _, ok := r.live[c.key]; !ok {
			u := found[c.key]
			if u.bytes += c.Bytes; c.first.After(u.newest) {
				u.newest = c.first
			}
			found[c.key] = u
		}
	}
	r.drop = make(map[jetstream.BlobKey]int64)
	for key, u := range found {
		out.Unreferenced += u.bytes
		if r.Now.Sub(u.newest) > r.After && !r.Blobs.Held(key) {
			out.Collectable += u.bytes
			r.drop[key] = u.bytes
		}
	}
	return out, nil
}

// replace fills a new stream and puts it in the place of the old one.
//
// Invariant: a blob that an event names is in the new stream. An event that the log held when it was read
// last: live has its blobs. One that came later: its request held its blobs, less than
// [jetstream.HoldTime] ago, and no blob that is held is left out.
//
// Crash states: before the mark is written the old stream is the blobs, and the next start removes
// the new one. After it the new one is, and the next start removes the old one.
func (r *run) replace(ctx context.Context) (err error) {
	r.Step("create")
	if r.next, err = r.Blobs.NewSuccessor(ctx); err != nil {
		return err
	}
	if err := disk.KeepMeta(r.Data, r.next.Number()); err != nil {
		return err
	}
	r.Step("copy")
	for range rounds {
		if err := r.catchUp(ctx); err != nil {
			return err
		}
		r.Step("switch")
		switched, err := r.Blobs.Switch(ctx, r.next, func() (bool, error) {
			last, _, err := r.Blobs.State(ctx)
			if err != nil || last-r.read > maxLate || len(r.revived()) > 0 || time.Since(r.asOf) > jetstream.HoldTime/2 {
				return false, err
			}
			r.Step("copy late chunks")
			if err := r.copy(ctx, last); err != nil {
				return false, err
			}
			if err := r.readBack(ctx); err != nil {
				return false, err
			}
			if err := disk.SyncStream(r.Data, jetstream.BlobsStream(r.next.Number())); err != nil {
				return false, err
			}
			r.Step("commit")
			return true, nil
		}, func(number uint64, place mark.Place) error {
			err := r.Mark.SwitchBlobs(number, place)
			r.Step("committed")
			if err != nil {
				err = fmt.Errorf("%w: %w", ErrSwitch, err)
			}
			return err
		})
		if err != nil || switched {
			return err
		}
	}
	return fmt.Errorf("%w: chunks are stored faster than they are copied", ledger.ErrUnavailable)
}

// catchUp copies what is not in the new stream yet, without holding anybody up, and reads it back.
func (r *run) catchUp(ctx context.Context) error {
	last, _, err := r.Blobs.State(ctx)
	if err != nil {
		return err
	}
	if err := r.copy(ctx, last); err != nil {
		return err
	}
	r.Step("read the log again")
	if err := r.readLog(ctx); err != nil {
		return err
	}
	if err := r.revive(ctx); err != nil {
		return err
	}
	r.Step("read back")
	return r.readBack(ctx)
}

// copy copies the chunks of the old stream up to last, but for those of blobs in drop.
func (r *run) copy(ctx context.Context, last uint64) error {
	err := r.copyChunks(ctx, r.read+1, last, func(k jetstream.BlobKey) bool { _, ok := r.drop[k]; return !ok })
	if err == nil {
		r.read = last
	}
	return err
}

func (r *run) copyChunks(ctx context.Context, from, last uint64, want func(jetstream.BlobKey) bool) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for c, err := range r.chunks(gctx, r.Blobs.Number(), from, last) {
		if err != nil {
			return errors.Join(err, g.Wait())
		}
		if !want(c.key) {
			continue
		}
		r.want.add(c)
		g.Go(func() error { return r.next.Store(gctx, c.Subject, c.Header, c.Payload, c.Stored) })
	}
	return g.Wait()
}

// revived lists the blobs in drop that are needed after all.
func (r *run) revived() (keys []jetstream.BlobKey) {
	for k := range r.drop {
		if _, ok := r.live[k]; ok || r.Blobs.Held(k) {
			keys = append(keys, k)
		}
	}
	return keys
}

// revive copies the chunks of blobs that are needed after all.
func (r *run) revive(ctx context.Context) error {
	keys := r.revived()
	if len(keys) == 0 {
		return nil
	}
	again := make(map[jetstream.BlobKey]struct{})
	for _, k := range keys {
		again[k] = struct{}{}
		delete(r.drop, k)
	}
	return r.copyChunks(ctx, 1, r.read, func(k jetstream.BlobKey) bool { _, ok := again[k]; return ok })
}

// readBack reads what the new stream got since the last call, from its files, and compares
// everything in it with what was copied.
func (r *run) readBack(ctx context.Context) error {
	for c, err := range r.chunks(ctx, r.next.Number(), r.haveRead+1, r.next.Last()) {
		if err != nil {
			return err
		}
		r.have.add(c)
		r.haveRead = c.Seq
	}
	if r.have != r.want {
		return fmt.Errorf("%w: stream %s holds %d chunks, copied were %d, or their content differs", ledger.ErrCorrupt,
			jetstream.BlobsStream(r.next.Number()), r.have.chunks, r.want.chunks)
	}
	return nil
}

// removeOld removes the streams that are not in use, when the one that is has its second copy.
func removeOld(ctx context.Context, blobs *jetstream.Blobs) error {
	if err := blobs.AwaitCopy(ctx); err != nil {
		return err
	}
	return blobs.RemoveOthers(ctx)
}

// abandon removes the new stream after a failure, if it is not in use.
func (r *run) abandon(ctx context.Context) error {
	if r.next == nil || r.Mark.Mark().BlobStream != r.Blobs.Number() {
		return nil // nobody knows which one the mark's file names: the next start finds out
	}
	return r.Blobs.RemoveOthers(context.WithoutCancel(ctx))
}

// readLog adds the blobs that events name to live, from where it ended before.
func (r *run) readLog(ctx context.Context) error {
	r.asOf = time.Now()
	st, err := r.Log.State(ctx)
	if err != nil {
		return err
	}
	for rec, err := range r.records(ctx, jetstream.StreamName, r.logRead+1, st.Last) {
		if err != nil {
			return err
		}
		ev, err := turns.Decode(rec.Payload)
		if err != nil {
			return fmt.Errorf("%w: record %d of the log may name blobs and can't be read: %w", ledger.ErrCorrupt, rec.Seq, err)
		}
		tenant, _, err := ledger.ParseSubject(rec.Subject)
		if err != nil {
			return fmt.Errorf("%w: record %d of the log: %w", ledger.ErrCorrupt, rec.Seq, err)
		}
		for _, b := range ev.Blobs {
			k, err := r.Blobs.KeyOf(tenant, b.Address)
			if err != nil {
				return err
			}
			r.live[k] = struct{}{}
		}
		r.logRead = rec.Seq
	}
	return nil
}
