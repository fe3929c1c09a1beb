package projections

import (
	"iter"
	"slices"

	"nexus/ledger"
	"nexus/projections/apply"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Policies returns the fold of a tenant's chain, zero if the chain is empty.
func (s *Store) Policies(tenant string) (ledger.Policies, error) { return s.view().Policies(tenant) }

// PoliciesBy returns how many events of a tenant's chain an actor stored.
func (s *Store) PoliciesBy(tenant, actor string) (uint64, error) {
	n, _, err := s.view().Number(rows.PoliciesBy.TextKey(tenant, actor))
	return n, err
}

// PolicyName returns the state of a policy's name, by its digest; zero if no agent put
// a policy under it.
func (s *Store) PolicyName(tenant string, name turns.Hash) (ledger.PolicyName, error) {
	return s.view().PolicyName(tenant, name)
}

// NamedPolicy is a name that policies were put under, by its digest.
type NamedPolicy struct {
	Name turns.Hash
	ledger.PolicyName
}

// PolicyNames yields the names of a tenant after the name after, in the order of their
// digests.
func (s *Store) PolicyNames(tenant string, after turns.Hash) iter.Seq2[NamedPolicy, error] {
	prefix := rows.PolicyNames.TextKey(tenant)
	lo := rows.PolicyNames.NameKey(tenant, after)
	if !after.IsZero() {
		lo = append(lo, 0)
	}
	return func(yield func(NamedPolicy, error) bool) {
		for k, err := range db.Scan(s.db(), lo, rows.End(prefix)) {
			var n NamedPolicy
			if err == nil {
				copy(n.Name[:], k.Key[len(prefix):])
				n.PolicyName, err = apply.DecodePolicyName(k.Value)
			}
			if !yield(n, err) || err != nil {
				return
			}
		}
	}
}

// PolicyContent returns the position of the first event with the content of a digest.
// ok is false if the tenant has none.
func (s *Store) PolicyContent(tenant string, digest turns.Hash) (seq uint64, ok bool, err error) {
	return s.view().Number(append(rows.PolicyContents.TextKey(tenant), digest[:]...))
}

// PolicyVersions returns the positions of the versions of a name from version from on,
// oldest first.
func (s *Store) PolicyVersions(tenant string, name turns.Hash, from uint64) (seqs []uint64, err error) {
	k := rows.PolicyVersions.NameKey(tenant, name)
	for e, err := range db.Scan(s.db(), rows.Number(slices.Clone(k), from), rows.End(k)) {
		if err != nil {
			return nil, err
		}
		seqs = append(seqs, rows.NumberAt(e.Value, 0))
	}
	return seqs, nil
}

// PolicyEvent returns the position of an event of a tenant's chain, by its id. ok is
// false if there is none.
func (s *Store) PolicyEvent(tenant string, event turns.ID) (seq uint64, ok bool, err error) {
	return s.view().Number(append(rows.PolicyEvents.TextKey(tenant), event[:]...))
}
