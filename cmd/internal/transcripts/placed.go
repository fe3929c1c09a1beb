package transcripts

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

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

// place does an append in the session that has its parent. If another turn follows the
// parent there, the turn begins a fork.
func (im *Importer) place(ctx context.Context, a *transcript.Append, rep *Report) (dup bool, err error) {
	if a.Branch.IsZero() {
		return im.appendBeside(ctx, a, rep)
	}
	b := *a
	if b.Session = im.placed.of(a.Parent, a.Session); b.Session != a.Session {
		im.placed.record(a.ID, a.Session, b.Session)
	}
	dup, err = im.append(ctx, &b, rep)
	if !coded(err, api.Conflict) {
		return dup, err
	}
	parent := im.splits.last(a.Parent)
	s, lookup := im.Client.Session(ctx, b.Session)
	if lookup != nil {
		return false, err
	}
	if !parent.IsZero() {
		if _, lookup := im.Client.Turn(ctx, b.Session, parent); lookup != nil {
			return false, err
		}
		s, lookup = im.Client.Fork(ctx, b.Session, api.CreateFork{ID: a.Branch, Turn: parent, Meta: im.opening(ctx, a.Branch, branchMeta(s.Meta), rep.Format)})
	} else {
		s, lookup = im.Client.Create(ctx, api.CreateSession{ID: a.Branch, SessionSettings: api.SessionSettings{Meta: im.opening(ctx, a.Branch, branchMeta(s.Meta), rep.Format)}})
	}
	if lookup != nil && !coded(lookup, api.IDReused) {
		return false, err
	}
	rep.countOpened(s, lookup)
	rep.Sessions = append(rep.Sessions, a.Branch)
	if lookup == nil && len(rep.Losses) < maxPlaced {
		rep.Losses = append(rep.Losses, transcript.Loss{Kind: "repaired", Reason: "another turn follows its parent in the ledger; it begins a fork there", Record: a.ID.String()})
	}
	b.Session = a.Branch
	im.placed.record(a.ID, a.Session, a.Branch)
	return im.append(ctx, &b, rep)
}

// appendBeside does an append in the session of an older copy, if that is what the file is.
func (im *Importer) appendBeside(ctx context.Context, a *transcript.Append, rep *Report) (dup bool, err error) {
	b := *a
	if b.Session, err = im.beside(ctx, a.Session, a.ID); err != nil {
		return false, err
	}
	dup, err = im.append(ctx, &b, rep)
	if !coded(err, api.Conflict) || !a.Parent.IsZero() || a.Continues || b.Session != a.Session || !im.beginsLater(ctx, a) {
		return dup, err
	}
	to, placing := im.olderPlace(ctx, a.Session, a.ID, a.Time, false, true, rep)
	if placing != nil || to == a.Session {
		return dup, err
	}
	b.Session = to
	return im.append(ctx, &b, rep)
}

// maxPlaced bounds the losses of a report that forks are added to.
const maxPlaced = 1000

// branchMeta returns the meta of a branch of a session: what its transcript calls it.
func branchMeta(meta turns.Raw) turns.Raw {
	var m struct {
		Source  turns.Raw `json:"source,omitzero"`
		Session turns.Raw `json:"session_id,omitzero"`
	}
	_ = json.Unmarshal(meta, &m) // a client's meta may be anything
	b, err := turns.EncodeJSON(m)
	if err != nil {
		return nil
	}
	return b
}

// fork makes a fork where the ledger has its turn. had says that it was there.
func (im *Importer) fork(ctx context.Context, f *transcript.Fork, rep *Report) (had bool, err error) {
	l, err := im.sessionOf(ctx, f.ID)
	if err != nil {
		return false, err
	}
	if f.At.Session == f.ID { // see intoOwn
		rep.Sessions = append(rep.Sessions, f.ID)
		return true, nil
	}
	at := turns.Ref{Session: im.placed.of(f.At.Turn, f.At.Session), Turn: f.At.Turn}
	if at.Session, err = im.beside(ctx, at.Session, at.Turn); err != nil {
		return false, err
	}
	if l.had != nil {
		rep.Sessions = append(rep.Sessions, f.ID)
		isPlaced := len(f.Else) > 0 || !f.First.IsZero() || l.had.ForkedFrom == nil && isStandIn(l.had.Meta)
		if was := l.had.ForkedFrom; !isPlaced && (was == nil || was.Turn != im.splits.last(at.Turn)) {
			return true, api.Errorf(api.IDReused, nil, "session %s begins elsewhere in the ledger", f.ID)
		}
		return true, im.known(ctx, l, f.SpawnedBy, rep)
	}
	if !f.First.IsZero() {
		if t, lookup := im.Client.Turn(ctx, at.Session, f.First); lookup == nil && t.ID == f.First {
			if im.placed.sessions == nil {
				im.placed.sessions = make(map[turns.ID]turns.ID)
			}
			im.placed.sessions[f.ID] = at.Session
			rep.Sessions = append(rep.Sessions, at.Session)
			return true, nil
		}
	}
	rep.Sessions = append(rep.Sessions, f.ID)
	var s *api.Session
	for _, at := range append([]turns.Ref{at}, f.Else...) {
		s, err = im.Client.Fork(ctx, at.Session, api.CreateFork{ID: f.ID, Turn: im.splits.last(at.Turn), Meta: im.ofRenewal(f.ID, im.opening(ctx, f.ID, f.Meta, rep.Format)), SpawnedBy: spawnedBy(f.SpawnedBy)})
		if !coded(err, api.NotFound) {
			break
		}
	}
	if coded(err, api.NotFound) {
		err = fmt.Errorf("%w: %w", ErrNoParent, err)
	}
	rep.countOpened(s, err)
	if err == nil {
		l.had = s
	}
	return false, im.ownID(ctx, f.ID, err)
}

// isStandIn reports whether meta is that of a session whose own transcript was not read,
// only the copy of it that a fork has.
func isStandIn(meta turns.Raw) bool {
	var m struct {
		StandIn bool `json:"stand_in"`
	}
	return json.Unmarshal(meta, &m) == nil && m.StandIn
}

// ownOf returns the id of the session that a transcript gets which is itself a fork, where a
// fork of it was read first: a session of its own stands in for it, and no session becomes a
// fork later.
func ownOf(standIn turns.ID) turns.ID {
	return turns.DeriveID(standIn.Time(), "import", "own fork", standIn.String())
}

// openStandIn opens a session that a fork's copy stands in for, or that one stood in for.
// done is false for any other.
func (im *Importer) openStandIn(ctx context.Context, o *transcript.Open, format string) (done bool, err error) {
	s, err := im.Client.Session(ctx, o.ID)
	switch {
	case err != nil:
		return false, err
	case isStandIn(o.Meta):
		return true, nil
	case !isStandIn(s.Meta):
		return false, nil
	}
	r := api.SetSession{ID: turns.DeriveID(o.ID.Time(), "import", "own transcript", o.ID.String())}
	again := Importer{Projects: im.Projects} // the import that opened it stays the one
	r.Meta = again.opening(ctx, o.ID, o.Meta, format)
	if v, ok := membersOf(s.Meta)["import"]; ok {
		r.Meta = withMember(r.Meta, "import", v)
	}
	if _, err = im.Client.Set(ctx, o.ID, r); coded(err, api.IDReused) {
		err = nil
	}
	return true, err
}
