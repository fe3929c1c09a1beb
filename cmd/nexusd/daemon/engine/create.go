package engine

import (
	"context"
	"errors"
	"fmt"

	"nexus/compactor/policy"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
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
		if !sp.Turn.IsZero() {
			if _, err := e.locate(ctx, c, sp.Session, sp.Turn, api.Read{}); err != nil {
				return nil, err
			}
		}
		ev.SpawnedBy = turns.Ref{Session: sp.Session, Turn: sp.Turn}
	}
	out, err := e.openSession(ctx, c, request{id: id, what: "session.create", canonical: canonical}, ev, label, settings)
	return out, e.taken(ctx, c, label, err)
}

// openSession stores the first event of a session's chain. Its label is
// claimed before, unless that leads to it already: by the reset that named it.
//
// Crash states: after the key is made, a key that seals nothing; after the
// label is claimed, a claim that stands alone and ends with its lease; after the
// event, a session. A retry with the same id ends in the same session from each
// of them.
func (e *Engine) openSession(ctx context.Context, c Caller, r request, ev *turns.Event, name string, settings turns.Settings) (out *api.Session, err error) {
	ch, release, err := e.hold(ctx, c.Tenant+"/"+r.id.String())
	if err != nil {
		return nil, err
	}
	defer release()
	if done, err := e.opened(ctx, c, r); done != nil || err != nil {
		return done, err
	}
	var l *label
	if name != "" {
		var release func()
		if l, release, err = e.holdLabel(ctx, c, name, r.id); err != nil {
			return nil, err
		}
		defer release() // not before the session says itself that it has the label
	}
	if e.Keys != nil {
		if _, err := e.Keys.Create(r.id, e.Rand); err != nil {
			return nil, fmt.Errorf("make the key of session %s: %w", r.id, err)
		}
	}
	if ev.Digest, err = e.digest(r.id, r); err != nil {
		return nil, err
	}
	ev.Version, ev.Chain = turns.Version, turns.SessionChain(r.id)
	ev.Recorded, ev.Actor = e.Now().UnixNano(), c.actor()
	payload, err := e.sealed(ctx, c.Tenant, ev.Root, ev, &turns.OpenedBody{Label: name, Settings: settings}, []turns.ID{r.id})
	if err != nil {
		return nil, err
	}
	next, err := e.admit(ctx, e.Store.History(), ledger.SessionSubject(c.Tenant, ev.Root, r.id), 0, ev, payload)
	if err == nil && l != nil && !l.leads {
		if err := l.claim(ctx, r.id); err != nil {
			return nil, err
		}
		defer func() { err = written(err) }()
	}
	var seq uint64
	if err == nil {
		seq, err = e.append(ctx, next)
	}
	if errors.Is(err, ledger.ErrConflict) {
		done, err := e.opened(ctx, c, r)
		if done == nil && err == nil {
			err = fmt.Errorf("%w: session %s", ledger.ErrUnavailable, r.id)
		}
		return done, err
	}
	if err != nil {
		return nil, e.defect(ev, err)
	}
	ch.seq = seq
	if l != nil && l.leads {
		_ = l.claim(ctx, r.id) // a shorter way for look-ups; without it they go by the reset
	}
	if err := e.Store.WaitFor(ctx, seq); err != nil {
		return nil, written(err)
	}
	out, err = e.Get(ctx, c, r.id, api.Read{StaleOK: true})
	return out, written(err)
}

// opened is the session that an earlier try of the same request made; nil if
// there is none.
func (e *Engine) opened(ctx context.Context, c Caller, r request) (*api.Session, error) {
	if _, err := e.catchUp(ctx, c.Tenant, r.id); err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	s, err := e.Store.Session(r.id)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, e.whyAside(c.Tenant, r.id)
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
	return e.session(ctx, &s)
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
		p, err := policy.Resolve(ref)
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
	if req.System != nil || req.Tools != nil {
		s.Apart = nil
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
	return label, e.fitsSettings(s)
}

func fieldErr(field, format string, args ...any) error {
	return api.FieldErrorf(field, format, args...)
}
