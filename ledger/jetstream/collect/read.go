package collect

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"time"

	"nexus/ledger"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/embed"
	"nexus/turns"
)

// records yields the records of a stream from first to last, which the server has
// acknowledged. It reads the files: a server that is asked for a record that it can't read
// truncates the file there. The result owns its bytes. Anything but these records, in
// order, is an error.
func (r *run) records(ctx context.Context, stream string, first, last uint64) iter.Seq2[blocks.Record, error] {
	return func(yield func(blocks.Record, error) bool) {
		next := first
		if next > last {
			return
		}
		for rec, err := range blocks.Records(ctx, embed.StreamDir(r.Data, stream), first) {
			if err == nil && rec.Seq != next {
				err = fmt.Errorf("%w: stream %s: record %d is missing", ledger.ErrCorrupt, stream, next)
			}
			if err == nil {
				err = r.Pace(rec.Bytes)
			}
			if damage := (*blocks.Damage)(nil); errors.As(err, &damage) {
				err = fmt.Errorf("%w: stream %s: %w", ledger.ErrCorrupt, stream, err)
			}
			if err != nil {
				yield(blocks.Record{}, err)
				return
			}
			rec.Header, rec.Payload = bytes.Clone(rec.Header), bytes.Clone(rec.Payload)
			if !yield(rec, nil) || next == last {
				return
			}
			next++
		}
		yield(blocks.Record{}, fmt.Errorf("%w: stream %s ends before record %d of %d", ledger.ErrCorrupt, stream, next, last))
	}
}

// chunk is a record of a stream of blobs.
type chunk struct {
	blocks.Record
	key   jetstream.BlobKey // of its blob
	name  string            // subject in the first stream
	sum   turns.Hash        // of the payload
	first time.Time         // when it was stored first
}

// chunks yields the chunks of the stream with a number. A chunk that a repair gave up has
// no blob, and is left out.
func (r *run) chunks(ctx context.Context, number, first, last uint64) iter.Seq2[chunk, error] {
	return func(yield func(chunk, error) bool) {
		for rec, err := range r.records(ctx, jetstream.BlobsStream(number), first, last) {
			c := chunk{Record: rec}
			if err == nil && rec.Subject == jetstream.LostChunk {
				continue
			}
			if err == nil {
				c.sum, err = jetstream.CheckChunk(rec.Subject, rec.Header, rec.Payload)
			}
			if err == nil {
				var ok bool
				if c.key, ok = jetstream.KeyOf(rec.Subject); !ok {
					err = fmt.Errorf("%w: record %d is at %s, which is no subject of a chunk", ledger.ErrCorrupt, rec.Seq, rec.Subject)
				}
			}
			if err == nil {
				c.name, err = jetstream.FirstSubject(rec.Subject)
			}
			if c.first = jetstream.StoredAt(rec.Header, rec.Stored); !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// tally says which chunks a stream holds, in any order: how many, and the sum of the
// hashes of each one's name and content.
type tally struct {
	chunks uint64
	sums   [4]uint64
}

func (t *tally) add(c chunk) {
	t.chunks++
	h := sha256.Sum256(append([]byte(c.name), c.sum[:]...))
	for i := range t.sums {
		t.sums[i] += binary.LittleEndian.Uint64(h[8*i:])
	}
}
