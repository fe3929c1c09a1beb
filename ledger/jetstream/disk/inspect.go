package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"

	"nexus/ledger"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
)

// DamagedError says that the files of a stream do not hold what was stored. Unwrap
// gives [ledger.ErrCorrupt].
type DamagedError struct {
	Stream string
	Report blocks.Report
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("stream %s is damaged: %v", e.Stream, e.Report.Err())
}

// Unwrap gives ErrCorrupt.
func (e *DamagedError) Unwrap() error { return ledger.ErrCorrupt }

// Found is what the files of the streams hold.
type Found struct {
	// Mark is the mark of what is stored: at least that which Inspect was given.
	Mark mark.Mark
	// Torn says of each stream what an unfinished write left, which the server will
	// remove; nil: nothing.
	TornLog, TornBlobs *blocks.Tail
	// Read is how many bytes of records were read and compared.
	Read uint64

	unsynced bool
}

// Inspect compares the files of both streams with m, the zero [mark.Mark] if nothing
// is known. The lock of the folder must be held, and no server may have the files
// open. After a clean stop, it reads the newest block of each stream and compares the
// sizes of the others. After any other stop, and where the server would read all
// blocks, it reads every record.
//
// unsynced says that the machine went down, or may have, under a server whose records are
// synced in groups. What is unfinished above the mark, and above what a later record
// proves, was then not acknowledged, but for the newest records, and is torn; [Cut] removes it.
//
// Errors: [*DamagedError]; those of the file system and of ctx.
//
// What it can't see: a damaged record in an older block after a clean stop; records
// that are gone from the end together with the mark.
func Inspect(ctx context.Context, data string, m mark.Mark, unsynced bool) (Found, error) {
	f := Found{Mark: m, unsynced: unsynced}
	logSize, blobSize := int64(-1), int64(-1)
	if m.Closed != nil {
		logSize, blobSize = m.Closed.Log, m.Closed.Blobs
	}
	var err error
	if f.Mark.Log, f.TornLog, err = f.inspect(ctx, data, jetstream.StreamName, m.Log, logSize, recordSum); err != nil {
		return f, err
	}
	f.Mark.Blobs, f.TornBlobs, err = f.inspect(ctx, data, jetstream.BlobsStream(m.BlobStream), m.Blobs, blobSize, chunkSum)
	return f, err
}

// inspect checks one stream, of which acked was acknowledged. size is that of its
// blocks after a clean stop; -1 after any other. sum checks a record and returns its hash.
func (f *Found) inspect(ctx context.Context, data, stream string, acked mark.Place, size int64, sum func(blocks.Record) (turns.Hash, error)) (last mark.Place, torn *blocks.Tail, err error) {
	dir := embed.StreamDir(data, stream)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return last, nil, fmt.Errorf("%w: stream %s is missing from %s; it is not created anew in place of one that should be there", ledger.ErrNotFound, stream, data)
	}
	var mu sync.Mutex
	ends := make(map[uint32]mark.Place) // of the records that were read last, by block
	check := func(from uint64) (blocks.Report, error) {
		r, err := blocks.Check(ctx, dir, blocks.Options{From: from, Acked: acked.Seq, Unsynced: f.unsynced, Proves: proves, Valid: func(r blocks.Record) error {
			hash, err := sum(r)
			if err == nil && r.Seq == acked.Seq && hash != acked.Sum {
				err = fmt.Errorf("%w: it hashes to %v, acknowledged was %v", ledger.ErrCorrupt, hash, acked.Sum)
			}
			mu.Lock()
			ends[r.Block] = mark.Place{Seq: r.Seq, Sum: hash}
			mu.Unlock()
			return err
		}})
		f.Read += r.Bytes
		if err != nil {
			return r, fmt.Errorf("inspect stream %s: %w", stream, err)
		}
		return r, nil
	}
	var from uint64
	if size >= 0 {
		from = acked.Seq
	}
	r, err := check(from)
	if err == nil && from > 0 && (r.Index.Use != blocks.Current || sizeOf(r) != size) {
		r, err = check(0) // the server will read all of it, or something changed since it stopped
	}
	if err == nil && r.Err() != nil {
		err = &DamagedError{Stream: stream, Report: r}
	}
	for _, b := range r.Blocks {
		if b.Records > 0 && b.Last == r.Last {
			last = ends[b.Number]
		}
	}
	if last.Seq < acked.Seq { // an empty stream, or one that could not be read
		last = acked
	}
	return last, r.Torn, err
}

// InspectCopy reads the second copy of the blobs' stream with a number, and removes it if it is damaged: the
// server fills another from the blobs, which must be sound. It returns what was wrong,
// "" if nothing was. The lock of the folder must be held.
func InspectCopy(ctx context.Context, data string, number uint64) (wrong string, err error) {
	name := jetstream.CopyStream(number)
	dir := embed.StreamDir(data, name)
	r, err := blocks.Check(ctx, dir, blocks.Options{Valid: func(r blocks.Record) error {
		_, err := chunkSum(r)
		return err
	}})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("inspect stream %s: %w", name, err)
	case r.Err() == nil:
		return "", nil
	}
	return r.Err().Error(), os.RemoveAll(dir)
}

// StreamCopy returns the records of a copy of a stream, for [Repair].
func StreamCopy(data, stream string) Copy {
	dir := embed.StreamDir(data, stream)
	var next func() (blocks.Record, error, bool)
	stop := func() {}
	at := uint64(0) // the next call of next gives this one or a later one
	return func(ctx context.Context, seq uint64) (blocks.Record, error) {
		if next == nil || seq < at {
			stop()
			next, stop = iter.Pull2(blocks.Records(ctx, dir, seq))
		}
		for {
			r, err, ok := next()
			if d := (*blocks.Damage)(nil); errors.As(err, &d) {
				continue
			}
			if !ok || err != nil || r.Seq > seq {
				stop()
				next, stop = nil, func() {}
				if err == nil {
					err = fmt.Errorf("%w: record %d in stream %s", ledger.ErrNotFound, seq, stream)
				}
				return blocks.Record{}, err
			}
			if at = r.Seq + 1; r.Seq == seq {
				return r, nil
			}
		}
	}
}

func sizeOf(r blocks.Report) (size int64) {
	for _, b := range r.Blocks {
		size += b.Size
	}
	return size
}

// proves returns the position that a record says was on the disk before it.
func proves(r blocks.Record) uint64 { return jetstream.SyncedBefore(r.Header) }

func recordSum(r blocks.Record) (turns.Hash, error) {
	rec, err := jetstream.CheckRecord(r.Seq, r.Subject, r.Header, r.Payload, r.Stored)
	return rec.Hash, err
}

func chunkSum(r blocks.Record) (turns.Hash, error) {
	return jetstream.CheckChunk(r.Subject, r.Header, r.Payload)
}

// Sizes returns the sizes of the block files of the log and of the blobs' stream with a
// number, for the mark of a clean stop.
func Sizes(data string, number uint64) (s mark.Sizes, err error) {
	if s.Log, err = size(embed.StreamDir(data, jetstream.StreamName)); err != nil {
		return s, err
	}
	s.Blobs, err = size(embed.StreamDir(data, jetstream.BlobsStream(number)))
	return s, err
}

func size(dir string) (sum int64, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "msgs", "*.blk"))
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return 0, err
		}
		sum += info.Size()
	}
	return sum, err
}
