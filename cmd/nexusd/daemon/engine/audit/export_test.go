package audit

import (
	"context"

	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/ledger/api"
)

// Followed is what a verification found up to a position, whatever the
// projections lack.
type Followed struct {
	Turns     uint64
	Differing int // rows of the projections that differ from the log
	Broken    int // chains that could not be followed to their end
	Problems  []api.Problem
}

// Follow verifies the records up to last without waiting for the projections.
func (au *Audit) Follow(ctx context.Context, c reader.Caller, last uint64) (Followed, error) {
	v := au.newVerifier(c, last)
	err := v.read(ctx, last)
	return Followed{v.out.Turns, len(v.differing), len(v.broken), v.out.Problems}, err
}
