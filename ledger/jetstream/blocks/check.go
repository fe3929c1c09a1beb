package blocks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"
)

// maxDamage is how many places a report lists.
const maxDamage = 1000

// Options say what to check.
type Options struct {
	// From is the first sequence to check; 0: all. Of the blocks before the one
	// that holds it, Check reads the size only.
	From uint64
	// Acked is the highest sequence that the server is known to have acknowledged; 0: none
	// is known. What is missing up to it is damage, however it is missing.
	Acked uint64
	// Unsynced: the machine went down, or may have, while the server had written records
	// that no fsync covered yet. Above Acked such a write may leave anything: records
	// that are whole, torn, or missing, in the newest block and in the one before. Check
	// reports that as Torn and not as Damage, and believes no index.db.
	Unsynced bool
	// Proves returns a position that was on the disk before the record was written, 0 if
	// the record tells none. It counts as Acked. Check calls it with Unsynced only.
	Proves func(Record) uint64
	// Valid is called with each record whose bytes are sound, by several goroutines, with the
	// records of one block in order, maybe twice. An error is damage of kind Refused. nil:
	// every record is valid.
	Valid func(Record) error
}

// Block is one block file.
type Block struct {
	Number      uint32
	Size        int64  // of the file
	First, Last uint64 // sequences of the sound records; 0: none, or the block was not read
	Records     uint64
	Newest      time.Time // when the server stored the last of them
}

// Report is what Check found.
type Report struct {
	Stream      Stream // the zero value if meta.inf cannot be read; Damage says why
	Index       Index
	First, Last uint64 // sequences of the sound records; 0: none
	Records     uint64 // sound ones
	Bytes       uint64 // of the sound records, as the server counts them
	Newest      time.Time
	Blocks      []Block  // by number
	Batches     []string // folders of batches that were staged and not committed, see the package
	Torn        *Tail    // nil: the newest block ends with a whole record
	Damage      []*Damage
	Omitted     int // damaged places that are not in Damage, which lists the first 1,000
}

// Err returns nil if r has no damage, or the first with the number of others. A
// torn tail is no damage.
func (r Report) Err() error {
	switch n := len(r.Damage) + r.Omitted; n {
	case 0:
		return nil
	case 1:
		return r.Damage[0]
	default:
		return fmt.Errorf("%w (the first of %d places)", r.Damage[0], n)
	}
}

func (r *Report) add(d *Damage) {
	if len(r.Damage) < maxDamage {
		r.Damage = append(r.Damage, d)
	} else {
		r.Omitted++
	}
}

// Check reads the folder of a stream, <store>/jetstream/<account>/streams/<name>,
// and reports what it holds. It writes nothing. No server may have the folder open.
//
// Damage is in the report. Errors are those of the file system and of ctx, and
// [ledger.ErrUnsupported] for an encrypted or compressed stream.
func Check(ctx context.Context, dir string, o Options) (Report, error) {
	dir, err := filepath.Abs(dir) // the name of the folder is the key of the checksums
	if err != nil {
		return Report{}, err
	}
	f, err := openFolder(dir)
	if err != nil {
		return Report{}, fmt.Errorf("check %s: %w", dir, err)
	}
	if o.Unsynced && o.Proves != nil { // what comes after a place can tell what it was
		err = f.proven(ctx, &o)
	}
	var r Report
	if err == nil {
		r, err = f.check(ctx, o)
	}
	if err != nil {
		return Report{}, fmt.Errorf("check %s: %w", dir, err)
	}
	return r, nil
}

// proven raises o.Acked to what the sound records prove.
func (f *folder) proven(ctx context.Context, o *Options) error {
	var expect uint64
	for it, err := range f.scan(ctx, o.From, &expect) {
		if err != nil {
			return err
		}
		if it.damage == nil && it.tail == nil {
			o.Acked = max(o.Acked, min(o.Proves(it.record), it.record.Seq-1))
		}
	}
	return nil
}

func (f *folder) check(ctx context.Context, o Options) (r Report, err error) {
	var d *Damage
	if r.Stream, err = ReadStream(f.dir); errors.As(err, &d) {
		r.add(d)
	} else if err != nil {
		return r, err
	}
	for _, d := range f.damage {
		r.add(d)
	}
	if r.Batches, err = batches(f.dir); err != nil {
		return r, err
	}
	if r.Index, err = readIndex(f.dir, f.stream, f.blocks); err != nil {
		return r, err
	}
	for _, b := range f.blocks {
		r.Blocks = append(r.Blocks, Block{Number: b.number, Size: b.size})
	}
	i, expect, err := f.start(o.From)
	if err != nil {
		return r, err
	}
	done, err := f.wholeBlocks(ctx, i, expect, o.Valid)
	if err != nil {
		return r, err
	}
	for _, w := range done {
		if w.records > 0 {
			r.countWhole(&r.Blocks[i], w)
			expect = w.last + 1
		}
		i++
	}
	at := 0 // block of the last record
	for it, err := range f.scanBlocks(ctx, i, &expect) {
		if o.Unsynced && err == nil && r.Err() == nil {
			if r.Torn = f.unfinished(it, max(r.Last+1, o.From), o.Acked); r.Torn != nil {
				return r, nil
			}
		}
		switch {
		case err != nil:
			return r, err
		case it.damage != nil:
			r.add(it.damage)
		case it.tail != nil:
			r.Torn = it.tail
			expect = it.tail.Seq
		default:
			for r.Blocks[at].Number != it.record.Block {
				at++
			}
			r.count(&r.Blocks[at], it.record, o.Valid)
		}
	}
	if o.Unsynced {
		r.Index = Index{Use: r.Index.Use}
	}
	r.checkEnd(o.Acked, expect)
	return r, nil
}

