package blocks

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"slices"
)

const (
	window = 256 << 10 // bytes that a read asks for, at least
	sector = 512       // what a disk writes whole or not at all
	// budget is how many bytes of false candidates the searches in one block hash before they give up.
	budget = 1 << 30
)

// blockReader reads one block file, of which it holds one window or one record.
type blockReader struct {
	file   io.ReaderAt
	size   int64
	number uint32
	newest bool
	// next returns the sequence that the following block begins with; 0: not known.
	next   func() (uint64, error)
	sum    *checksum
	wasted int64  // bytes of false candidates that were hashed
	buf    []byte // the bytes of file from at on
	at     int64
}

// item is a record, a damage, or a torn tail.
type item struct {
	record Record
	damage *Damage
	tail   *Tail
}

// bytes returns n bytes at off. They are valid until the next call. The caller
// bounds n, and off+n is at most the size.
func (b *blockReader) bytes(off, n int64) ([]byte, error) {
	if off < b.at || off+n > b.at+int64(len(b.buf)) {
		want := min(max(n, window), b.size-off)
		b.buf, b.at = slices.Grow(b.buf[:0], int(want))[:want], off
		if read, err := b.file.ReadAt(b.buf, off); int64(read) < want {
			b.buf = b.buf[:0]
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("read block %d at %d: %w", b.number, off, err)
		}
	}
	return b.buf[off-b.at:][:n], nil
}

// scan yields the records of the block in order, and what is wrong between them.
// expect is the sequence that must come next, 0 if it is not known; scan moves it.
func (b *blockReader) scan(ctx context.Context, expect *uint64) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		for off := int64(0); off < b.size; {
			if err := ctx.Err(); err != nil {
				yield(item{}, err)
				return
			}
			raw, h, kind, err := b.record(off)
			if err != nil {
				yield(item{}, err)
				return
			}
			if kind == "" {
				for it := range b.judge(raw, h, off, expect) {
					if !yield(it, nil) {
						return
					}
				}
				off += h.length
				continue
			}
			var it item
			if off, it, err = b.skip(ctx, off, h, kind, expect); !yield(it, err) || err != nil {
				return
			}
		}
	}
}

// record reads the record at off. kind says why there is none; its head is
// returned if there is one.
func (b *blockReader) record(off int64) (raw []byte, h head, kind Kind, err error) {
	rest := b.size - off
	if rest < headSize {
		return nil, h, Short, nil
	}
	if raw, err = b.bytes(off, headSize); err != nil {
		return nil, h, "", err
	}
	h = parseHead(raw)
	switch {
	case isZero(raw):
		return nil, h, Zeros, nil
	case !h.isPossible():
		return nil, h, Length, nil
	case h.length > rest:
		return nil, h, Short, nil
	}
	if raw, err = b.bytes(off, h.length); err != nil {
		return nil, h, "", err
	}
	if !b.sum.matches(raw, h) {
		return nil, h, Checksum, nil
	}
	return raw, h, "", nil
}

// judge yields what a record with a right checksum is worth: the record, or why
// a ledger's stream cannot have it.
func (b *blockReader) judge(raw []byte, h head, off int64, expect *uint64) iter.Seq[item] {
	return func(yield func(item) bool) {
		seq := h.seq &^ (erasedFlag | tombstoneFlag)
		damage := func(kind Kind, first, last uint64, bytes int64, detail string) bool {
			return yield(item{damage: &Damage{Kind: kind, File: b.path(), Offset: off, Bytes: bytes, First: first, Last: last, Detail: detail}})
		}
		switch {
		case h.seq&tombstoneFlag != 0:
			damage(Tombstone, seq, seq, 0, "")
			return
		case h.seq&erasedFlag != 0 || seq == 0:
			if seq >= *expect && seq > 0 {
				*expect = seq + 1
			}
			damage(Erased, seq, seq, 0, "")
			return
		case seq < *expect:
			damage(Repeated, seq, seq, 0, fmt.Sprintf("record %d should be here", *expect))
			return
		case seq > *expect && *expect > 0:
			if !damage(Missing, *expect, seq-1, 0, fmt.Sprintf("record %d follows", seq)) {
				return
			}
		}
		*expect = seq + 1
		r, kind, detail := decode(raw, h)
		r.Block, r.Offset = b.number, off
		if kind != "" {
			damage(kind, seq, seq, h.length, detail)
			return
		}
		yield(item{record: r})
	}
}

