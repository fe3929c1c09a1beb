package reader

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"nexus/compactor/policy"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// The content of a policy is stored on its tenant's chain before the first event
// that names its digest. So a session's policy is known to every later build,
// whatever that build's own policies are.

// policyKey names the content of a policy on a tenant's chain.
type policyKey struct {
	tenant string
	digest turns.Hash
}

type cachedPolicy struct {
	policy.Policy
	stored bool // on the tenant's chain
}

// cachedBytes is about the size of a policy in memory, without its texts.
const cachedBytes = 1 << 10

// cachePolicy keeps a policy within the budget of memory.
func (rd *Reader) cachePolicy(k policyKey, p policy.Policy, stored bool) {
	size := cachedBytes
	for _, s := range []string{p.Frame, p.Notice, p.TemplateText, p.Elide.Nudge, p.Elide.NudgeNotice, p.Flush.Prompt} {
		size += len(s)
	}
	rd.policies.Put(k, cachedPolicy{p, stored}, size)
}

// ResolvePolicy returns the policy that ref names in a tenant. If ref has a digest,
// that is the stored content with the digest, else the built-in policy with it. If ref
// has none, that is the newest version that an agent put under the name, else the
// built-in policy, with ref's overrides.
//
// It reads the projections. The policy that an event names is stored before the event,
// so a caller that has read the event finds it. For a name from a request use
// [Reader.FindPolicy].
//
// Errors: those of [policy.Resolve].
func (rd *Reader) ResolvePolicy(ctx context.Context, tenant string, ref turns.PolicyRef) (policy.Policy, error) {
	if ref.Digest.IsZero() {
		return rd.resolveNewest(tenant, ref)
	}
	k := policyKey{tenant, ref.Digest}
	if p, ok := rd.policies.Get(k); ok && p.Name == ref.Name {
		return p.Policy, nil
	}
	p, ok, err := rd.StoredPolicy(tenant, ref.Digest)
	if ok && p.Name == ref.Name {
		rd.cachePolicy(k, p, true)
		return p, nil
	}
	// This build may have a policy whose stored content can't be read.
	builtin, berr := policy.Resolve(ref)
	if berr == nil {
		rd.cachePolicy(k, builtin, false)
		return builtin, nil
	}
	if err != nil {
		return policy.Policy{}, err
	}
	if p, ok, err := rd.overriddenVersion(ctx, tenant, ref); ok || err != nil {
		if ok {
			rd.cachePolicy(k, p, false)
		}
		return p, err
	}
	return policy.Policy{}, fmt.Errorf("%w: policy %.64q with digest %v: neither this ledger nor this build has it", turns.ErrUnsupported, ref.Name, ref.Digest)
}

// resolveNewest returns the policy that ref names without a digest. It keeps the policy
// in memory: the caller's next step is to look it up by its digest.
func (rd *Reader) resolveNewest(tenant string, ref turns.PolicyRef) (policy.Policy, error) {
	p, ok, err := rd.newestVersion(tenant, ref.Name)
	switch {
	case err != nil:
		return policy.Policy{}, err
	case !ok:
		return policy.Resolve(ref)
	case ref.Set == nil:
		return p, nil
	}
	if p, err = p.With(ref.Set); err != nil {
		return p, err
	}
	k := policyKey{tenant, p.Digest()}
	if _, known := rd.policies.Get(k); !known {
		rd.cachePolicy(k, p, false)
	}
	return p, nil
}

// FindPolicy is [Reader.ResolvePolicy] for what a request names: before it says
// that a policy is not there, and for the newest version of one that an agent put,
// the projections have passed the end of the tenant's chain.
func (rd *Reader) FindPolicy(ctx context.Context, tenant string, ref turns.PolicyRef) (policy.Policy, error) {
	if _, builtin := policy.Builtin(ref.Name); builtin || !ref.Digest.IsZero() {
		p, err := rd.ResolvePolicy(ctx, tenant, ref)
		if err == nil || (builtin && ref.Digest.IsZero()) {
			return p, err
		}
	}
	if _, err := rd.CatchUpPolicies(ctx, tenant); err != nil && !errors.Is(err, ledger.ErrCorrupt) {
		return policy.Policy{}, err
	}
	return rd.ResolvePolicy(ctx, tenant, ref)
}

// FindPolicyContent returns the policy with a digest, whatever its name.
//
// Errors: [ledger.ErrNotFound] if neither the ledger nor this build has it; those of
// [Reader.StoredPolicy].
func (rd *Reader) FindPolicyContent(ctx context.Context, tenant string, digest turns.Hash) (policy.Policy, error) {
	for _, name := range policy.Names() {
		if p, _ := policy.Builtin(name); p.Digest() == digest {
			return p, nil
		}
	}
	if _, err := rd.CatchUpPolicies(ctx, tenant); err != nil && !errors.Is(err, ledger.ErrCorrupt) {
		return policy.Policy{}, err
	}
	p, ok, err := rd.StoredPolicy(tenant, digest)
	if err == nil && !ok {
		err = api.Errorf(api.NotFound, nil, "no policy has the digest %v", digest)
	}
	return p, err
}

