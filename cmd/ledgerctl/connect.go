package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"nexus/ledger/api"
)

// dial connects to the server. The credentials are those of --creds, of
// --nats-context, of the URL, or of the context that nexusd wrote for the URL. So is
// the file of the authorities that the command trusts, with --tls-ca.
func (e *env) dial() (*nats.Conn, error) {
	opts := []nats.Option{nats.Name("ledgerctl"),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})} // the client reports what concerns a call
	server, creds, trusted := e.server, e.creds, e.tlsCA
	if e.natsContext != "" {
		c, err := api.FindNATSContext(e.natsContext)
		if err != nil {
			return nil, err
		}
		if !e.serverNamed && c.URL != "" {
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
	} else if c, err := api.FindServerContext(server); err == nil {
		if creds == "" && !strings.Contains(server, "@") {
			creds = c.Operator
		}
		trusted = cmp.Or(trusted, c.CA)
	} else if !errors.Is(err, fs.ErrNotExist) && creds == "" && !strings.Contains(server, "@") {
		return nil, err
	}
	if trusted != "" {
		o, err := api.TrustOption(trusted)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, hinted{err, "--tls-ca FILE or NEXUS_TLS_CA names the PEM file of the authority that signed the server's certificate"}
		}
		if err != nil {
			return nil, err
		}
		opts = append(opts, o)
	}
	nc, err := api.Dial(server, creds, append(opts, e.options...)...)
	if file := (*fs.PathError)(nil); errors.As(err, &file) && file.Path == creds {
		return nil, hinted{err, "--creds FILE or NEXUS_CREDS names the file; nexusd prints it when it starts"}
	}
	if typed := (*api.Error)(nil); errors.As(err, &typed) {
		return nil, err
	}
	if err != nil {
		return nil, noServer(plainURL(server), err)
	}
	return nc, nil
}

// plainURL is a list of URLs without users and passwords.
func plainURL(list string) string {
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

func natsContextCmd(e *env) *cobra.Command {
	return verb("nats-context [NAME]", "the command that gives the nats command a context for this server", 0, 1, func(_ *cobra.Command, args []string) error {
		name := "nexus"
		if len(args) == 1 {
			name = args[0]
		}
		creds, trusted := e.creds, e.tlsCA
		c, err := api.FindServerContext(e.server)
		if err == nil {
			trusted = cmp.Or(trusted, c.CA)
		}
		if creds == "" {
			if errors.Is(err, fs.ErrNotExist) {
				return hinted{api.Errorf(api.NotFound, nil, "no nexusd of this user wrote the credentials for %s", plainURL(e.server)), "--creds FILE names them; nexusd prints the files when it starts"}
			}
			if err != nil {
				return err
			}
			creds = c.Agent
		}
		line := fmt.Sprintf("nats context save %s --server %s --nkey %s", quoted(name), quoted(plainURL(e.server)), quoted(creds))
		if trusted != "" {
			line += " --tlsca " + quoted(trusted)
		}
		line += " --select"
		if e.json {
			out := map[string]string{"name": name, "url": plainURL(e.server), "nkey": creds, "command": line}
			if trusted != "" {
				out["ca"] = trusted
			}
			return e.print(out)
		}
		_, err = fmt.Fprintln(e.out, line) // one line, however wide: it is for a shell
		return err
	})
}

// quoted is a word as a shell reads it.
func quoted(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,+@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
