package daemon

import (
	"context"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"nexus/cmd/nexusd/daemon/natsapi"
	"nexus/cmd/nexusd/daemon/web"
	"nexus/ledger/api"
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

// webUser makes the user of HTTP's connection, whose key is in memory alone.
func (d *Daemon) webUser() (natsapi.User, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return natsapi.User{}, err
	}
	public, err := pair.PublicKey()
	d.webKey = pair
	return natsapi.User{Name: httpUser, Key: public, Tenant: "*", Agents: []string{"*"}, Operator: true}, err
}

// connectWeb opens the connection of HTTP's handlers.
func (d *Daemon) connectWeb() (nc *nats.Conn, err error) {
	if d.server == nil {
		service := d.cfg.NATSService
		if service == "" {
			service = d.cfg.NATS
		}
		return d.dial(httpRole, service)
	}
	if nc, err = d.server.UserConn(d.webKey); err != nil {
		return nil, err
	}
	d.opened(func(context.Context) error { nc.Close(); return nil })
	return nc, nil
}

// mcpHandler serves the Model Context Protocol to callers with the scope read; those
// without the scope write get no tool that writes.
func (d *Daemon) mcpHandler() (http.Handler, error) {
	tools, err := mcp.New(mcp.Config{Version: d.cfg.Version, Timeout: mcpTimeout, Logger: d.logger})
	if err != nil {
		return nil, err
	}
	nc, err := d.connectWeb()
	if err != nil {
		return nil, err
	}
	client := api.NewClient(nc, "default", "main")
	return web.Require(web.Read, tools.Handler(func(r *http.Request) (mcp.Caller, bool) {
		c, ok := web.CallerOf(r.Context())
		return mcp.Caller{Tenant: c.Tenant, Agent: c.Agent, ReadOnly: c.Scope < web.Write,
			Client: func(context.Context) (*api.Client, error) { return client.For(c.Tenant, c.Agent), nil }}, ok
	})), nil
}
