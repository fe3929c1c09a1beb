package eventview

import (
	"context"
	"io"

	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Follow calls first, then next again and again. Before each call but the first it
// waits, and it ends if wait says so. A call that fails because the daemon does not answer
// now is repeated: first is the one that chooses where to begin. A channel that is not
// there yet has no events, so next begins with its first one.
func Follow(first, next func() error, wait func() bool) error {
	for read := first; ; {
		switch err := read(); {
		case err == nil || fault.HasCode(err, api.NotFound):
			read = next
		case !isTransient(err):
			return err
		}
		if !wait() {
			return nil
		}
	}
}

// isTransient reports whether an error is of a daemon that may answer later.
func isTransient(err error) bool {
	return fault.HasCode(err, api.Unavailable) || fault.HasCode(err, api.Busy) || fault.HasCode(err, api.Indeterminate)
}

// Export writes events as JSON lines, each with its whole body. It checks that the
// stored bytes of each have its hash.
func Export(ctx context.Context, c *client.Client, r api.ListEvents, w io.Writer) error {
	for ev, err := range c.Events(ctx, r) {
		if err == nil && (ev.Error != "" || ev.Body == nil) {
			var whole *api.Event
			if whole, err = c.Event(ctx, api.GetEvent{Channel: r.Channel, ID: ev.ID, Raw: true}); err == nil {
				ev = *whole
			}
		}
		if err != nil {
			return err
		}
		if got := turns.HashEvent(ev.Payload); got != ev.Hash {
			return api.Errorf(api.Corrupt, nil, "event %s has the hash %s, its bytes have %s", ev.ID, ev.Hash, got)
		}
		ev.Turns = nil
		b, err := turns.EncodeJSON(ev)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(b, '\n')); err != nil {
			return err
		}
	}
	return nil
}
