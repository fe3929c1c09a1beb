package policies

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/compactor/policy"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// ListPolicies serves policy.list: the newest version of each policy that a session
// can name, the built-in ones first.
func (ps *Policies) ListPolicies(ctx context.Context, c reader.Caller, req api.ListPolicies) (*api.PolicyList, error) {
	limit, err := req.LimitOf(100, 1000)
	if err != nil {
		return nil, err
	}
	if _, err := ps.reader.CatchUpPolicies(ctx, c.Tenant); err != nil && !errors.Is(err, ledger.ErrCorrupt) {
		return nil, err
	}
	builtins := policy.Names()
	first, after, err := placeAfter(req.After, builtins)
	if err != nil {
		return nil, err
	}
	out := &api.PolicyList{Policies: []api.PolicyInfo{}}
	next := req.After
	for _, name := range builtins[first:] {
		if len(out.Policies) == limit {
			out.Next = next
			return out, nil
		}
		p, _ := policy.Builtin(name)
		v := infoOf(p)
		v.Settings = nil
		out.Policies, next = append(out.Policies, *v), name
	}
	size := 0
	for n, err := range ps.reader.Projections.PolicyNames(c.Tenant, after) {
		if err != nil {
			return nil, err
		}
		if len(out.Policies) >= limit || size > ps.page.PageBytes() {
			out.Next = next
			break
		}
		next = hex.EncodeToString(n.Name[:])
		v, err := ps.listed(n.PolicyName)
		if errors.Is(err, turns.ErrErased) || errors.Is(err, ledger.ErrCorrupt) {
			continue // its name is sealed too; the verification names the event
		}
		if err != nil {
			return nil, err
		}
		b, err := page.EncodedSize(v)
		if err != nil {
			return nil, err
		}
		out.Policies, size = append(out.Policies, *v), size+b
	}
	return out, nil
}

// placeAfter returns how many of the built-in policies come before a page, and the digest of the last name before it of
// those that were put. The next of a page is the name of its last policy if that is built in, else the digest of the name.
func placeAfter(next string, builtins []string) (first int, after turns.Hash, err error) {
	if next == "" {
		return 0, after, nil
	}
	if i := slices.Index(builtins, next); i >= 0 {
		return i + 1, after, nil
	}
	if len(next) != hex.EncodedLen(len(after)) {
		return 0, after, api.FieldErrorf("/after", "not the next of a page")
	}
	if _, err := hex.Decode(after[:], []byte(next)); err != nil {
		return 0, turns.Hash{}, api.FieldErrorf("/after", "not the next of a page")
	}
	return len(builtins), after, nil
}

// listed returns the newest version of a name, as a list shows it. It has no mode if
// this build can't read the content.
func (ps *Policies) listed(n ledger.PolicyName) (*api.PolicyInfo, error) {
	ev, body, err := ps.reader.PolicyAt(n.Seq)
	if err != nil {
		return nil, err
	}
	v := &api.PolicyInfo{Name: body.Name, Version: n.Version, Digest: ev.Policy.Digest, Agent: n.Agent}
	if p, err := reader.CheckPolicy(ev.Policy.Digest, body); err == nil {
		v.Mode = string(p.Mode)
	}
	return v, nil
}

// GetPolicy serves policy.get: a policy with every number in force, by its name, with
// overrides, or in the version that a digest or a number pins.
func (ps *Policies) GetPolicy(ctx context.Context, c reader.Caller, req api.GetPolicy) (*api.PolicyInfo, error) {
	p, err := ps.find(ctx, c, req)
	if fe := (*turns.FieldError)(nil); errors.As(err, &fe) && fe.Field == "/policy/name" {
		// Where a policy is named to be used, an unknown name is a fault of that field. Here it is what is asked for.
		return nil, api.Errorf(api.NotFound, map[string]any{"field": fe.Field}, "policy name: %s", fe.Reason)
	}
	if err != nil {
		return nil, err
	}
	if !req.Digest.IsZero() && req.Set != nil {
		with, err := p.With(req.Set)
		if err != nil {
			return nil, err
		}
		if with.Digest() != req.Digest {
			return nil, api.FieldErrorf("/set", "the policy with digest %v does not have these overrides", req.Digest)
		}
	}
	out := infoOf(p)
	out.Agent, err = ps.putBy(c.Tenant, p, req)
	return out, err
}

// find returns the policy that a request names.
func (ps *Policies) find(ctx context.Context, c reader.Caller, req api.GetPolicy) (policy.Policy, error) {
	switch {
	case req.Version > 0 && !req.Digest.IsZero():
		return policy.Policy{}, api.FieldErrorf("/version", "the digest names a version already")
	case req.Name != "" && req.Version > 0:
		return ps.reader.FindPolicyVersion(ctx, c.Tenant, req.Name, req.Version, req.Set)
	case req.Name != "":
		return ps.reader.FindPolicy(ctx, c.Tenant, turns.PolicyRef{Name: req.Name, Set: req.Set, Digest: req.Digest})
	case req.Digest.IsZero():
		return policy.Policy{}, api.FieldErrorf("/name", "missing: name a policy, or give its digest")
	}
	return ps.reader.FindPolicyContent(ctx, c.Tenant, req.Digest)
}

// putBy returns the agent that put a policy, or for a request without a digest the
// version that its overrides change. It returns "" if no agent put that content under
// the name: an import brings content under any name and version.
func (ps *Policies) putBy(tenant string, p policy.Policy, req api.GetPolicy) (string, error) {
	name, err := ps.reader.PolicyNameDigest(tenant, p.Name)
	if err != nil {
		return "", err
	}
	n, err := ps.reader.Projections.PolicyName(tenant, name)
	switch {
	case err != nil || req.Digest.IsZero():
		return n.Agent, err
	case p.Version > n.Version:
		return "", nil
	}
	seqs, err := ps.reader.Projections.PolicyVersions(tenant, name, p.Version)
	if err != nil || len(seqs) == 0 {
		return "", err
	}
	ev, _, err := ps.reader.PolicyAt(seqs[0])
	if err != nil || ev.Policy.Digest != p.Digest() {
		return "", err
	}
	return ev.Agent, nil
}

func infoOf(p policy.Policy) *api.PolicyInfo {
	return &api.PolicyInfo{Name: p.Name, Version: p.Version, Mode: string(p.Mode), Digest: p.Digest(), Settings: p.Bytes()}
}
