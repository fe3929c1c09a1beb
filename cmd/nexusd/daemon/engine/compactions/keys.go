package compactions

import (
	"slices"

	"nexus/compactor/summary"
	"nexus/ledger"
	"nexus/turns"
)

// sealingSessions is the content keys that a compaction of some halves must be sealed
// under: those of every session that any of its text came from, so that erasing
// one of them makes the summary unreadable too.
func sealingSessions(s *ledger.Session, covered []summary.HalfTurn, previous []turns.ID) []turns.ID {
	keys := append([]turns.ID{s.ID}, previous...)
	for _, h := range covered {
		if !slices.Contains(keys, h.Ref.Session) {
			keys = append(keys, h.Ref.Session)
		}
	}
	slices.SortFunc(keys, turns.ID.Compare)
	return slices.Compact(keys)
}

// eventKeys is the content keys that an event is sealed under.
func (cm *Compactions) eventKeys(ref turns.Ref) ([]turns.ID, error) {
	_, ev, err := cm.reader.TurnEvent(ref)
	if err != nil {
		return nil, err
	}
	return ev.Keys, nil
}
