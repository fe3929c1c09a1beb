package daemon

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"nexus/projections"
	"nexus/turns"
	"nexus/turns/seal"
)

// namedKeys is how many sessions without a key the log names.
const namedKeys = 10

// checkEmptyKeys reports a store that has no key and no mark of one, of a ledger that has a sealed
// session: its log was cut in both copies behind a sound header. checkKeys sees two events only, and one of them may have no body.
func checkEmptyKeys(store *projections.Store, keys *seal.Store, own [16]byte) error {
	if have, destroyed := keys.IDs(); len(have)+len(destroyed) > 0 {
		return nil
	}
	for id, err := range sessionsWithoutKeys(store, keys, own) {
		if err != nil {
			return err
		}
		return fmt.Errorf("%w: keys/ has no key at all, and the ledger has sealed sessions, %s for one: the log of the keys was cut, or the folder belongs to another ledger. "+
			"Put the folder back, or the keys of a backup into it with nexusd keys", turns.ErrCorrupt, id)
	}
	return nil
}

// sessionsWithoutKeys yields the sessions that were sealed under a key that is missing or damaged. One that an
// import opened, and nothing else, may have no key yet: the same import brings it.
func sessionsWithoutKeys(store *projections.Store, keys seal.Keyring, own [16]byte) iter.Seq2[turns.ID, error] {
	return func(yield func(turns.ID, error) bool) {
		for id, err := range store.SessionIDs() {
			if err != nil {
				yield(turns.ID{}, err)
				return
			}
			if _, err := keys.Content(id); err == nil || errors.Is(err, turns.ErrErased) {
				continue
			}
			payload, err := store.EventAt(id, 0)
			if err != nil {
				continue // the projections judge it
			}
			s, err := store.Session(id)
			if err != nil || s.Tail.Index == 0 && s.Origin.Ledger != own {
				continue
			}
			if ev, err := turns.Decode(payload); err != nil || len(ev.Keys) == 0 {
				continue
			}
			if !yield(id, nil) {
				return
			}
		}
	}
}

// warnOfMissingKeys logs, in one line, which sessions can't be read since their key is missing or damaged.
func (d *Daemon) warnOfMissingKeys(ctx context.Context, keys seal.Keyring, own [16]byte) {
	n, first := 0, []string{}
	for id, err := range sessionsWithoutKeys(d.store, keys, own) {
		if err != nil || ctx.Err() != nil {
			return // the projections are damaged, which has its own line; or the daemon ends
		}
		if n++; n <= namedKeys {
			first = append(first, id.String())
		}
	}
	if n > 0 {
		d.logger.Warn("keys of sessions are missing or damaged: these sessions can't be read; put the keys back with nexusd keys", "sessions", n, "first", strings.Join(first, " "))
	}
}

// startKeyCheck looks for sessions without keys, beside the first requests.
func (d *Daemon) startKeyCheck(keys seal.Keyring, own [16]byte) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { d.warnOfMissingKeys(ctx, keys, own); close(done) }()
	d.opened(func(context.Context) error { cancel(); <-done; return nil })
}
