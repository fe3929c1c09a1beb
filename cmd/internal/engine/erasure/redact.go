package erasure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/erasure/mark"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// Redact is turn.redact.
//
// Crash states: an event that redacts is stored before the key of the one that it stands for is taken. In between reads
// have the redacted body already, and [Erasure.Finish] takes the key at the next start. A call that is
// cut off after some events has redacted these, and a call again the rest.
//
// A summary that is being made of what was there before is stored behind it, and a call again finds it.
//
// Errors: [api.Denied] for an agent, [api.Unsupported] where nothing is sealed, [ledger.ErrErased] for a session that is erased.
func (er *Erasure) Redact(ctx context.Context, c reader.Caller, id turns.ID, req api.RedactTurn, canonical []byte) (*api.Redacted, error) {
	if err := er.May(c, req.Ground); err != nil {
		return nil, err
	}
	if err := checkRedact(req); err != nil {
		return nil, err
	}
	s, err := er.reader.FindSession(ctx, c, id, true)
	if err != nil {
		return nil, err
	}
	if s, err = er.caughtUp(ctx, s); err != nil {
		return nil, err
	}
	if s.State == turns.Erased {
		return nil, writer.CheckOpen(s)
	}
	var text *mark.Text
	if req.Text != "" {
		text = mark.NewText(req.Text)
	}
	r := &redaction{Erasure: er, text: text, ctx: ctx, caller: c, req: req, canonical: canonical, out: &api.Redacted{Session: s.ID, DryRun: req.DryRun, Events: []api.RedactedEvent{}}}
	err = r.run(s)
	if !req.DryRun && (err == nil || r.stored) { // what was redacted before an error is gone too
		terr := er.takeRedacted(ctx, s)
		if terr == nil {
			terr = er.publishRedactions(s, req.Ground)
		}
		err = errors.Join(err, terr)
		er.content.NoRedactions(false) // there are new ones
	}
	if err == nil {
		err = er.redactionStores(ctx, s.ID, req, r.out)
	}
	if err != nil && r.stored {
		err = writer.AfterCommit(err)
	}
	if err != nil {
		return nil, err
	}
	return r.out, nil
}

// caughtUp returns a session with all that was acknowledged of it.
func (er *Erasure) caughtUp(ctx context.Context, s *ledger.Session) (*ledger.Session, error) {
	if _, err := er.reader.CatchUp(ctx, s.Tenant, s.ID); err != nil {
		return nil, err
	}
	now, err := er.reader.Projections.Session(s.ID)
	return &now, err
}

// May refuses who may not erase, and where nothing can be.
func (er *Erasure) May(c reader.Caller, ground string) error {
	if !c.Operator() {
		return &api.Error{Code: api.Denied, Message: "only the operator erases"}
	}
	if er.content.Keys == nil {
		return &api.Error{Code: api.Unsupported, Message: "this ledger does not seal what it stores (seal off), so no key can be destroyed"}
	}
	if er.Why != "" {
		return &api.Error{Code: api.Unsupported, Message: er.Why}
	}
	if !isGround(ground) {
		return api.FieldErrorf("/ground", "a ground is a code of letters, digits, dots, dashes and underscores, at most 64: it stays when the content is gone")
	}
	return nil
}

func checkRedact(req api.RedactTurn) error {
	switch n := len(req.Text); {
	case n > 0 && len(req.Parts)+len(req.Spans) > 0:
		return api.FieldErrorf("/text", "a text goes without parts and spans")
	case n == 0 && req.Turn.IsZero():
		return api.FieldErrorf("/turn", "missing: name a turn, or a text")
	case n > 0:
		return mark.Check("/text", req.Text)
	}
	return nil
}

// redaction is one call of turn.redact.
type redaction struct {
	*Erasure
	ctx    context.Context
	caller reader.Caller
	req    api.RedactTurn
	out    *api.Redacted
	stored bool // an event

	canonical []byte // the request
	text      *mark.Text
	taking    []uint64 // ordinals of the events whose keys this call takes
}

