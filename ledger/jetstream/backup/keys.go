package backup

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"nexus/ledger"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
)

// Keys is the content keys of a ledger. Whoever has them reads the backup.
type Keys struct {
	Ledger string // UUID
	Rows   []KeyRow
}

// KeyRow is a content key. Key and Remains are nil where the key was destroyed (Erased) or is missing.
type KeyRow struct {
	ID      turns.ID `json:"id"`
	Key     []byte   `json:"key,omitempty"`
	Remains []byte   `json:"remains,omitempty"` // of a key from which turns were redacted: what is left, as [seal.Remains] encodes it
	Erased  bool     `json:"erased,omitzero"`
}

// keysHead is the first line of the file, keysEnd the last one.
type keysHead struct {
	Version int    `json:"nexus_backup_keys"`
	Ledger  string `json:"ledger"`
	Keys    int    `json:"keys"`
}

type keysEnd struct {
	Digest turns.Hash `json:"digest"` // SHA-256 of all lines before
}

const (
	keyBytes = 32
	maxKeys  = 1 << 30 // bytes of the file
)

// WriteKeys writes the file of the keys, or replaces that of the same ledger, in one step,
// durably. Its owner alone can read it. Errors: [ledger.ErrConflict]: the file is there and
// is not one of this ledger's keys; those of the file system.
func WriteKeys(name string, k Keys) error {
	if _, err := keysToReplace(name, k.Ledger); err != nil {
		return err
	}
	var out bytes.Buffer
	line := func(v any) error {
		b, err := turns.EncodeJSON(v)
		out.Write(append(b, '\n'))
		return err
	}
	if err := line(keysHead{1, k.Ledger, len(k.Rows)}); err != nil {
		return err
	}
	for _, r := range k.Rows {
		if err := line(r); err != nil {
			return err
		}
	}
	if err := line(keysEnd{sha256.Sum256(out.Bytes())}); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(out.Bytes())
	for _, step := range []func() error{f.Sync, f.Close, func() error { return os.Rename(f.Name(), name) }} {
		if e := step(); err == nil {
			err = e
		}
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	return mark.SyncDir(filepath.Dir(name))
}

// keysToReplace reads the file that [WriteKeys] will replace: no keys if there is none.
// [ledger.ErrConflict]: it may not be replaced.
func keysToReplace(name, ledgerID string) (Keys, error) {
	old, err := ReadKeys(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Keys{}, nil
	case err != nil:
		return old, fmt.Errorf("%w: %s is not written over: %w", ledger.ErrConflict, name, err)
	case old.Ledger != ledgerID:
		return old, fmt.Errorf("%w: %s holds the keys of ledger %s, and is not written over", ledger.ErrConflict, name, old.Ledger)
	}
	return old, nil
}

// mayWriteKeys reports why [WriteKeys] would refuse a file of the keys. A crash may leave an empty file beside it.
func mayWriteKeys(name, ledgerID string) error {
	if _, err := keysToReplace(name, ledgerID); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("the file of the keys can't be written, and nothing was backed up: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// IsKeys reports whether a file begins as a file of keys does.
func IsKeys(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	const begins = `{"nexus_backup_keys":`
	b := make([]byte, len(begins))
	_, err = io.ReadFull(f, b)
	return err == nil && string(b) == begins
}

// ReadKeys reads a file of keys. [ledger.ErrCorrupt]: it is none, or damaged; the error
// quotes nothing of it.
func ReadKeys(name string) (k Keys, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return k, err
	}
	if info.Size() > maxKeys || !info.Mode().IsRegular() {
		return k, fmt.Errorf("%w: %s is no file of keys", ledger.ErrCorrupt, name)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return k, err
	}
	bad := fmt.Errorf("%w: %s is no file of keys, or is damaged", ledger.ErrCorrupt, name)
	lines := strings.SplitAfter(string(b), "\n")
	if len(lines) < 3 || lines[len(lines)-1] != "" {
		return k, bad
	}
	lines = lines[:len(lines)-1]
	last := lines[len(lines)-1]
	var head keysHead
	var end keysEnd
	if turns.DecodeJSON([]byte(last), &end) != nil || turns.DecodeJSON([]byte(lines[0]), &head) != nil ||
		end.Digest != turns.Hash(sha256.Sum256(b[:len(b)-len(last)])) || head.Version != 1 || head.Keys != len(lines)-2 {
		return k, bad
	}
	k.Ledger = head.Ledger
	for _, l := range lines[1 : len(lines)-1] {
		var r KeyRow
		if turns.DecodeJSON([]byte(l), &r) != nil || len(r.Key) != keyBytes && len(r.Key) != 0 {
			return k, bad
		}
		k.Rows = append(k.Rows, r)
	}
	return k, nil
}
