package blocks

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// maxReaders is how many blocks are read at the same time, at most. Each has a window or a record in memory.
const maxReaders = 8

// whole is what a block holds in which nothing is wrong.
type whole struct {
	first, last, records uint64 // sequences; 0: it is empty
	bytes                uint64
	newest               time.Time // when the server stored the last record
}

// wholeBlocks reads the blocks from block i on, several at the same time, and returns what they hold up
// to the first in which anything is wrong, or that does not go on where the one before it ends. What is
// wrong there is left to scanBlocks. seq is what block i must begin with; 0: not known. valid is
// called by several goroutines, with the records of a block in order, and for blocks behind the returned ones too.
//
// Errors: that of ctx. A file that can't be read is something wrong.
func (f *folder) wholeBlocks(ctx context.Context, i int, seq uint64, valid func(Record) error) ([]whole, error) {
	if f.alone {
		return nil, nil
	}
	found := make([]*whole, len(f.blocks)-i)
	var next, wrong atomic.Int64
	wrong.Store(int64(len(found)))
	g, ctx := errgroup.WithContext(ctx)
	for range min(len(found), runtime.GOMAXPROCS(0), maxReaders) {
		g.Go(func() error {
			var buf []byte
			for {
				k := next.Add(1) - 1
				if k >= wrong.Load() {
					return nil
				}
				w, err := f.wholeBlock(ctx, i+int(k), &buf, valid)
				if err != nil {
					return err
				}
				if found[k] = w; w != nil {
					continue
				}
				for least := wrong.Load(); k < least && !wrong.CompareAndSwap(least, k); {
					least = wrong.Load()
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var out []whole
	for _, w := range found {
		if w == nil || w.records > 0 && seq > 0 && w.first != seq {
			break
		}
		if w.records > 0 {
			seq = w.last + 1
		}
		out = append(out, *w)
	}
	return out, nil
}

// wholeBlock reads a block. nil: something is wrong with it. buf is of the caller's goroutine.
func (f *folder) wholeBlock(ctx context.Context, i int, buf *[]byte, valid func(Record) error) (*whole, error) {
	b, file, err := f.open(i)
	if err != nil {
		return nil, nil // scanBlocks meets it as well
	}
	defer file.Close()
	b.buf = (*buf)[:0]
	defer func() { *buf = b.buf }()
	w := new(whole)
	var expect uint64 // of the first record it is compared with the block before
	for off := int64(0); off < b.size; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		raw, h, kind, err := b.record(off)
		if err != nil || kind != "" {
			return nil, nil
		}
		for it := range b.judge(raw, h, off, &expect) {
			if it.damage != nil || valid != nil && valid(it.record) != nil {
				return nil, nil
			}
			if w.records == 0 {
				w.first = it.record.Seq
			}
			w.last, w.newest = it.record.Seq, it.record.Stored
			w.records++
			w.bytes += uint64(it.record.Bytes)
		}
		off += h.length
	}
	return w, nil
}