// unfinished returns what writes that no fsync covered left, from the place of it on. next
// is the sequence that is due there. nil: it is a record, or something that was
// acknowledged, or that no unfinished write leaves.
func (f *folder) unfinished(it item, next, acked uint64) *Tail {
	t := &Tail{Seq: next}
	switch {
	case next <= acked:
		return nil
	case it.tail != nil:
		t.Block, t.Offset = it.tail.Block, it.tail.Offset
	case it.damage != nil:
		switch it.damage.Kind {
		case Checksum, Length, Short, Zeros, Bytes, Missing:
		default:
			return nil
		}
		if _, err := fmt.Sscanf(it.damage.File, msgsDir+"/%d.blk", &t.Block); err != nil {
			return nil
		}
		t.Offset = it.damage.Offset
	default:
		return nil
	}
	for _, b := range f.blocks {
		switch {
		case b.number == t.Block:
			t.Bytes = b.size - t.Offset
		case b.number > t.Block:
			t.Later++
		}
	}
	return t
}

// countWhole counts the records of a block in which nothing is wrong.
func (r *Report) countWhole(b *Block, w whole) {
	if r.Records == 0 {
		r.First = w.first
	}
	b.First, b.Last, b.Records, b.Newest = w.first, w.last, w.records, w.newest
	r.Last, r.Newest = w.last, w.newest
	r.Records += w.records
	r.Bytes += w.bytes
}

func (r *Report) count(b *Block, rec Record, valid func(Record) error) {
	if valid != nil {
		if err := valid(rec); err != nil {
			r.add(&Damage{Kind: Refused, File: blockPath(rec.Block), Offset: rec.Offset, Bytes: rec.Bytes, First: rec.Seq, Last: rec.Seq, Detail: err.Error()})
			return
		}
	}
	if r.Records == 0 {
		r.First = rec.Seq
	}
	if b.Records == 0 {
		b.First = rec.Seq
	}
	r.Last, b.Last, r.Newest, b.Newest = rec.Seq, rec.Seq, rec.Stored, rec.Stored
	r.Records++
	b.Records++
	r.Bytes += uint64(rec.Bytes)
}

// checkEnd compares where the records end with what was acknowledged: what the
// caller knows, and what a sound index.db lists. expect is the sequence that
// would follow; 0: damage at the end of the newest block hides it.
func (r *Report) checkEnd(acked, expect uint64) {
	mark, by := acked, "it was acknowledged"
	if r.Index.Last > mark {
		mark, by = r.Index.Last, "index.db lists it"
	}
	if r.Index.Last > 0 && r.Index.Records != r.Index.Last-r.Index.First+1 {
		r.add(&Damage{Kind: Erased, File: msgsDir + "/" + indexFile, Detail: fmt.Sprintf("it lists %d records from %d to %d", r.Index.Records, r.Index.First, r.Index.Last)})
	}
	if t := r.Torn; t != nil && t.Seq <= mark {
		d := &Damage{Kind: Short, File: blockPath(t.Block), Offset: t.Offset, Bytes: t.Bytes, First: t.Seq, Last: mark, Detail: by}
		if t.Zeros {
			d.Kind = Zeros
		}
		if t.Seq == 0 {
			d.Last, d.Detail = 0, "the sequence is not known, because of the damage before it"
		}
		r.Torn = nil
		r.add(d)
	} else if expect > 0 && expect <= mark {
		d := &Damage{Kind: Missing, File: msgsDir, First: expect, Last: mark, Detail: by}
		if n := len(r.Blocks); n > 0 {
			d.File, d.Offset = blockPath(r.Blocks[n-1].Number), r.Blocks[n-1].Size
		}
		r.add(d)
	}
}

// batches lists the staged batches.
func batches(dir string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, batchesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// Records yields the sound records of the stream in dir from sequence from on, in
// the order of the blocks, and each damage between them as the error [*Damage]. It
// goes on after damage, and ends after any other error, which are those of
// [Check]. It says nothing of a torn tail, and does not read meta.inf.
//
// A record after a Damage with Bytes was searched for. It may be content of a
// lost record that looks like a record, so a repair compares the ledger's hashes.
func Records(ctx context.Context, dir string, from uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		dir, err := filepath.Abs(dir)
		if err != nil {
			yield(Record{}, err)
			return
		}
		f, err := openFolder(dir)
		if err != nil {
			yield(Record{}, fmt.Errorf("records of %s: %w", dir, err))
			return
		}
		for _, d := range f.damage {
			if !yield(Record{}, d) {
				return
			}
		}
		var expect uint64
		for it, err := range f.scan(ctx, from, &expect) {
			switch {
			case err != nil:
				yield(Record{}, fmt.Errorf("records of %s: %w", dir, err))
				return
			case it.damage != nil:
				if !yield(Record{}, it.damage) {
					return
				}
			case it.tail == nil && it.record.Seq >= from:
				if !yield(it.record, nil) {
					return
				}
			}
		}
	}
}
