package projections

import (
	"iter"
	"strings"

	"nexus/ledger"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// name writes the rows by which an id of a session is found: that of a turn, or its own.
func (a *applier) name(s *ledger.Session, id turns.ID) error {
	a.keys = rows.AppendByID(a.keys[:0], s.Tenant, s.Agent, id, s.ID)
	if err := a.batch.Set(a.keys, nil); err != nil {
		return err
	}
	a.keys = rows.AppendByEnd(a.keys[:0], s.Tenant, s.Agent, id, s.ID)
	return a.batch.Set(a.keys, nil)
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
