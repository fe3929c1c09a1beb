package daemon

import (
	"context"
	"errors"
	"fmt"

	"nexus/ledger"
	"nexus/projections"
	"nexus/turns"
	"nexus/turns/seal"
)

// checkKeys reports a folder of content keys that is not the ledger's: it holds
// none of the keys under which the first or the last sealed event was stored. A
// daemon that starts without its keys acknowledges turns under new ones, and gives
// labels away that sessions have.
//
// It looks at the two ends of the log only. A folder that lacks some keys is found by
// audit.verify. A key that was destroyed is no fault: its session was erased.
//
// An import stores the key of a session after the session's first event, and a crash
// between the two is no fault either: the same import brings the key again. So the
// opening of a session says nothing if its key is missing, and the next event decides.
// An opening of this ledger (own) that no event speaks for is a fault.
func checkKeys(ctx context.Context, log ledger.Log, keys seal.Keyring, own [16]byte) error {
	st, err := log.State(ctx)
	if err != nil || st.Last == 0 {
		return err
	}
	for _, step := range []uint64{1, ^uint64(0)} { // up from the first, down from the last
		seq, missing := uint64(1), error(nil)
		if step != 1 {
			seq = st.Last
		}
		for ; seq >= 1 && seq <= st.Last; seq += step {
			r, err := log.Get(ctx, seq)
			if err != nil {
				return err
			}
			ev, err := turns.Decode(r.Payload)
			if err != nil {
				break // the projections judge it
			}
			fault := missingKey(keys, ev, seq)
			if fault == nil {
				missing = nil
				break
			}
			if ev.Kind != turns.KindOpened {
				return fault
			}
			if missing == nil && (ev.Origin == nil || ev.Origin.Ledger == own) {
				missing = fault
			}
		}
		if missing != nil {
			return missing
		}
	}
	return nil
}

// warnOfKeys logs what was wrong with the files of keys, and was made good.
func (d *Daemon) warnOfKeys(err error) { d.logger.Warn("keys", "err", err) }

// copies is a log of which single records are read from their copies in the projections. The
// server would load a block of 8 MiB for each.
type copies struct {
	ledger.Log
	store *projections.Store
}

// Get returns the record as the log has it if there is no copy.
func (c copies) Get(ctx context.Context, seq uint64) (ledger.Record, error) {
	if r, err := c.store.Record(seq); err == nil {
		return r, nil
	}
	return c.Log.Get(ctx, seq)
}

// missingKey returns an error if a key of an event at a position is not there.
func missingKey(keys seal.Keyring, ev *turns.Event, seq uint64) error {
	for _, id := range ev.Keys {
		if _, err := keys.Content(id); errors.Is(err, seal.ErrNoKey) {
			return fmt.Errorf("%w: keys/ has no key of event %s at position %d: the folder is missing, or belongs to another ledger. "+
				"Put the folder back, or the keys of a backup into it with nexusd keys", turns.ErrCorrupt, ev.ID, seq)
		}
	}
	return nil
}

// isSealed reports whether the first or the last event of the log is sealed.
func isSealed(ctx context.Context, log ledger.Log) (bool, error) {
	st, err := log.State(ctx)
	if err != nil || st.Last == 0 {
		return false, err
	}
	for _, seq := range []uint64{1, st.Last} {
		r, err := log.Get(ctx, seq)
		if err != nil {
			return false, err
		}
		if ev, err := turns.Decode(r.Payload); err == nil && len(ev.Keys) > 0 {
			return true, nil
		} // one that can't be decoded is for the projections to judge
	}
	return false, nil
}
