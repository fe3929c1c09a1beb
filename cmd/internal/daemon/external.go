package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/daemon/storage"
	"nexus/ledger"
	"nexus/ledger/jetstream"
)

// ErrRefused is in the error of a start that the external server does not
// permit.
var ErrRefused = errors.New("the NATS server refuses it")

// The connections of a daemon, as logs and metrics name them.
const (
	ledgerRole  = "ledger"  // owns the streams
	serviceRole = "service" // serves clients
)

// connectExternal opens the two connections to a server that nexusd does not
// run. They share nothing, so that the traffic of clients can't delay or cut the
// ledger's, and they may be of different accounts. Both reconnect for ever.
func (d *Daemon) connectExternal() (ledgerConn *nats.Conn, err error) {
	service := d.cfg.NATSService
	if service == "" {
		service = d.cfg.NATS
	}
	d.url = config.WithoutUser(service)
	// An append is sent now or is refused: nothing is kept to be sent later.
	if ledgerConn, err = d.dial(ledgerRole, d.cfg.NATS, nats.ReconnectBufSize(-1)); err != nil {
		return nil, err
	}
	d.client, err = d.dial(serviceRole, service)
	return ledgerConn, err
}

func (d *Daemon) dial(role, url string, more ...nats.Option) (*nats.Conn, error) {
	log := d.logger.With("connection", role, "nats", config.WithoutUser(url))
	nc, err := nats.Connect(url, append(more,
		nats.Name("nexusd "+role),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // while connected once: a password may be corrected
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if !d.closing.Load() {
				log.Warn("disconnected from NATS; it reconnects for ever", "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("reconnected to NATS", "server", nc.ConnectedUrlRedacted())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), storage.PeersPrefix) {
				d.peersRefused.Do(func() {
					log.Warn("the daemons of this ledger don't hear of each other: one that did not read what another acknowledged can't tell that the log lost it",
						"do", "permit the ledger's user to publish and subscribe to "+storage.PeersPrefix+">")
				})
				return
			}
			log.Error("nats connection", "err", err)
			if role == ledgerRole && errors.Is(err, nats.ErrPermissionViolation) {
				d.fail(notPermitted(role, err)) // no append or no read can succeed
			}
		}),
		nats.ClosedHandler(func(nc *nats.Conn) {
			if !d.closing.Load() {
				d.fail(fmt.Errorf("the %s connection to NATS was closed: %w", role, nc.LastError()))
			}
		}))...)
	if err != nil {
		if network := net.Error(nil); errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.As(err, &network) {
			err = fmt.Errorf("%w: %w", ledger.ErrUnavailable, err) // it may be there later: the exit status is 5
		}
		return nil, fmt.Errorf("connect to %s for the %s: %w", config.WithoutUser(url), role, err)
	}
	d.opened(func(context.Context) error { nc.Close(); return nil })
	return nc, nil
}

// flushPatience is how long a start waits for a server's answer to a ping.
const flushPatience = 10 * time.Second

func notPermitted(role string, err error) error {
	return fmt.Errorf("%w: the user of the %s connection lacks a permission: %w", ErrRefused, role, err)
}

// permitted reports what the server refused nc so far. The server sends a
// refusal before the answer to a later ping, which Flush waits for.
func permitted(ctx context.Context, role string, nc *nats.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("%s connection: %w: %w", role, ledger.ErrUnavailable, err)
	}
	if err := nc.LastError(); errors.Is(err, nats.ErrPermissionViolation) {
		return notPermitted(role, err)
	}
	return nil
}

// connected reports why nc is of no use now; nil if it is.
func connected(role string, nc *nats.Conn) error {
	if nc.IsConnected() {
		return nil
	}
	err := fmt.Errorf("%w: the %s connection to NATS is %s", ledger.ErrUnavailable, role, strings.ToLower(nc.Status().String()))
	if last := nc.LastError(); last != nil {
		err = fmt.Errorf("%w: %w", err, last)
	}
	return err
}

// withRemedy adds to err, of a start on an external server, what the operator
// can do.
func (d *Daemon) withRemedy(err error) error {
	var replicas *jetstream.ReplicasError
	var api *js.APIError
	remedy := ""
	switch {
	case errors.As(err, &replicas):
		remedy = fmt.Sprintf("start nexusd with --replicas %d", replicas.Have)
	case errors.Is(err, js.ErrJetStreamNotEnabled), errors.Is(err, js.ErrJetStreamNotEnabledForAccount), errors.Is(err, nats.ErrNoResponders):
		remedy = "enable JetStream on the server (nats-server -js, or jetstream {} in its configuration) and in the account of --nats"
	case errors.As(err, &api) && (api.ErrorCode == codeReplicasNotSupported || api.ErrorCode == codeNoPeers):
		remedy = fmt.Sprintf("%d copies need a cluster of as many servers with JetStream; start nexusd with --replicas 1 for one copy", d.cfg.Replicas)
	case errors.Is(err, ledger.ErrNotFound):
		remedy = "start nexusd once with --create to create it, or check that --nats is the server and the account that has it"
	case errors.Is(err, nats.ErrAuthorization):
		remedy = "check the user and the password, or the token, in --nats and --nats-service"
	case errors.Is(err, nats.ErrNoServers):
		remedy = "check that the server runs, and the host and the port in --nats and --nats-service"
	case errors.Is(err, ErrRefused):
		remedy = "permit the ledger's user to publish to $JS.API.>, nexus.log.>, nexus.blobs.> and nexus.daemons.> and to subscribe to _INBOX.> and nexus.daemons.>; " +
			"permit the service's user to subscribe to nexus.v1.> and $SRV.> and to publish to nexus.v1.> and _INBOX.>"
	default:
		return err
	}
	return fmt.Errorf("%w; %s", err, remedy)
}

// Codes of the JetStream API, from the server's errors.json.
const (
	codeNoPeers              js.ErrorCode = 10005
	codeReplicasNotSupported js.ErrorCode = 10074
)
