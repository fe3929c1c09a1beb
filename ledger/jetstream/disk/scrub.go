package disk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/embed"
)

// again is how long Scrub waits before it looks at a fault a second time: it may have
// read what the server was writing.
const again = time.Second

// Scrub reads a stream while a server has it open, up to position last, which was
// acknowledged. It reads the files: a server that is asked for a record it can't read
// truncates the file there. progress is called with the bytes of each record; its
// error ends the scrub. The result is nil if all is sound.
func Scrub(ctx context.Context, data, stream string, last uint64, progress func(bytes int64) error) (*DamagedError, error) {
	dir := embed.StreamDir(data, stream)
	sum := recordSum
	if stream != jetstream.StreamName {
		sum = chunkSum
	}
	next := uint64(1)
	for tries := 0; ; tries++ {
		d, err := scrubFrom(ctx, dir, &next, last, func(r blocks.Record) error {
			_, err := sum(r)
			return err
		}, progress)
		if err != nil {
			return nil, fmt.Errorf("scrub stream %s: %w", stream, err)
		}
		if d == nil {
			return nil, nil
		}
		if tries > 0 {
			return &DamagedError{Stream: stream, Report: blocks.Report{Damage: []*blocks.Damage{d}}}, nil
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// scrubFrom reads the records from next to last, and moves next on. It returns the
// first damage.
func scrubFrom(ctx context.Context, dir string, next *uint64, last uint64, valid func(blocks.Record) error, progress func(int64) error) (*blocks.Damage, error) {
	for r, err := range blocks.Records(ctx, dir, *next) {
		if *next > last {
			return nil, nil
		}
		if d := (*blocks.Damage)(nil); errors.As(err, &d) {
			return d, nil
		}
		if err != nil {
			return nil, err
		}
		d := &blocks.Damage{File: blocks.Path(r.Block), Offset: r.Offset, First: *next}
		if r.Seq != *next {
			d.Kind, d.Last = blocks.Missing, r.Seq-1
			return d, nil
		}
		if err := valid(r); err != nil {
			d.Kind, d.Last, d.Bytes, d.Detail = blocks.Refused, r.Seq, r.Bytes, err.Error()
			return d, nil
		}
		*next++
		if err := progress(r.Bytes); err != nil {
			return nil, err
		}
	}
	if *next <= last {
		return &blocks.Damage{Kind: blocks.Missing, File: "msgs", First: *next, Last: last, Detail: "it was acknowledged"}, nil
	}
	return nil, nil
}
