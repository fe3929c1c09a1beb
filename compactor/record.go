package compactor

import (
	"cmp"
	"fmt"
	"slices"

	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Recorded describes a compaction that another system made, as an import reads it.
type Recorded struct {
	FirstKept    turns.Ref // zero: the source kept nothing
	Replacement  []turns.Message
	Summary      string
	Trigger      string // "" means threshold
	TokensBefore uint64 // the source's count; 0: Record counts
	Dropped      bool   // the source shows nothing in place of the covered turns
	Cleared      []ClearedCall
}

// ClearedCall names a tool result that the source stopped showing.
type ClearedCall struct {
	Turn turns.Ref
	Call string
}

// clearedShow replaces a result that the source cleared without a text of its own.
const clearedShow = "[Old tool result content cleared]"

// Record returns the compaction that rec describes, made at the head of p. It
// accepts any cut, legal or not: other systems cut where they like, and
// [view.Render] repairs the result. If rec has nothing but Cleared, the compaction
// covers nothing more, and the replacement in force stays.
//
// Errors: [turns.FieldError] if the first kept turn or a cleared result is not on
// the path; [plan.ErrNothing] if the compaction changes nothing.
func Record(p view.Path, rec Recorded, c tokens.Counter) (Result, error) {
	r, _, err := ApplyRecorded(p, rec, c)
	return r, err
}

// ApplyRecorded returns what [Record] returns, and p as it is afterwards. Nothing is
// committed, so the compaction in the returned path has no id.
func ApplyRecorded(p view.Path, rec Recorded, c tokens.Counter) (Result, view.Path, error) {
	elisionsOnly := rec.FirstKept.IsZero() && len(rec.Replacement) == 0 && rec.Summary == "" && !rec.Dropped && len(rec.Cleared) > 0
	cut := len(p.Halves)
	if !elisionsOnly {
		p = p.Lasting()
	}
	switch {
	case elisionsOnly:
		cut = 0
	case !rec.FirstKept.IsZero():
		cut = slices.IndexFunc(p.Halves, func(h summary.HalfTurn) bool { return h.Ref == rec.FirstKept })
		if cut < 0 {
			if p.InForce == nil {
				return Result{}, p, &turns.FieldError{Field: "/first_kept", Reason: fmt.Sprintf("%v is not on the path", rec.FirstKept), Kind: turns.ErrMalformed}
			}
			cut = 0 // an earlier compaction covers FirstKept already, and covered turns stay covered
		}
	}
	var r Result
	r.Span = p.Span(cut)
	r.Span.Provenance, r.Span.SawThrough = turns.Imported, p.Last()
	r.Span.Dropped = rec.Dropped && r.Span.Covered > 0
	r.Body = turns.CompactionBody{
		Trigger: turns.Trigger{Kind: cmp.Or(rec.Trigger, plan.TriggerThreshold)}, Mode: string(policy.Manual),
		Replacement: rec.Replacement, Summary: rec.Summary,
	}
	if f := p.InForce; elisionsOnly && f != nil { // repeat what it showed, for as long as it did
		r.Body.Replacement, r.Body.Summary, r.Body.Nudge, r.Body.Meta = f.Body.Replacement, f.Body.Summary, f.Body.Nudge, f.Body.Meta
		if r.Span.Call = f.Span.Call; r.Span.Call {
			r.Span.Through, r.Span.FirstKept, r.Span.Split = turns.Ref{}, turns.Ref{}, false
		}
	}
	if len(r.Body.Replacement) == 0 && r.Body.Summary != "" && !elisionsOnly {
		r.Body.Replacement = []turns.Message{turns.TextMessage(turns.User, r.Body.Summary)}
	}
	var err error
	if r.Span.Elisions, r.Body.Elided, err = cleared(p, cut, rec.Cleared); err != nil {
		return Result{}, p, err
	}
	if cut == 0 && len(r.Span.Elisions) == 0 && len(rec.Replacement) == 0 && rec.Summary == "" {
		return Result{}, p, plan.NothingError("the recorded compaction covers nothing and shows nothing shorter")
	}
	r.Replaced = tokens.Messages(c, r.Body.Replacement) + tokens.Messages(c, r.Body.Nudge)
	r.Body.TokensBefore = cmp.Or(rec.TokensBefore, p.Tokens())
	after := p
	at := p.CutAt(cut)
	if elisionsOnly { // covered turns stay covered
		at = 0
		if p.InForce != nil {
			at = p.InForce.Node.Cut
		}
	}
	after.InForce = &view.InForce{
		Node: lineage.Node{
			Kind: turns.KindCompaction, Depth: p.Head.Depth + 1, Parent: p.Head.Ref, Cut: at, Previous: r.Span.Previous,
			Replaced: r.Replaced, Saved: p.Saves(r.Span, &r.Body, c), Call: r.Span.Call,
		},
		Span: r.Span, Body: r.Body,
	}
	after.Halves = p.Halves[cut:]
	after = after.Settled(c, false)
	r.Body.TokensAfter = r.Replaced + after.ShownFrom(0)
	after.InForce.Body = r.Body
	return r, after, nil
}

// cleared returns the elisions in force from half cut on and those of calls, in path
// order.
func cleared(p view.Path, cut int, calls []ClearedCall) ([]turns.Elision, []turns.ElidedPart, error) {
	want := make(map[ClearedCall]bool, len(calls))
	for _, c := range calls {
		want[c] = true
	}
	chosen := make(map[view.PartAt]turns.ElidedPart)
	p.EachPart(func(at view.PartAt, _ *turns.Message, q *turns.Part) {
		if name := (ClearedCall{p.Halves[at.Half].Ref, q.ID}); q.Type == turns.ToolCallResponse && want[name] {
			delete(want, name)
			if e := view.ElidedTo(q, string(view.Cleared), clearedShow); e.Before > e.After { // an elision that saves nothing is dropped
				chosen[at] = e
			}
		}
	})
	for i, c := range calls {
		if want[c] && p.InForce == nil {
			return nil, nil, &turns.FieldError{
				Field: fmt.Sprintf("/cleared/%d", i), Reason: fmt.Sprintf("no response to the call %.80q in turn %v is on the path", c.Call, c.Turn), Kind: turns.ErrMalformed,
			}
		}
	}
	elisions, parts := p.Elisions(cut, chosen)
	return elisions, parts, nil
}
