package daemon

import (
	"context"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"nexus/cmd/internal/natsapi"
	"nexus/cmd/internal/web"
	"nexus/ledger/api/client"

	"nexus/ledger/api/mcp"
)

// The connection of HTTP's handlers to the service. What comes in over HTTP takes the way
// of every request: the guard has decided who the caller is, the service what it may do.
const (
	httpRole = "http"
	// httpUser is the user of the embedded server that this connection is of. No row of
	// a configuration can have the name.
	httpUser = "_http"
)

// mcpTimeout bounds a call of a tool over HTTP: the listener waits for an answer a little
// longer.
const mcpTimeout = 20 * time.Second

// webUser makes the user of HTTP's connection.
func (d *Daemon) webUser() (u natsapi.User, err error) {
	u = natsapi.User{Name: httpUser, Tenant: "*", Agents: []string{"*"}, Operator: true}
	d.webKey, u.Key, err = newUserKey()
	return u, err
}

// newUserKey makes the key of a part of this process, which is in memory alone.
func newUserKey() (pair nkeys.KeyPair, public string, err error) {
	if pair, err = nkeys.CreateUser(); err != nil {
		return nil, "", err
	}
	public, err = pair.PublicKey()
	return pair, public, err
}

// connectSelf opens a connection of this process to its own service: with a key of the
// embedded server, nil with auth off, or with the URL of the service of an external one.
func (d *Daemon) connectSelf(role string, key nkeys.KeyPair) (nc *nats.Conn, err error) {
	if d.server == nil {
		service := d.cfg.NATSService
		if service == "" {
			service = d.cfg.NATS
		}
		return d.dial(role, service)
	}
	if nc, err = d.server.UserConn(key); err != nil {
		return nil, err
	}
	d.opened(func(context.Context) error { nc.Close(); return nil })
	return nc, nil
}

// mcpHandler serves the Model Context Protocol to callers with the scope read; those
// without the scope write get no tool that writes.
func (d *Daemon) mcpHandler(own *client.Client) (http.Handler, error) {
	tools, err := mcp.New(mcp.Config{Version: d.cfg.Version, Timeout: mcpTimeout, Logger: d.logger})
	if err != nil {
		return nil, err
	}
	return web.Require(web.Read, tools.Handler(func(r *http.Request) (mcp.Caller, bool) {
		c, ok := web.CallerOf(r.Context())
		return mcp.Caller{Tenant: c.Tenant, Agent: c.Agent, ReadOnly: c.Scope < web.Write,
			Client: func(context.Context) (*client.Client, error) { return own.For(c.Tenant, c.Agent), nil }}, ok
	})), nil
}
