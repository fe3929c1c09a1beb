package steps

import (
	"maps"

	"nexus/turns"
)

// splitTurns maps a turn of the source to the turns of the ledger that hold it, if that is
// not the one with its id: an import with --final stored the beginning while the file still
// grew, and a later one stored the rest as a turn after it.
type splitTurns map[turns.ID]struct{ first, last turns.ID }

func (p splitTurns) first(id turns.ID) turns.ID {
	if x, ok := p[id]; ok {
		return x.first
	}
	return id
}

func (p splitTurns) last(id turns.ID) turns.ID {
	if x, ok := p[id]; ok {
		return x.last
	}
	return id
}

// LastTurn returns the turn of the ledger that holds the end of a turn of the source.
func (w *Writer) LastTurn(id turns.ID) turns.ID { return w.splits.last(id) }

// AddSplit notes that the turns of the ledger from first to last hold a turn of the source.
func (w *Writer) AddSplit(id, first, last turns.ID) {
	if w.splits == nil {
		w.splits = make(splitTurns)
	}
	w.splits[id] = struct{ first, last turns.ID }{first, last}
}

// placement is where the ledger has turns and sessions of a source that names turns by
// themselves, not by their file, if that is elsewhere than the steps say. A fork's file that
// is read before its parent's puts what it copied into the parent's session, also where the
// parent's own file has it on a branch.
type placement struct {
	turns    map[turns.ID]placedTurn
	sessions map[turns.ID]turns.ID // the session that has the turns of a fork, which was not made
}

// placedTurn is a turn of the session from that the ledger has in the session to.
type placedTurn struct{ from, to turns.ID }

// of returns the session that has a turn which the steps put into a session.
func (p *placement) of(turn, session turns.ID) turns.ID {
	if x, ok := p.turns[turn]; ok && x.from == session {
		return x.to
	}
	if s, ok := p.sessions[session]; ok {
		return s
	}
	return session
}

func (p *placement) record(turn, from, to turns.ID) {
	if p.turns == nil {
		p.turns = make(map[turns.ID]placedTurn)
	}
	p.turns[turn] = placedTurn{from, to}
}

func (p *placement) clone() placement {
	return placement{maps.Clone(p.turns), maps.Clone(p.sessions)}
}
