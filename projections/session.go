package projections

import (
	"errors"
	"iter"
	"strings"

	"nexus/ledger"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Session returns the fold of a session, as of the checkpoint.
// Errors: [ledger.ErrNotFound].
func (s *Store) Session(id turns.ID) (ledger.Session, error) { return s.view().Session(id) }

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

// SubAgents yields the sessions of an agent that were opened to serve a session, by id, behind
// session after (zero: from the first). Of the zero session it yields those that were opened to
// serve none, and whose settings changed since: these may name one, but they are sealed.
func (s *Store) SubAgents(tenant, agent string, spawner, after turns.ID) iter.Seq2[ledger.Session, error] {
	prefix := rows.SubAgentsOf(tenant, agent, spawner)
	lo := prefix
	if !after.IsZero() {
		lo = append(append(rows.SubAgentsOf(tenant, agent, spawner), after[:]...), 0)
	}
	return func(yield func(ledger.Session, error) bool) {
		for k, err := range db.Scan(s.db(), lo, rows.End(prefix)) {
			var row ledger.Session
			if err == nil {
				row, err = s.Session(rows.IDAt(k.Key, len(prefix)))
			}
			if !yield(row, err) || err != nil {
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

// Named yields the sessions of an agent, and their turns, whose id begins or ends with a text,
// in capitals: a turn with its session, a session as a turn of its own id. One with both comes
// twice. It reads no other ids but those of the agent that have the last characters, or the
// first ones, of the text. A text that is no piece of an id is that of none.
func (s *Store) Named(tenant, agent, text string) iter.Seq2[turns.Ref, error] {
	return func(yield func(turns.Ref, error) bool) {
		if !rows.IsPiece(text) {
			return
		}
		if lo, hi, ok := rows.Beginning(tenant, agent, text); ok && !s.named(lo, hi, yield) {
			return
		}
		lo, hi := rows.Ending(tenant, agent, text)
		s.named(lo, hi, func(ref turns.Ref, err error) bool {
			if err == nil && !strings.HasSuffix(ref.Turn.String(), text) {
				return true
			}
			return yield(ref, err)
		})
	}
}

// named yields the ids and sessions of rows, and reports whether it went through them.
func (s *Store) named(lo, hi []byte, yield func(turns.Ref, error) bool) bool {
	for k, err := range db.Scan(s.db(), lo, hi) {
		var ref turns.Ref
		if err == nil {
			ref = rows.FoundBy(k.Key)
		}
		if !yield(ref, err) || err != nil {
			return false
		}
	}
	return true
}

// Agents yields the agents of a tenant that have a session, by name. It reads a row of each.
func (s *Store) Agents(tenant string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		all := rows.AgentSessions.TextKey(tenant)
		for lo := all; ; {
			agent := ""
			for k, err := range db.Scan(s.db(), lo, rows.End(all)) {
				if err != nil {
					yield("", err)
					return
				}
				agent = string(k.Key[len(all) : len(k.Key)-17])
				break
			}
			if agent == "" || !yield(agent, nil) {
				return
			}
			lo = rows.End(rows.AgentSessions.TextKey(tenant, agent))
		}
	}
}

// Label returns the row of a label's chain, the zero Label if it was never claimed.
func (s *Store) Label(tenant, digest string) (ledger.Label, error) {
	return s.view().Label(tenant, digest)
}
