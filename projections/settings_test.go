package projections

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/turns"
)

// The settings in force at an event are found without reading what came since.
func TestSettingsAtReadsOneEvent(t *testing.T) {
	a := newAuthor(t, 3)
	s := a.open(nil)
	a.turn(s)
	inForce := map[uint64]turns.ID{} // the event with the settings in force, by index
	var now turns.ID = s.ID
	for i := range 300 {
		if i%100 == 50 {
			now = a.id()
			a.append(s, &turns.Event{Kind: turns.KindChanged, ID: now})
			s.Settings = s.Tail.Index
		} else {
			a.append(s, &turns.Event{Kind: turns.KindMoved, ID: a.id(), To: s.turns[0]})
		}
		inForce[s.Tail.Index] = now
	}
	store := openStore(t, vfs.NewMem())
	defer store.Close()
	run(t, store, a.log, last(t, a.log))
	for index, want := range inForce {
		before := store.EventBytes()
		b, err := store.SettingsAt(s.ID, index)
		if err != nil {
			t.Fatal(err)
		}
		ev, err := turns.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if ev.ID != want {
			t.Errorf("at event %d the settings stand in %s, want %s", index, ev.ID, want)
		}
		if read := store.EventBytes() - before; read > int64(2*len(b)) {
			t.Fatalf("at event %d: %d bytes of events were read for one of %d", index, read, len(b))
		}
	}
}