// skip says what is at off, where no record is, and where to go on: at the next
// record that can be read, or at the end of the block.
func (b *blockReader) skip(ctx context.Context, off int64, h head, kind Kind, expect *uint64) (int64, item, error) {
	d := &Damage{Kind: kind, File: b.path(), Offset: off, First: *expect}
	next, seq, tooMuch, err := b.search(ctx, off, h, *expect)
	if err != nil {
		return 0, item{}, err
	}
	d.Bytes = next - off
	if tooMuch {
		*expect, d.Detail = 0, "what follows has too many beginnings of records to try them all"
		return b.size, item{damage: d}, nil
	}
	if next < b.size {
		if kind == Short {
			d.Kind, d.Detail = Length, fmt.Sprintf("record %d follows inside it", seq)
		}
		switch {
		case seq == *expect:
			d.Kind, d.First, d.Detail = Bytes, 0, "no record is missing here"
		case *expect > 0:
			d.Last = seq - 1
		}
		*expect = seq
		return next, item{damage: d}, nil
	}
	if !b.newest {
		if seq, err = b.next(); err != nil {
			return 0, item{}, err
		}
		if seq > *expect && *expect > 0 {
			d.Last = seq - 1
		}
		*expect = seq
		return b.size, item{damage: d}, nil
	}
	tail, why, err := b.tail(ctx, off, h, kind, *expect)
	if err != nil {
		return 0, item{}, err
	}
	*expect = 0
	if tail != nil {
		return b.size, item{tail: tail}, nil
	}
	switch {
	case why != "":
		d.Kind, d.Detail = Length, why
	case kind == Short:
		d.Kind = Bytes
	}
	return b.size, item{damage: d}, nil
}

// search returns the offset and the sequence of the first record after off that
// can be read; the size of the block if there is none. It looks where the head h
// says that the record at off ends, then at every byte. tooMuch: it gave up.
func (b *blockReader) search(ctx context.Context, off int64, h head, expect uint64) (next int64, seq uint64, tooMuch bool, err error) {
	low, high := max(expect, 1), uint64(tombstoneFlag)
	if expect > 0 {
		high = expect + uint64(b.size/minRecord) + 1 // more do not fit in a block
	}
	try := func(at int64, c head) (bool, error) {
		if c.seq < low || c.seq >= high || !c.isPossible() || c.length > b.size-at || b.wasted > budget {
			return false, nil
		}
		raw, err := b.bytes(at, c.length)
		if err != nil {
			return false, err
		}
		if b.sum.matches(raw, c) {
			return true, nil
		}
		b.wasted += c.length
		return false, nil
	}
	if at := off + h.length; h.length >= minRecord && at <= b.size-minRecord {
		raw, err := b.bytes(at, headSize)
		if err != nil {
			return 0, 0, false, err
		}
		c := parseHead(raw)
		if ok, err := try(at, c); ok || err != nil {
			return at, c.seq, false, err
		}
	}
	for at := off + 1; at <= b.size-minRecord && b.wasted <= budget; {
		if err := ctx.Err(); err != nil {
			return 0, 0, false, err
		}
		began, n := at, min(window, b.size-at)
		chunk, err := b.bytes(began, n)
		if err != nil {
			return 0, 0, false, err
		}
		for ; at-began <= n-headSize && at <= b.size-minRecord; at++ {
			if seq := binary.LittleEndian.Uint64(chunk[at-began+4:]); seq < low || seq >= high {
				continue
			}
			c := parseHead(chunk[at-began:])
			if ok, err := try(at, c); ok || err != nil {
				return at, c.seq, false, err
			}
			if chunk, err = b.bytes(began, n); err != nil { // try may have read over it
				return 0, 0, false, err
			}
		}
	}
	return b.size, 0, b.wasted > budget, nil
}

