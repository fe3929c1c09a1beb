package projections

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/turns"
)

// Every id is found by each piece at either end of it, and by no other text; those of
// another tenant are not.
func TestIdsAreFoundByTheirEnds(t *testing.T) {
	a := newAuthor(t, 31)
	a.write(300)
	s := openStore(t, vfs.NewMem())
	defer s.Close()
	run(t, s, a.log, last(t, a.log))
	var all []turns.Ref
	for row, err := range s.Sessions("default", "", turns.ID{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, turns.Ref{Session: row.ID, Turn: row.ID})
		for payload, err := range s.Events(row.ID, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if e, err := turns.Decode(payload); err != nil {
				t.Fatal(err)
			} else if e.Kind.IsTurn() {
				all = append(all, e.Ref())
			}
		}
	}
	if len(all) < 50 {
		t.Fatalf("only %d ids", len(all))
	}
	order := func(a, b turns.Ref) int { return cmp.Or(a.Session.Compare(b.Session), a.Turn.Compare(b.Turn)) }
	slow := func(text string) (out []turns.Ref) {
		for _, r := range all {
			if id := r.Turn.String(); strings.HasPrefix(id, text) || strings.HasSuffix(id, text) {
				out = append(out, r)
			}
		}
		slices.SortFunc(out, order)
		return out
	}
	for i, r := range all {
		id := r.Turn.String()
		n := 1 + i%26
		for _, text := range []string{id, id[26-n:], id[:n], id[18:], "Z" + id[19:], "U" + id[1:]} {
			var got []turns.Ref
			for ref, err := range s.Named("default", text) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, ref)
			}
			slices.SortFunc(got, order)
			if got = slices.Compact(got); !slices.Equal(got, slow(text)) {
				t.Errorf("%s: %v, want %v", text, got, slow(text))
			}
		}
		for ref := range s.Named("other", id) {
			t.Errorf("another tenant has %v", ref)
		}
	}
	for _, text := range []string{"", "U", strings.Repeat("0", 27), "lower", "a\x00b"} {
		for ref := range s.Named("default", text) {
			t.Errorf("%q: %v", text, ref)
		}
	}
}