// run redacts one event, or each of the session, and those that are stored meanwhile.
func (r *redaction) run(s *ledger.Session) error {
	if !r.req.Turn.IsZero() {
		index, err := r.reader.Projections.Index(s.ID, r.req.Turn)
		if errors.Is(err, ledger.ErrNotFound) {
			return &turns.FieldError{Field: "/turn", Reason: fmt.Sprintf("session %s has no event %s", s.ID, r.req.Turn), Kind: ledger.ErrNotFound}
		}
		if err != nil {
			return err
		}
		return r.event(s, index)
	}
	for index := uint64(0); ; index++ {
		if err := r.ctx.Err(); err != nil {
			return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
		}
		if index > s.Tail.Index { // more came meanwhile, those that redact among them
			now, err := r.caughtUp(r.ctx, s)
			if err != nil {
				return err
			}
			if index > now.Tail.Index {
				return nil
			}
			s = now
		}
		if err := r.event(s, index); err != nil {
			return err
		}
	}
}

// event redacts the event at an index of the chain.
func (r *redaction) event(s *ledger.Session, index uint64) error {
	payload, err := r.reader.Projections.EventAt(s.ID, index)
	if err != nil {
		return err
	}
	ev, err := turns.Decode(payload)
	if err != nil {
		return err
	}
	if ev.Kind == turns.KindRedacted && !r.req.Turn.IsZero() {
		return api.FieldErrorf("/turn", "event %s redacts another one", ev.ID)
	}
	if r.req.Turn.IsZero() && (ev.Kind == turns.KindRedacted || len(ev.Body) == 0) {
		return nil
	}
	by := &turns.Event{ID: ev.ID, Kind: turns.KindRedacted, Chain: ev.Chain} // of the dry run
	if r.req.DryRun {
		_, report, err := r.marked(s, ev, by)
		if report != nil {
			r.out.Events = append(r.out.Events, *report)
		}
		return r.unreadable(err)
	}
	as := r.caller
	as.Agent = s.Agent // the event is on its session's chain; Actor says who stored it
	var report *api.RedactedEvent
	err = r.writer.Mutate(writer.Ending(r.ctx), as, s.ID, func(_ *writer.Chain, now *ledger.Session) (*writer.Draft, error) {
		if now.State == turns.Erased {
			return nil, writer.CheckOpen(now)
		}
		request := writer.Request{Verb: "turn.redact", Canonical: r.canonical}
		if !r.req.Turn.IsZero() { // else it stores an event for each
			request.ID = r.req.ID
		}
		if done, err := r.writer.StoredEvent(now, request); done != nil || err != nil {
			return nil, err
		}
		id, err := r.writer.NewID(request.ID)
		if err != nil {
			return nil, err
		}
		by := &turns.Event{ID: id, Kind: turns.KindRedacted, Chain: ev.Chain, To: turns.Ref{Session: s.ID, Turn: ev.ID}}
		if !request.ID.IsZero() {
			by.Digest = request.Digest()
		}
		body, found, err := r.marked(now, ev, by)
		if report = found; body == nil || err != nil {
			return nil, err
		}
		if err := r.checkTake(now, index); err != nil {
			return nil, err
		}
		r.content.NoRedactions(false)
		return &writer.Draft{Event: by, Body: body, Keys: ev.Keys, Actor: r.caller.Actor(), After: func(seq uint64, _ turns.Hash) {
			r.stored, report.Position = true, page.FormatPosition(seq)
		}}, nil
	})
	if report != nil && err == nil {
		r.out.Events = append(r.out.Events, *report)
	}
	return r.unreadable(err)
}

// unreadable passes over an event that nobody can read any more, where all of a session are looked at: a summary that was sealed under
// the key of a session that was erased too.
func (r *redaction) unreadable(err error) error {
	if r.req.Turn.IsZero() && errors.Is(err, ledger.ErrErased) {
		if s, serr := r.reader.Projections.Session(r.out.Session); serr == nil && s.State != turns.Erased {
			return nil
		}
	}
	return err
}

// checkTake refuses to redact an event whose key can't be taken, as too much was taken already.
func (r *redaction) checkTake(s *ledger.Session, index uint64) error {
	k, err := r.content.Key(s.ID)
	if err == nil {
		err = k.CheckTake(s.Tail.Index+2, append(r.taking, index)...)
	}
	if errors.Is(err, turns.ErrTooLarge) {
		err = api.Errorf(api.TooLarge, nil, "session %s: %v; erase the session, or fork it behind what is to stay and erase it then", s.ID, err)
	}
	if err == nil {
		r.taking = append(r.taking, index)
	}
	return err
}

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
		err = r.markParts(s, body, report)
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

