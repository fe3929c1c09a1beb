package db

import (
	"fmt"
	"iter"

	"nexus/ledger"
	"nexus/projections/rows"
)

// Checkpoint returns how far rows follow the log, zero if there are none.
func Checkpoint(r Reader) (cp rows.Checkpoint, err error) {
	b, ok, err := Get(r, rows.Checkpoints.Key())
	if err != nil || !ok {
		return cp, err
	}
	if err := rows.Decode(b, &cp); err != nil {
		return cp, fmt.Errorf("%w: checkpoint of the projections: %v", ledger.ErrCorrupt, err)
	}
	return cp, nil
}

// AllAside yields the chains that were set aside, by subject.
func AllAside(r Reader) iter.Seq2[rows.AsideChain, error] {
	return func(yield func(rows.AsideChain, error) bool) {
		all := rows.AsideChains.Key()
		for p, err := range Scan(r, all, rows.End(all)) {
			a, ok := rows.AsideChain{}, false
			if err == nil {
				a, ok = rows.DecodeAside(p.Key, p.Value)
			}
			if !ok {
				yield(a, err)
				return
			}
			if !yield(a, nil) {
				return
			}
		}
	}
}
