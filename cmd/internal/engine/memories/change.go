package memories

import (
	"context"
	"strconv"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Withdraw is memory.withdraw: the memory, and what derives from it, is in no context
// from the next one on. The event stays, and lists show it as withdrawn. The reply names
// what depended on it.
func (ms *Memories) Withdraw(ctx context.Context, c reader.Caller, req api.WithdrawMemory, canonical []byte) (*api.WithdrawnMemory, error) {
	if req.Memory.IsZero() {
		return nil, api.FieldErrorf("/memory", "missing: name a memory")
	}
	if err := ms.checkText("/reason", req.Reason, turns.MaxMemory); err != nil {
		return nil, err
	}
	header := turns.Memory{State: turns.Withdrawn}
	var asker *viewer
	m, id, duplicate, err := ms.change(ctx, c, changeRequest{req.ID, req.Memory, req.Session, "memory.withdraw", canonical}, req.Reason,
		func(v *viewer, m ledger.NamedMemory) (turns.Memory, error) {
			header.Of, asker = m.ID, v
			return header, nil
		})
	if err != nil {
		return nil, err
	}
	out := &api.WithdrawnMemory{Memory: *ms.describe(ms.opener(), c.Tenant, c.Agent, m, m.Now()), Derived: []turns.ID{}, Replaced: []turns.ID{}, Change: id}
	out.Duplicate = duplicate
	if asker == nil { // the request was stored before
		if asker, err = ms.viewerOf(ctx, c, req.Session, api.Read{}); err != nil {
			return nil, err
		}
	}
	return out, ms.dependents(c, asker, m, out)
}

// dependents fills in what depends on a memory: what derives from it, what it superseded,
// and what superseded it. What the viewer does not see is not named.
func (ms *Memories) dependents(c reader.Caller, v *viewer, m ledger.NamedMemory, out *api.WithdrawnMemory) error {
	room := min(maxShown, ms.page.PageBytes()/4/32) // an id takes 29 bytes of JSON
	seen := map[turns.ID]bool{m.ID: true}
	for open := []turns.ID{m.ID}; len(open) > 0 && !out.Cut; open = open[1:] {
		ids, err := ms.reader.Projections.MemoryDependents(c.Tenant, c.Agent, open[0], room+1)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if seen[id] {
				continue
			}
			if len(seen) > room {
				out.Cut = true
				break
			}
			seen[id], open = true, append(open, id)
			x, err := ms.reader.Projections.Memory(c.Tenant, c.Agent, id)
			if err != nil {
				return err
			}
			ok, err := v.sees(ms.reader.Projections, x.Now())
			if err != nil {
				return err
			}
			if ok {
				out.Derived = append(out.Derived, id)
			}
		}
	}
	follow := func(list *[]turns.ID, next func(ledger.NamedMemory) turns.ID) error {
		for at := m; ; {
			id := next(at)
			if id.IsZero() {
				return nil
			}
			if len(*list) >= room {
				out.Cut = true
				return nil
			}
			old, err := ms.reader.Projections.Memory(c.Tenant, c.Agent, id)
			if err != nil {
				return err
			}
			ok, err := v.sees(ms.reader.Projections, old.Now())
			if err != nil {
				return err
			}
			if at = old; ok {
				*list = append(*list, old.ID)
			}
		}
	}
	if err := follow(&out.Replaced, func(m ledger.NamedMemory) turns.ID { return m.Supersedes }); err != nil {
		return err
	}
	return follow(&out.Later, func(m ledger.NamedMemory) turns.ID { return m.Now().SupersededBy })
}

// Promote is memory.promote: a proposed memory is accepted, and one of a branch is seen
// on every path.
func (ms *Memories) Promote(ctx context.Context, c reader.Caller, req api.PromoteMemory, canonical []byte) (*api.Memory, error) {
	if req.Memory.IsZero() {
		return nil, api.FieldErrorf("/memory", "missing: name a memory")
	}
	switch req.Visibility {
	case "", "main", "all":
	default:
		return nil, api.FieldErrorf("/visibility", "%.40q is not one of main, all", req.Visibility)
	}
	m, _, duplicate, err := ms.change(ctx, c, changeRequest{req.ID, req.Memory, req.Session, "memory.promote", canonical}, "",
		func(v *viewer, m ledger.NamedMemory) (turns.Memory, error) {
			return ms.promotion(c, v, m, req.Visibility)
		})
	if err != nil {
		return nil, err
	}
	out := ms.describe(ms.opener(), c.Tenant, c.Agent, m, m.Now())
	out.Duplicate = duplicate
	return out, nil
}