// markParts takes parts of a turn out, or spans of them; all that it says, if the request names none.
func (r *redaction) markParts(s *ledger.Session, body any, report *api.RedactedEvent) error {
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

// takeRedacted takes the keys of the events of a session that were redacted, and of redacted events that others have the place of.
func (er *Erasure) takeRedacted(ctx context.Context, s *ledger.Session) error {
	_, release, err := er.writer.Hold(ctx, s.Tenant+"/"+s.ID.String()) // nobody seals an event meanwhile
	if err != nil {
		return err
	}
	defer release()
	if _, err := er.reader.CatchUp(ctx, s.Tenant, s.ID); err != nil {
		return err
	}
	now, err := er.reader.Projections.Session(s.ID)
	if err != nil || now.State == turns.Erased {
		return err
	}
	indexes, err := er.redacted(s.ID)
	if err != nil || len(indexes) == 0 {
		return err
	}
	if err := er.content.Keys.Puncture(s.ID, now.Tail.Index+1, indexes...); err != nil && !errors.Is(err, turns.ErrErased) {
		return fmt.Errorf("%w: keys of redacted events are not taken yet: %w", ledger.ErrUnavailable, err)
	}
	return nil
}

// redacted returns the ordinals of the events of a session whose keys are to be taken: those that were redacted, and redacted events
// that newer ones have the place of.
func (er *Erasure) redacted(session turns.ID) (out []uint64, err error) {
	for x, err := range er.reader.Projections.Redactions(session) {
		if err != nil {
			return nil, err
		}
		index := x.By
		if x.Newest {
			if index, err = er.reader.Projections.Index(session, x.Event); err != nil {
				return nil, err
			}
		}
		out = append(out, index)
	}
	return out, nil
}

// redactionStores says what became of what was redacted in a session.
func (er *Erasure) redactionStores(ctx context.Context, session turns.ID, r api.RedactTurn, out *api.Redacted) error {
	s, err := er.reader.Projections.Session(session)
	if err != nil {
		return err
	}
	out.Done = true
	add := func(store string, state api.StoreState, count uint64, note string) {
		if out.DryRun && len(out.Events) > 0 && state == api.StoreDone {
			state = api.StorePending
		}
		out.Done = out.Done && state != api.StorePending
		out.Stores = append(out.Stores, api.ErasedStore{Store: store, State: state, Count: count, Note: note})
	}
	indexes, err := er.redacted(session)
	if err != nil {
		return err
	}
	k, err := er.content.Key(session)
	if err != nil {
		return err
	}
	state := api.StoreDone
	if slices.ContainsFunc(indexes, k.Has) {
		state = api.StorePending
	}
	add("key", state, uint64(len(indexes)), "keys of events of the session that were redacted, taken in both copies of the key log. Headers stay: ids, times, counts, sizes")
	for _, p := range er.all() {
		var count uint64
		done := len(indexes) == 0 || p.Redact == nil
		if !done && !out.DryRun {
			if count, done, err = p.Redact(ctx, &s, k.Taken()); err != nil {
				return err
			}
		}
		state := api.StorePending
		if done {
			state = api.StoreDone
		}
		add(p.Name, state, count, p.Note)
	}
	if r.Text == "" {
		behind, names, err := er.summariesBehind(session, out.Events)
		if err != nil {
			return err
		}
		if behind > 0 {
			add("summaries", api.StoreOutside, behind, "that the session made behind it, and that may repeat what was taken out: redact the text itself, or each of them: "+names)
		}
	}
	if s.ForkOf != nil {
		add("inherited", api.StoreOutside, 0, "turns before the fork are of session "+s.ForkOf.At.Session.String()+": redact the text there too")
	}
	heirs, err := er.reader.Heirs(ctx, session)
	if err != nil {
		return err
	}
	if len(heirs) > 0 {
		add("forks", api.StoreOutside, uint64(len(heirs)), "what they inherited reads redacted; what they copied (settings), and summaries that they made of it, are theirs: redact the text there too")
	}
	add("memories", api.StoreOutside, 0, "what agents saved, their documents (memory.redact takes it out of them), and external events")
	add("backups", api.StoreOutside, 0, "files of keys from before: the list of erasures that lies beside a backup, or in [checkpoint] out, is applied by restore, which takes the whole event then; destroy older files of keys")
	add("copies", api.StoreOutside, 0, "exports (they have keys), pages, transcripts of agents and of continue, git refs; fingerprints of contexts that had it: a guess can be tested with them")
	return nil
}

// maxNamed is how many summaries a receipt names.
const maxNamed = 5

// summariesBehind counts the compactions of a session that follow any of the events on its chain, and names the first ones.
func (er *Erasure) summariesBehind(session turns.ID, redacted []api.RedactedEvent) (n uint64, names string, err error) {
	first := uint64(math.MaxUint64)
	for _, x := range redacted {
		index, err := er.reader.Projections.Index(session, x.Event)
		if err != nil {
			return 0, "", err
		}
		first = min(first, index)
	}
	for ref, err := range er.reader.Projections.CompactionsOf(session) {
		if err != nil {
			return 0, "", err
		}
		row, err := er.reader.Projections.Turn(ref)
		if err != nil {
			return 0, "", err
		}
		if row.Index <= first {
			continue
		}
		if n++; n <= maxNamed {
			names = strings.TrimPrefix(names+", "+ref.Turn.String(), ", ")
		}
	}
	if n > maxNamed {
		names += ", …"
	}
	return n, names, nil
}

// publishRedactions puts the redactions of a session on the list.
func (er *Erasure) publishRedactions(s *ledger.Session, ground string) error {
	if er.Publish == nil {
		return nil
	}
	var rows []Erased
	for x, err := range er.reader.Projections.Redactions(s.ID) {
		if err != nil {
			return err
		}
		if !x.Newest {
			continue
		}
		payload, err := er.reader.Projections.EventAt(s.ID, x.By)
		if err != nil {
			return err
		}
		ev, err := turns.Decode(payload)
		if err != nil {
			return err
		}
		rows = append(rows, Erased{Session: s.ID, Event: x.Event, Tenant: s.Tenant, Hash: turns.HashEvent(payload), Position: x.By, Time: time.Unix(0, ev.Recorded).UTC(), Ground: ground})
	}
	return er.Publish(rows)
}

// redactAgain takes out all of an event that was redacted, and that a backup from before brought back.
func (er *Erasure) redactAgain(ctx context.Context, s *ledger.Session, event turns.ID) error {
	r := &redaction{Erasure: er, ctx: ctx, caller: reader.Caller{Tenant: s.Tenant, Agent: api.Operator}, req: api.RedactTurn{Turn: event}, out: new(api.Redacted)}
	return r.run(s)
}

// finishRedactions does for redactions what [Erasure.Finish] does for erasures.
func (er *Erasure) finishRedactions(ctx context.Context, listed []Erased) error {
	for _, e := range listed {
		s, err := er.reader.Projections.Session(e.Session)
		if errors.Is(err, ledger.ErrNotFound) || err == nil && s.State == turns.Erased {
			continue
		}
		if err != nil {
			return err
		}
		_, known, err := er.reader.Projections.RedactedBy(e.Session, e.Event)
		if err != nil {
			return err
		}
		if known {
			continue
		}
		if _, err := er.reader.Projections.Index(e.Session, e.Event); errors.Is(err, ledger.ErrNotFound) {
			continue
		} else if err != nil {
			return err
		}
		er.logger.Warn("an event that was redacted is here again, from a backup: all of it is taken out", "session", s.ID, "event", e.Event, "ground", e.Ground)
		switch err := er.redactAgain(ctx, &s, e.Event); {
		case errors.Is(err, ledger.ErrErased), errors.Is(err, ledger.ErrUnsupported), errors.Is(err, ledger.ErrTooLarge): // no start may fail for it
			er.logger.Error("an event that was redacted can't be taken out again; erase the session", "session", s.ID, "event", e.Event, "err", err)
			continue
		case err != nil:
			return err
		}
		if _, err := er.reader.CatchUp(ctx, s.Tenant, s.ID); err != nil { // its row is read below
			return err
		}
	}
	any := false
	was := turns.ID{}
	for x, err := range er.reader.Projections.Redactions(turns.ID{}) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if any = true; x.Session == was {
			continue
		}
		was = x.Session
		s, err := er.reader.Projections.Session(x.Session)
		if err != nil {
			return err
		}
		if s.State == turns.Erased {
			continue
		}
		if err = er.takeRedacted(ctx, &s); errors.Is(err, turns.ErrTooLarge) { // no start may fail for it
			er.logger.Error("keys of redacted events can't be taken: their content can still be opened by who has the keys; erase the session", "session", s.ID, "err", err)
			err = nil
		}
		if err == nil {
			err = er.publishRedactions(&s, "")
		}
		if err != nil {
			return err
		}
	}
	er.content.NoRedactions(!any)
	return nil
}
