package policies

import (
	"context"
	"errors"
	"fmt"

	"nexus/cmd/internal/engine/reader"
	"nexus/compactor/policy"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// Keep stores the content of the policy that ref names, unless it is stored. It stores
// nothing if neither the ledger nor this build has that content: the session that
// names it stays as it is.
func (ps *Policies) Keep(ctx context.Context, c reader.Caller, ref turns.PolicyRef) error {
	if stored, err := ps.reader.IsStored(c.Tenant, ref.Digest); stored || err != nil {
		return err
	}
	p, err := ps.reader.ResolvePolicy(ctx, c.Tenant, ref)
	if errors.Is(err, turns.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	return ps.Store(ctx, c, p)
}

// Store stores the content of a policy on the chain of the caller's tenant, unless it
// is stored. The usual case is one look-up in memory.
//
// A chain that is set aside takes no more events. Then Store stores nothing and
// returns nil, so that no session waits for a repair; builds that have the policy
// know it.
//
// Errors: [ledger.ErrTooLarge] if the tenant has [Policies.MaxPolicies], or the caller
// has stored [Policies.MaxPerAgent] of them.
//
// Crash states: after the append, a policy that no session names. The next try finds
// it.
func (ps *Policies) Store(ctx context.Context, c reader.Caller, p policy.Policy) error {
	digest := p.Digest()
	if stored, err := ps.reader.IsStored(c.Tenant, digest); stored || err != nil {
		return err
	}
	err := ps.append(ctx, c, func() (*turns.Event, *policy.Policy, error) {
		if stored, err := ps.reader.IsStored(c.Tenant, digest); stored || err != nil {
			return nil, nil, err
		}
		id, err := ps.writer.NewID(turns.ID{})
		if err != nil {
			return nil, nil, err
		}
		return &turns.Event{ID: id, Policy: &turns.StoredPolicy{Digest: digest}}, &p, nil
	})
	if errors.Is(err, errAside) {
		return nil
	}
	return err
}

// errAside: the tenant's chain is set aside.
var errAside = errors.New("the chain is set aside")

// append calls decide when the projections have applied the tenant's chain, and
// appends the event that decide drafts, expecting that tail. If another writer was
// faster, it decides again. If decide returns no event, append stores nothing.
func (ps *Policies) append(ctx context.Context, c reader.Caller, decide func() (*turns.Event, *policy.Policy, error)) error {
	select {
	case <-ps.turn:
		defer func() { ps.turn <- struct{}{} }()
	case <-ctx.Done():
		return fmt.Errorf("%w: waited to store a policy: %w", ledger.ErrUnavailable, ctx.Err())
	}
	if _, err := ps.content.LedgerKey(); err != nil {
		return err
	}
	subject, chain := reader.PolicySubject(c.Tenant)
	for {
		tail, err := ps.reader.CatchUpPolicies(ctx, c.Tenant)
		if errors.Is(err, ledger.ErrCorrupt) {
			return fmt.Errorf("%w: %w", errAside, err)
		}
		if err != nil {
			return err
		}
		ev, p, err := decide()
		if err != nil || ev == nil {
			return err
		}
		if !isBuiltin(p) {
			if err := ps.checkRoom(c, tail.Stored); err != nil {
				return err
			}
		}
		ev.Version, ev.Kind, ev.Chain, ev.Index, ev.Prev = turns.Version, turns.KindPolicy, chain, tail.Stored, tail.Tail.Hash
		ev.Recorded, ev.Actor = ps.reader.Now().UnixNano(), c.Actor()
		body := &turns.PolicyBody{Name: p.Name, Version: p.Version, Content: p.Bytes()}
		payload, err := ps.content.Seal(ctx, c.Tenant, turns.ID{}, ev, body, []turns.ID{turns.ID(ps.content.Ledger)})
		if err != nil {
			return err
		}
		next, err := ps.writer.Admit(ctx, ps.reader.Projections.History(), subject, tail.Tail.Seq, ev, payload)
		if err == nil {
			_, err = ps.writer.AppendAdmitted(ctx, next)
		}
		switch {
		case err == nil:
			ps.reader.MarkStored(c.Tenant, *p) // the projections may be behind, and nothing waits for them
			return nil
		case !errors.Is(err, ledger.ErrConflict):
			return ps.writer.InternalError(ev, err)
		case ctx.Err() != nil:
			return fmt.Errorf("%w: the policies kept changing: %w", ledger.ErrUnavailable, ctx.Err())
		}
		ps.writer.Metrics.Conflict()
	}
}

// checkRoom checks that the caller may store one more policy on a tenant's chain, which
// has stored events. The projections have applied the chain.
func (ps *Policies) checkRoom(c reader.Caller, stored uint64) error {
	const advice = "use one of them, or a built-in policy without overrides"
	if stored >= ps.MaxPolicies {
		return api.Errorf(api.TooLarge, map[string]any{"limit": ps.MaxPolicies},
			"tenant %s has %d policies stored, the limit is %d; %s", c.Tenant, stored, ps.MaxPolicies, advice)
	}
	if c.Operator() {
		return nil
	}
	n, err := ps.reader.Projections.PoliciesBy(c.Tenant, c.Actor())
	if err != nil {
		return err
	}
	if n >= ps.MaxPerAgent {
		return api.Errorf(api.TooLarge, map[string]any{"limit": ps.MaxPerAgent},
			"agent %s has stored %d policies, the limit of an agent is %d; %s", c.Agent, n, ps.MaxPerAgent, advice)
	}
	return nil
}

// isBuiltin reports whether p is a policy of this build without overrides.
func isBuiltin(p *policy.Policy) bool {
	b, ok := policy.Builtin(p.Name)
	return ok && b.Digest() == p.Digest()
}
