package engine

import (
	"context"
	"errors"
	"fmt"

	"nexus/compactor"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/projections"
	"nexus/turns"
	"nexus/turns/seal"
)

// defaultPolicy is what a session runs under that names no policy.
const defaultPolicy = "balanced"

// Create is session.create. The request's id, or a new one, is the session's.
func (e *Engine) Create(ctx context.Context, c Caller, req api.CreateSession, canonical []byte) (*api.Session, error) {
	if c.Operator() {
		return nil, &api.Error{Code: api.Denied, Message: "the operator reads all agents and creates nothing; name an agent"}
	}
	switch req.Kind {
	case "":
		req.Kind = turns.Peer
	case turns.Peer, turns.Task:
	case turns.Main:
		return nil, &api.Error{Code: api.Denied, Message: "kind main is granted by the daemon's configuration, not by a request", Details: map[string]any{"field": "/kind"}}
	default:
		return nil, fieldErr("/kind", "%q is not one of peer, task, main", req.Kind)
	}
	id, err := e.newID(req.ID)
	if err != nil {
		return nil, err
	}
	var settings turns.Settings
	label, err := e.applySettings(&settings, "", req.SessionSettings)
	if err != nil {
		return nil, err
	}
	ev := &turns.Event{
		ID: id, Kind: turns.KindOpened, Root: id, Agent: c.Agent, Role: req.Kind,
		Origin: &turns.Origin{Ledger: e.Ledger, Tenant: c.Tenant, Session: id},
	}
	if sp := req.SpawnedBy; sp != nil {
		if _, err := e.row(ctx, c, sp.Session, false); err != nil {
			return nil, err
		}
		ev.SpawnedBy = turns.Ref{Session: sp.Session, Turn: sp.Turn}
	}
	return e.openSession(ctx, c, request{id: id, what: "session.create", canonical: canonical}, ev, label, settings)
}

// openSession stores the first event of a session's chain.
//
// Crash states: after the key is made, a key that seals nothing; after the
// label is claimed, a label that resolves to no session, which the next claim
// may take over; after the event, a session. A retry with the same id ends in
// the same session from each of them.
func (e *Engine) openSession(ctx context.Context, c Caller, r request, ev *turns.Event, label string, settings turns.Settings) (*api.Session, error) {
	ch, release, err := e.hold(ctx, c.Tenant+"/"+r.id.String())
	if err != nil {
		return nil, err
	}
	defer release()
	if done, err := e.opened(ctx, c, r); done != nil || err != nil {
		return done, err
	}
	if e.Keys != nil {
		if _, err := e.Keys.Create(r.id, e.Rand); err != nil {
			return nil, fmt.Errorf("make the key of session %s: %w", r.id, err)
		}
	}
	if ev.Digest, err = e.digest(r.id, r); err != nil {
		return nil, err
	}
	if label != "" {
		if err := e.claim(ctx, c, label, r.id); err != nil {
			return nil, err
		}
	}
	ev.Version, ev.Chain = turns.Version, turns.SessionChain(r.id)
	ev.Recorded, ev.Actor = e.Now().UnixNano(), c.actor()
	payload, err := e.sealed(ctx, c.Tenant, ev.Root, ev, &turns.OpenedBody{Label: label, Settings: settings}, []turns.ID{r.id})
	if err != nil {
		return nil, err
	}
	seq, err := e.Log.Append(ctx, ledger.SessionSubject(c.Tenant, ev.Root, r.id), 0, payload)
	if errors.Is(err, ledger.ErrConflict) {
		done, err := e.opened(ctx, c, r)
		if done == nil && err == nil {
			err = fmt.Errorf("%w: session %s", ledger.ErrUnavailable, r.id)
		}
		return done, err
	}
	if err != nil {
		return nil, err
	}
	ch.seq = seq
	e.Metrics.appended(ev.Kind)
	if err := e.Store.WaitFor(ctx, seq); err != nil {
		return nil, err
	}
	return e.Get(ctx, c, r.id, api.Read{StaleOK: true})
}

// opened is the session that an earlier try of the same request made; nil if
// there is none.
func (e *Engine) opened(ctx context.Context, c Caller, r request) (*api.Session, error) {
	if _, err := e.catchUp(ctx, c.Tenant, r.id); err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	s, err := e.Store.Session(r.id)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, e.whyAside(r.id)
	}
	if err != nil {
		return nil, err
	}
	reused := &api.Error{Code: api.IDReused, Message: fmt.Sprintf("id %s is stored with another request", r.id)}
	if visible(c, &s) != nil {
		return nil, reused
	}
	payload, err := e.Store.EventAt(r.id, 0)
	if err != nil {
		return nil, err
	}
	ev, err := turns.Decode(payload)
	if err != nil {
		return nil, err
	}
	digest, err := e.digest(r.id, r)
	if err != nil {
		return nil, err
	}
	if ev.Digest != digest {
		return nil, reused
	}
	return e.session(&s)
}

