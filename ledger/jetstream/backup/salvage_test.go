package backup

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"reflect"
	"slices"
	"testing"

	"nexus/ledger/jetstream/blocks"
)

// threeRuns returns a file of three runs, and where its frames begin.
func threeRuns(t *testing.T) (b []byte, at []int) {
	t.Helper()
	c, m := config(t.TempDir()), newMemory()
	for range 3 {
		if _, err := Run(t.Context(), m, c); err != nil {
			t.Fatal(err)
		}
		m.grow(2)
	}
	b, err := os.ReadFile(c.File)
	if err != nil {
		t.Fatal(err)
	}
	for n := len(magic); n < len(b); n += headSize + int(binary.LittleEndian.Uint32(b[n+1:])) {
		at = append(at, n)
	}
	return b, at
}

// salvaged reads a damaged file twice, as a restore does, and returns the records by name.
func salvaged(t *testing.T, b []byte) (*Plan, map[string]string) {
	t.Helper()
	plan, _, err := ReadDamaged(t.Context(), bytes.NewReader(b), int64(len(b)), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	if plan.Bytes == 0 {
		return plan, got
	}
	again, c, err := ReadDamaged(t.Context(), bytes.NewReader(b), plan.Bytes, plan, func(s Stream, r blocks.Record) error {
		got[fmt.Sprint(s, r.Seq)] = string(r.Payload)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := c.totals.LogRecords + c.totals.BlobRecords; uint64(len(got)) != want || c.totals != again.Totals || c.totals.LogRecords != c.totals.Log.Seq {
		t.Errorf("%d records, want %d; %+v", len(got), want, again.Totals)
	}
	return plan, got
}

func states(p *Plan) (out []string) {
	for _, r := range p.Runs {
		out = append(out, r.State)
	}
	return out
}

// A flipped byte, anywhere, loses the record that it is in, and the other runs are whole.
func TestAFlipLosesOneRecord(t *testing.T) {
	b, at := threeRuns(t)
	sound, want := salvaged(t, b)
	if sound.State() != Complete || !slices.Equal(states(sound), []string{Whole, Whole, Whole}) || len(want) != 16 || sound.Lost != nil {
		t.Fatalf("%+v", sound.Salvage)
	}
	wantRun := 0
	for i, from := range at {
		to := len(b)
		if i+1 < len(at) {
			to = at[i+1]
		}
		kind := b[from]
		if kind == beginKind {
			wantRun++
		}
		for n := from; n < to; n += 1 + (n-from)/headSize*6 { // each byte of the head
			changed := bytes.Clone(b)
			changed[n] ^= 0x10
			p, got := salvaged(t, changed)
			wantStates := []string{Whole, Whole, Whole}
			wantStates[wantRun-1] = Damaged
			wantEvents, wantChunks := uint64(0), uint64(0)
			switch kind {
			case logKind:
				wantEvents = 1
			case blobKind:
				wantChunks = 1
			}
			if p.State() != Damaged || !slices.Equal(states(p), wantStates) || p.LostEvents != wantEvents || p.LostChunks != wantChunks || p.Begin.Ledger != sound.Begin.Ledger {
				t.Fatalf("byte %d of frame %d (%c): %+v", n-from, i, kind, p.Salvage)
			}
			differ := 0
			for name, payload := range want {
				if got[name] != payload {
					differ++
				}
			}
			if len(got) != len(want) || differ != int(wantEvents+wantChunks) {
				t.Fatalf("byte %d of frame %d (%c): %d records, %d differ", n-from, i, kind, len(got), differ)
			}
		}
	}
	for n := range magic {
		changed := bytes.Clone(b)
		changed[n] ^= 1
		if p, got := salvaged(t, changed); p.State() != Damaged || p.LostEvents+p.LostChunks > 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("byte %d: %+v", n, p.Salvage)
		}
	}
}

// Each pair of flips loses what each of them does.
func TestTwoFlipsLoseTwoRecords(t *testing.T) {
	b, at := threeRuns(t)
	for i, one := range at {
		for j, other := range at[i+1:] {
			if (i+j)%3 > 0 && j > 0 { // neighbours all
				continue
			}
			for _, offset := range []int{2, headSize + 4} {
				changed := bytes.Clone(b)
				changed[one+offset] ^= 1
				changed[other+offset] ^= 1
				p, _ := salvaged(t, changed)
				want := uint64(0)
				for _, n := range []int{one, other} {
					if b[n] == logKind || b[n] == blobKind {
						want++
					}
				}
				if p.State() != Damaged || p.LostEvents+p.LostChunks != want {
					t.Errorf("frames %d and %d: %+v", i, i+1+j, p.Salvage)
				}
			}
		}
	}
}

// A stretch that is zeroed loses the frames that it touches, heads or not.
func TestAZeroedStretchLosesWhatItTouches(t *testing.T) {
	b, at := threeRuns(t)
	_, want := salvaged(t, b)
	for i := range at[:len(at)-1] {
		for j := i + 1; j < min(i+6, len(at)-1); j++ {
			changed := bytes.Clone(b)
			clear(changed[at[i]+headSize+3 : at[j]+headSize+3])
			p, got := salvaged(t, changed)
			lost := uint64(0)
			for _, n := range at[i : j+1] {
				if b[n] == logKind || b[n] == blobKind {
					lost++
				}
			}
			if p.LostEvents+p.LostChunks != lost {
				t.Errorf("frames %d to %d: %+v, want %d lost", i, j, p.Salvage, lost)
			}
			if len(got) != len(want) {
				t.Errorf("frames %d to %d: %d records, want %d", i, j, len(got), len(want))
			}
		}
	}
}

// A file that is cut off is restored through its last run that ended; of a first run that did not
// end, all that is there.
func TestACutFileIsRestoredThroughItsLastRun(t *testing.T) {
	b, _ := threeRuns(t)
	_, all := salvaged(t, b)
	ends := make(map[int64]bool)
	for n := len(magic); n < len(b); n += 5 {
		report, _ := check(t, b[:n])
		p, got := salvaged(t, b[:n])
		ends[report.Bytes] = true
		switch {
		case report.State == Complete:
			if p.State() != Complete || p.Bytes != int64(n) {
				t.Errorf("%d bytes: %+v", n, p.Salvage)
			}
		case p.State() != Incomplete || p.LostEvents+p.LostChunks > 0:
			t.Errorf("%d bytes: %+v", n, p.Salvage)
		case report.Bytes > 0 && p.Bytes != report.Bytes:
			t.Errorf("%d bytes: restored through %d, want %d", n, p.Bytes, report.Bytes)
		}
		for name, payload := range got {
			if all[name] != payload {
				t.Errorf("%d bytes: %s is %q", n, name, payload)
			}
		}
	}
	if len(ends) != 3 {
		t.Errorf("%v", ends)
	}
}

// What looks like a frame within a record is not taken for one where the record's head is damaged.
func TestAFrameInAPayloadIsNotTakenForOne(t *testing.T) {
	c, m := config(t.TempDir()), newMemory()
	forged, err := AppendRecord(nil, Stream{}, record(5, `{"forged":true}`))
	if err != nil {
		t.Fatal(err)
	}
	m.log = append(m.log, record(5, "x"+string(forged)), record(6, `{"n":6}`))
	if _, err := Run(t.Context(), m, c); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(c.File)
	if err != nil {
		t.Fatal(err)
	}
	inner := bytes.Index(b, forged)
	outer := bytes.LastIndex(b[:inner], []byte("nexus.log.")) - recordHead - headSize
	for n := range headSize {
		changed := bytes.Clone(b)
		changed[outer+n] ^= 4
		if p, got := salvaged(t, changed); got["{false 0} 5"] != `{"lost":5}` || got["{false 0} 6"] != `{"n":6}` || p.LostEvents != 1 {
			t.Errorf("byte %d of the head: %q, %+v", n, got["{false 0} 5"], p.Salvage)
		}
	}
}

// A position that skips more than the damage can have held is damage itself.
func TestAPositionFarAwayIsNoLoss(t *testing.T) {
	b, at := threeRuns(t)
	changed := bytes.Clone(b)
	frame := changed[at[3]:at[4]]
	binary.LittleEndian.PutUint64(frame[headSize+8:], 1<<40)
	binary.LittleEndian.PutUint32(frame[9:], crc32.Checksum(frame[headSize:], castagnoli))
	if p, _ := salvaged(t, changed); p.LostEvents != 1 || p.State() != Damaged {
		t.Errorf("%+v", p.Salvage)
	}
}

func FuzzReadDamaged(f *testing.F) {
	b := []byte(magic)
	b, _ = appendJSON(b, beginKind, Begin{Ledger: "x", Run: 1})
	b, _ = AppendRecord(b, Stream{}, record(1, "{}"))
	b = append(b, "noise"...)
	b, _ = AppendRecord(b, Stream{}, record(3, "{}"))
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, c, err := ReadDamaged(t.Context(), bytes.NewReader(b), int64(len(b)), nil, func(Stream, blocks.Record) error { return nil })
		if err == nil && (p.Totals != c.totals || p.Bytes > int64(len(b))) {
			t.Errorf("%+v", p)
		}
	})
}
