package blocks

import (
	"bytes"
	"context"
	"testing"
	"time"
)

// FuzzBlock reads any bytes as a block. What it yields covers the block from its
// beginning to its end, once, and no more memory is held than a window or a record.
func FuzzBlock(f *testing.F) {
	var sound []byte
	for seq := uint64(1); seq <= 4; seq++ {
		r := Record{Seq: seq, Subject: "a.b", Payload: bytes.Repeat([]byte{1}, int(seq)*300), Stored: time.Unix(7, 7), Block: 1}
		if seq%2 == 0 {
			r.Header = []byte("NATS/1.0\r\nA: b\r\n\r\n")
		}
		sound = append(sound, encode(r)...)
	}
	for _, n := range []int{0, 3, 21, 29, 700, len(sound)} {
		f.Add(sound[:n], true, uint64(1))
		f.Add(append(bytes.Clone(sound[:n]), make([]byte, 600)...), false, uint64(0))
	}
	cut := append(bytes.Clone(sound[:400]), sound[500:]...)
	f.Add(cut, true, uint64(1))
	f.Add(append(cut, encode(Record{Seq: 5 | tombstoneFlag, Block: 1})...), true, uint64(1))
	f.Fuzz(func(t *testing.T, content []byte, newest bool, expect uint64) {
		sum, err := newChecksum(streamName + "-1")
		if err != nil {
			t.Fatal(err)
		}
		b := &blockReader{file: bytes.NewReader(content), size: int64(len(content)), number: 1, newest: newest, sum: sum, next: func() (uint64, error) { return 0, nil }}
		var off int64
		began := expect
		for it, err := range b.scan(context.Background(), &expect) {
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case it.tail != nil:
				if !newest || it.tail.Offset != off {
					t.Fatalf("tail %+v after %d, newest %v", it.tail, off, newest)
				}
				off += it.tail.Bytes
			case it.damage == nil:
				if it.record.Offset != off || !bytes.Equal(content[off:off+it.record.Bytes], encode(it.record)) || it.record.Seq < began {
					t.Fatalf("record %d at %d, after %d", it.record.Seq, it.record.Offset, off)
				}
				off += it.record.Bytes
			case it.damage.Bytes > 0:
				if it.damage.Offset != off {
					t.Fatalf("damage %v after %d", it.damage, off)
				}
				off += it.damage.Bytes
			case it.damage.Kind == Missing:
				if it.damage.Offset != off || it.damage.First > it.damage.Last {
					t.Fatalf("damage %v after %d", it.damage, off)
				}
			default: // a record of the wrong sequence
				off += parseHead(content[it.damage.Offset:]).length
			}
		}
		if off != b.size {
			t.Fatalf("it ends at %d of %d bytes", off, b.size)
		}
		if c := cap(b.buf); c > 2*max(window, len(content)) {
			t.Fatalf("%d bytes held for %d", c, len(content))
		}
	})
}
