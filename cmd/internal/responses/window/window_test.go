package window

import (
	"errors"
	"strings"
	"testing"

	"nexus/turns"
	"nexus/turns/seal"
)

func sealerOf(k seal.Key) Sealer {
	return Sealer{Key: func() (seal.Key, error) { return k, nil }}
}

// A compaction item opens for its agent and its ledger alone. Each changed or cut character
// breaks it, and nothing of it shows.
func TestCompactionItemOpensForItsAgentOnly(t *testing.T) {
	s := sealerOf(seal.Key{1})
	w := Window{At: turns.Ref{Session: turns.ID{1}, Turn: turns.ID{2}}, Users: 3}
	sealed, err := s.Seal("default", "main", w)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok, err := s.Open("default", "main", sealed); err != nil || !ok || got != w {
		t.Fatalf("%+v, %v, %v", got, ok, err)
	}
	if again, err := s.Seal("default", "main", w); err != nil || again != sealed {
		t.Errorf("the same window again is %q, %v, not %q", again, err, sealed)
	}
	for _, other := range []struct {
		owner string
		w     Window
	}{{"other", w}, {"main", Window{At: w.At, Users: Alone}}} { // no nonce is used for two texts
		if got, err := s.Seal("default", other.owner, other.w); err != nil || got[:16] == sealed[:16] {
			t.Errorf("%v is sealed as %q, %v, with the nonce of %q", other, got, err, sealed)
		}
	}
	refused := func(what string, s Sealer, tenant, agent, sealed string) {
		t.Helper()
		if got, ok, err := s.Open(tenant, agent, sealed); ok || err != nil || got != (Window{}) {
			t.Errorf("%s: %+v, %v, %v", what, got, ok, err)
		}
	}
	refused("another agent", s, "default", "other", sealed)
	refused("another tenant", s, "other", "main", sealed)
	refused("another ledger", sealerOf(seal.Key{2}), "default", "main", sealed)
	refused("nothing", s, "default", "main", "")
	refused("no base64", s, "default", "main", "!!!!")
	refused("a line break", s, "default", "main", sealed[:10]+"\n"+sealed[10:])
	refused("padding", s, "default", "main", sealed+"=")
	refused("large", s, "default", "main", strings.Repeat("A", 10<<20))
	for i := range sealed {
		refused("cut", s, "default", "main", sealed[:i])
		other := byte('A')
		if sealed[i] == other {
			other = 'B'
		}
		refused("changed", s, "default", "main", sealed[:i]+string(other)+sealed[i+1:])
	}
	broken := Sealer{Key: func() (seal.Key, error) { return seal.Key{}, errors.New("the disk") }}
	if _, ok, err := broken.Open("default", "main", sealed); ok || err == nil {
		t.Error("a key that can't be read is taken for a forged item")
	}
}
