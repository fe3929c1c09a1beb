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
// another agent or tenant are not.
func TestIdsAreFoundByTheirEnds(t *testing.T) {
	a := newAuthor(t, 31)
	a.write(300)
	s := openStore(t, vfs.NewMem())
	defer s.Close()
	run(t, s, a.log, last(t, a.log))
	var all []turns.Ref
	agents := make(map[turns.Ref]string)
	for row, err := range s.Sessions("default", "", turns.ID{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, turns.Ref{Session: row.ID, Turn: row.ID})
		agents[all[len(all)-1]] = row.Agent
		for payload, err := range s.Events(row.ID, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if e, err := turns.Decode(payload); err != nil {
				t.Fatal(err)
			} else if e.Kind.IsTurn() {
				all = append(all, e.Ref())
				agents[e.Ref()] = row.Agent
			}
		}
	}
	if len(all) < 50 {
		t.Fatalf("only %d ids", len(all))
	}
	order := func(a, b turns.Ref) int { return cmp.Or(a.Session.Compare(b.Session), a.Turn.Compare(b.Turn)) }
	slow := func(agent, text string) (out []turns.Ref) {
		for _, r := range all {
			if id := r.Turn.String(); agents[r] == agent && (strings.HasPrefix(id, text) || strings.HasSuffix(id, text)) {
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
			for _, agent := range []string{agents[r], agents[all[0]], "nobody"} {
				var got []turns.Ref
				for ref, err := range s.Named("default", agent, text) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, ref)
				}
				slices.SortFunc(got, order)
				if got, want := slices.Compact(got), slow(agent, text); !slices.Equal(got, want) {
					t.Errorf("%s of %s: %v, want %v", text, agent, got, want)
				}
			}
		}
		for ref := range s.Named("other", agents[r], id) {
			t.Errorf("another tenant has %v", ref)
		}
	}
	for _, text := range []string{"", "U", strings.Repeat("0", 27), "lower", "a\x00b"} {
		for ref := range s.Named("default", agents[all[0]], text) {
			t.Errorf("%q: %v", text, ref)
		}
	}
}
