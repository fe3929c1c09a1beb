package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/engine/content"
	"nexus/ledger"
	"nexus/projections"
	"nexus/turns"
	"nexus/turns/seal"
	"nexus/turns/seal/keyring"
)

// OpenKeys opens the content keys of a ledger, and finds out whether they are its keys. With seal off
// it returns nil, and warns if the ledger was sealed.
func (s *Storage) OpenKeys(ctx context.Context, own [16]byte) (content.Keys, error) {
	if s.cfg.Seal != "on" {
		sealed, err := isSealed(ctx, copies{s.Log, s.Projections})
		if sealed {
			s.logger.Warn("seal is off, and the ledger has sealed events: their content, and the labels, memories and channels of that time, can't be found; start with --seal on")
		}
		return nil, err
	}
	keys, err := keyring.Open(filepath.Join(s.cfg.Data, "keys"))
	if err != nil {
		return nil, err
	}
	keys.Warn = func(err error) { s.logger.Warn("keys", "err", err) }
	s.opened(func(context.Context) error { return keys.Close() })
	accepted := givenUp(s.cfg.Data, s.identity.Ledger)
	if err := checkKeys(ctx, copies{s.Log, s.Projections}, keys, own, accepted); err != nil {
		return nil, err
	}
	if err := checkEmptyKeys(s.Projections, keys, own, accepted); err != nil {
		return nil, err
	}
	s.run(func(ctx context.Context) { s.warnOfMissingKeys(ctx, keys, own) }) // beside the first requests
	return s.Outage.Keys(&lostKeys{keys, accepted}), nil
}

// lostKeys is a key store that makes no key in the place of one that is missing: memories and labels of
// before would not be known again, and the old key, once it is found, could not be put back.
type lostKeys struct {
	*keyring.Store
	accepted func() (*folder.Missing, error)
}

// Create implements [content.Keys]. Errors: also [*content.MissingKeyError].
func (l *lostKeys) Create(id turns.ID, rand io.Reader) (seal.Key, error) {
	if err := l.refuse(id); err != nil {
		return seal.Key{}, err
	}
	return l.Store.Create(id, rand)
}

// Begin implements [content.Keys]. Errors: also [*content.MissingKeyError].
func (l *lostKeys) Begin(id turns.ID, rand io.Reader) (seal.Key, func() error, error) {
	if err := l.refuse(id); err != nil {
		return seal.Key{}, nil, err
	}
	return l.Store.Begin(id, rand)
}

// refuse reports a key whose loss was accepted, and that is not back.
func (l *lostKeys) refuse(id turns.ID) error {
	if _, err := l.Content(id); !errors.Is(err, seal.ErrNoKey) {
		return nil
	}
	missing, err := l.accepted()
	if err == nil && missing.Has(id) {
		err = &content.MissingKeyError{ID: id}
	}
	return err
}

// givenUp returns the keys whose loss an operator accepted. Their file is read once, where a key is missing.
func givenUp(data, ledger string) func() (*folder.Missing, error) {
	return sync.OnceValues(func() (*folder.Missing, error) { return folder.LoadMissing(data, ledger) })
}

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
//
// An event whose missing keys were all given up (accepted) says nothing either way: the one beside it decides.
func checkKeys(ctx context.Context, log ledger.Log, keys seal.Keyring, own [16]byte, accepted func() (*folder.Missing, error)) error {
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
			absent := absentKeys(keys, ev)
			if len(absent) == 0 {
				missing = nil
				break
			}
			given, err := accepted()
			if err != nil {
				return err
			}
			if absent = slices.DeleteFunc(absent, given.Has); len(absent) == 0 {
				continue
			}
			fault := fmt.Errorf("%w: keys/ has no key of event %s at position %d: the folder is missing, or belongs to another ledger. "+
				"Put the folder back, or the keys of a backup into it with nexusd keys", turns.ErrCorrupt, ev.ID, seq)
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

// absentKeys returns the keys of an event that are not there.
func absentKeys(keys seal.Keyring, ev *turns.Event) (out []turns.ID) {
	for _, id := range ev.Keys {
		if _, err := keys.Content(id); errors.Is(err, seal.ErrNoKey) {
			out = append(out, id)
		}
	}
	return out
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

// namedKeys is how many sessions without a key the log names.
const namedKeys = 10

// checkEmptyKeys reports a store that has no key and no mark of one, of a ledger that has a sealed
// session: its log was cut in both copies behind a sound header. checkKeys sees two events only, and one of them may have no body.
func checkEmptyKeys(store *projections.Store, keys *keyring.Store, own [16]byte, accepted func() (*folder.Missing, error)) error {
	if have, destroyed := keys.IDs(); len(have)+len(destroyed) > 0 {
		return nil
	}
	given, err := accepted()
	if err != nil {
		return err
	}
	for id, err := range sessionsWithoutKeys(store, keys, own) {
		if err != nil {
			return err
		}
		if given.Has(id) {
			continue
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

// warnOfMissingKeys logs, in one line, which sessions can't be read since their key is missing or damaged, and counts
// them for [Storage.Notes] and a metric. Keys come back on a stopped daemon only, so the count holds until the next start.
func (s *Storage) warnOfMissingKeys(ctx context.Context, keys seal.Keyring, own [16]byte) {
	n, first := 0, []string{}
	for id, err := range sessionsWithoutKeys(s.Projections, keys, own) {
		if err != nil || ctx.Err() != nil {
			return // the projections are damaged, which has its own line; or the daemon ends
		}
		if n++; n <= namedKeys {
			first = append(first, id.String())
		}
	}
	if s.unkeyed.Store(int64(n)); n > 0 {
		s.logger.Warn("keys of sessions are missing or damaged: these sessions can't be read; put the keys back with nexusd keys", "sessions", n, "first", strings.Join(first, " "))
	}
}
