package eventview

import (
	"context"
	"io"

	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/export"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Export writes the events of a channel, with stored bytes and hashes, as JSON lines; "": to the output.
func Export(ctx context.Context, e *cli.Env, channel string, f Filter, file string) error {
	r, err := f.request(channel)
	if err != nil {
		return err
	}
	r.Raw = true
	c, err := e.Client("main")
	if err != nil {
		return err
	}
	write := func(w io.Writer) error { return writeLines(ctx, c, r, w) }
	if file == "" {
		return write(e.Lines())
	}
	return export.WriteFile(file, write)
}

// writeLines writes events as JSON lines, each with its whole body. It checks that the
// stored bytes of each have its hash.
func writeLines(ctx context.Context, c *client.Client, r api.ListEvents, w io.Writer) error {
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
