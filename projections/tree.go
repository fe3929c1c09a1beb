package projections

import (
	"iter"

	"nexus/lineage"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Segments yields the segments of a session's own turns, by id. It costs three
// seeks each, however many turns they have.
func (s *Store) Segments(session turns.ID) iter.Seq2[lineage.Range, error] {
	prefix := rows.Payloads.Key(session)
	return func(yield func(lineage.Range, error) bool) {
		it, err := db.Iter(s.db(), prefix, rows.End(prefix))
		if err != nil {
			yield(lineage.Range{}, err)
			return
		}
		defer it.Close()
		depth := func() uint64 { return rows.NumberAt(it.Key(), 33) }
		for ok := it.First(); ok; {
			r := lineage.Range{Session: session, Segment: rows.IDAt(it.Key(), 17), Lo: depth()}
			next := rows.End(rows.Payloads.Key(session, r.Segment))
			if it.SeekLT(next) {
				r.Hi = depth()
			}
			if !yield(r, nil) {
				return
			}
			ok = it.SeekGE(next)
		}
		if err := it.Error(); err != nil {
			yield(lineage.Range{}, &db.ReadError{Err: err})
		}
	}
}

// Fork is a session forked from another.
type Fork struct {
	At      turns.ID // turn of the parent that it was forked from
	Session turns.ID // the fork; zero: none
}

// Forks returns the sessions forked from a turn, by id.
func (s *Store) Forks(ref turns.Ref) (ids []turns.ID, err error) {
	k := rows.Forks.Key(ref.Session, ref.Turn)
	for e, err := range db.Scan(s.db(), k, rows.End(k)) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, rows.IDAt(e.Key, 33))
	}
	return ids, nil
}

// NextFork returns the fork of a session that follows another one in the order of
// fork points and ids. After the zero Fork comes the first one. It returns the zero
// Fork if there is none.
func (s *Store) NextFork(session turns.ID, after Fork) (Fork, error) {
	prefix := rows.Forks.Key(session)
	lo := prefix
	if after != (Fork{}) {
		lo = append(rows.Forks.Key(session, after.At, after.Session), 0)
	}
	for e, err := range db.Scan(s.db(), lo, rows.End(prefix)) {
		if err != nil {
			return Fork{}, err
		}
		return Fork{At: rows.IDAt(e.Key, 17), Session: rows.IDAt(e.Key, 33)}, nil
	}
	return Fork{}, nil
}

// Touched yields the sessions of the events behind position from, up to and with
// position to, in the order of the log. A session may come more than once; one whose
// events follow each other comes once for them.
func (s *Store) Touched(from, to uint64) iter.Seq2[turns.ID, error] {
	return func(yield func(turns.ID, error) bool) {
		var last turns.ID
		for e, err := range db.Scan(s.db(), rows.Number(rows.Records.Key(), from+1), rows.Number(rows.Records.Key(), to+1)) {
			if err != nil {
				yield(turns.ID{}, err)
				return
			}
			p, err := rows.DecodePlace(rows.NumberAt(e.Key, 1), e.Value)
			if err != nil {
				yield(turns.ID{}, &db.ReadError{Err: err})
				return
			}
			if p.Session.IsZero() || p.Session == last {
				continue
			}
			if last = p.Session; !yield(p.Session, nil) {
				return
			}
		}
	}
}

// CompactionsOf yields the compactions on a session's own chain, oldest first.
func (s *Store) CompactionsOf(session turns.ID) iter.Seq2[turns.Ref, error] {
	k := rows.Compactions.Key(session)
	return func(yield func(turns.Ref, error) bool) {
		for e, err := range db.Scan(s.db(), k, rows.End(k)) {
			if err != nil {
				yield(turns.Ref{}, err)
				return
			}
			if !yield(turns.Ref{Session: session, Turn: rows.IDAt(e.Value, 0)}, nil) {
				return
			}
		}
	}
}
