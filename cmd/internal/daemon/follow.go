package daemon

import (
	"cmp"
	"context"

	"nexus/cmd/internal/natsapi"
	"nexus/ledger/api/client"
)

// The connection of what follows transcripts to the service. It takes the way of every
// client: its turns are appends of one agent, with the limits that any has.
const (
	watchRole = "watch"
	// watchUser is the user of the embedded server that this connection is of. No row of
	// a configuration can have the name.
	watchUser = "_watch"
)

// startFollow begins to follow transcripts, if the configuration names folders. A folder
// that can't be read, or the end of it all, is a line of the log: the daemon serves.
func (d *Daemon) startFollow() error {
	if d.cfg.Follow == nil {
		return nil
	}
	nc, err := d.connectSelf(watchRole, d.watchKey)
	if err != nil {
		return err
	}
	client := client.New(nc, cmp.Or(d.cfg.Watch.Tenant, "default"), cmp.Or(d.cfg.Watch.Agent, "main"))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := d.cfg.Follow(ctx, client); err != nil && ctx.Err() == nil {
			d.logger.Error("transcripts are not followed any more", "err", err)
		}
	}()
	d.opened(func(end context.Context) error {
		cancel()
		select {
		case <-done:
			return nil
		case <-end.Done():
			return end.Err()
		}
	})
	return nil
}

// watchUserRow is the user of what follows transcripts.
func (d *Daemon) watchUserRow() (u natsapi.User, err error) {
	u = natsapi.User{Name: watchUser, Tenant: cmp.Or(d.cfg.Watch.Tenant, "default"), Agents: []string{cmp.Or(d.cfg.Watch.Agent, "main")}}
	d.watchKey, u.Key, err = newUserKey()
	return u, err
}
