package watch

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"nexus/cmd/internal/transcripts"
	"nexus/ledger/api/client"
)

// Deliver brings what is new in one transcript into the ledger, within ctx: what a hook
// does while its agent waits. It reads the state of a watch, to offer only what is new, and
// does not change it: the watch may run. cfg.Connect is called once. The number is that of
// the stored events.
func Deliver(ctx context.Context, cfg Config, path string) (stored int, err error) {
	d, err := NewDeliverer(ctx, cfg)
	if err != nil {
		return 0, err
	}
	return d.Deliver(ctx, path)
}

// Deliverer delivers transcripts one after the other, when it is asked to. Not safe for
// concurrent use.
type Deliverer struct{ w *Watcher }

// NewDeliverer returns a deliverer, which calls cfg.Connect once and reads the state of a
// watch once.
func NewDeliverer(ctx context.Context, cfg Config) (*Deliverer, error) {
	w, err := New(cfg)
	if err != nil {
		return nil, err
	}
	w.state = newState(cfg.Ledger)
	if s, err := loadState(cfg.State); err == nil && s.Ledger == cfg.Ledger {
		w.state = s
	}
	w.cfg.Settle, w.look = transcripts.SettleTime, cfg.Closed != nil
	w.client, err = cfg.Connect(ctx)
	return &Deliverer{w}, err
}

// Deliver is the function of this name, for a transcript that may have been delivered
// before.
func (d *Deliverer) Deliver(ctx context.Context, path string) (stored int, err error) {
	w := d.w
	path, err = filepath.Abs(path)
	if err != nil {
		return 0, err
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return 0, errors.Join(err, errors.New("the transcript is no regular file"))
	}
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
func Dialed(c *client.Client) func(context.Context) (*client.Client, error) {
	return func(context.Context) (*client.Client, error) { return c, nil }
}
