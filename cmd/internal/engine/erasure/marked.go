package erasure

import (
	"bytes"
	"fmt"
	"slices"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/erasure/mark"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// marked returns the body of by, which is to redact ev, and what it takes out; nil if there is nothing to be taken out. It puts
// the blobs of the body into by.
func (r *redaction) marked(s *ledger.Session, ev, by *turns.Event) (*turns.RedactedBody, *api.RedactedEvent, error) {
	_, was, err := r.content.Redaction(ev)
	if err != nil {
		return nil, nil, err
	}
	body, err := content.NewBody(ev.Kind)
	if err == nil {
		err = r.content.Open(ev, body)
	}
	if err != nil {
		return nil, nil, err
	}
	before, err := turns.EncodeBody(body)
	if err != nil {
		return nil, nil, err
	}
	report := &api.RedactedEvent{Event: ev.ID, Kind: ev.Kind.String(), Depth: ev.Depth}
	if r.req.Text != "" {
		err = r.markText(s, body, report)
	} else {
		err = r.markParts(s, body, was, report)
	}
	if err != nil {
		return nil, nil, err
	}
	if same, err := turns.EncodeBody(body); err != nil || bytes.Equal(before, same) { // an earlier call took it out
		if report.Count = 0; report.Stays == 0 {
			report = nil
		}
		return nil, report, err
	}
	if !r.req.DryRun {
		if err := r.content.Offload(r.ctx, s.Tenant, s.Root, by, body); err != nil {
			return nil, nil, err
		}
	}
	after, err := turns.EncodeBody(body)
	if err != nil {
		return nil, nil, err
	}
	out, err := r.content.Redact(ev, was, after)
	if err != nil {
		return nil, nil, err
	}
	report.Parts, report.Rest, err = changed(ev.Kind, before, after)
	return out, report, err
}

// changed returns which parts of a body differ, numbered from 1, and whether what is no part does.
func changed(k turns.Kind, before, after []byte) (parts []int, rest bool, err error) {
	was, err := turns.PartSpans(k, before)
	if err != nil {
		return nil, false, err
	}
	is, err := turns.PartSpans(k, after)
	if err != nil {
		return nil, false, err
	}
	from := [2]int{}
	for i := range was {
		rest = rest || !bytes.Equal(before[from[0]:was[i][0]], after[from[1]:is[i][0]])
		if !bytes.Equal(before[was[i][0]:was[i][1]], after[is[i][0]:is[i][1]]) {
			parts = append(parts, i+1)
		}
		from = [2]int{was[i][1], is[i][1]}
	}
	return parts, rest || !bytes.Equal(before[from[0]:], after[from[1]:]), nil
}

// markText puts markers in the places of the text in a body, and counts them.
func (r *redaction) markText(s *ledger.Session, body any, report *api.RedactedEvent) error {
	text := r.text.Fresh()
	tree, err := r.content.Tree(s.Root)
	if err != nil {
		return err
	}
	for _, p := range content.BodyParts(body) {
		if p.Ref == nil {
			continue
		}
		if p.InPieces() { // too many bytes to put markers in: it goes as a whole
			has, err := r.content.FindInPieces(r.ctx, s.Tenant, tree, p.Ref, text.Longest(), text.In)
			if err != nil {
				return err
			}
			if has {
				text.Count++
				mark.Part(p)
			}
			continue
		}
		ref, before := *p, text.Count
		if err := r.content.InlinePart(r.ctx, s.Tenant, tree, p); err != nil {
			return err
		}
		if text.Part(p); text.Count == before {
			*p = ref
		}
	}
	err = r.content.ChangePreamble(r.ctx, s.Tenant, s.Root, body, func(p *turns.Preamble) bool {
		before := text.Count
		text.Body(p)
		return text.Count > before
	})
	if err != nil {
		return err
	}
	text.Body(body)
	report.Count = text.Count
	b, err := turns.EncodeBody(body)
	if err == nil && text.In(b) {
		report.Stays = 1
	}
	return err
}

// markParts takes parts of a turn out, or spans of them; all that it says, if the request names none. was is the body of an
// earlier redaction, nil if there is none.
func (r *redaction) markParts(s *ledger.Session, body any, was *turns.RedactedBody, report *api.RedactedEvent) error {
	parts := content.BodyParts(body)
	if len(r.req.Parts)+len(r.req.Spans) == 0 {
		for _, p := range parts {
			mark.Part(p)
		}
		report.Count = max(1, len(parts))
		return mark.Rest(body)
	}
	at := func(field string, n int) (*turns.Part, error) {
		if n < 1 || n > len(parts) {
			return nil, api.FieldErrorf(field, "the turn has no part %d: it has %d, numbered from 1", n, len(parts))
		}
		return parts[n-1], nil
	}
	for i, n := range r.req.Parts {
		p, err := at(fmt.Sprintf("/parts/%d", i), n)
		if err != nil {
			return err
		}
		mark.Part(p)
		report.Count++
	}
	tree, err := r.content.Tree(s.Root)
	if err != nil {
		return err
	}
	order := make([]int, len(r.req.Spans)) // the last span first, so that the others keep their places
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return r.req.Spans[b].From - r.req.Spans[a].From })
	next := make(map[int]int) // where the span begins that was taken before, by part
	counted := countedParts{was: was, digests: make(map[int]string)}
	for _, i := range order {
		span, field := r.req.Spans[i], fmt.Sprintf("/spans/%d", i)
		p, err := at(field+"/part", span.Part)
		if err != nil {
			return err
		}
		if slices.Contains(r.req.Parts, span.Part) {
			return api.FieldErrorf(field+"/part", "part %d is taken out whole", span.Part)
		}
		if p.InPieces() {
			return api.FieldErrorf(field+"/part", "part %d is in pieces: only all of it can be taken out", span.Part)
		}
		if p.Ref != nil {
			if err := r.content.InlinePart(r.ctx, s.Tenant, tree, p); err != nil {
				return err
			}
		}
		if err := counted.check(span, field, p); err != nil {
			return err
		}
		if before, ok := next[span.Part]; ok && span.To > before {
			return api.FieldErrorf(field, "it overlaps another span")
		}
		if !mark.Span(p, span.From, span.To) {
			return api.FieldErrorf(field, "bytes %d to %d of part %d, which has %d, can't be taken out: a span ends between characters, and of JSON within one string", span.From, span.To, span.Part, len(p.ContentBytes()))
		}
		next[span.Part] = span.From
		report.Count++
	}
	return nil
}
