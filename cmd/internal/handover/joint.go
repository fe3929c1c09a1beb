package handover

import (
	"bytes"
	"errors"
	"slices"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/formats"
)

// ErrRewound says that a transcript goes on from a turn whose place in the ledger is not
// known, since its format joins turns.
var ErrRewound = errors.New("the transcript was rewound to a turn that can't be told from its neighbours")

// Joint is the place where a transcript that was handed over goes on: it tells the steps
// that were written from those that came since.
type Joint struct {
	fork     turns.ID // the session in the ledger
	first    turns.ID // the session in the transcript
	own      map[turns.ID]bool
	turn     map[turns.ID]turns.ID // a turn of the transcript → that of the ledger
	redacted redactedSteps
}

// NewJoint returns the joint of a transcript. It writes it again and reads that as an
// importer does: ids come from what is written, so the same steps have the same ids.
func NewJoint(t *Transcript) (*Joint, error) {
	var text bytes.Buffer
	if err := t.Write(&text); err != nil {
		return nil, err
	}
	format, _ := formats.Find(t.Format) // it was written in it
	j := &Joint{fork: t.Session.ID, own: make(map[turns.ID]bool), turn: make(map[turns.ID]turns.ID), redacted: newRedactedSteps()}
	var answered []turns.ID
	var last turns.ID // the turn after the last answer; zero: none
	for st, err := range format.Open(&text, transcript.Options{Final: true}).Steps() {
		if err != nil {
			return nil, err
		}
		j.own[st.ID()] = true
		j.redacted.add(st)
		switch {
		case st.Open != nil && j.first.IsZero():
			j.first = st.Open.ID
		case st.Append != nil && st.Append.Response != nil:
			answered, last = append(answered, st.Append.ID), turns.ID{}
		case st.Append != nil:
			last = st.Append.ID
		}
	}
	// The results of open calls that Write adds are in no ledger: they come back with what
	// the person says next.
	if !t.isExport() {
		delete(j.own, last)
		j.redacted.forget(last)
	}
	var stored []turns.ID
	for _, x := range t.Path {
		if x.Response != nil {
			stored = append(stored, x.ID)
		}
	}
	if len(stored) == len(answered) {
		for i, id := range answered {
			j.turn[id] = stored[i]
		}
	}
	if n := len(answered); n > 0 && len(t.Path) > 0 {
		j.turn[answered[n-1]] = t.Path[len(t.Path)-1].ID
	}
	return j, nil
}

// Onto names the session that takes what came since, if it is not the one that was written.
func (j *Joint) Onto(session turns.ID) { j.fork = session }

// Step returns a step of the grown transcript as one of the ledger's session. own says that
// the step was written when the session was handed over, and is stored already.
func (j *Joint) Step(st transcript.Step) (out transcript.Step, own bool, err error) {
	if j.own[st.ID()] {
		return st, true, nil
	}
	if id, ok := j.redacted.find(st); ok {
		j.own[st.ID()] = true
		if at, ok := j.turn[id]; ok {
			j.turn[st.ID()] = at
		}
		return st, true, nil
	}
	session := func(id turns.ID) turns.ID {
		if id == j.first {
			return j.fork
		}
		return id
	}
	turn := func(id turns.ID) turns.ID {
		if at, ok := j.turn[id]; ok {
			return at
		}
		if j.own[id] || id.IsZero() {
			err = ErrRewound
		}
		return id
	}
	switch {
	case st.Append != nil:
		a := *st.Append
		a.Session, a.Parent = session(a.Session), turn(a.Parent)
		return transcript.Step{Append: &a}, false, err
	case st.Fork != nil:
		f := *st.Fork
		f.At = turns.Ref{Session: session(f.At.Session), Turn: turn(f.At.Turn)}
		return transcript.Step{Fork: &f}, false, err
	case st.Compaction != nil:
		k := *st.Compaction
		k.Session, k.Parent = session(k.Session), turn(k.Parent)
		if at, ok := j.turn[k.FirstKept]; ok || j.own[k.FirstKept] {
			k.FirstKept = at
		}
		k.Cleared = slices.Clone(k.Cleared)
		for i := range k.Cleared {
			if at, ok := j.turn[k.Cleared[i].Turn]; ok {
				k.Cleared[i].Turn = at
			}
		}
		return transcript.Step{Compaction: &k}, false, err
	}
	return st, false, nil
}