// FindPolicyVersion returns a version of a name, with overrides: one that an agent put,
// or the built-in policy.
//
// Errors: [ledger.ErrNotFound] if the name has no such version; those of
// [Reader.FindPolicy].
func (rd *Reader) FindPolicyVersion(ctx context.Context, tenant, name string, version uint64, set turns.Raw) (policy.Policy, error) {
	newest, err := rd.FindPolicy(ctx, tenant, turns.PolicyRef{Name: name})
	if err != nil {
		return newest, err
	}
	if version > newest.Version {
		return newest, api.Errorf(api.NotFound, nil, "policy %s has no version %d; its newest is %d", name, version, newest.Version)
	}
	if version == newest.Version {
		return newest.With(set)
	}
	digest, err := rd.PolicyNameDigest(tenant, name)
	if err != nil {
		return newest, err
	}
	seqs, err := rd.Projections.PolicyVersions(tenant, digest, version)
	if err != nil {
		return newest, err
	}
	if len(seqs) == 0 { // an older version of a built-in policy
		return newest, api.Errorf(api.NotFound, nil, "policy %s version %d is not here; its newest is %d", name, version, newest.Version)
	}
	p, err := rd.versionAt(tenant, seqs[0])
	if err != nil {
		return p, err
	}
	return p.With(set)
}

// IsStored reports whether the projections have the content with a digest of the
// tenant's chain.
func (rd *Reader) IsStored(tenant string, digest turns.Hash) (bool, error) {
	k := policyKey{tenant, digest}
	p, known := rd.policies.Get(k)
	if known && p.stored {
		return true, nil
	}
	_, ok, err := rd.Projections.PolicyContent(tenant, digest)
	if ok && known {
		rd.cachePolicy(k, p.Policy, true)
	}
	return ok, err
}

// MarkStored notes that a policy is on the tenant's chain now.
func (rd *Reader) MarkStored(tenant string, p policy.Policy) {
	rd.cachePolicy(policyKey{tenant, p.Digest()}, p, true)
}

// StoredPolicy returns the policy with a digest on the tenant's chain. ok is false if
// there is none. Content that this build can't read is [turns.ErrUnsupported].
func (rd *Reader) StoredPolicy(tenant string, digest turns.Hash) (p policy.Policy, ok bool, err error) {
	seq, ok, err := rd.Projections.PolicyContent(tenant, digest)
	if err != nil || !ok {
		return p, false, err
	}
	_, body, err := rd.PolicyAt(seq)
	if err == nil {
		p, err = CheckPolicy(digest, body)
	}
	return p, err == nil, err
}

// PolicyAt returns the policy event at a position of the log, and its body.
//
// Errors: [ledger.ErrCorrupt] if the ledger's key is missing or is another one,
// [turns.ErrErased] if it is destroyed.
func (rd *Reader) PolicyAt(seq uint64) (*turns.Event, *turns.PolicyBody, error) {
	r, err := rd.Projections.Record(seq)
	if err != nil {
		return nil, nil, err
	}
	ev, err := turns.Decode(r.Payload)
	if err != nil {
		return nil, nil, err
	}
	body, err := rd.openPolicy(ev)
	return ev, body, err
}

