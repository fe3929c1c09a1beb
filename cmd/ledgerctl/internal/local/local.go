package local

import (
	"context"
	_ "embed"
	"time"

	"nexus/cmd/internal/build"
	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Start is a daemon in a folder and a client of it.
func Start(ctx context.Context, term *terminal.Terminal, dir string) (*client.Client, func(), error) {
	d, err := daemon.Open(ctx, config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", Version: build.Version()})
	if err != nil {
		return nil, nil, err
	}
	stop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			term.Say("close: %v", err)
		}
	}
	nc, err := d.Connect()
	if err != nil {
		stop()
		return nil, nil, err
	}
	return client.New(nc, "default", "main").Within(10 * time.Minute), func() { nc.Close(); stop() }, nil
}

// Largest is the session with the most turns on its path.
func Largest(ctx context.Context, c *client.Client, ids []turns.ID) (*api.Session, error) {
	var best *api.Session
	for _, id := range ids {
		s, err := c.Session(ctx, id)
		if err != nil {
			return nil, err
		}
		if best == nil || s.Depth > best.Depth {
			best = s
		}
	}
	return best, nil
}
