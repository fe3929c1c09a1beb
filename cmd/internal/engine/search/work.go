package search

import (
	"nexus/ledger"
	"nexus/projections/rows"
	"nexus/turns"
)

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
	w := st.work
	for fork, index := st.fork, row.Index; ; {
		if w.IsComplete() {
			return w, nil
		}
		meta, err := se.reader.MetaAt(s, index)
		if err != nil {
			return w, unlessUnreadable(err)
		}
		if w = w.Or(turns.WorkContextOf(meta)); w.IsComplete() || fork.IsZero() {
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
	se.works.PutIn(epoch, ref, st, 256+len(st.work.Cwd)+len(st.work.Branch)+len(st.work.Source))
}

// unlessUnreadable returns nil for an error of a turn that nobody can read.
func unlessUnreadable(err error) error {
	if isUnreadable(err) {
		return nil
	}
	return err
}
