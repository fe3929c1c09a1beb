package blocks

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
	"time"
)

// countedReads is a file that counts how often it is read.
type countedReads struct {
	io.ReaderAt
	n int
}

func (c *countedReads) ReadAt(p []byte, off int64) (int, error) {
	c.n++
	return c.ReaderAt.ReadAt(p, off)
}

// LastSeq finds the end of the last whole record wherever the file ends and the walk begins,
// and reads many small records at a time.
func TestLastSeqFindsTheLastWholeRecord(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	e, err := NewEncoder("S", 1)
	if err != nil {
		t.Fatal(err)
	}
	var file []byte
	ends := []int64{0} // ends[i]: of record i
	for seq := uint64(1); seq <= 300; seq++ {
		size := rng.IntN(1500)
		if seq%50 == 0 {
			size = headsRead + rng.IntN(3*headsRead)
		}
		if file, err = e.Append(file, Record{Seq: seq, Subject: "a", Payload: make([]byte, size), Stored: time.Unix(1, 0)}); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, int64(len(file)))
	}
	for seq := range len(ends) {
		for _, size := range []int64{ends[seq], ends[seq] + 1, ends[seq] + headSize, ends[seq] + headSize + 1} {
			if size > int64(len(file)) {
				continue
			}
			for _, from := range []int{0, seq / 2, seq} {
				want := uint64(seq)
				if from == seq {
					want = 0
				}
				got, next, err := LastSeq(bytes.NewReader(file[:size]), ends[from], size)
				if got != want || next != ends[seq] || err != nil {
					t.Fatalf("from record %d to byte %d: record %d, next at %d, %v; want %d, %d", from, size, got, next, err, want, ends[seq])
				}
			}
		}
	}
	c := &countedReads{ReaderAt: bytes.NewReader(file)}
	if _, _, err := LastSeq(c, 0, int64(len(file))); err != nil || c.n > 40 {
		t.Errorf("%d reads for 300 records (%v)", c.n, err)
	}
}
