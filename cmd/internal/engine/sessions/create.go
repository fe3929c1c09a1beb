package sessions

import (
	"context"
	"errors"
	"fmt"

	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// Create is session.create. The session's id is that of the request, or a new one.
func (ss *Sessions) Create(ctx context.Context, c reader.Caller, req api.CreateSession, canonical []byte) (*api.Session, error) {
	if c.Operator() {
		return nil, &api.Error{Code: api.Denied, Message: "the operator reads all agents and creates nothing; name an agent"}
	}
	switch req.Kind {
	case "":
		req.Kind = turns.Peer
	case turns.Peer, turns.Task:
	case turns.Main:
		if ss.MayOpenMain == nil || !ss.MayOpenMain(c.Tenant, c.Agent) {
			return nil, &api.Error{Code: api.Denied, Message: fmt.Sprintf("kind main is granted by the daemon's configuration, and agent %s has no such row ([[agent]], main = true)", c.Agent), Details: map[string]any{"field": "/kind"}}
		}
	default:
		return nil, api.FieldErrorf("/kind", "%q is not one of peer, task, main", req.Kind)
	}
	id, err := ss.writer.NewID(req.ID)
	if err != nil {
		return nil, err
	}
	var settings turns.Settings
	r := writer.Request{ID: id, Verb: "session.create", Canonical: canonical}
	label, err := ss.ApplySettings(ctx, c.Tenant, &settings, "", req.SessionSettings)
	if err != nil {
		return ss.StoredOr(ctx, c, r, err)
	}
	ev := &turns.Event{
		ID: id, Kind: turns.KindOpened, Root: id, Agent: c.Agent, Role: req.Kind,
		Origin: &turns.Origin{Ledger: ss.content.Ledger, Tenant: c.Tenant, Session: id},
	}
	if ev.SpawnedBy, err = SpawnedBy(id, req.SpawnedBy); err != nil {
		return nil, err
	}
	out, err := ss.OpenSession(ctx, c, r, ev, label, settings)
	return out, ss.FinishResetOnConflict(ctx, c, label, err)
}

// SpawnedBy returns what a request says that session id serves; zero for nil. That need
// not be in the ledger yet: an import may bring a sub-agent before the session that
// started it. Reads show it when the agent has it, so the answer tells nobody whether
// another agent's session exists.
func SpawnedBy(id turns.ID, sp *api.SpawnedBy) (turns.Ref, error) {
	switch {
	case sp == nil:
		return turns.Ref{}, nil
	case sp.Session.IsZero():
		return turns.Ref{}, api.FieldErrorf("/spawned_by/session", "missing")
	case sp.Session == id:
		return turns.Ref{}, api.FieldErrorf("/spawned_by/session", "a session can't serve itself")
	}
	return turns.Ref{Session: sp.Session, Turn: sp.Turn}, nil
}

// OpenSession stores the first event of a session. It claims the session's label
// first, unless the label leads to the session already, by the reset that named it.
//
// Crash states: after the policy is stored, a policy that no session names. After the
// key is made, a key that seals nothing. After the claim, an unconfirmed claim that
// expires. After the event, a session. A retry with the same id ends in the same
// session from each of them.
//
// The ids of sessions are one space for the ledger. Another daemon may open the id on
// another subject, which no compare-and-set finds. So the request is answered when the
// projections have applied its event: the id is [ledger.ErrIDReused] if another opening
// is earlier on the log.
func (ss *Sessions) OpenSession(ctx context.Context, c reader.Caller, r writer.Request, ev *turns.Event, name string, settings turns.Settings) (out *api.Session, err error) {
	if err := ss.writer.CheckID("/id", r.ID); err != nil {
		return nil, err
	}
	opened, err := ss.writer.HoldOpening(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	defer opened()
	ch, release, err := ss.writer.Hold(ctx, c.Tenant+"/"+r.ID.String())
	if err != nil {
		return nil, err
	}
	defer release()
	if done, err := ss.acknowledgedSession(ctx, c, r); done != nil || err != nil {
		return done, err
	}
	if err := ss.policies.Keep(ctx, c, settings.Policy); err != nil {
		return ss.StoredOr(ctx, c, r, err)
	}
	var l *Label
	if name != "" {
		var release func()
		if l, release, err = ss.HoldLabel(ctx, c, name, r.ID); err != nil {
			return ss.StoredOr(ctx, c, r, err)
		}
		defer release() // after the session's settings confirm the claim
	}
	if ss.content.Keys != nil {
		var durable func() error
		if _, durable, err = ss.content.Keys.Begin(r.ID, ss.content.Rand); err != nil {
			return ss.StoredOr(ctx, c, r, fmt.Errorf("make the key of session %s: %w", r.ID, err))
		}
		// The key is on the disk once, so it outlives the event. Nobody hears of the session
		// before it is there twice.
		defer func() {
			kerr := durable()
			if kerr != nil { // the store opens itself anew, and mends the second copy
				_, kerr = ss.content.Keys.Create(r.ID, ss.content.Rand)
			}
			if kerr != nil && err == nil {
				out, err = nil, writer.AfterCommit(fmt.Errorf("make the key of session %s durable: %w", r.ID, kerr))
			}
		}()
	}
	ev.Digest = r.Digest()
	if ev.Timed, err = ss.isTimed(ctx, c.Tenant, &settings); err != nil {
		return nil, err
	}
	ev.Version, ev.Chain = turns.Version, turns.SessionChain(r.ID)
	ev.Recorded, ev.Actor, ev.Sender = ss.reader.Now().UnixNano(), c.Actor(), c.Key
	inherited := settings
	epoch, body := ss.reader.Epoch(), &turns.OpenedBody{Label: name, Settings: settings}
	payload, err := ss.content.Seal(ctx, c.Tenant, ev.Root, ev, body, []turns.ID{r.ID})
	if err != nil {
		return nil, err
	}
	subject := ledger.SessionSubject(c.Tenant, ev.Root, r.ID)
	next, err := ss.writer.Admit(ctx, ss.reader.Projections.History(), subject, 0, ev, payload)
	if err == nil && l != nil && !l.byReset {
		if err := l.Claim(ctx, r.ID); err != nil {
			return ss.StoredOr(ctx, c, r, err)
		}
		defer func() { err = writer.AfterCommit(err) }()
	}
	var seq uint64
	if err == nil {
		seq, err = ss.writer.AppendAdmitted(ctx, next)
	}
	if errors.Is(err, ledger.ErrConflict) {
		done, err := ss.storedSession(ctx, c, r)
		if done == nil && err == nil {
			err = fmt.Errorf("%w: session %s", ledger.ErrUnavailable, r.ID)
		}
		return done, err
	}
	if errors.Is(err, ledger.ErrDuplicateOpening) {
		return nil, idReused(r.ID)
	}
	if err != nil {
		return nil, ss.writer.InternalError(ev, err)
	}
	if err := ss.reader.Projections.WaitFor(ctx, seq); err != nil {
		return nil, writer.AfterCommit(err)
	}
	if own, err := ss.reader.HasID(r.ID, subject); err != nil {
		return nil, err
	} else if !own {
		return nil, idReused(r.ID)
	}
	ch.Seq = seq
	ss.reader.RememberSettings(epoch, ev, body)
	if ev.ForkOf != nil && inherited.PreambleBlob == nil {
		ss.content.ForkStored(epoch, c.Tenant, ev.Root, inherited.Preamble, body.Settings.PreambleBlob)
	}
	if l != nil && l.byReset {
		_ = l.Claim(ctx, r.ID) // shortens look-ups, which otherwise follow the reset
	}
	out, err = ss.reader.Get(ctx, c, r.ID, api.Read{StaleOK: true})
	return out, writer.AfterCommit(err)
}

// StoredOr returns the session that an earlier try of the same request opened, else
// refusal. What the request names may mean something else by now: a stored request is
// answered whatever became of it.
func (ss *Sessions) StoredOr(ctx context.Context, c reader.Caller, r writer.Request, refusal error) (*api.Session, error) {
	if done, err := ss.storedSession(ctx, c, r); done != nil || err != nil {
		return done, err
	}
	return nil, refusal
}

// acknowledgedSession is storedSession for sessions that were acknowledged, where that is known
// without the log. One that is stored and was not, by a try that nobody got an answer of, is on
// the subject of r if it is of the same request: then the append is refused, and the log asked.
func (ss *Sessions) acknowledgedSession(ctx context.Context, c reader.Caller, r writer.Request) (*api.Session, error) {
	if known, err := ss.reader.WaitAcknowledged(ctx); err != nil {
		return nil, err
	} else if !known {
		return ss.storedSession(ctx, c, r)
	}
	return ss.appliedSession(ctx, c, r)
}

// storedSession returns the session that an earlier try of the same request opened,
// nil if there is none.
func (ss *Sessions) storedSession(ctx context.Context, c reader.Caller, r writer.Request) (*api.Session, error) {
	if _, err := ss.reader.CatchUp(ctx, c.Tenant, r.ID); err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	return ss.appliedSession(ctx, c, r)
}

// appliedSession is storedSession for what the projections have applied.
func (ss *Sessions) appliedSession(ctx context.Context, c reader.Caller, r writer.Request) (*api.Session, error) {
	s, err := ss.reader.Projections.Session(r.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, ss.reader.AsideError(c.Tenant, r.ID)
	}
	if err != nil {
		return nil, err
	}
	if reader.CheckVisible(c, &s) != nil {
		return nil, idReused(r.ID)
	}
	payload, err := ss.reader.Projections.EventAt(r.ID, 0)
	if err != nil {
		return nil, err
	}
	ev, err := turns.Decode(payload)
	if err != nil {
		return nil, err
	}
	same, err := ss.content.SameRequest(ev, r.Digest())
	if err != nil {
		return nil, err
	}
	if !same {
		return nil, idReused(r.ID)
	}
	return ss.reader.Describe(ctx, &s)
}

// idReused returns the error for an id under which another request opened a session. It
// does not tell whose session that is.
func idReused(id turns.ID) error {
	return &api.Error{Code: api.IDReused, Message: fmt.Sprintf("id %s is stored with another request", id)}
}
