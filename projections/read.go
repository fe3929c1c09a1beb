package projections

import (
	"bytes"
	"errors"
	"fmt"
	"iter"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Session returns the fold of a session, as of the checkpoint.
// Errors: [ledger.ErrNotFound].
func (s *Store) Session(id turns.ID) (ledger.Session, error) { return s.view().Session(id) }

func (v view) Session(id turns.ID) (ledger.Session, error) {
	if c := v.chain(id); c != nil {
		return c.session, nil
	}
	return v.storedSession(id)
}

// storedSession reads the fold of a session from the database. It is apart because what
// it decodes is allocated.
func (v view) storedSession(id turns.ID) (row ledger.Session, err error) {
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

// Sessions yields the sessions of an agent in the order of their ids, which is
// that of their claimed times. It begins after session after (zero: at the first).
// Agent "" means every agent of the tenant, one after the other.
func (s *Store) Sessions(tenant, agent string, after turns.ID) iter.Seq2[ledger.Session, error] {
	prefix := rows.AgentSessions.TextKey(tenant)
	if agent != "" {
		prefix = rows.AgentSessions.TextKey(tenant, agent)
	}
	return func(yield func(ledger.Session, error) bool) {
		lo := prefix
		if !after.IsZero() {
			row, err := s.Session(after)
			if err != nil {
				yield(ledger.Session{}, err)
				return
			}
			lo = append(append(rows.AgentSessions.TextKey(tenant, row.Agent), after[:]...), 0)
		}
		for k, err := range db.Scan(s.db(), lo, rows.End(prefix)) {
			if err != nil {
				yield(ledger.Session{}, err)
				return
			}
			row, err := s.Session(rows.IDAt(k.Key, len(k.Key)-16))
			if errors.Is(err, ledger.ErrNotFound) {
				continue
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// SessionIDs yields the ids of the sessions of all tenants. It reads no row of a session.
func (s *Store) SessionIDs() iter.Seq2[turns.ID, error] {
	return func(yield func(turns.ID, error) bool) {
		for k, err := range db.Scan(s.db(), rows.AgentSessions.Key(), rows.End(rows.AgentSessions.Key())) {
			if err != nil {
				yield(turns.ID{}, err)
				return
			}
			if !yield(rows.IDAt(k.Key, len(k.Key)-16), nil) {
				return
			}
		}
	}
}

// Timed yields the open sessions of all tenants that are reset by time, by id.
func (s *Store) Timed() iter.Seq2[ledger.Session, error] { return s.listed(rows.TimedSessions) }

// Erased yields the sessions of all tenants that were erased, by id.
func (s *Store) Erased() iter.Seq2[ledger.Session, error] { return s.listed(rows.ErasedSessions) }

// listed yields the sessions of a list of all tenants.
func (s *Store) listed(list rows.Prefix) iter.Seq2[ledger.Session, error] {
	return func(yield func(ledger.Session, error) bool) {
		for k, err := range db.Scan(s.db(), list.Key(), rows.End(list.Key())) {
			var row ledger.Session
			if err == nil {
				row, err = s.Session(rows.IDAt(k.Key, 1))
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// Turn returns the row of a turn or compaction. Errors: [lineage.ErrUnknown].
func (s *Store) Turn(ref turns.Ref) (rows.Turn, error) { return s.view().Turn(ref) }

func (v view) Turn(ref turns.Ref) (rows.Turn, error) {
	t, err := v.rowOf(ref)
	if err != nil {
		return rows.Turn{}, err
	}
	return *t, nil
}

// rowOf returns the row of a turn, which is not to be changed.
func (v view) rowOf(ref turns.Ref) (*rows.Turn, error) {
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
func (v view) step(ref turns.Ref) (*rows.Turn, error) {
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

func (v view) storedTurn(ref turns.Ref) (*rows.Turn, error) {
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
func (v view) Hash(ref turns.Ref) (turns.Hash, error) {
	t, err := v.rowOf(ref)
	if err != nil {
		return turns.Hash{}, err
	}
	return t.Hash, nil
}

// Node implements [lineage.Reader].
func (s *Store) Node(ref turns.Ref) (lineage.Node, error) { return s.view().Node(ref) }

func (v view) Node(ref turns.Ref) (lineage.Node, error) {
	t, err := v.step(ref)
	if err != nil {
		return lineage.Node{}, err
	}
	return t.Node, nil
}

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

// EventAt returns the stored bytes of the event at index of a session's chain.
// Errors: [ledger.ErrNotFound].
func (s *Store) EventAt(session turns.ID, index uint64) ([]byte, error) {
	b, err := s.view().eventAt(session, index)
	s.read.Add(int64(len(b)))
	return b, err
}

func (v view) eventAt(session turns.ID, index uint64) ([]byte, error) {
	b, ok, err := db.Get(v.r, rows.Number(rows.Events.Key(session), index))
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w: event %d of session %s", ledger.ErrNotFound, index, session)
	}
	return v.follow(session, b)
}

// follow returns the payload that a row of an event has, or points to.
func (v view) follow(session turns.ID, row []byte) ([]byte, error) {
	b, at, err := rows.Follow(session, row)
	if err != nil {
		return nil, &db.ReadError{Err: err}
	}
	if at == nil {
		return b, nil
	}
	b, ok, err := db.Get(v.r, at)
	if err == nil && !ok {
		err = fmt.Errorf("%w: projections lack a turn's event of session %s", ledger.ErrCorrupt, session)
	}
	return b, err
}

// HasEvent reports whether a session's chain has an event of this id.
func (v view) HasEvent(session, event turns.ID) (bool, error) {
	if v.isNew(session, event) {
		return false, nil
	}
	_, ok, err := v.indexOf(session, event)
	return ok, err
}

// indexOf returns the ordinal of an event: a turn's is in its row, that of another event
// in a row of its own.
func (v view) indexOf(session, event turns.ID) (index uint64, ok bool, err error) {
	t, err := v.rowOf(turns.Ref{Session: session, Turn: event})
	if err == nil {
		return t.Index, true, nil
	}
	if !errors.Is(err, lineage.ErrUnknown) {
		return 0, false, err
	}
	return v.number(rows.EventIDs.Key(session, event))
}

// isNew reports whether an id is known to be greater than that of every event of the
// session's chain. Ids begin with a time, so that of a new event mostly is.
func (v view) isNew(session, event turns.ID) bool {
	c := v.chain(session)
	return c != nil && event.Compare(c.newest) > 0
}

// newestID returns the greatest id of an event of a session's chain, zero if there is
// none.
func (v view) newestID(session turns.ID) (id turns.ID, err error) {
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
func (s *Store) Index(session, event turns.ID) (uint64, error) {
	v := s.view()
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

// Events yields the stored bytes of a session's chain from index on.
func (s *Store) Events(session turns.ID, from uint64) iter.Seq2[[]byte, error] {
	k := rows.Events.Key(session)
	return func(yield func([]byte, error) bool) {
		for e, err := range db.Scan(s.db(), rows.Number(bytes.Clone(k), from), rows.End(k)) {
			if err != nil {
				yield(nil, err)
				return
			}
			b, err := s.view().follow(session, e.Value)
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

// Label returns the row of a label's chain, the zero Label if it was never claimed.
func (s *Store) Label(tenant, digest string) (ledger.Label, error) {
	return s.view().Label(tenant, digest)
}

func (v view) Label(tenant, digest string) (l ledger.Label, err error) {
	b, ok, err := v.row(rows.Labels.TextKey(tenant, digest))
	if err != nil || !ok {
		return l, err
	}
	if err := rows.Decode(b, &l); err != nil {
		return l, badRow("projection row of a label: %v", err)
	}
	return l, nil
}