// tail returns what a write that did not finish left from off to the end of the
// newest block, where no record follows; nil if no write leaves these bytes. why says
// what a length should be.
//
// A write that did not finish leaves some sectors of what was written, zeros for the
// others, or the file ends early. So the bytes must be zero, or begin with the
// head of the record that is due, and end before it does or have zeros in it.
// Zeros that are no whole sector count if they are long enough to be a checksum.
func (b *blockReader) tail(ctx context.Context, off int64, h head, kind Kind, expect uint64) (t *Tail, why string, err error) {
	rest := b.size - off
	if rest >= minRecord && rest <= maxRecord { // a whole record with another length?
		raw, err := b.bytes(off, rest)
		if err != nil {
			return nil, "", err
		}
		for _, headers := range []bool{false, true} {
			c := parseHead(raw)
			c.length, c.headers = rest, headers
			if c.isPossible() && b.sum.matches(raw, c) {
				return nil, fmt.Sprintf("the record is whole and has %d bytes", rest), nil
			}
		}
	}
	zeros, err := b.zeros(ctx, off)
	if err != nil {
		return nil, "", err
	}
	t = &Tail{Block: b.number, Offset: off, Bytes: rest, Seq: expect, Zeros: zeros.end == off}
	if zeros.hole == off { // zero, or the first sector was not written
		return t, "", nil
	}
	known := min(headSize, rest) // bytes of the head that were written
	if b.size-zeros.end >= sumSize {
		known = min(known, zeros.end-off)
	}
	begin, err := b.bytes(off, known)
	if err != nil {
		return nil, "", err
	}
	if n := sector - off%sector; n < known && isZero(begin[n:]) {
		known, begin = n, begin[:n]
	}
	var full [headSize]byte
	copy(full[:], begin)
	c := parseHead(full[:])
	switch {
	case known >= 4 && (c.length < minRecord || c.length > maxRecord || off > 0 && off+c.length > maxBlock):
		return nil, "", nil
	case expect > 0 && !isPrefixOfSeq(begin, expect):
		return nil, "", nil
	case known == headSize && !c.isPossible():
		return nil, "", nil
	case known < headSize:
		return t, "", nil
	case c.length > rest:
		return t, "", nil
	case zeros.end <= off+c.length && (zeros.hole < off+c.length || off+c.length-zeros.end >= sumSize):
		return t, "", nil
	}
	return nil, "", nil
}

// isPrefixOfSeq reports whether b, the beginning of a record, has the sequence seq as far as it goes.
func isPrefixOfSeq(b []byte, seq uint64) bool {
	want := binary.LittleEndian.AppendUint64(nil, seq)
	got := b[min(4, len(b)):min(12, len(b))]
	return string(got) == string(want[:len(got)])
}

// zeroBytes says where a tail is zero.
type zeroBytes struct {
	hole int64 // where the first sector, or what the tail has of it, is zero; the size of the block: nowhere
	end  int64 // after the last byte that is not zero
}

func (b *blockReader) zeros(ctx context.Context, off int64) (zeroBytes, error) {
	z := zeroBytes{hole: b.size, end: off}
	for at := off; at < b.size; {
		if err := ctx.Err(); err != nil {
			return z, err
		}
		n := min(sector-at%sector, b.size-at)
		part, err := b.bytes(at, n)
		if err != nil {
			return z, err
		}
		if last := lastNonZero(part); last >= 0 {
			z.end = at + int64(last) + 1
		} else {
			z.hole = min(z.hole, at)
		}
		at += n
	}
	return z, nil
}

// lastNonZero returns the index of the last byte that is not zero, -1 if all are.
func lastNonZero(b []byte) int {
	i := len(b) - 1
	for i >= 0 && b[i] == 0 {
		i--
	}
	return i
}

func isZero(b []byte) bool { return lastNonZero(b) < 0 }

// path is the block's file under the folder of the stream.
func (b *blockReader) path() string { return blockPath(b.number) }
