package apply

import (
	"errors"
	"fmt"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Session returns the fold of a session. Errors: [ledger.ErrNotFound].
func (v View) Session(id turns.ID) (ledger.Session, error) {
	if c := v.chain(id); c != nil {
		return c.session, nil
	}
	return v.storedSession(id)
}

// storedSession reads the fold of a session from the database. It is apart because what
// it decodes is allocated.
func (v View) storedSession(id turns.ID) (row ledger.Session, err error) {
	b, ok, err := v.row(rows.Sessions.Key(id))
	if err != nil {
		return row, err
	}
	if !ok {
		return row, fmt.Errorf("%w: session %s", ledger.ErrNotFound, id)
	}
	if err := rows.Decode(b, &row); err != nil {
		return row, badRow("projection row of session %s: %v", id, err)
	}
	return row, nil
}

// HasEvent reports whether a session's chain has an event of this id.
func (v View) HasEvent(session, event turns.ID) (bool, error) {
	if v.isNew(session, event) {
		return false, nil
	}
	_, ok, err := v.indexOf(session, event)
	return ok, err
}

// indexOf returns the ordinal of an event: a turn's is in its row, that of another event
// in a row of its own.
func (v View) indexOf(session, event turns.ID) (index uint64, ok bool, err error) {
	t, err := v.rowOf(turns.Ref{Session: session, Turn: event})
	if err == nil {
		return t.Index, true, nil
	}
	if !errors.Is(err, lineage.ErrUnknown) {
		return 0, false, err
	}
	return v.Number(rows.EventIDs.Key(session, event))
}

// isNew reports whether an id is known to be greater than that of every event of the
// session's chain. Ids begin with a time, so that of a new event mostly is.
func (v View) isNew(session, event turns.ID) bool {
	c := v.chain(session)
	return c != nil && event.Compare(c.newest) > 0
}

// newestID returns the greatest id of an event of a session's chain, zero if there is
// none.
func (v View) newestID(session turns.ID) (id turns.ID, err error) {
	if c := v.chain(session); c != nil {
		return c.newest, nil
	}
	for _, p := range []rows.Prefix{rows.Turns, rows.EventIDs} {
		k := p.Key(session)
		last, ok, err := db.Last(v.r, k, rows.End(k))
		if err != nil {
			return id, err
		}
		if ok && rows.IDAt(last.Key, len(k)).Compare(id) > 0 {
			id = rows.IDAt(last.Key, len(k))
		}
	}
	return id, nil
}

// Index returns the ordinal of an event on its session's chain, by its id.
// Errors: [ledger.ErrNotFound].
func (v View) Index(session, event turns.ID) (uint64, error) {
	if v.isNew(session, event) {
		return 0, missingEvent{session, event}
	}
	index, ok, err := v.indexOf(session, event)
	if err == nil && !ok {
		err = missingEvent{session, event}
	}
	return index, err
}

// missingEvent says that a session's chain has no event with an id. Each append asks for
// its own id, so the text is made only if somebody reads it.
type missingEvent struct{ session, event turns.ID }

func (e missingEvent) Error() string {
	return fmt.Sprintf("%v: event %s of session %s", ledger.ErrNotFound, e.event, e.session)
}

func (e missingEvent) Unwrap() error { return ledger.ErrNotFound }
