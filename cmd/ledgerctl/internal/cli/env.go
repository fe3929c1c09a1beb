package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"nexus/cmd/ledgerctl/internal/connect"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Env is what every verb works with: the terminal, and what finds sessions over a connection.
type Env struct {
	*terminal.Terminal
	names.Finder
}

// New returns the world of a command that writes to a terminal.
func New(term *terminal.Terminal) *Env {
	return &Env{Terminal: term, Finder: names.Finder{Connection: &connect.Connection{Terminal: term}}}
}

// Confirm asks whoever types at a terminal whether it is to be done. A script is not asked.
func (e *Env) Confirm(ctx context.Context, what string) error {
	in, ok := e.In.(*os.File)
	if !ok || !e.ErrIsTerminal || !term.IsTerminal(int(in.Fd())) {
		e.Say("%s", what)
		return nil
	}
	fmt.Fprintf(e.Err, "%s\nType yes to go on: ", what)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n')
		answer <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case said := <-answer:
		if said != "yes" {
			return fault.Usage(errors.New("nothing was changed"))
		}
	}
	return nil
}

// SayTimes says which times a verb looks at, in the local zone.
func (e *Env) SayTimes(from, to *api.Time) {
	if times := names.Span(from, to); times != "" {
		e.Say("times: %s", times)
	}
}

// SessionFlag finds the session that a flag names, and makes c speak for its agent.
func (e *Env) SessionFlag(ctx context.Context, c **client.Client, name string) (turns.ID, error) {
	if name == "" {
		return turns.ID{}, nil
	}
	own, s, err := e.Session(ctx, name)
	if err != nil {
		return turns.ID{}, err
	}
	*c = own
	return s.ID, nil
}

// SessionIDs returns the ids of sessions that are named.
func (e *Env) SessionIDs(ctx context.Context, args []string) (ids []turns.ID, err error) {
	for _, a := range args {
		_, s, err := e.Session(ctx, a)
		if err != nil {
			return nil, err
		}
		ids = append(ids, s.ID)
	}
	return ids, nil
}

// ConnectionFlags returns the flags by which a process in another folder reaches the same
// ledger. They stand in files that others may read, and so never hold a password or token: a
// server that is named with one is refused, unless a file has the credentials.
func (e *Env) ConnectionFlags() (out []string, err error) {
	if e.Creds == "" && e.NATSContext == "" && strings.Contains(e.Server, "@") {
		return nil, fault.WithHint(fault.Usage(errors.New("the server is named with a user or token, which is not written into settings or units that others may read")),
			"--creds FILE names a file of credentials, --nats-context NAME a context of the nats command that has them")
	}
	if e.ServerNamed {
		out = append(out, "--server", connect.PlainURL(e.Server))
	}
	for _, f := range []struct{ flag, file string }{{"--creds", e.Creds}, {"--tls-ca", e.TLSCA}} {
		if f.file == "" {
			continue
		}
		if f.file, err = filepath.Abs(f.file); err != nil {
			return nil, err
		}
		out = append(out, f.flag, f.file)
	}
	if e.NATSContext != "" {
		out = append(out, "--nats-context", e.NATSContext)
	}
	if e.Tenant != "default" {
		out = append(out, "--tenant", e.Tenant)
	}
	return out, nil
}

// JSONValue checks that the value of a flag is JSON as the ledger takes it.
func JSONValue(what string, v turns.Raw) error {
	var x turns.Raw
	if err := turns.DecodeJSON(v, &x); err != nil {
		return fault.Usage(fmt.Errorf("%s: %w", what, err))
	}
	return nil
}
