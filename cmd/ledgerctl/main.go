// Command ledgerctl reads, changes and audits a ledger of agents' conversations.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"nexus/ledger/api"
	"nexus/turns"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// env is what every verb works with.
type env struct {
	server, tenant, agent string
	json, quiet           bool
	in                    io.Reader
	out, err              io.Writer
	nc                    *nats.Conn
}

// run is main with its world given; it returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) int {
	e := &env{in: in, out: out, err: errw}
	root := commands(e)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errw)
	err := root.ExecuteContext(ctx)
	if e.nc != nil {
		e.nc.Close()
	}
	if err == nil {
		return 0
	}
	var x *api.Error
	text := err.Error()
	if errors.As(err, &x) {
		text = x.Message
	}
	fmt.Fprintf(errw, "ledgerctl: error: %s\n", text)
	if h := hint(err); h != "" {
		fmt.Fprintf(errw, "hint: %s\n", h)
	}
	var u usageError
	if errors.As(err, &u) {
		return 2
	}
	return api.Exit(err)
}

type usageError struct{ error }

func hint(err error) string {
	var x *api.Error
	switch {
	case errors.As(err, &usageError{}):
		return "ledgerctl help lists the verbs, ledgerctl help VERB one with an example"
	case errors.As(err, &x) && x.Code == api.Unavailable:
		return "is nexusd running on that server? start it with: nexusd"
	case errors.As(err, &x) && x.Code == api.NotFound:
		return "ledgerctl sessions lists what there is"
	}
	return ""
}

// client connects for an agent; the agent given by flag wins.
func (e *env) client(def string) (*api.Client, error) {
	if e.nc == nil {
		nc, err := nats.Connect(e.server, nats.Name("ledgerctl"))
		if err != nil {
			return nil, api.Errorf(api.Unavailable, nil, "connect to %s: %v", e.server, err)
		}
		e.nc = nc
	}
	agent := def
	if e.agent != "" {
		agent = e.agent
	}
	return api.NewClient(e.nc, e.tenant, agent), nil
}

// print writes v as one line of JSON.
func (e *env) print(v any) error {
	b, err := turns.EncodeJSON(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.out, "%s\n", b)
	return err
}

func (e *env) say(format string, args ...any) {
	if !e.quiet {
		fmt.Fprintf(e.err, format+"\n", args...)
	}
}

func commands(e *env) *cobra.Command {
	root := &cobra.Command{Use: "ledgerctl", Short: "a ledger for the conversations of AI agents", SilenceErrors: true, SilenceUsage: true,
		Args: cobra.ArbitraryArgs, RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("there is no verb %q", args[0])}
			}
			return cmd.Help()
		}}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	def := os.Getenv("NEXUS_URL")
	if def == "" {
		def = nats.DefaultURL
	}
	f := root.PersistentFlags()
	f.StringVar(&e.server, "server", def, "NATS server (NEXUS_URL)")
	f.StringVar(&e.tenant, "tenant", "default", "tenant")
	f.StringVar(&e.agent, "agent", "", "agent (default: main where a verb creates, the operator where it reads)")
	f.BoolVar(&e.json, "json", false, "JSON: one object, or one object a line")
	f.BoolVar(&e.quiet, "quiet", false, "no talk on stderr")
	root.AddCommand(quickstartCmd(e), importCmd(e), exportCmd(e), sessionsCmd(e), appendCmd(e), logCmd(e), tailCmd(e), showCmd(e), treeCmd(e),
		pathCmd(e), contextCmd(e), compactCmd(e), expandCmd(e), rewindCmd(e), forkCmd(e), verifyCmd(e), versionCmd(e))
	return root
}

// verb makes a command whose arguments are counted by us, for the error's sake.
func verb(use, short, example string, least, most int, f func(*cobra.Command, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Example: "  $ " + example, Args: func(_ *cobra.Command, args []string) error {
		if len(args) < least || (most >= 0 && len(args) > most) {
			return usageError{fmt.Errorf("usage: ledgerctl %s", use)}
		}
		return nil
	}, RunE: f}
}
