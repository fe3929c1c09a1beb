package policies

import (
	"context"
	"fmt"

	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
	"nexus/compactor/policy"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// PutPolicy serves policy.put: it stores the next version of a policy of the caller's
// own. The settings of the newest version make no version. If the request has an id,
// an event without a name stores that answer: a late retry would put the settings again.
//
// Crash states: after the append, the version or the answer; a retry with the same id
// finds it.
func (ps *Policies) PutPolicy(ctx context.Context, c reader.Caller, req api.PutPolicy, canonical []byte) (*api.PolicyInfo, error) {
	if c.Operator() {
		return nil, &api.Error{Code: api.Denied, Message: "the operator reads all agents and changes nothing; name an agent"}
	}
	if !turns.ValidName(req.Name) {
		return nil, api.FieldErrorf("/name", "%.80q is not a name: a to z, 0 to 9 and -, at most 64 characters", req.Name)
	}
	if _, builtin := policy.Builtin(req.Name); builtin {
		return nil, api.FieldErrorf("/name", "%s is a built-in policy; take another name", req.Name)
	}
	name, err := ps.reader.PolicyNameDigest(c.Tenant, req.Name)
	if err != nil {
		return nil, err
	}
	digest := writer.Request{Verb: "policy.put", Canonical: canonical}.Digest()
	var p policy.Policy
	var duplicate bool
	err = ps.append(ctx, c, func() (*turns.Event, *policy.Policy, error) {
		if stored, err := ps.storedPut(c, req.ID, digest); stored != nil || err != nil {
			if err == nil {
				p, duplicate = *stored, true
			}
			return nil, nil, err
		}
		n, err := ps.reader.Projections.PolicyName(c.Tenant, name)
		if err != nil {
			return nil, nil, err
		}
		if n.Version > 0 && n.Agent != c.Agent {
			return nil, nil, &api.Error{Code: api.Denied, Message: fmt.Sprintf("agent %s put policy %s first, and puts its versions; take another name", n.Agent, req.Name)}
		}
		id, err := ps.writer.NewID(req.ID)
		if err != nil {
			return nil, nil, err
		}
		if n.Version > 0 {
			if p, err = policy.Parse(req.Name, n.Version, req.Settings); err != nil {
				return nil, nil, err
			}
			ev, _, err := ps.reader.PolicyAt(n.Seq)
			if err != nil {
				return nil, nil, err
			}
			if duplicate = p.Digest() == ev.Policy.Digest; duplicate && req.ID.IsZero() {
				return nil, nil, nil
			}
			if duplicate {
				return &turns.Event{ID: id, Digest: digest, Policy: &turns.StoredPolicy{Digest: p.Digest()}}, &p, nil
			}
		}
		if n.Version >= ps.MaxVersions {
			return nil, nil, api.Errorf(api.TooLarge, map[string]any{"limit": ps.MaxVersions}, "policy %s has %d versions, the limit is %d; take another name", req.Name, n.Version, ps.MaxVersions)
		}
		if p, err = policy.Parse(req.Name, n.Version+1, req.Settings); err != nil {
			return nil, nil, err
		}
		if most := ps.page.ItemBytes() / 2; len(p.Bytes()) > most {
			return nil, nil, &turns.FieldError{Field: "/settings", Reason: fmt.Sprintf("%d bytes, a reply here holds %d of a policy", len(p.Bytes()), most), Kind: ledger.ErrTooLarge}
		}
		return &turns.Event{ID: id, Digest: digest, Agent: c.Agent, Policy: &turns.StoredPolicy{Digest: p.Digest(), Name: name, Version: n.Version + 1}}, &p, nil
	})
	if err != nil {
		return nil, err
	}
	out := infoOf(p)
	out.Agent, out.Duplicate = c.Agent, duplicate
	return out, nil
}

// storedPut returns the policy of the answer that an earlier try of the same request
// stored, nil if the id is new.
func (ps *Policies) storedPut(c reader.Caller, id turns.ID, digest turns.Hash) (*policy.Policy, error) {
	if id.IsZero() {
		return nil, nil
	}
	seq, ok, err := ps.reader.Projections.PolicyEvent(c.Tenant, id)
	if err != nil || !ok {
		return nil, err
	}
	ev, body, err := ps.reader.PolicyAt(seq)
	if err != nil {
		return nil, err
	}
	same, err := ps.content.SameRequest(ev, digest)
	if err != nil {
		return nil, err
	}
	if !same || ev.Actor != c.Actor() {
		return nil, &api.Error{Code: api.IDReused, Message: fmt.Sprintf("id %s is stored with another request", id)}
	}
	p, err := reader.CheckPolicy(ev.Policy.Digest, body)
	return &p, err
}