// claim makes label resolve to session, unless it resolves to another that is
// open: then it is a conflict that names it.
func (e *Engine) claim(ctx context.Context, c Caller, label string, session turns.ID) error {
	digest, err := e.labelDigest(c.Tenant, c.Agent, label)
	if err != nil {
		return err
	}
	chain := turns.Chain{Entity: turns.LabelEntity, ID: digest}
	subject := ledger.Subject(c.Tenant, chain.ID, chain)
	_, release, err := e.hold(ctx, subject)
	if err != nil {
		return err
	}
	defer release()
	for {
		row, err := e.labelRow(ctx, c.Tenant, digest)
		if err != nil {
			return err
		}
		if row.Session == session {
			return nil
		}
		if !row.Session.IsZero() {
			if _, err := e.catchUp(ctx, c.Tenant, row.Session); err != nil && !errors.Is(err, ledger.ErrNotFound) {
				return err
			}
			if s, err := e.Store.Session(row.Session); err == nil && !s.Final() {
				return &api.Error{Code: api.Conflict, Message: fmt.Sprintf("the label resolves to session %s, which is open", row.Session),
					Details: map[string]any{"session": row.Session.String()}}
			}
		}
		id, err := e.newID(turns.ID{})
		if err != nil {
			return err
		}
		ev := &turns.Event{
			Version: turns.Version, Kind: turns.KindClaimed, ID: id, Chain: chain, Recorded: e.Now().UnixNano(),
			Actor: c.actor(), Agent: c.Agent, To: turns.Ref{Session: session},
		}
		if !row.Session.IsZero() {
			ev.Index, ev.Prev = row.Tail.Index+1, row.Tail.Hash
		}
		payload, err := e.sealed(ctx, c.Tenant, session, ev, &turns.ClaimedBody{Label: label}, []turns.ID{session})
		if err != nil {
			return err
		}
		seq, err := e.Log.Append(ctx, subject, row.Tail.Seq, payload)
		if errors.Is(err, ledger.ErrConflict) {
			continue
		}
		if err != nil {
			return err
		}
		return e.Store.WaitFor(ctx, seq)
	}
}

func (e *Engine) labelDigest(tenant, agent, label string) (string, error) {
	var k seal.Key
	if e.Keys != nil {
		var err error
		if k, err = e.Keys.Create(turns.ID(e.Ledger), e.Rand); err != nil {
			return "", fmt.Errorf("the key of labels: %w", err)
		}
	}
	return seal.LabelDigest(k, tenant, agent, label), nil
}

// labelRow is the label's row at the end of its chain.
func (e *Engine) labelRow(ctx context.Context, tenant, digest string) (row projections.Label, err error) {
	chain := turns.Chain{Entity: turns.LabelEntity, ID: digest}
	last, err := e.Log.Last(ctx, ledger.Subject(tenant, digest, chain))
	if errors.Is(err, ledger.ErrNotFound) {
		return row, nil
	}
	if err != nil {
		return row, err
	}
	if err := e.Store.WaitFor(ctx, last.Seq); err != nil {
		return row, err
	}
	return e.Store.Label(tenant, digest)
}

// Resolve is session.resolve: the session that a label stands for.
func (e *Engine) Resolve(ctx context.Context, c Caller, label string) (*api.Session, error) {
	if err := turns.ValidateLabel("/label", label); err != nil {
		return nil, err
	}
	none := &api.Error{Code: api.NotFound, Message: "no session has this label"}
	if c.Operator() {
		return nil, &api.Error{Code: api.Unprocessable, Message: "a label belongs to an agent; name the agent"}
	}
	digest, err := e.labelDigest(c.Tenant, c.Agent, label)
	if err != nil {
		return nil, err
	}
	row, err := e.labelRow(ctx, c.Tenant, digest)
	if err != nil {
		return nil, err
	}
	if row.Session.IsZero() {
		return nil, none
	}
	s, err := e.row(ctx, c, row.Session, true)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, none
	}
	if err != nil {
		return nil, err
	}
	if s.State == turns.Reset && !s.Successor.IsZero() {
		return e.succeed(ctx, s)
	}
	return e.session(s)
}

// applySettings changes what req names, and returns the label.
func (e *Engine) applySettings(s *turns.Settings, label string, req api.SessionSettings) (string, error) {
	if req.Label != nil {
		if err := turns.ValidateLabel("/label", *req.Label); err != nil {
			return "", err
		}
		label = *req.Label
	}
	if req.Policy != nil || s.Policy.Name == "" {
		ref := turns.PolicyRef{Name: defaultPolicy}
		if req.Policy != nil {
			ref = turns.PolicyRef{Name: req.Policy.Name, Set: req.Policy.Set}
		}
		p, err := compactor.Resolve(ref)
		if err != nil {
			return "", err
		}
		ref.Digest = p.Digest()
		s.Policy = ref
	}
	if req.Model != nil {
		if len(*req.Model) > turns.MaxName {
			return "", fieldErr("/model", "longer than %d bytes", turns.MaxName)
		}
		s.Model = *req.Model
	}
	if req.System != nil {
		s.Preamble.System = *req.System
	}
	if req.Tools != nil {
		for i, t := range *req.Tools {
			if t.Kind() != '{' {
				return "", fieldErr(fmt.Sprintf("/tools/%d", i), "not a JSON object")
			}
		}
		s.Preamble.Tools = *req.Tools
	}
	if req.Limits != nil {
		s.Limits = *req.Limits
	}
	if req.User != nil {
		s.User = *req.User
	}
	for _, f := range []struct {
		name string
		from turns.Raw
		to   *turns.Raw
	}{{"/meta", req.Meta, &s.Meta}, {"/reset", req.Reset, &s.Reset}} {
		if f.from == nil {
			continue
		}
		if f.from.Kind() != '{' {
			return "", fieldErr(f.name, "not a JSON object")
		}
		*f.to = f.from
	}
	return label, nil
}

func fieldErr(field, format string, args ...any) error {
	return &turns.FieldError{Field: field, Reason: fmt.Sprintf(format, args...), Kind: turns.ErrMalformed}
}
