package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"nexus/cmd/internal/wholefile"
	"nexus/turns"
)

// identity is the ledger that a data folder belongs to. The daemon writes it before
// it creates the stream, and marks it ready afterwards: a folder that is ready
// without its stream has lost the stream, and the daemon creates no other.
type identity struct {
	Ledger string `json:"ledger"` // UUID
	Ready  bool   `json:"ready"`
	// Marked says that the folder has a mark of what was acknowledged. Folders of
	// earlier versions have none, and get one at their first start.
	Marked bool `json:"marked,omitzero"`
	// Restored says which backup the ledger was restored from.
	Restored *restored `json:"restored,omitempty"`
}

// restored is the backup that a ledger was restored from. Its positions are those of the
// ledger that was backed up through Seq.
type restored struct {
	Digest turns.Hash `json:"digest"`
	Seq    uint64     `json:"seq,string"`
	Time   time.Time  `json:"time"`
}

const identityFile = "ledger.json"

func loadIdentity(dir string) (identity, error) {
	var id identity
	b, err := os.ReadFile(filepath.Join(dir, identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		id.Ledger = uuid.NewString()
		return id, saveIdentity(dir, id)
	}
	if err != nil {
		return id, err
	}
	if err := turns.DecodeJSON(b, &id); err != nil {
		return id, fmt.Errorf("%s: %w", filepath.Join(dir, identityFile), err)
	}
	if _, err := uuid.Parse(id.Ledger); err != nil {
		return id, fmt.Errorf("%s: ledger: %w", filepath.Join(dir, identityFile), err)
	}
	return id, nil
}

// saveIdentity replaces the file in one step, durably.
func saveIdentity(dir string, id identity) error {
	b, err := turns.EncodeJSON(id)
	if err != nil {
		return err
	}
	return wholefile.Write(filepath.Join(dir, identityFile), 0o600, wholefile.Bytes(append(b, '\n')))
}
