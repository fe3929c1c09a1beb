package projections

import (
	"fmt"
	"iter"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Turn returns the row of a turn or compaction. Errors: [lineage.ErrUnknown].
func (s *Store) Turn(ref turns.Ref) (rows.Turn, error) { return s.view().Turn(ref) }

// Node implements [lineage.Reader].
func (s *Store) Node(ref turns.Ref) (lineage.Node, error) { return s.view().Node(ref) }

// Payload returns the stored bytes of a turn's event.
func (s *Store) Payload(t rows.Turn) ([]byte, error) {
	b, ok, err := db.Get(s.db(), rows.Number(rows.Payloads.Key(t.Ref.Session, t.Segment), t.Depth))
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w: projections lack the event of turn %s", ledger.ErrCorrupt, t.Ref)
	}
	s.read.Add(int64(len(b)))
	return b, nil
}

// Range yields the payloads of a stretch of a segment, by depth.
func (s *Store) Range(r lineage.Range) iter.Seq2[[]byte, error] {
	lo := rows.Number(rows.Payloads.Key(r.Session, r.Segment), r.Lo)
	hi := rows.Number(rows.Payloads.Key(r.Session, r.Segment), r.Hi+1)
	return func(yield func([]byte, error) bool) {
		for k, err := range db.Scan(s.db(), lo, hi) {
			s.read.Add(int64(len(k.Value)))
			if !yield(k.Value, err) || err != nil {
				return
			}
		}
	}
}

// Children returns the turns whose parent is ref, those of forks included, in no
// order that means anything.
func (s *Store) Children(ref turns.Ref) ([]turns.Ref, error) {
	return s.refs(rows.Children.Key(ref.Session, ref.Turn))
}

// HasChildren reports whether any turn continues ref.
func (s *Store) HasChildren(ref turns.Ref) (bool, error) {
	k := rows.Children.Key(ref.Session, ref.Turn)
	for _, err := range db.Scan(s.db(), k, rows.End(k)) {
		return err == nil, err
	}
	return false, nil
}

// Covering returns the compactions whose last covered turn is ref, on any branch.
func (s *Store) Covering(ref turns.Ref) ([]turns.Ref, error) {
	return s.refs(rows.Coverings.Key(ref.Session, ref.Turn))
}

func (s *Store) refs(prefix []byte) (refs []turns.Ref, err error) {
	for k, err := range db.Scan(s.db(), prefix, rows.End(prefix)) {
		if err != nil {
			return nil, err
		}
		refs = append(refs, turns.Ref{Session: rows.IDAt(k.Key, 33), Turn: rows.IDAt(k.Key, 49)})
	}
	return refs, nil
}
