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
// Errors: [*RolledBackError]; [api.Unsupported] from a daemon that signs no checkpoints; those of calls and files.
func (c *Client) CheckKnown(ctx context.Context, dir string) (newest *api.Consistency, rekeyed bool, err error) {
	key, err := c.CheckpointKey(ctx)
	if err != nil {
		return nil, false, err
	}
	ledger := tlog.LedgerOf(key.Origin)
	if ledger == "" || filepath.Base(ledger) != ledger {
		return nil, false, fmt.Errorf("%w: the log %.100q names no ledger", turns.ErrCorrupt, key.Origin)
	}
	file := filepath.Join(dir, ledger)
	var k known
	var had tlog.Checkpoint
	b, err := os.ReadFile(file)
	if err == nil {
		if err = turns.DecodeJSON(b, &k); err == nil {
			had, err = tlog.OpenCheckpoint([]byte(k.Note), k.Key)
		}
		if err != nil {
			return nil, false, fmt.Errorf("%s, the checkpoint of a ledger: %w", file, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	rolledBack := func(has uint64, why string) error {
		return &RolledBackError{Ledger: ledger, File: file, Known: had, Has: has, Why: why}
	}
	out, err := c.Consistency(ctx, api.GetConsistency{From: had.Size, Note: k.Note})
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
	if b, err = turns.EncodeJSON(known{out.Key, out.Note}); err != nil {
		return nil, rekeyed, err
	}
	return out, rekeyed, keep(dir, file, append(b, '\n'))
}

// keep replaces a file in one step.
func keep(dir, file string, b []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".*.tmp")
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	err = cmp.Or(err, tmp.Sync())
	if err = cmp.Or(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
