package watch

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"nexus/cmd/ledgerctl/transcripts"
	"nexus/ledger/api"
)

// Deliver brings what is new in one transcript into the ledger, within ctx: what a hook
// does while its agent waits. It reads the state of a watch, to offer only what is new, and
// does not change it: the watch may run. cfg.Connect is called once. The number is that of
// the stored events.
func Deliver(ctx context.Context, cfg Config, path string) (stored int, err error) {
	w, err := New(cfg)
	if err != nil {
		return 0, err
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return 0, err
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return 0, errors.Join(err, errors.New("the transcript is no regular file"))
	}
	w.state = newState(cfg.Ledger)
	if s, err := loadState(cfg.State); err == nil && s.Ledger == cfg.Ledger {
		w.state = s
	}
	if w.client, err = cfg.Connect(ctx); err != nil {
		return 0, err
	}
	w.cfg.Settle = transcripts.SettleTime
	src, _ := w.sourceOf(path)
	f := w.fileOf(path, src)
	before := w.stateOf(f).Stored
	if err := w.read(ctx, f); err != nil && !errors.Is(err, errChanged) {
		return 0, err
	}
	st := w.stateOf(f)
	if st.Failed != "" {
		return st.Stored - before, errors.New(st.Failed)
	}
	return st.Stored - before, nil
}

// Dialed returns a Connect that gives a client which is there already.
func Dialed(c *api.Client) func(context.Context) (*api.Client, error) {
	return func(context.Context) (*api.Client, error) { return c, nil }
}
