package mend

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"nexus/cmd/internal/daemon/folder"
	"nexus/ledger"
	"nexus/ledger/jetstream/backup"
	"nexus/ledger/jetstream/embed"
	"nexus/turns"
	"nexus/turns/seal"
	"nexus/turns/seal/keyring"
)

// AddedKeys is what [AddKeys] did.
type AddedKeys struct {
	Added   int      // that were missing, or damaged in both copies
	Erased  int      // marks of keys that were destroyed
	Known   int      // that were there
	Refused []string // another key is there, or it was destroyed: by the text of the error
}

// AddKeys puts content keys that a stopped ledger lacks into its data folder, and changes
// none that is there. from is a file of keys that a backup wrote, or a copy of the folder
// keys of this ledger.
//
// Errors: [ledger.ErrNotFound], [ledger.ErrCorrupt]: from is missing or damaged; [ledger.ErrConflict]: it
// is of another ledger; [embed.ErrLocked]: a daemon runs; those of the file system.
func AddKeys(data, from string) (out AddedKeys, err error) {
	if _, err := os.Stat(filepath.Join(data, folder.IdentityFile)); err != nil {
		return out, fmt.Errorf("%w: %s is no data folder: %w", ledger.ErrNotFound, data, err)
	}
	id, err := folder.LoadIdentity(data)
	if err != nil {
		return out, err
	}
	rows, err := keysFrom(from, id.Ledger)
	if err != nil {
		return out, err
	}
	lock, err := embed.Lock(data)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	store, err := keyring.Open(filepath.Join(data, "keys"))
	if err != nil {
		return out, err
	}
	defer store.Close()
	var destroyed []turns.ID
	for _, r := range rows {
		_, missing := store.Content(r.ID)
		switch {
		case r.Erased && errors.Is(missing, seal.ErrNoKey):
			destroyed = append(destroyed, r.ID)
		case r.Erased && missing == nil: // an older file may have put it back; no command that puts keys back destroys one
			out.Refused = append(out.Refused, fmt.Sprintf("%s was destroyed there, and stays here", r.ID))
		}
		if len(r.Key)+len(r.Remains) == 0 {
			continue // it was destroyed, or is missing there, too
		}
		switch err := putKey(store, r); {
		case errors.Is(err, seal.ErrPunctured):
			out.Refused = append(out.Refused, fmt.Sprintf("%s: turns were redacted here, and stay so", r.ID))
		case errors.Is(err, turns.ErrErased):
			out.Refused = append(out.Refused, fmt.Sprintf("%s was destroyed here", r.ID))
		case errors.Is(err, keyring.ErrDifferent):
			out.Refused = append(out.Refused, fmt.Sprintf("%s: another key is here", r.ID))
		case err != nil:
			return out, err
		case missing == nil:
			out.Known++
		default:
			out.Added++
		}
	}
	if err := store.Destroy(destroyed...); err != nil {
		return out, err
	}
	out.Erased = len(destroyed)
	return out, forgetMissing(data, id.Ledger, store)
}

// forgetMissing takes the keys that are there, or were destroyed, off the list of those whose loss was accepted. A
// crash before leaves a list that names too many; the next run of AddKeys ends it.
func forgetMissing(data, ledgerID string, store *keyring.Store) error {
	m, err := folder.LoadMissing(data, ledgerID)
	if err != nil || len(m.Keys) == 0 {
		return err
	}
	m.Keys = slices.DeleteFunc(m.Keys, func(id turns.ID) bool {
		_, err := store.Content(id)
		return err == nil || errors.Is(err, turns.ErrErased)
	})
	return m.Save(data)
}

// putKey stores the key of a row, or what is left of one.
func putKey(store *keyring.Store, r backup.KeyRow) error {
	c, err := seal.ReadContent(r.Key, r.Remains)
	if err != nil {
		return fmt.Errorf("the key of %s: %w", r.ID, err)
	}
	if left := c.Remains(); left != nil {
		return store.PutRemains(r.ID, left)
	}
	k, err := c.Whole()
	if err != nil {
		return err
	}
	return store.Put(r.ID, k)
}

// keysFrom reads a file of keys, or a folder of them.
func keysFrom(from, ledgerID string) ([]backup.KeyRow, error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ledger.ErrNotFound, err)
	}
	if !info.IsDir() {
		k, err := backup.ReadKeys(from)
		if err == nil && k.Ledger != ledgerID {
			err = fmt.Errorf("%w: %s holds the keys of ledger %s, this is %s", ledger.ErrConflict, from, k.Ledger, ledgerID)
		}
		return k.Rows, err
	}
	if _, err := os.Stat(filepath.Join(from, "a")); err != nil { // else an empty store would be made there
		return nil, fmt.Errorf("%w: %s is no folder of keys: %w", ledger.ErrNotFound, from, err)
	}
	store, err := keyring.Open(from)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	var rows []backup.KeyRow
	have, destroyed := store.IDs()
	for _, id := range destroyed {
		rows = append(rows, backup.KeyRow{ID: id, Erased: true})
	}
	for _, id := range have {
		k, err := store.Content(id)
		if err != nil {
			return nil, err
		}
		rows = append(rows, backup.KeyRow{ID: id, Key: k.Bytes(), Remains: k.Remains().Encode()})
	}
	return rows, nil
}