// promotion returns the header of the promotion of a memory.
func (ms *Memories) promotion(c reader.Caller, v *viewer, m ledger.NamedMemory, visibility string) (turns.Memory, error) {
	now := m.Now()
	out := turns.Memory{State: turns.Accepted, Of: m.ID, Private: now.Private}
	if visibility != "" {
		out.Private = visibility == "main"
	}
	switch {
	case !now.SupersededBy.IsZero():
		return out, api.Errorf(api.Conflict, map[string]any{"superseded_by": now.SupersededBy.String()}, "memory %s is superseded by %s", m.ID, now.SupersededBy)
	case out.Private && !v.seesPrivate():
		return out, &api.Error{Code: api.Denied, Message: "a session that is not a main session keeps no memory to main sessions"}
	case now.State == turns.Accepted && now.Branch.IsZero() && now.Private == out.Private:
		return out, api.Errorf(api.Unprocessable, nil, "memory %s is accepted and seen on every path already", m.ID)
	case len(m.Statuses) >= ledger.MaxMemoryStatuses:
		return out, api.Errorf(api.Unprocessable, map[string]any{"limit": ledger.MaxMemoryStatuses}, "memory %s was changed %d times; save it anew", m.ID, len(m.Statuses)-1)
	}
	text, _, err := ms.opener().textOf(m)
	if err != nil {
		return out, err
	}
	key, err := ms.content.AgentKey(c.Tenant, c.Agent)
	if err != nil {
		return out, err
	}
	out.Text = seal.MemoryText(key, m.Kind, out.Private, turns.ID{}, text.Text)
	known, ok, err := ms.reader.Projections.MemoryOfText(c.Tenant, c.Agent, out.Text)
	if now := known.Statuses; err == nil && ok && known.ID != m.ID && known.Text == out.Text && now[len(now)-1].InForce() {
		err = api.Errorf(api.Conflict, map[string]any{"memory": known.ID.String()}, "memory %s says the same to every path; withdraw one of them", known.ID)
	}
	return out, err
}

// changeRequest is a request that changes a memory.
type changeRequest struct {
	id, memory, session turns.ID
	verb                string
	canonical           []byte
}

// change stores a change of a memory that the session sees. decide returns its header.
// It returns the memory, the id of the change, and whether the same request was stored
// before.
func (ms *Memories) change(ctx context.Context, c reader.Caller, r changeRequest, reason string, decide func(*viewer, ledger.NamedMemory) (turns.Memory, error)) (m ledger.NamedMemory, id turns.ID, duplicate bool, err error) {
	digest := writer.Request{Verb: r.verb, Canonical: r.canonical}.Digest()
	_, err = ms.append(ctx, c, func(ledger.Memories) (*draft, error) {
		was, _, err := ms.stored(c, r.id, digest)
		if was != nil || err != nil {
			id, duplicate = r.id, true
			return nil, err
		}
		v, err := ms.viewerOf(ctx, c, r.session, api.Read{})
		if err != nil {
			return nil, err
		}
		m, err := ms.named(c, v, "/memory", r.memory)
		if err != nil {
			return nil, err
		}
		header, err := decide(v, m)
		if err != nil {
			return nil, err
		}
		if id, err = ms.writer.NewID(r.id); err != nil {
			return nil, err
		}
		d := &draft{event: &turns.Event{ID: id, Kind: turns.KindMemoryChanged, Digest: digest, Memory: &header}, body: &turns.MemoryChangedBody{Reason: reason}}
		if v.session != nil {
			d.keys = append(d.keys, v.session.ID)
		}
		return d, nil
	})
	if err != nil {
		return m, id, false, err
	}
	m, err = ms.reader.Projections.Memory(c.Tenant, c.Agent, r.memory)
	if err == nil && duplicate {
		err = ms.stillSeen(ctx, c, r.session, m)
	}
	return m, id, duplicate, writer.AfterCommit(err)
}

// stillSeen returns an error for a memory that the session of a retry does not see any more:
// it is private now, or the head of the session moved away from its branch.
func (ms *Memories) stillSeen(ctx context.Context, c reader.Caller, session turns.ID, m ledger.NamedMemory) error {
	v, err := ms.viewerOf(ctx, c, session, api.Read{})
	if err != nil {
		return err
	}
	ok, err := v.sees(ms.reader.Projections, m.Now())
	if err == nil && !ok {
		err = notFound(m.ID)
	}
	return err
}

