package tlog

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"nexus/turns"
)

func newKey(t testing.TB, origin string) *Key {
	k, err := NewKey(rand.Reader, origin)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestACheckpointOpensForItsKeyAndOriginOnly(t *testing.T) {
	origin := Origin("0f8fad5b-d9cb-469f-a165-70867728950e", time.Unix(1, 5), 0)
	if origin != "nexus/0f8fad5b-d9cb-469f-a165-70867728950e/1970-01-01T00:00:01.000000005Z" || LedgerOf(origin) != "0f8fad5b-d9cb-469f-a165-70867728950e" {
		t.Errorf("%s", origin)
	}
	k := newKey(t, origin)
	again, err := ParseKey(k.Text() + "\n")
	if err != nil || again.Public() != k.Public() || again.Origin() != origin {
		t.Fatalf("%v, %v", again, err)
	}
	c := Checkpoint{origin, 7, entry(1)}
	n, err := again.Sign(c)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := OpenCheckpoint(n, k.Public()); err != nil || got != c {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := OpenCheckpoint(n, newKey(t, origin).Public()); !errors.Is(err, turns.ErrCorrupt) {
		t.Errorf("another key: %v", err)
	}
	if _, err := OpenCheckpoint(n, newKey(t, origin+"/1").Public()); !errors.Is(err, turns.ErrCorrupt) {
		t.Errorf("another origin: %v", err)
	}
	if _, err := k.Sign(Checkpoint{"x", 1, entry(1)}); !errors.Is(err, turns.ErrMalformed) {
		t.Errorf("signs for another origin: %v", err)
	}
	for i := range n { // each bit
		for bit := range 8 {
			b := []byte(string(n))
			b[i] ^= 1 << bit
			if got, err := OpenCheckpoint(b, k.Public()); err == nil {
				t.Errorf("byte %d, bit %d: %+v", i, bit, got)
			}
		}
	}
	// A cosignature of a key that nobody knows is ignored.
	if _, err := OpenCheckpoint([]byte(string(n)+"— witness.example mJirIgAA\n"), k.Public()); err != nil {
		t.Errorf("with a witness: %v", err)
	}
	other, _ := k.Sign(Checkpoint{origin, 9, entry(2)})
	if got := Notes([]byte(string(n) + "\n" + string(other) + "\n")); len(got) != 2 || string(got[0]) != string(n) || string(got[1]) != string(other) {
		t.Errorf("%q", got)
	}
	if _, err := ParseKey(strings.Replace(k.Text(), "+", "-", 1)); err == nil || strings.Contains(err.Error(), k.Text()[20:]) {
		t.Errorf("%v", err)
	}
}

func TestAProofHasOneForm(t *testing.T) {
	k := newKey(t, "nexus/x/y")
	s, f := grown(t, 1000)
	n, _ := k.Sign(Checkpoint{"nexus/x/y", 1000, f.Root()})
	path, err := Inclusion(s, 613, 1000)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proof{613, path, n}
	b := p.Encode()
	read, err := ParseProof(b)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := read.Verify(entry(613), k.Public()); err != nil || c.Size != 1000 {
		t.Fatalf("%+v, %v", c, err)
	}
	for i := range b {
		for bit := range 8 {
			x := []byte(string(b))
			x[i] ^= 1 << bit
			q, err := ParseProof(x)
			if err == nil {
				_, err = q.Verify(entry(613), k.Public())
			}
			if err == nil {
				t.Errorf("byte %d, bit %d is taken: %q", i, bit, x)
			}
		}
	}
	t.Logf("a proof in a tree of 1000 has %d bytes", len(b))
}

// A crash tears a note of a file anywhere; what was appended before and after it is read, and the torn one is refused.
func TestATornNoteOfAFileHidesNoOther(t *testing.T) {
	k := newKey(t, "nexus/x/y")
	var notes [][]byte
	for i := range 3 {
		n, err := k.Sign(Checkpoint{"nexus/x/y", uint64(7 + i), entry(uint64(i))})
		if err != nil {
			t.Fatal(err)
		}
		notes = append(notes, append(n, '\n'))
	}
	for cut := 1; cut < len(notes[1]); cut++ {
		file := string(notes[0]) + string(notes[1][:cut])
		if !strings.HasSuffix(file, "\n\n") { // as the signer does
			file += "\n\n"
		}
		file += string(notes[2])
		var sizes []uint64
		torn := 0
		for _, n := range Notes([]byte(file)) {
			if c, err := OpenCheckpoint(n, k.Public()); err == nil {
				sizes = append(sizes, c.Size)
			} else if torn++; !errors.Is(err, turns.ErrMalformed) && !errors.Is(err, turns.ErrCorrupt) {
				t.Error(err)
			}
		}
		whole := cut >= len(notes[1])-2 // all but its line ends
		if len(sizes) != 2+map[bool]int{true: 1}[whole] || sizes[0] != 7 || sizes[len(sizes)-1] != 9 || (torn == 0) != whole {
			t.Errorf("torn after %d of %d bytes: %v, %d refused", cut, len(notes[1]), sizes, torn)
		}
	}
	if got := Notes(nil); len(got) != 0 {
		t.Errorf("%q", got)
	}
}
