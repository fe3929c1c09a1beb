package search

import (
	"nexus/ledger"
	"nexus/projections/rows"
	"nexus/turns"
)

// What is kept of where agents worked has a budget of its own: workShare of that of the other caches,
// and leastWorkBytes at least. An index that catches up goes through all turns there are, and asks for
// each but once or twice: among the others they would drive out the contexts of agents. 16 MiB have room
// for some 18,000 sessions whose turns come in turn; of more, each turn is looked for up its path.
const (
	workShare      = 4
	leastWorkBytes = 16 << 20
)

// workStep is how many turns one is kept of. Of the others only the newest of a branch are, since
// the next turn asks for the one above it: a turn that begins a branch looks so far up.
const workStep = 64

// stated is what the turns of a session's path state up to a turn, and the turn of another
// session above them; none: the session is no fork, or nothing is missing.
type stated struct {
	work turns.WorkContext
	fork turns.Ref
}

// workAt returns where the agent worked at a turn of s whose meta is given. Turns state what
// changed, so what a turn leaves out is that of the turn above it; then that of its
// session's meta; then, for a fork, that of the turn it was forked at.
func (se *Search) workAt(s *ledger.Session, row rows.Turn, meta turns.Raw) (turns.WorkContext, error) {
	epoch := se.works.Epoch()
	st, err := se.statedAt(row, turns.WorkContextOf(meta))
	if err != nil {
		return turns.WorkContext{}, err
	}
	se.keepStated(epoch, row.Ref, st)
	if up := row.Parent; up.Session == row.Ref.Session && (row.Depth-1)%workStep != 0 {
		se.works.Drop(up)
	}
	w := st.work
	for fork, index := st.fork, row.Index; ; {
		if w.IsComplete() {
			return w, nil
		}
		more, err := se.metaAt(s, index)
		if err != nil {
			return w, unlessUnreadable(err)
		}
		if w = w.Or(more); w.IsComplete() || fork.IsZero() {
			return w, nil
		}
		above, work, err := se.statedBy(fork)
		if err == nil {
			index = above.Index
			st, err = se.statedAt(above, work)
		}
		var up ledger.Session
		if err == nil {
			up, err = se.reader.Projections.Session(fork.Session)
		}
		if err != nil {
			return w, unlessUnreadable(err)
		}
		se.keepStated(epoch, fork, st)
		w, fork, s = w.Or(st.work), st.fork, &up
	}
}

// metaKey names an event with settings: the session, and its place on the chain.
type metaKey struct {
	session turns.ID
	index   uint64
}

// metaAt returns what the meta of a session states that was in force after the event at index.
// Each turn that leaves something out asks for it, and settings may be large.
func (se *Search) metaAt(s *ledger.Session, index uint64) (w turns.WorkContext, err error) {
	k := metaKey{session: s.ID}
	if k.index, err = se.reader.SettingsIndex(s, index); err != nil {
		return w, err
	}
	if w, ok := se.metas.Get(k); ok {
		return w, nil
	}
	epoch := se.metas.Epoch() // before a key is read
	meta, err := se.reader.MetaIn(k.session, k.index)
	if err != nil {
		return w, err
	}
	w = turns.WorkContextOf(meta)
	se.metas.PutIn(epoch, k, w, workBytes(w))
	return w, nil
}

// statedAt returns what the turns of a session state from its root to a turn that states
// work. It goes up to a turn whose result is kept.
func (se *Search) statedAt(row rows.Turn, work turns.WorkContext) (stated, error) {
	for w := work; ; {
		if w.IsComplete() {
			return stated{work: w}, nil
		}
		if row.Parent.Session != row.Ref.Session {
			return stated{w, row.Parent}, nil
		}
		if st, ok := se.works.Get(row.Parent); ok {
			return stated{w.Or(st.work), st.fork}, nil
		}
		up, more, err := se.statedBy(row.Parent)
		if err != nil {
			return stated{work: w}, unlessUnreadable(err)
		}
		row, w = up, w.Or(more)
	}
}

// statedBy returns the row of a turn, and what its own meta states.
func (se *Search) statedBy(ref turns.Ref) (row rows.Turn, w turns.WorkContext, err error) {
	row, ev, err := se.reader.TurnEvent(ref)
	if err != nil || ev.Kind == turns.KindCompaction {
		return row, w, err
	}
	var body turns.TurnBody
	err = se.content.Open(ev, &body)
	return row, turns.WorkContextOf(body.Meta), err
}

func (se *Search) keepStated(epoch uint64, ref turns.Ref, st stated) {
	se.works.PutIn(epoch, ref, st, workBytes(st.work))
}

// workBytes is about how many bytes of memory a work context takes in a cache.
func workBytes(w turns.WorkContext) int {
	const frame = 384
	return frame + len(w.Cwd) + len(w.Branch) + len(w.Source)
}

// unlessUnreadable returns nil for an error of a turn that nobody can read.
func unlessUnreadable(err error) error {
	if isUnreadable(err) {
		return nil
	}
	return err
}
