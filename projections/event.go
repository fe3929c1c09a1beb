package projections

import (
	"bytes"
	"fmt"
	"iter"

	"nexus/ledger"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// EventAt returns the stored bytes of the event at index of a session's chain.
// Errors: [ledger.ErrNotFound].
func (s *Store) EventAt(session turns.ID, index uint64) ([]byte, error) {
	b, err := s.view().EventAt(session, index)
	s.read.Add(int64(len(b)))
	return b, err
}

// Index returns the ordinal of an event on its session's chain, by its id.
// Errors: [ledger.ErrNotFound].
func (s *Store) Index(session, event turns.ID) (uint64, error) { return s.view().Index(session, event) }

// Events yields the stored bytes of a session's chain from index on.
func (s *Store) Events(session turns.ID, from uint64) iter.Seq2[[]byte, error] {
	k := rows.Events.Key(session)
	return func(yield func([]byte, error) bool) {
		for e, err := range db.Scan(s.db(), rows.Number(bytes.Clone(k), from), rows.End(k)) {
			if err != nil {
				yield(nil, err)
				return
			}
			b, err := s.view().Follow(session, e.Value)
			s.read.Add(int64(len(b)))
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// SettingsAt returns the stored bytes of the event with the settings that were in force
// at the event at index: the newest opened or changed event up to it.
// It costs two look-ups. Errors: [ledger.ErrNotFound].
func (s *Store) SettingsAt(session turns.ID, index uint64) ([]byte, error) {
	k := rows.Settings.Key(session)
	last, ok, err := db.Last(s.db(), k, rows.Number(bytes.Clone(k), index+1))
	if err == nil && !ok {
		err = fmt.Errorf("%w: settings of session %s at event %d", ledger.ErrNotFound, session, index)
	}
	if err != nil {
		return nil, err
	}
	return s.EventAt(session, rows.NumberAt(last.Key, len(k)))
}

// NextMove returns the ordinal of the first event, from index on, that moved a
// session's head to a turn. ok is false if there is none.
func (s *Store) NextMove(session turns.ID, to turns.Ref, from uint64) (index uint64, ok bool, err error) {
	k := rows.Moves.Key(session, to.Session, to.Turn)
	for e, err := range db.Scan(s.db(), rows.Number(bytes.Clone(k), from), rows.End(k)) {
		if err != nil {
			return 0, false, err
		}
		return rows.NumberAt(e.Key, len(k)), true, nil
	}
	return 0, false, nil
}

// NoteOn returns the ordinal of the newest event of a session that noted something on a turn.
// Errors: [ledger.ErrNotFound].
func (s *Store) NoteOn(session turns.ID, on turns.Ref) (uint64, error) {
	k := rows.Notes.Key(session, on.Session, on.Turn)
	last, ok, err := db.Last(s.db(), k, rows.End(k))
	if err == nil && !ok {
		err = fmt.Errorf("%w: a note of session %s on turn %s", ledger.ErrNotFound, session, on)
	}
	if err != nil {
		return 0, err
	}
	return rows.NumberAt(last.Key, len(k)), nil
}

// RedactedBy returns the ordinal of the newest redacted event for an event of a session's chain. ok is false if there is none.
func (s *Store) RedactedBy(session, event turns.ID) (index uint64, ok bool, err error) {
	k := rows.Redacted.Key(session, event)
	last, ok, err := db.Last(s.db(), k, rows.End(k))
	if err != nil || !ok {
		return 0, false, err
	}
	return rows.NumberAt(last.Key, len(k)), true, nil
}

// Redaction is a redacted event.
type Redaction struct {
	Session, Event turns.ID // what it has the body of
	By             uint64   // its ordinal
	Newest         bool     // of those for that event
}

// Redactions yields the redacted events of a session, of all for the zero id: those for one event behind each other, the newest last.
func (s *Store) Redactions(session turns.ID) iter.Seq2[Redaction, error] {
	k := rows.Redacted.Key()
	if !session.IsZero() {
		k = rows.Redacted.Key(session)
	}
	return func(yield func(Redaction, error) bool) {
		var was Redaction
		for row, err := range db.Scan(s.db(), k, rows.End(k)) {
			if err != nil {
				yield(Redaction{}, err)
				return
			}
			r := Redaction{Session: rows.IDAt(row.Key, 1), Event: rows.IDAt(row.Key, 17), By: rows.NumberAt(row.Key, 33)}
			if was.Newest = was.Session != r.Session || was.Event != r.Event; was.By > 0 && !yield(was, nil) {
				return
			}
			was = r
		}
		if was.Newest = true; was.By > 0 {
			yield(was, nil)
		}
	}
}
