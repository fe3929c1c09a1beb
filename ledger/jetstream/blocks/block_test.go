package blocks

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// scanned is what a block of these bytes yields.
func scanned(t *testing.T, content []byte, newest bool, expect uint64) (items []item) {
	t.Helper()
	sum, err := newChecksum(streamName + "-1")
	if err != nil {
		t.Fatal(err)
	}
	b := &blockReader{file: bytes.NewReader(content), size: int64(len(content)), number: 1, newest: newest, sum: sum, next: func() (uint64, error) { return 0, nil }}
	for it, err := range b.scan(context.Background(), &expect) {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, it)
	}
	return items
}

// numbered is a record of the test with this sequence.
func numbered(seq uint64, payload []byte) []byte {
	return encode(Record{Seq: seq, Subject: "a.b", Payload: payload, Stored: time.Unix(1, 1), Block: 1})
}

// The search for records after damage ends, also in bytes made to look like records.
func TestASearchHasABound(t *testing.T) {
	fake := binary.LittleEndian.AppendUint32(nil, 4<<20)
	fake = binary.LittleEndian.AppendUint64(fake, 1)
	fake = append(fake, make([]byte, 10)...)
	content := append(bytes.Repeat(fake, budget/(4<<20)+100), make([]byte, 4<<20)...)
	content = append(content, numbered(1, nil)...)
	got := scanned(t, content, true, 1)
	if len(got) != 1 || got[0].damage == nil || got[0].damage.Bytes != int64(len(content)) || !strings.Contains(got[0].damage.Detail, "too many") {
		t.Errorf("%+v", got)
	}
}

// The newest block holds a part of one record, its first.
func TestAnOnlyRecordCanBeTorn(t *testing.T) {
	raw := numbered(7, []byte("payload"))
	for n := 1; n < len(raw); n++ {
		got := scanned(t, raw[:n], true, 7)
		if want := (Tail{Block: 1, Bytes: int64(n), Seq: 7}); len(got) != 1 || got[0].tail == nil || *got[0].tail != want {
			t.Errorf("%d bytes: %+v", n, got)
		}
		if n < 5 {
			continue // no byte of the sequence that differs
		}
		if got := scanned(t, raw[:n], true, 8); len(got) != 1 || got[0].damage == nil {
			t.Errorf("%d bytes, where record 8 is due: %+v", n, got)
		}
		if got := scanned(t, raw[:n], false, 7); len(got) != 1 || got[0].damage == nil || got[0].damage.First != 7 {
			t.Errorf("%d bytes, in an older block: %+v", n, got)
		}
	}
}

// The head of the record that is due, but with a subject that does not fit in.
func TestAnImpossibleHeadIsNoTornWrite(t *testing.T) {
	raw := numbered(7, make([]byte, 100))
	raw[21] = 1
	if got := scanned(t, raw[:60], true, 7); len(got) != 1 || got[0].damage == nil || got[0].damage.Kind != Length {
		t.Errorf("%+v", got)
	}
	if got := scanned(t, raw[:headSize-1], true, 7); len(got) != 1 || got[0].tail == nil {
		t.Errorf("the length of the subject is not there: %+v", got)
	}
}

// A write that did not finish leaves any of its sectors zero; a complete record with
// another byte has none that is zero.
func TestOnlyZeroSectorsTearACompleteRecord(t *testing.T) {
	before := numbered(1, bytes.Repeat([]byte{1}, 900))
	raw := append(bytes.Clone(before), numbered(2, bytes.Repeat([]byte{2}, 3000))...)
	sectors := (len(raw) + sector - 1) / sector
	for i := len(before) / sector; i < sectors; i++ {
		low, high := max(i*sector, len(before)), min((i+1)*sector, len(raw))
		torn, changed := bytes.Clone(raw), bytes.Clone(raw)
		clear(torn[low:high])
		changed[(low+high)/2] ^= 4
		if got := scanned(t, torn, true, 1); len(got) != 2 || got[1].tail == nil || got[1].tail.Seq != 2 {
			t.Errorf("sector %d is zero: %+v", i, got[1:])
		}
		if got := scanned(t, append(torn, numbered(3, nil)...), true, 1); len(got) != 3 || got[1].damage == nil || got[1].damage.Last != 2 || got[2].record.Seq != 3 {
			t.Errorf("sector %d is zero, and a record follows: %+v", i, got[1:])
		}
		if got := scanned(t, changed, true, 1); len(got) != 2 || got[1].damage == nil {
			t.Errorf("sector %d has another bit: %+v", i, got[1:])
		}
	}
}

// No record but the first of a block ends beyond 8 MiB, so a length that says so is no torn write.
func TestALengthBeyondTheBlockIsDamage(t *testing.T) {
	whole := numbered(1, nil)
	long := numbered(2, make([]byte, maxBlock-minRecord-3-len(whole)))
	if got := scanned(t, append(bytes.Clone(whole), long[:100]...), true, 1); len(got) != 2 || got[1].tail == nil {
		t.Errorf("a record that ends with the block: %+v", got[1:])
	}
	long = numbered(2, make([]byte, maxBlock-minRecord-3-len(whole)+1))
	if got := scanned(t, append(bytes.Clone(whole), long[:100]...), true, 1); len(got) != 2 || got[1].damage == nil {
		t.Errorf("one byte more: %+v", got[1:])
	}
	long = numbered(1, make([]byte, maxBlock))
	if got := scanned(t, long[:100], true, 1); len(got) != 1 || got[0].tail == nil {
		t.Errorf("the first record: %+v", got)
	}
}

func TestAReportListsAThousandPlaces(t *testing.T) {
	s := start(t, t.TempDir())
	s.publish(t, messages(false, 1)...)
	dir := killed(t, s)
	name := filepath.Join(dir, blockPath(1))
	first, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	extend(t, name, bytes.Repeat(first, maxDamage+10))
	r := check(t, dir, Options{})
	if len(r.Damage) != maxDamage || r.Omitted != 10 || !strings.Contains(r.Err().Error(), "of 1010 places") || r.Records != 1 {
		t.Errorf("%d places, %d omitted, %v", len(r.Damage), r.Omitted, r.Err())
	}
}
