package memories

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// Save is memory.save: it stores a memory. If the agent has one of the same kind,
// visibility and text, the request is stored as evidence of that one, which the reply
// shows. What was withdrawn or superseded before is a new memory.
func (ms *Memories) Save(ctx context.Context, c reader.Caller, req api.SaveMemory, canonical []byte) (*api.Memory, error) {
	header, err := ms.checkSave(&req)
	if err != nil {
		return nil, err
	}
	digest := writer.Request{Verb: "memory.save", Canonical: canonical}.Digest()
	var id turns.ID
	duplicate := false
	_, err = ms.append(ctx, c, func(ledger.Memories) (*draft, error) {
		was, _, err := ms.stored(c, req.ID, digest)
		if was != nil || err != nil {
			id, duplicate = req.ID, true
			return nil, err
		}
		d, err := ms.draftMemory(ctx, c, &req, *header)
		if err != nil {
			return nil, err
		}
		if d.event.ID, err = ms.writer.NewID(req.ID); err != nil {
			return nil, err
		}
		d.event.Digest, id = digest, d.event.ID
		return d, nil
	})
	if err != nil {
		return nil, err
	}
	m, err := ms.reader.Projections.Memory(c.Tenant, c.Agent, id)
	if err == nil && duplicate {
		err = ms.stillSeen(ctx, c, req.Session, m)
	}
	if err != nil {
		return nil, writer.AfterCommit(err)
	}
	out := ms.describe(ms.opener(), c.Tenant, c.Agent, m, m.Now())
	out.Duplicate, out.Known = duplicate, m.ID != id
	return out, nil
}

// checkSave checks what of a request can be checked by itself, and returns the header of
// the memory without what follows from the ledger.
func (ms *Memories) checkSave(req *api.SaveMemory) (m *turns.Memory, err error) {
	m = &turns.Memory{State: turns.Accepted, Trust: turns.ByAgent}
	if m.Kind, err = turns.ParseMemoryKind(req.Kind); err != nil {
		return nil, err
	}
	if req.Trust != "" {
		if m.Trust, err = turns.ParseTrust(req.Trust); err != nil {
			return nil, err
		}
	}
	if m.Trust == turns.ByTool {
		m.State = turns.Proposed // anybody may have written it
	}
	switch req.State {
	case "":
	case "proposed":
		m.State = turns.Proposed
	case "accepted":
		m.State = turns.Accepted
	default:
		return nil, api.FieldErrorf("/state", "%.40q is not one of proposed, accepted", req.State)
	}
	switch req.Visibility {
	case "", "main", "all":
	case "branch":
		if req.Session.IsZero() {
			return nil, api.FieldErrorf("/visibility", "a branch is that of a session; name the session")
		}
	default:
		return nil, api.FieldErrorf("/visibility", "%.40q is not one of main, all, branch", req.Visibility)
	}
	if err := ms.checkText("/text", req.Text, turns.MaxMemory); err != nil {
		return nil, err
	}
	if strings.TrimSpace(req.Text) == "" {
		return nil, api.FieldErrorf("/text", "missing: what is there to remember?")
	}
	if req.Zone != "" {
		if _, err := reader.Zone(req.Zone); err != nil {
			return nil, api.FieldErrorf("/zone", "%.80q is not the name of a time zone, such as Europe/Zurich", req.Zone)
		}
	}
	if err := turns.ValidateWord("/user", req.User); err != nil {
		return nil, err
	}
	if req.ValidFrom != nil {
		ns, ok := req.ValidFrom.UnixNano()
		if !ok {
			return nil, api.FieldErrorf("/valid_from", "before 1678, after 2261 or 1970-01-01T00:00:00Z, which can't be stored")
		}
		m.ValidFrom = ns
	}
	if len(req.Sources) > turns.MaxMemorySources {
		return nil, api.FieldErrorf("/sources", "%d turns, the limit is %d", len(req.Sources), turns.MaxMemorySources)
	}
	if len(req.From) > turns.MaxMemorySources {
		return nil, api.FieldErrorf("/from", "%d memories, the limit is %d", len(req.From), turns.MaxMemorySources)
	}
	return m, nil
}

// zoneOf returns the zone of a memory: that of the request, else the one by whose clock the
// days of its session are told; "", which is UTC, without either.
func (ms *Memories) zoneOf(ctx context.Context, s *ledger.Session, zone string) (string, error) {
	if zone != "" || s == nil {
		return zone, nil
	}
	_, set, err := ms.reader.SettingsInForce(ctx, s)
	if err != nil {
		return "", err
	}
	if zone, err = ms.reader.SessionZone(ctx, s.Tenant, &set); zone == "UTC" {
		zone = ""
	}
	return zone, err
}

