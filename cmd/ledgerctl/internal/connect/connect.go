package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/localserver"
	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

// Connection is the way to a ledger: which server, as whom, and the connection once
// there is one. It is not safe for concurrent use.
type Connection struct {
	Server, Tenant, Agent string
	Creds, NATSContext    string
	TLSCA                 string
	ServerNamed           bool               // by flag or environment
	AgentNamed            bool               // by flag: Agent may come from the environment, too
	Terminal              *terminal.Terminal // which hears why a call takes long
	waited                atomic.Bool        // a call was said to be tried again
	stale                 atomic.Bool        // the command has said that answers may be stale
	NC                    *nats.Conn         // nil before the first client
	Link                  *client.Client     // on nc
	Options               []nats.Option      // of the connection

	Data  string               // the folder of the ledger that is served where no daemon answers; "": the default
	Local *localserver.Starter // nil: a ledger of this machine is not asked

	Command context.Context // ends the wait for a process that starts; nil: nothing does
}

// Dial connects to the server. The credentials are those of --creds, of
// --nats-context, of the URL, or of the context that nexusd wrote for the URL. So is
// the file of the authorities that the command trusts, with --tls-ca.
//
// Where no server is named, and none answers at the default address or --data names a folder, it is the process that
// serves the folder, and the command starts one if there is none.
func (conn *Connection) Dial() (*nats.Conn, error) {
	if conn.Local == nil || conn.ServerNamed || conn.NATSContext != "" {
		return conn.dial()
	}
	if conn.Data == "" && localserver.Answers(conn.Server) {
		return conn.dial()
	}
	return conn.dialLocal()
}

// dialLocal connects to the process that serves the folder of this user. The connection follows the folder: when that
// process ends, it comes back at the next one.
func (conn *Connection) dialLocal() (*nats.Conn, error) {
	ctx, cancel := context.WithTimeout(cmp.Or(conn.Command, context.Background()), Patience)
	defer cancel()
	for try := 0; ; try++ {
		s, err := conn.Local.Serving(ctx)
		if errors.Is(err, localserver.ErrFolder) {
			return nil, fault.WithHint(fault.Usage(err), "--data DIR or NEXUS_DATA names another folder, --server URL a daemon")
		}
		if err != nil {
			hint := "ledgerctl --data DIR names another folder; nexusd repair --data DIR repairs one"
			if errors.Is(err, localserver.ErrSilent) {
				hint = "a nexusd or ledgerctl serve that was stopped goes on after kill -CONT; one that starts needs more time. ledgerctl --data DIR names another folder"
			}
			return nil, fault.WithHint(api.Errorf(api.Unavailable, nil, "open the ledger in %s: %v", conn.Local.Data, err), hint)
		}
		opts := []nats.Option{nats.Name("ledgerctl"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
			nats.SetCustomDialer(conn.Local), nats.ReconnectWait(50 * time.Millisecond), nats.MaxReconnects(-1), nats.DontRandomize(), nats.Timeout(20 * time.Second)}
		if s.CA != "" {
			o, err := client.TrustOption(s.CA)
			if err != nil {
				return nil, err
			}
			opts = append(opts, o)
		}
		nc, err := client.Dial(s.URL, cmp.Or(conn.Creds, s.Operator), append(opts, conn.Options...)...)
		if err == nil {
			return nc, nil
		}
		if try == 5 || errors.Is(err, nats.ErrAuthorization) { // else it ended between the two
			return nil, fault.NoServer(PlainURL(s.URL), err)
		}
	}
}

func (conn *Connection) dial() (*nats.Conn, error) {
	opts := []nats.Option{nats.Name("ledgerctl"),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})} // the client reports what concerns a call
	server, creds, trusted := conn.Server, conn.Creds, conn.TLSCA
	if conn.NATSContext != "" {
		c, err := client.FindNATSContext(conn.NATSContext)
		if api.HasCode(err, api.NotFound) {
			return nil, fault.WithHint(err, "nats context ls lists what there is; ledgerctl nats-context prints the command that makes one")
		}
		if err != nil {
			return nil, err
		}
		if !conn.ServerNamed && c.URL != "" {
			server = c.URL
		}
		if creds == "" {
			if creds = c.NKey; c.Creds != "" {
				creds = c.Creds
			}
		}
		if c.User != "" {
			opts = append(opts, nats.UserInfo(c.User, c.Password))
		}
		if c.Token != "" {
			opts = append(opts, nats.Token(c.Token))
		}
		trusted = cmp.Or(trusted, c.CA)
		if c.Cert != "" {
			opts = append(opts, nats.ClientCert(c.Cert, c.Key))
		}
	} else if c, err := client.FindServerContext(server); err == nil {
		if creds == "" && !strings.Contains(server, "@") {
			creds = c.Operator
		}
		trusted = cmp.Or(trusted, c.CA)
	} else if !errors.Is(err, fs.ErrNotExist) && creds == "" && !strings.Contains(server, "@") {
		return nil, err
	}
	if trusted != "" {
		o, err := client.TrustOption(trusted)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fault.WithHint(fault.Usage(err), "--tls-ca FILE or NEXUS_TLS_CA names the PEM file of the authority that signed the server's certificate")
		}
		if err != nil {
			return nil, err
		}
		opts = append(opts, o)
	}
	nc, err := client.Dial(server, creds, append(opts, conn.Options...)...)
	if file := (*fs.PathError)(nil); errors.As(err, &file) && file.Path == creds {
		return nil, fault.WithHint(fault.Usage(err), "--creds FILE or NEXUS_CREDS names the file; nexusd prints it when it starts")
	}
	if typed := (*api.Error)(nil); errors.As(err, &typed) {
		return nil, err
	}
	if err != nil {
		return nil, fault.NoServer(PlainURL(server), err)
	}
	return nc, nil
}

