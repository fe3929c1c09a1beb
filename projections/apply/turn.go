package apply

import (
	"fmt"

	"nexus/lineage"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Turn returns the row of a turn or compaction. Errors: [lineage.ErrUnknown].
func (v View) Turn(ref turns.Ref) (rows.Turn, error) {
	t, err := v.rowOf(ref)
	if err != nil {
		return rows.Turn{}, err
	}
	return *t, nil
}

// rowOf returns the row of a turn, which is not to be changed.
func (v View) rowOf(ref turns.Ref) (*rows.Turn, error) {
	if v.changes != nil {
		if t := v.changes.turns[ref]; t != nil {
			return t, nil
		}
	}
	if t := v.recent.turn(ref); t != nil {
		return t, nil
	}
	t, err := v.storedTurn(ref)
	if err == nil && v.changes != nil { // the applier: what one append needed, the next may need
		v.changes.turns[ref] = t
	}
	return t, err
}

// step is rowOf for a walk over the lineage.
func (v View) step(ref turns.Ref) (*rows.Turn, error) {
	if v.changes != nil {
		return v.rowOf(ref)
	}
	t, clears := v.recent.step(ref)
	if t != nil {
		return t, nil
	}
	t, err := v.storedTurn(ref)
	if err == nil {
		v.recent.addWalked(t, clears)
	}
	return t, err
}

func (v View) storedTurn(ref turns.Ref) (*rows.Turn, error) {
	b, ok, err := db.Get(v.r, rows.Turns.Key(ref.Session, ref.Turn))
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w: turn %s", lineage.ErrUnknown, ref)
	}
	t, err := rows.DecodeTurn(ref, b)
	if err != nil {
		return nil, &db.ReadError{Err: err}
	}
	return &t, nil
}

// Hash returns the hash of the event that holds a turn.
func (v View) Hash(ref turns.Ref) (turns.Hash, error) {
	t, err := v.rowOf(ref)
	if err != nil {
		return turns.Hash{}, err
	}
	return t.Hash, nil
}

// Node implements [lineage.Reader].
func (v View) Node(ref turns.Ref) (lineage.Node, error) {
	t, err := v.step(ref)
	if err != nil {
		return lineage.Node{}, err
	}
	return t.Node, nil
}
