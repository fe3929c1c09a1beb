package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"nexus/cmd/internal/wholefile"
	"nexus/turns"
)

// MissingFile names the content keys whose loss an operator accepted. A start takes no other loss of the key
// of the first or the last event. Few folders have the file.
const MissingFile = "missing.json"

// Missing is the keys that a ledger goes on without.
type Missing struct {
	Ledger string     `json:"ledger"`
	Time   time.Time  `json:"time"`
	Keys   []turns.ID `json:"keys"` // by id
}

// Has reports whether the loss of a key is accepted.
func (m *Missing) Has(id turns.ID) bool {
	_, ok := slices.BinarySearchFunc(m.Keys, id, turns.ID.Compare)
	return ok
}

// Save writes the list into a folder, durably. An empty one removes the file.
func (m *Missing) Save(dir string) error {
	name := filepath.Join(dir, MissingFile)
	if len(m.Keys) == 0 {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	b, err := turns.EncodeJSON(m)
	if err != nil {
		return err
	}
	return wholefile.Write(name, 0o600, wholefile.Bytes(append(b, '\n')))
}

// LoadMissing reads the list of a folder; an empty one if there is no file. One of another ledger is
// [turns.ErrCorrupt].
func LoadMissing(dir, ledger string) (*Missing, error) {
	name := filepath.Join(dir, MissingFile)
	m := &Missing{Ledger: ledger}
	b, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m, nil
	case err == nil:
		err = turns.DecodeJSON(b, m)
	}
	if err == nil && m.Ledger != ledger {
		err = fmt.Errorf("%w: it is of ledger %.40q", turns.ErrCorrupt, m.Ledger)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	slices.SortFunc(m.Keys, turns.ID.Compare)
	return m, nil
}