// PlainURL is a list of URLs without users and passwords.
func PlainURL(list string) string {
	var out []string
	for s := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(strings.TrimSpace(s))
		if err != nil || u.User == nil {
			if _, after, found := strings.Cut(s, "@"); found { // a URL that can't be read may hold one too
				s = after
			}
			out = append(out, s)
			continue
		}
		u.User = nil
		out = append(out, u.String())
	}
	return strings.Join(out, ",")
}

// Client connects for an agent; the one that a flag or the environment names wins.
func (conn *Connection) Client(def string) (*client.Client, error) {
	if conn.NC == nil {
		nc, err := conn.Dial()
		if err != nil {
			return nil, err
		}
		conn.NC, conn.Link = nc, client.New(nc, conn.Tenant, def).Within(Patience).OnWaiting(silence, conn.sayWaiting).OnStale(conn.sayStale)
	}
	agent := def
	if conn.Agent != "" {
		agent = conn.Agent
	}
	if conn.Terminal.Verbose {
		fmt.Fprintf(conn.Terminal.Err, "ledgerctl: %s, tenant %s, agent %s\n", prose.Printable(PlainURL(conn.NC.ConnectedUrl())), prose.Printable(conn.Tenant), prose.Printable(agent))
	}
	return conn.Link.As(agent), nil
}

// Patience is how long a call is tried for: longer than a leader of a cluster is
// away, and than the daemon works on a request.
const Patience = 45 * time.Second

// silence is how long a call is tried for before the command says so.
const silence = 2 * time.Second

// sayWaiting says on stderr, once in a command, why a call is tried again and for how
// long. Other calls of the command may come after this one.
func (conn *Connection) sayWaiting(w client.Waiting) {
	if conn.waited.Swap(true) {
		return
	}
	why := strings.TrimSuffix(fault.Plainly(nil, w.Why), ".")
	if w.Until.IsZero() {
		conn.Terminal.Say("retrying: %s; until there is an answer", prose.Printable(why))
		return
	}
	conn.Terminal.Say("retrying: %s; for %.0f s more at most", prose.Printable(why), max(1, time.Until(w.Until).Seconds()))
}

// sayStale says on stderr, once in a command, that answers may lack the newest turns.
func (conn *Connection) sayStale() {
	if !conn.stale.Swap(true) {
		conn.Terminal.Say("the daemon's disk takes no writes: what is shown may lack the newest turns")
	}
}
