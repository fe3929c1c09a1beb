package compare

import (
	"errors"

	"nexus/compactor"
	"nexus/compactor/plan"
	"nexus/turns"
)

// Source is what the source of a transcript tells about its own agent's calls. The
// policies' replays do not use it.
type Source struct {
	Compactions []Recorded     // in order
	Reported    map[int]uint64 // for the index of a turn, the input tokens of its call, as the provider reported them
}

// Recorded is a compaction that the transcript's own agent made. It names turns by
// their index.
type Recorded struct {
	Before      int             // the turn that follows it
	FirstKept   int             // the first turn kept verbatim; -1: none
	Replacement []turns.Message // what the agent saw instead
	Summary     string
	Dropped     bool // the source shows nothing in place of what is covered
	Cleared     []Cleared
}

// Cleared names a tool result that the transcript's agent stopped showing.
type Cleared struct {
	Turn int
	Call string // id of the tool call
}

// Reported compares the sizes of contexts with what providers reported for the same
// calls.
type Reported struct {
	Calls    int    `json:"calls"`    // calls whose size the source tells
	Reported uint64 `json:"reported"` // tokens of all these calls, as reported
	Counted  uint64 `json:"counted"`  // of the replayed contexts of these calls
}

func (r *Reported) add(o Reported) {
	r.Calls, r.Reported, r.Counted = r.Calls+o.Calls, r.Reported+o.Reported, r.Counted+o.Counted
}

// record brings the recorded compactions before turn i into force. It skips one that
// names nothing on the path, as the import of a transcript does.
func (r *replay) record(i int) error {
	for _, k := range r.t.source.Compactions {
		if k.Before != i {
			continue
		}
		rec := compactor.Recorded{Replacement: k.Replacement, Summary: k.Summary, Dropped: k.Dropped}
		if k.FirstKept >= 0 {
			rec.FirstKept = r.t.firstRef(k.FirstKept)
		}
		for _, c := range k.Cleared {
			rec.Cleared = append(rec.Cleared, compactor.ClearedCall{Turn: ref(turnRef, uint64(c.Turn)), Call: c.Call})
		}
		before := len(r.path.Halves)
		res, after, err := compactor.ApplyRecorded(r.path, rec, r.counter)
		var field *turns.FieldError
		if errors.Is(err, plan.ErrNothing) || errors.As(err, &field) {
			continue
		}
		if err != nil {
			return err
		}
		covered := before - len(after.Halves)
		for _, h := range r.path.Halves[:covered] {
			r.covered[placeOf(h.Ref, h.Half)] = true
		}
		r.came.Compacted = r.came.Compacted || covered > 0
		r.came.Elided = r.came.Elided || len(k.Cleared) > 0 && len(res.Span.Elisions) > 0
		r.path = after
		r.applied()
	}
	return nil
}

// firstRef returns the ref of a turn's first half.
func (t *Transcript) firstRef(turn int) turns.Ref {
	if len(t.turns[turn].Messages) > 0 {
		return ref(turnRef, uint64(turn))
	}
	return ref(answerRef, uint64(turn))
}
