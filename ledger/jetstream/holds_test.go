package jetstream

import (
	"strings"
	"testing"
	"time"

	"nexus/turns"
)

func TestAHoldLastsItsTimeAndNotForEver(t *testing.T) {
	began := time.Now()
	for first := time.Duration(0); first < 4*HoldTime; first += HoldTime / 4 {
		now := began
		h := holds{now: func() time.Time { return now }}
		h.add(BlobKey{9})
		now = began.Add(first)
		h.add(BlobKey{1})
		for later := time.Duration(0); later <= 4*HoldTime; later += HoldTime / 4 {
			now = began.Add(first + later)
			if later <= HoldTime && !h.has(BlobKey{1}) {
				t.Errorf("added after %v, gone %v later", first, later)
			}
			if later >= 3*HoldTime && h.has(BlobKey{1}) {
				t.Errorf("added after %v, held %v later", first, later)
			}
		}
		if h.has(BlobKey{2}) {
			t.Error("a blob that nobody relied on is held")
		}
	}
}

func TestKeyOfAChunkIsThatOfItsBlobInEachStream(t *testing.T) {
	digest := turns.Hash{1, 2, 3}
	want, err := new(Blobs).KeyOf("t", digest)
	if err != nil {
		t.Fatal(err)
	}
	base, err := blobSubject("t", digest)
	if err != nil {
		t.Fatal(err)
	}
	for _, number := range []uint64{0, 1, 17} {
		s := blobStream{number: number}
		for _, first := range []string{base + ".0", followerSubject(base, [32]byte{5}, chunkSize, 3), followerSubject(base, [32]byte{5}, 1000, 3)} {
			subject := s.subject(first)
			if got, ok := KeyOf(subject); !ok || got != want {
				t.Errorf("%s: %x, %v; want %x", subject, got, ok, want)
			}
			if got, err := FirstSubject(subject); err != nil || got != first {
				t.Errorf("%s: %s, %v", subject, got, err)
			}
		}
		if n, ok := BlobStreamNumber(CopyStream(number)); !ok || n != number {
			t.Errorf("%s: %d, %v", CopyStream(number), n, ok)
		}
	}
	other, err := new(Blobs).KeyOf("u", digest)
	if err != nil || other == want {
		t.Errorf("two tenants have one key: %v", err)
	}
	for _, bad := range []string{"", "nexus.log.00.t.s.X", LostChunk, base, "nexus.blobs.t.12.0", strings.Replace(base, "blobs", "blobs_x", 1) + ".0", "nexus.blobs_1"} {
		if _, ok := KeyOf(bad); ok {
			t.Errorf("%q has a key", bad)
		}
	}
}
