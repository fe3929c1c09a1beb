package mend

import (
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/engine/erasure"
	"nexus/ledger/jetstream/backup"
	"nexus/turns"
)

// erase takes the keys out of what is restored that were destroyed since, as far as files beside the backup and
// its keys say so.
func (c RestoreConfig) erase(id string, keys *backup.Keys, out *Restored) (erasure.List, error) {
	if c.Keys == "" {
		return erasure.List{}, nil
	}
	folders := []string{filepath.Dir(c.Keys)}
	if dir := filepath.Dir(c.File); dir != folders[0] {
		folders = append(folders, dir)
	}
	list, from, err := foundErasures(id, folders...)
	if err != nil {
		return list, err
	}
	out.ErasuresFrom = from
	gone := make(map[turns.ID]bool, len(list.Rows))
	for _, r := range list.Rows {
		if r.Event.IsZero() { // what was redacted the first start takes out, which needs the key
			gone[r.Session] = true
		}
	}
	for i := range keys.Rows {
		if r := &keys.Rows[i]; gone[r.ID] && len(r.Key)+len(r.Remains) > 0 {
			r.Key, r.Remains, r.Erased = nil, nil, true
			out.Erased++
		}
	}
	return list, nil
}

// foundErasures is the erasures of a ledger that lie in folders: in lists, and in files of keys, which say what was
// destroyed. from is the file that has the newest one, "" if there is none.
func foundErasures(id string, folders ...string) (list erasure.List, from string, err error) {
	list.Ledger = id
	ledgerKey, err := uuid.Parse(id)
	if err != nil {
		return list, "", err
	}
	newest := time.Time{}
	for _, dir := range folders {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return list, "", err
		}
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			if !e.Type().IsRegular() {
				continue
			}
			for _, r := range erasuresIn(name, id) {
				if r.Session.IsReserved() || r.Session == turns.ID(ledgerKey) { // no session has such a key, and others need it
					continue
				}
				if list.Merge([]erasure.Erased{r}) && from == "" || r.Time.After(newest) {
					from = name
				}
				if r.Time.After(newest) {
					newest = r.Time
				}
			}
		}
	}
	return list, from, nil
}

// erasuresIn returns the erasures that a file says, none if it is of another kind or ledger, or damaged.
func erasuresIn(name, id string) (rows []erasure.Erased) {
	if list, err := folder.ReadErasures(name); err == nil && list.Ledger == id {
		return list.Rows
	}
	if !backup.IsKeys(name) {
		return nil
	}
	keys, err := backup.ReadKeys(name)
	if err != nil || keys.Ledger != id {
		return nil
	}
	for _, r := range keys.Rows {
		if r.Erased {
			rows = append(rows, erasure.Erased{Session: r.ID})
		}
	}
	return rows
}