// Document is memory.document: it reads the agent's document, or replaces the version
// that the request names.
func (ms *Memories) Document(ctx context.Context, c reader.Caller, req api.MemoryDocument, canonical []byte) (*api.Document, error) {
	if req.Text != nil && c.Operator() {
		return nil, errOperator()
	}
	agent, err := agentOf(c, req.Agent)
	if err != nil {
		return nil, err
	}
	if agent == "" {
		return nil, api.FieldErrorf("/agent", "missing: the operator names the agent")
	}
	v, err := ms.viewerOf(ctx, c, req.Session, req.Read)
	if err != nil {
		return nil, err
	}
	if !v.seesPrivate() {
		return nil, &api.Error{Code: api.Denied, Message: "only main sessions read and replace the agent's document"}
	}
	if req.Text == nil {
		if !req.ID.IsZero() || req.If != "" || len(req.Sources) > 0 {
			return nil, api.FieldErrorf("/text", "missing: a request with id, if or sources replaces the document")
		}
		fold, err := ms.fold(ctx, c.Tenant, agent, req.Read)
		if err != nil {
			return nil, err
		}
		return ms.documentAt(agent, fold.Document.Seq)
	}
	return ms.replace(ctx, c, &req, canonical)
}

// replace stores the next version of the caller's document.
func (ms *Memories) replace(ctx context.Context, c reader.Caller, req *api.MemoryDocument, canonical []byte) (*api.Document, error) {
	if req.If == "" {
		return nil, api.FieldErrorf("/if", "missing: the version or digest that the text replaces; 0 if there is no document yet")
	}
	if err := ms.checkText("/text", *req.Text, turns.MaxDocument); err != nil {
		return nil, err
	}
	if len(req.Sources) > turns.MaxMemorySources {
		return nil, api.FieldErrorf("/sources", "%d turns, the limit is %d", len(req.Sources), turns.MaxMemorySources)
	}
	digest := writer.Request{Verb: "memory.document", Canonical: canonical}.Digest()
	at, duplicate := uint64(0), false
	seq, err := ms.append(ctx, c, func(fold ledger.Memories) (*draft, error) {
		was, stored, err := ms.stored(c, req.ID, digest)
		if was != nil || err != nil {
			at, duplicate = stored, true
			return nil, err
		}
		now := fold.Document
		if req.If != strconv.FormatUint(now.Version, 10) && (now.Version == 0 || req.If != now.Text.String()) {
			details := map[string]any{"version": now.Version}
			if now.Version > 0 {
				details["digest"] = now.Text.String()
			}
			return nil, api.Errorf(api.Conflict, details, "the document is at version %d, the request replaces %.80s", now.Version, req.If)
		}
		d := &draft{body: &turns.DocumentBody{Text: *req.Text}}
		private := true
		sources, err := ms.sourcesOf(ctx, c, &viewer{}, req.Sources, d, &private)
		if err != nil {
			return nil, err
		}
		key, err := ms.content.AgentKey(c.Tenant, c.Agent)
		if err != nil {
			return nil, err
		}
		d.event = &turns.Event{Kind: turns.KindDocument, Digest: digest, Document: &turns.StoredDocument{Version: now.Version + 1, Text: seal.DocumentText(key, *req.Text), Sources: sources}}
		d.event.ID, err = ms.writer.NewID(req.ID)
		return d, err
	})
	if err != nil {
		return nil, err
	}
	if !duplicate {
		at = seq
	}
	out, err := ms.documentAt(c.Agent, at)
	if err != nil {
		return nil, writer.AfterCommit(err)
	}
	out.Duplicate = duplicate
	return out, nil
}

// documentAt returns the version of a document that the event at a position holds; the
// zero position: there is none.
func (ms *Memories) documentAt(agent string, seq uint64) (*api.Document, error) {
	out := &api.Document{Agent: agent}
	if seq == 0 {
		return out, nil
	}
	ev, err := ms.eventAt(seq)
	if err != nil {
		return nil, err
	}
	body := new(turns.DocumentBody)
	if err := ms.content.Open(ev, body); err != nil {
		return nil, err
	}
	at := api.UnixTime(ev.Recorded)
	out.Version, out.Digest, out.Text, out.Time, out.Position = ev.Document.Version, ev.Document.Text, body.Text, &at, page.FormatPosition(seq)
	for _, s := range ev.Document.Sources {
		out.Sources = append(out.Sources, api.MemorySource{Session: s.Turn.Session, Turn: s.Turn.Turn, Hash: s.Hash})
	}
	return out, nil
}

// fold returns the fold of an agent's chain, at its end unless the request accepts a
// stale answer.
func (ms *Memories) fold(ctx context.Context, tenant, agent string, r api.Read) (ledger.Memories, error) {
	if r.StaleOK {
		return ms.reader.Projections.Memories(tenant, agent)
	}
	return ms.catchUp(ctx, tenant, agent)
}