// openPolicy opens the body of a policy event. Errors: those of [Reader.PolicyAt].
func (rd *Reader) openPolicy(ev *turns.Event) (*turns.PolicyBody, error) {
	body := new(turns.PolicyBody)
	err := rd.content.Open(ev, body)
	if errors.Is(err, seal.ErrNoKey) {
		err = fmt.Errorf("%w: the ledger's own key is missing: %w", ledger.ErrCorrupt, err)
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}

// CheckPolicy decodes the policy in a body, and compares it with its digest.
//
// Errors: [ledger.ErrCorrupt] if the content has another digest, name or version;
// [turns.ErrUnsupported] if this build can't read it.
func CheckPolicy(digest turns.Hash, b *turns.PolicyBody) (policy.Policy, error) {
	if got := policy.DigestOf(b.Content); got != digest {
		return policy.Policy{}, fmt.Errorf("%w: a policy has digest %v, its event says %v", ledger.ErrCorrupt, got, digest)
	}
	p, err := policy.Decode(b.Content)
	if err != nil {
		return p, fmt.Errorf("%w: the policy with digest %v can't be read by this build: %v", turns.ErrUnsupported, digest, err)
	}
	if p.Name != b.Name || p.Version != b.Version {
		return p, fmt.Errorf("%w: the policy with digest %v is version %d of %q, its event says version %d of %q", ledger.ErrCorrupt, digest, p.Version, p.Name, b.Version, b.Name)
	}
	return p, nil
}

// PolicyNameDigest returns the keyed digest under which a policy's name is stored.
func (rd *Reader) PolicyNameDigest(tenant, name string) (turns.Hash, error) {
	k, err := rd.content.LedgerKey()
	return seal.PolicyName(k, tenant, name), err
}

// newestVersion returns the newest version that an agent put under a name. ok is false
// if there is none.
func (rd *Reader) newestVersion(tenant, name string) (p policy.Policy, ok bool, err error) {
	if !turns.ValidName(name) {
		return p, false, nil
	}
	digest, err := rd.PolicyNameDigest(tenant, name)
	if err != nil {
		return p, false, err
	}
	n, err := rd.Projections.PolicyName(tenant, digest)
	if err != nil || n.Version == 0 {
		return p, false, err
	}
	p, err = rd.versionAt(tenant, n.Seq)
	return p, err == nil, err
}

// versionAt returns the version that the policy event at a position holds.
func (rd *Reader) versionAt(tenant string, seq uint64) (policy.Policy, error) {
	r, err := rd.Projections.Record(seq)
	if err != nil {
		return policy.Policy{}, err
	}
	ev, err := turns.Decode(r.Payload)
	if err != nil {
		return policy.Policy{}, err
	}
	k := policyKey{tenant, ev.Policy.Digest}
	if p, ok := rd.policies.Get(k); ok {
		return p.Policy, nil
	}
	body, err := rd.openPolicy(ev)
	if err != nil {
		return policy.Policy{}, err
	}
	p, err := CheckPolicy(k.digest, body)
	if err == nil {
		rd.cachePolicy(k, p, true)
	}
	return p, err
}

// searchedVersions is how many versions of a name, the newest ones, a digest of
// overrides is looked for in. A request opens no more, however many there are.
const searchedVersions = 16

// search is a look for a digest of overrides among the newest versions of a name.
type search struct {
	policyKey
	name    turns.Hash
	version uint64 // the newest
	set     [sha256.Size]byte
}

// searchBytes is about the size of a search in memory.
const searchBytes = 256

// overriddenVersion returns the stored version that has ref's digest together with
// ref's overrides, if it is among the newest [searchedVersions] of its name. The recipe
// of a view names such a policy, and a view stores nothing. A search that finds nothing
// is not made again until the name has another version.
func (rd *Reader) overriddenVersion(ctx context.Context, tenant string, ref turns.PolicyRef) (policy.Policy, bool, error) {
	if ref.Set == nil || !turns.ValidName(ref.Name) {
		return policy.Policy{}, false, nil
	}
	name, err := rd.PolicyNameDigest(tenant, ref.Name)
	if err != nil {
		return policy.Policy{}, false, err
	}
	n, err := rd.Projections.PolicyName(tenant, name)
	if err != nil || n.Version == 0 {
		return policy.Policy{}, false, err
	}
	sought := search{policyKey{tenant, ref.Digest}, name, n.Version, sha256.Sum256(ref.Set)}
	if _, known := rd.searches.Get(sought); known {
		return policy.Policy{}, false, nil
	}
	oldest := uint64(1)
	if n.Version > searchedVersions {
		oldest = n.Version - searchedVersions + 1
	}
	seqs, err := rd.Projections.PolicyVersions(tenant, name, oldest)
	if err != nil {
		return policy.Policy{}, false, err
	}
	readable := true
	for _, seq := range slices.Backward(seqs) { // a recipe names a recent version
		if ctx.Err() != nil {
			return policy.Policy{}, false, fmt.Errorf("%w: look for the version of policy %s with digest %v: %w", ledger.ErrUnavailable, ref.Name, ref.Digest, ctx.Err())
		}
		p, err := rd.versionAt(tenant, seq)
		if err != nil {
			readable = false
			continue
		}
		if p, err = p.With(ref.Set); err == nil && p.Digest() == ref.Digest {
			return p, true, nil
		}
	}
	if readable {
		rd.searches.Put(sought, struct{}{}, searchBytes)
	}
	return policy.Policy{}, false, nil
}

// PolicySubject returns the subject and the name of a tenant's chain.
func PolicySubject(tenant string) (string, turns.Chain) {
	c := turns.Chain{Entity: turns.TenantEntity, ID: tenant}
	return ledger.Subject(tenant, tenant, c), c
}

// CatchUpPolicies waits until the projections have applied the tenant's chain, and
// returns its fold. A chain that is set aside is [ledger.ErrCorrupt].
func (rd *Reader) CatchUpPolicies(ctx context.Context, tenant string) (ledger.Policies, error) {
	subject, _ := PolicySubject(tenant)
	had, err := rd.Projections.Policies(tenant)
	if err != nil {
		return had, err
	}
	last, err := rd.CatchUpChain(ctx, subject, "the policies of tenant "+tenant, had.Tail.Seq > 0)
	if err != nil || last == 0 {
		return ledger.Policies{}, err
	}
	p, err := rd.Projections.Policies(tenant)
	if err == nil && p.Tail.Seq < last {
		why, _ := rd.Projections.WhyAside(subject)
		err = fmt.Errorf("%w: policies of tenant %s can't be stored here: %s", ledger.ErrCorrupt, tenant, why)
	}
	return p, err
}
