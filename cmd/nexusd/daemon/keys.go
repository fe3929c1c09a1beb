package daemon

import (
	"context"
	"errors"
	"fmt"

	"nexus/ledger"
	"nexus/turns"
	"nexus/turns/seal"
)

// checkKeys reports a folder of content keys that is not the ledger's: it holds
// none of the keys under which the first or the last sealed event was stored. A
// daemon that starts without its keys acknowledges turns under new ones, and gives
// labels away that sessions have.
//
// It looks at two events only. A folder that lacks some keys is found by
// audit.verify. A key that was destroyed is no fault: its session was erased.
func checkKeys(ctx context.Context, log ledger.Log, keys seal.Keyring) error {
	st, err := log.State(ctx)
	if err != nil || st.Last == 0 {
		return err
	}
	for _, seq := range []uint64{1, st.Last} {
		r, err := log.Get(ctx, seq)
		if err != nil {
			return err
		}
		ev, err := turns.Decode(r.Payload)
		if err != nil {
			continue // the projections judge it
		}
		for _, id := range ev.Keys {
			if _, err := keys.Key(id); errors.Is(err, seal.ErrNoKey) {
				return fmt.Errorf("%w: keys/ has no key of event %s at position %d: the folder is missing, or belongs to another ledger. "+
					"Copy the files of a backup's keys/ into it, and remove none that is there", turns.ErrCorrupt, ev.ID, seq)
			}
		}
	}
	return nil
}
