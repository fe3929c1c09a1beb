package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"nexus/ledger/api"
	"nexus/ledger/tlog"
	"nexus/turns"
)

// RolledBackError says that a ledger does not continue the checkpoint that this user kept of it. Unwrap gives
// [turns.ErrCorrupt].
type RolledBackError struct {
	Ledger string
	File   string          // in which the checkpoint is kept
	Known  tlog.Checkpoint // that was kept
	Has    uint64          // events that the ledger says it has; 0: it does not say
	Why    string
}

func (e *RolledBackError) Error() string {
	return fmt.Sprintf("ledger %s: %s. The checkpoint of %d events that this user kept is %s; remove it if you know why", e.Ledger, e.Why, e.Known.Size, e.File)
}

// Unwrap gives ErrCorrupt.
func (e *RolledBackError) Unwrap() error { return turns.ErrCorrupt }

// known is what a user keeps of a ledger: the newest checkpoint, and the key that signed it.
type known struct {
	Key  string `json:"key"`
	Note string `json:"note"`
}

// KnownDir is the folder in which a user of this machine keeps the newest checkpoint of each ledger.
func KnownDir() (string, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "nexus", "checkpoints"), nil
}

// CheckKnown asks the ledger for its newest checkpoint, and that it continues the one that is kept in dir, by ledger;
// then it keeps the newest. It believes the first one that it sees. A ledger that was restored has another origin and key, and
// continues the checkpoint of its original as any other: Rekeyed says that there is another key.
//
// The client is the operator's. Several processes may do it at once: the newest one is kept.
//
// Errors: [*RolledBackError], also of a ledger that signs no checkpoints any more, and did; [api.Unsupported] from a daemon that signs none; those of calls and files.
func (c *Client) CheckKnown(ctx context.Context, dir string) (newest *api.Consistency, rekeyed bool, err error) {
	key, err := c.CheckpointKey(ctx)
	if refused := (*api.Error)(nil); errors.As(err, &refused) && refused.Code == api.Unsupported {
		return nil, false, c.signsNoMore(ctx, dir, err)
	}
	if err != nil {
		return nil, false, err
	}
	ledger := tlog.LedgerOf(key.Origin)
	if ledger == "" || filepath.Base(ledger) != ledger {
		return nil, false, fmt.Errorf("%w: the log %.100q names no ledger", turns.ErrCorrupt, key.Origin)
	}
	file := filepath.Join(dir, ledger)
	k, had, err := readKnown(file)
	if err != nil {
		return nil, false, err
	}
	rolledBack := func(has uint64, why string) error {
		return &RolledBackError{Ledger: ledger, File: file, Known: had, Has: has, Why: why}
	}
	out, err := c.Consistency(ctx, api.GetConsistency{From: api.Uint(had.Size), Note: k.Note})
	if refused := (*api.Error)(nil); errors.As(err, &refused) && (refused.Code == api.Unprocessable || refused.Code == api.Corrupt) && k.Note != "" {
		has, _ := refused.Details["size"].(float64)
		if refused.Code == api.Unprocessable {
			return nil, false, rolledBack(uint64(has), fmt.Sprintf("this ledger was rolled back: it had %d events, has %d", had.Size, uint64(has)))
		}
		return nil, false, rolledBack(0, refused.Message)
	}
	if err != nil {
		return nil, false, err
	}
	now, err := tlog.OpenCheckpoint([]byte(out.Note), out.Key)
	if err != nil {
		return nil, false, err
	}
	if rekeyed = k.Key != "" && k.Key != out.Key; rekeyed && now.Origin == had.Origin {
		return nil, true, rolledBack(now.Size, "another key signs for the same log")
	}
	if now.Size < had.Size {
		return nil, rekeyed, rolledBack(now.Size, fmt.Sprintf("this ledger was rolled back: it had %d events, has %d", had.Size, now.Size))
	}
	if k.Note != "" {
		if err := tlog.CheckConsistency(out.Path, had.Size, had.Root, now.Size, now.Root); err != nil {
			return nil, rekeyed, rolledBack(now.Size, fmt.Sprintf("this ledger has another history: of the first %d events, one or more differ", had.Size))
		}
	}
	return out, rekeyed, keep(dir, file, known{out.Key, out.Note}, now, rolledBack)
}

// signsNoMore looks whether a ledger that says that it signs nothing has signed before, by the id that it gives elsewhere.
// It returns refused if nothing is known of it.
func (c *Client) signsNoMore(ctx context.Context, dir string, refused error) error {
	st, err := c.BackupState(ctx)
	if err != nil || filepath.Base(st.Ledger) != st.Ledger {
		return refused
	}
	file := filepath.Join(dir, st.Ledger)
	k, had, err := readKnown(file)
	if err != nil || k.Note == "" {
		return cmp.Or(err, refused)
	}
	return &RolledBackError{Ledger: st.Ledger, File: file, Known: had, Has: st.Log.Seq, Why: "this ledger says that it signs no checkpoints, and has signed some"}
}

// readKnown reads a file of the folder; zero if there is none.
func readKnown(file string) (k known, had tlog.Checkpoint, err error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return k, had, nil
	}
	if err == nil {
		err = turns.DecodeJSON(b, &k)
	}
	if err == nil {
		had, err = tlog.OpenCheckpoint([]byte(k.Note), k.Key)
	}
	if err != nil {
		return k, had, fmt.Errorf("%s, the checkpoint of a ledger: %w", file, err)
	}
	return k, had, nil
}

// keep replaces a file in one step, unless another process has put a larger checkpoint there meanwhile.
func keep(dir, file string, k known, now tlog.Checkpoint, rolledBack func(has uint64, why string) error) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // which unlocks it
	if err := lockFile(lock); err != nil {                  // held for one write
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	other, has, err := readKnown(file)
	if err != nil {
		return err
	}
	if other.Note != "" && has.Size >= now.Size {
		if has.Size == now.Size && has.Root != now.Root {
			return rolledBack(now.Size, "this ledger has shown another process another history of the same length")
		}
		if has.Size > now.Size || other == k {
			return nil
		}
	}
	b, err := turns.EncodeJSON(k)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".*.tmp")
	if err != nil {
		return err
	}
	_, err = tmp.Write(append(b, '\n'))
	err = cmp.Or(err, tmp.Sync())
	if err = cmp.Or(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
