package view

import (
	"fmt"
	"slices"
	"strings"

	"nexus/compactor/summary"
	"nexus/turns"
)

// ShownHalf is a half with elisions applied, and its source.
type ShownHalf struct {
	summary.HalfTurn
	Source Source
}

// ShownHalves returns the kept halves as a context shows them. It copies halves with
// an elision, so the path's messages do not change.
func (p Path) ShownHalves() ([]ShownHalf, error) {
	type elision struct {
		turns.Elision
		turns.ElidedPart
	}
	var by map[halfKey][]elision
	if f := p.InForce; f != nil && len(f.Body.Elided) > 0 {
		by = make(map[halfKey][]elision)
		for i, e := range f.Span.Elisions {
			k := halfKey{e.Turn, e.Half}
			by[k] = append(by[k], elision{e, f.Body.Elided[i]})
		}
	}
	out := make([]ShownHalf, len(p.Halves))
	prunes := p.View.When == "always" || p.View.When == "cache_cold" && p.Cold
	for i := range p.Halves {
		h := &p.Halves[i]
		s := ShownHalf{*h, Source{Turn: h.Ref, Half: h.Half, Status: Verbatim, Why: "after the cut"}}
		if p.InForce == nil {
			s.Source.Why = "no compaction is in force"
		}
		if h.Erased {
			s.Messages, s.Source.Status, s.Source.Why = nil, Erased, "its content key was destroyed"
		}
		if es := by[halfKey{h.Ref, h.Half}]; len(es) > 0 && !h.Erased {
			s.Messages, s.Counts = slices.Clone(h.Messages), nil
			copied := map[uint64]bool{}
			s.Source.Status, s.Source.Why = "", fmt.Sprintf("%d of its parts shortened by %v", len(es), p.InForce.Node.Ref)
			for _, e := range es {
				if e.Message >= uint64(len(s.Messages)) || e.Part >= uint64(len(s.Messages[e.Message].Parts)) {
					return nil, fmt.Errorf("%w: compaction %v elides part %d of message %d of the %s of %v, which is not there",
						turns.ErrCorrupt, p.InForce.Node.Ref, e.Part, e.Message, h.Half, h.Ref)
				}
				m := &s.Messages[e.Message]
				if !copied[e.Message] {
					m.Parts, copied[e.Message] = slices.Clone(m.Parts), true
				}
				m.Parts[e.Part] = elidedPart(m.Parts[e.Part], e.Show)
				s.Source.Status = mixStatus(s.Source.Status, Status(e.Method))
			}
			for k := range copied {
				m := &s.Messages[k]
				m.Parts = slices.DeleteFunc(m.Parts, func(q turns.Part) bool { return q.Type == "" })
			}
		}
		out[i] = s
	}
	if prunes {
		pruneHalves(p.View, out)
	}
	return out, nil
}

// mixStatus returns the status of a half whose parts were shortened by several
// methods.
func mixStatus(have, more Status) Status {
	if have == "" || have == more {
		return more
	}
	return Elided
}

// elidedPart returns the part that shows the text show in place of p. It keeps p's
// type if the pairing of calls or the message's role needs it; otherwise it is text.
// Shortened reasoning loses its signature. With nothing to show for it, it
// disappears (the zero Part).
func elidedPart(p turns.Part, show string) turns.Part {
	switch p.Type {
	case turns.ToolCall:
		args := turns.Raw(`{"elided":` + string(turns.RawText(strings.ToValidUTF8(show, "�"))) + `}`)
		return turns.Part{Type: p.Type, ID: p.ID, Name: p.Name, Arguments: args, Ext: p.Ext}
	case turns.ToolCallResponse:
		return turns.Part{Type: p.Type, ID: p.ID, Name: p.Name, IsError: p.IsError, Response: turns.RawText(strings.ToValidUTF8(show, "�"))}
	case turns.Reasoning, turns.Blob, turns.URI, turns.File:
		if show == "" {
			return turns.Part{}
		}
	}
	return turns.TextPart(show)
}