// checkText checks a text that a person reads and that goes into contexts: its size, and
// that it is text. Control characters other than line feed and tab, and those that
// change the direction of text or that nobody sees, have no place in it.
func (ms *Memories) checkText(field, s string, limit int) error {
	if len(s) > limit {
		return &turns.FieldError{Field: field, Reason: "too many bytes, the limit is " + itoa(limit), Kind: ledger.ErrTooLarge}
	}
	if !utf8.ValidString(s) {
		return api.FieldErrorf(field, "not UTF-8")
	}
	for i, r := range s {
		if r != '\n' && r != '\t' && turns.IsHidden(r) {
			return api.FieldErrorf(field, "%U at byte %d is a control or invisible character", r, i)
		}
	}
	return page.CheckText(field, s, ms.page.Payload()/4)
}

// draftMemory completes the header of a memory with what follows from the ledger: its
// sources, who sees it, and its digest.
func (ms *Memories) draftMemory(ctx context.Context, c reader.Caller, req *api.SaveMemory, m turns.Memory) (*draft, error) {
	v, err := ms.viewerOf(ctx, c, req.Session, api.Read{})
	if err != nil {
		return nil, err
	}
	zone, err := ms.zoneOf(ctx, v.session, req.Zone)
	if err != nil {
		return nil, err
	}
	d := &draft{body: &turns.MemoryBody{Text: req.Text, Zone: zone, User: req.User}}
	names := req.Sources
	if s := v.session; s != nil {
		d.keys = append(d.keys, s.ID)
		if len(names) == 0 && !s.Head.IsZero() {
			names = []api.TurnName{{Session: s.ID, Turn: s.Head.Turn}}
		}
	}
	private := v.session == nil || v.session.Kind == turns.Main
	if v.session == nil && len(names) > 0 {
		private = false // its sources say
	}
	if m.Sources, err = ms.sourcesOf(ctx, c, v, names, d, &private); err != nil {
		return nil, err
	}
	for _, id := range req.From {
		from, err := ms.named(c, v, "/from", id)
		if err != nil {
			return nil, err
		}
		private = private || from.Now().Private
		m.From = append(m.From, from.ID)
	}
	slices.SortFunc(m.From, turns.ID.Compare)
	m.From = slices.Compact(m.From)
	switch req.Visibility {
	case "main":
		if !v.seesPrivate() {
			return nil, &api.Error{Code: api.Denied, Message: "a session that is not a main session saves nothing that only main sessions see"}
		}
		m.Private = true
	case "all":
	default:
		if m.Private = private; req.Visibility == "branch" || v.session != nil && v.session.ForkOf != nil {
			if v.at.Ref.IsZero() {
				return nil, api.FieldErrorf("/visibility", "the session has no turn yet, so it has no branch")
			}
			m.Branch = v.at.Ref
		}
	}
	key, err := ms.content.AgentKey(c.Tenant, c.Agent)
	if err != nil {
		return nil, err
	}
	m.Text = seal.MemoryText(key, m.Kind, m.Private, m.Branch.Session, req.Text)
	if !req.Supersedes.IsZero() {
		old, err := ms.named(c, v, "/supersedes", req.Supersedes)
		if err != nil {
			return nil, err
		}
		if by := old.Now().SupersededBy; !by.IsZero() {
			return nil, api.Errorf(api.Conflict, map[string]any{"superseded_by": by.String()}, "memory %s is superseded by %s", old.ID, by)
		}
		if old.Text == m.Text {
			return nil, api.FieldErrorf("/supersedes", "memory %s says the same", old.ID)
		}
		m.Supersedes = old.ID
	}
	d.event = &turns.Event{Kind: turns.KindMemory, Memory: &m}
	return d, nil
}

// named returns a memory that a request names in a field, and that is not withdrawn.
func (ms *Memories) named(c reader.Caller, v *viewer, field string, id turns.ID) (ledger.NamedMemory, error) {
	m, err := ms.find(c, c.Agent, v, id)
	if err == nil && m.Now().State == turns.Withdrawn {
		err = api.Errorf(api.Unprocessable, map[string]any{"field": field}, "memory %s is withdrawn", id)
	}
	return m, err
}

// sourcesOf finds the turns that a request names, and adds the keys of their sessions to
// d. It sets private if one is of a main session.
func (ms *Memories) sourcesOf(ctx context.Context, c reader.Caller, v *viewer, names []api.TurnName, d *draft, private *bool) ([]turns.Source, error) {
	var out []turns.Source
	for _, n := range names {
		s, err := ms.reader.FindSession(ctx, c, n.Session, false)
		if err != nil {
			return nil, err
		}
		if s.Kind == turns.Main && !v.seesPrivate() {
			return nil, reader.SessionNotFound(n.Session) // a peer's session learns nothing of it
		}
		node, err := ms.reader.LocateTurn(ctx, c, n.Session, n.Turn, api.Read{})
		if err != nil {
			return nil, err
		}
		t, err := ms.reader.Projections.Turn(node.Ref)
		if err != nil {
			return nil, err
		}
		*private = *private || s.Kind == turns.Main
		d.keys = append(d.keys, n.Session, node.Ref.Session)
		out = append(out, turns.Source{Turn: node.Ref, Hash: t.Hash})
	}
	slices.SortFunc(out, turns.CompareSources)
	return slices.CompactFunc(out, func(a, b turns.Source) bool { return a.Turn == b.Turn }), nil
}
