package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/request"
	"nexus/cmd/internal/engine/writer"
	"nexus/compactor/policy"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// defaultPolicy is the policy of a session that names none.
const defaultPolicy = "balanced"

// ApplySettings changes what req names, and returns the label. Policies are those of
// a tenant.
func (ss *Sessions) ApplySettings(ctx context.Context, tenant string, s *turns.Settings, label string, req api.SessionSettings) (string, error) {
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
		p, err := ss.reader.FindPolicy(ctx, tenant, ref)
		if err != nil {
			return "", err
		}
		ref.Digest = p.Digest()
		s.Policy = ref
	}
	if req.Model != nil {
		if err := turns.ValidateWord("/model", *req.Model); err != nil {
			return "", err
		}
		s.Model = *req.Model
	}
	if req.System != nil || req.Tools != nil {
		s.PreambleBlob = nil
	}
	if req.System != nil {
		for i, section := range *req.System {
			if err := turns.ValidateWord(fmt.Sprintf("/system/%d/name", i), section.Name); err != nil {
				return "", err
			}
		}
		s.Preamble.System = *req.System
	}
	if req.Tools != nil {
		for i, t := range *req.Tools {
			if t.Kind() != '{' {
				return "", api.FieldErrorf(fmt.Sprintf("/tools/%d", i), "not a JSON object")
			}
		}
		s.Preamble.Tools = *req.Tools
	}
	if l := req.Limits; l != nil {
		if n := max(l.ContextWindow, l.MaxOutputTokens, l.SafetyMargin); n > turns.MaxCount {
			return "", api.FieldErrorf("/limits", "%d is over %d", n, uint64(turns.MaxCount))
		}
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
			return "", api.FieldErrorf(f.name, "not a JSON object")
		}
		*f.to = f.from
	}
	if req.Reset != nil {
		rule, err := policy.ParseReset("/reset", req.Reset)
		if err != nil {
			return "", err
		}
		if _, err := reader.Zone(rule.Zone()); err != nil {
			return "", api.FieldErrorf("/reset/time_zone", "%v", err)
		}
	}
	return label, ss.content.CheckSettingsSize(s)
}

// Set is session.set. It claims a new label before the session's settings name it;
// the old label is free after that.
//
// Crash states: after the claim, the session still has its old label, and the claim
// expires. A retry claims again.
func (ss *Sessions) Set(ctx context.Context, c reader.Caller, id turns.ID, req api.SetSession, canonical []byte) (*api.Session, error) {
	r := writer.Request{ID: req.ID, Verb: "session.set", Canonical: canonical}
	err := ss.writer.Mutate(ctx, c, id, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
		ev, done, err := ss.writer.BeginEvent(s, r, turns.KindChanged)
		if done || err != nil {
			return nil, err
		}
		if kind := cmp.Or(s.Kind, turns.Peer); req.Kind != "" && req.Kind != kind {
			return nil, api.FieldErrorf("/kind", "a session keeps the kind that it was opened with, %s: session.create opens one of another", kind)
		}
		label, set, err := ss.reader.SettingsInForce(ctx, s)
		if err != nil {
			return nil, err
		}
		was := label
		if label, err = ss.ApplySettings(ctx, c.Tenant, &set, label, req.SessionSettings); err != nil {
			return nil, err
		}
		if req.SpawnedBy != nil {
			by, err := SpawnedBy(s.ID, req.SpawnedBy)
			if err != nil {
				return nil, err
			}
			if stated := reader.SpawnerOf(s, &set); !stated.IsZero() && stated != by {
				return nil, api.FieldErrorf("/spawned_by", "the session has another already")
			}
			if s.Spawned.IsZero() {
				set.SpawnedBy = by
			}
		}
		if err := ss.policies.Keep(ctx, c, set.Policy); err != nil {
			return nil, err
		}
		if ev.Timed, err = ss.isTimed(ctx, c.Tenant, &set); err != nil {
			return nil, err
		}
		d := &writer.Draft{Event: ev, Body: &turns.ChangedBody{Label: label, Settings: set}}
		if label == was {
			return d, nil
		}
		l, release, err := ss.HoldLabel(ctx, c, label, s.ID)
		if err != nil {
			return nil, err
		}
		d.Release = release
		if err := l.Claim(ctx, s.ID); err != nil {
			release()
			return nil, err
		}
		d.Claimed = true
		return d, nil
	})
	if req.Label != nil {
		err = ss.FinishResetOnConflict(ctx, c, *req.Label, err)
	}
	return ss.sessionAfter(ctx, c, id, err)
}

// CloseSession is session.close.
func (ss *Sessions) CloseSession(ctx context.Context, c reader.Caller, id turns.ID, req api.CloseSession, canonical []byte) (*api.Session, error) {
	if err := page.CheckText("/cause", req.Cause, ss.page.TextBytes()); err != nil {
		return nil, err
	}
	r := writer.Request{ID: req.ID, Verb: "session.close", Canonical: canonical}
	err := ss.writer.Mutate(request.Ending(ctx), c, id, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
		ev, done, err := ss.writer.BeginEvent(s, r, turns.KindState)
		if s.State == turns.Closed && errors.Is(err, ledger.ErrClosed) {
			return nil, nil // closed already
		}
		if done || err != nil {
			return nil, err
		}
		ev.State = turns.Closed
		return &writer.Draft{Event: ev, Body: &turns.StateBody{Cause: req.Cause}}, nil
	})
	return ss.sessionAfter(ctx, c, id, err)
}

// Move is session.move. It moves the head to a turn that the session has or
// inherits. It deletes nothing, and the head can move forward again.
func (ss *Sessions) Move(ctx context.Context, c reader.Caller, id turns.ID, req api.MoveSession, canonical []byte) (*api.Session, error) {
	if err := page.CheckText("/note", req.Note, ss.page.TextBytes()); err != nil {
		return nil, err
	}
	r := writer.Request{ID: req.ID, Verb: "session.move", Canonical: canonical}
	err := ss.writer.Mutate(ctx, c, id, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
		ev, done, err := ss.writer.BeginEvent(s, r, turns.KindMoved)
		if done || err != nil {
			return nil, err
		}
		if !req.IfHead.IsZero() && req.IfHead != s.Head.Turn {
			return nil, writer.HeadMoved(s, "the head is not "+req.IfHead.String())
		}
		if req.To != nil {
			t, err := ss.reader.FindTurn(s, *req.To)
			if err != nil {
				return nil, err
			}
			ev.To = t.Ref
		} else if s.ForkOf != nil {
			return nil, api.FieldErrorf("/to", "a fork can't go before its inherited turns; name a turn")
		}
		if ev.To == s.Head && req.ID.IsZero() {
			return nil, writer.ErrUnchanged // with an id it is stored, since a late retry would move the head back
		}
		return &writer.Draft{Event: ev, Body: &turns.MovedBody{Note: req.Note}}, nil
	})
	return ss.sessionAfter(ctx, c, id, err)
}

// sessionAfter returns the session after a mutation that ended with err.
func (ss *Sessions) sessionAfter(ctx context.Context, c reader.Caller, id turns.ID, err error) (*api.Session, error) {
	if err != nil {
		return nil, err
	}
	out, err := ss.reader.Get(ctx, c, id, api.Read{})
	return out, writer.AfterCommit(err)
}
