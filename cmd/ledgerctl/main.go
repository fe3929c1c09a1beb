package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nexus/cmd/internal/build"
	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/completion"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/help"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

func main() {
	os.Exit(process())
}

// process runs the command of this process; it returns the exit status.
func process() int {
	ctx, stop := interruptible(context.Background())
	defer stop()
	program, err := os.Executable()
	if err != nil {
		program = ""
	}
	return runAs(ctx, program, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// interrupted is why a context ended: a signal came.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return "interrupted by a signal: " + i.signal.String() }

// interruptible returns a context that ends at SIGINT, SIGTERM and SIGHUP, so that a command
// removes what it made half. Under nohup SIGHUP stays ignored.
func interruptible(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	came := make(chan os.Signal, 1)
	signal.Notify(came, signals...)
	go func() {
		select {
		case s := <-came:
			if n, ok := s.(syscall.Signal); ok {
				cancel(interrupted{n})
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(came); cancel(nil) }
}

// interruptedStatus is the exit status of a command whose context ended: 128 and the number of
// the signal, as shells have it.
func interruptedStatus(ctx context.Context) int {
	if i := (interrupted{}); errors.As(context.Cause(ctx), &i) {
		return 128 + int(i.signal)
	}
	return 128 + int(syscall.SIGINT)
}

// env is what the rooms work with, and what only the command line has.
type env struct {
	*cli.Env
	program string        // the file of this program, which serves a ledger where no daemon does; "": none is served
	idle    time.Duration // how long a process that this command starts serves without a client
}

// newEnv returns the world of a command that writes to a terminal.
func newEnv(term *terminal.Terminal) *env {
	return &env{Env: cli.New(term)}
}

// run is main with its world given, for a ledger that something else serves; it returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) int {
	return runAs(ctx, "", args, in, out, errw)
}

// runAs is run for a program that can serve a ledger itself.
func runAs(ctx context.Context, program string, args []string, in io.Reader, out, errw io.Writer) int {
	if slices.Contains(args, "--utc") { // every view shows the local zone
		time.Local = time.UTC
	}
	e := newEnv(&terminal.Terminal{In: in, Out: out, Err: errw, Raw: out, LessFlags: "FRX", NoColor: slices.Contains(args, "--no-color")})
	e.program = program
	e.Dress()
	root := commands(e)
	root.SetArgs(args)
	root.SetOut(e.Out)
	root.SetErr(e.Err)
	cmd, err := root.ExecuteContextC(ctx)
	if e.NC != nil {
		e.NC.Close()
	}
	if err == nil {
		return 0
	}
	if said := (fault.ExitError{}); errors.As(err, &said) {
		return said.Status
	}
	if ctx.Err() != nil {
		fmt.Fprintln(e.Err, "ledgerctl: interrupted")
		return interruptedStatus(ctx)
	}
	fmt.Fprintln(e.Err, terminal.Wrapped(e.Width, fmt.Sprintf("ledgerctl: %s %s", terminal.Bad.Render("error:"), prose.Printable(fault.Plainly(cmd, err))), "  "))
	if h := fault.Next(cmd, err); h != "" {
		fmt.Fprintln(e.Err, hintText(e.Width, h))
	}
	if fault.IsUsage(err) {
		return 2
	}
	return api.Exit(err)
}

// hintText is a hint in lines of width cells. The lines of a list stay lines.
func hintText(width int, hint string) string {
	first, rest, listed := strings.Cut(prose.Printable(hint), "\n")
	text := terminal.Wrapped(width, terminal.Faint.Render("hint:")+" "+first, "  ")
	if listed {
		text += "\n" + rest
	}
	return text
}

func commands(e *env) *cobra.Command {
	root := &cobra.Command{Use: "ledgerctl", SilenceErrors: true, SilenceUsage: true,
		Args:              cobra.ArbitraryArgs,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fault.NoVerb(cmd, args[0])
			}
			if e.welcome() {
				return nil
			}
			shown, err := e.pick(cmd.Context(), func(args ...string) error {
				cmd.SetArgs(args)
				return cmd.ExecuteContext(cmd.Context())
			})
			if shown || err != nil {
				return err
			}
			return cmd.Help()
		}}
	root.Version = build.Version()
	root.Flags().BoolP("version", "V", false, "the version")
	root.SetVersionTemplate("ledgerctl {{.Version}}\n")
	root.SetFlagErrorFunc(fault.FlagError)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { fmt.Fprint(e.Out, help.Of(cmd)) })
	def := os.Getenv("NEXUS_URL")
	if def == "" {
		def = nats.DefaultURL
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		e.ServerNamed = os.Getenv("NEXUS_URL") != "" || cmd.Flags().Changed("server")
		if err := e.mayServe(cmd); err != nil {
			return err
		}
		e.AgentNamed = cmd.Flags().Changed("agent")
		if name := os.Getenv("NEXUS_AGENT"); !e.AgentNamed && name != "" && actsAsAgent(cmd) {
			e.Agent = name
		}
		if cmd.Name() == "hook" { // it never fails its agent
			return nil
		}
		return e.checkFlags(cmd)
	}
	f := root.PersistentFlags()
	f.StringVar(&e.Server, "server", def, "NATS server (NEXUS_URL)")
	f.StringVar(&e.Creds, "creds", os.Getenv("NEXUS_CREDS"), "file of credentials (NEXUS_CREDS)")
	f.StringVar(&e.TLSCA, "tls-ca", os.Getenv("NEXUS_TLS_CA"), "PEM file of the authorities to trust (NEXUS_TLS_CA)")
	f.StringVar(&e.NATSContext, "nats-context", "", "context of the nats command")
	e.localFlags(f)
	f.StringVar(&e.Tenant, "tenant", "default", "tenant")
	f.StringVar(&e.Agent, "agent", "", "agent (NEXUS_AGENT; default: main where a verb creates, the operator where it reads)")
	f.BoolVar(&e.JSON, "json", false, "JSON: one object, or one object a line")
	f.BoolVarP(&e.Quiet, "quiet", "q", false, "no messages on stderr")
	f.BoolVarP(&e.Verbose, "verbose", "v", false, "print on stderr which ledger is asked, and as whom")
	f.BoolVar(&e.NoColor, "no-color", false, "no colour")
	f.Bool("utc", false, "show times in UTC, not in the local zone")
	f.BoolVar(&e.NoPager, "no-pager", false, "no pager on a terminal")
	root.AddCommand(quickstartCmd(e), importCmd(e), watchCmd(e), hookCmd(e), serviceCmd(e), exportCmd(e), sessionsCmd(e), appendCmd(e), e.Paged(logCmd(e)), tailCmd(e), showCmd(e), turnCmd(e), e.Paged(treeCmd(e)),
		pathCmd(e), mergeBaseCmd(e), diffCmd(e), e.Paged(codeCmd(e)), e.Paged(contextCmd(e)), compactCmd(e), e.Paged(lostCmd(e)), expandCmd(e), rewindCmd(e), forkCmd(e), bisectCmd(e), continueCmd(e), compareCmd(e), costCmd(e), benchCmd(e), policyCmd(e), verifyCmd(e), proveCmd(e), secretsCmd(e), redactCmd(e), eraseCmd(e), archiveCmd(e), backupCmd(e), restoreCmd(e), eventsCmd(e), memoryCmd(e), searchCmd(e), openCmd(e), mcpCmd(e), serveCmd(e), doctorCmd(e), natsContextCmd(e), versionCmd(e))
	rename := titleSessionCmd(e)
	rename.Use, rename.Hidden = "rename SESSION [TITLE]", true
	root.AddCommand(rename)
	addAliases(root, "")
	root.SetHelpCommand(helpCmd())
	completion.Add(e.Env, root)
	return root
}

// aliases are other words for a verb, by its path.
var aliases = map[string][]string{"sessions": {"session", "ls", "list"}, "search": {"grep"}, "verify": {"fsck"}, "continue": {"resume"}, "tree": {"graph"}, "open": {"web", "ui"}, "service": {"daemon"}, "event": {"channel"}, "event tail": {"log"}, "session title": {"rename"}, "memory save": {"add"}, "memory withdraw": {"rm", "delete"}, "event get": {"show"}}

// addAliases gives the verbs below c their aliases. Each list is an ls, too.
func addAliases(c *cobra.Command, path string) {
	for _, v := range c.Commands() {
		at := strings.TrimSpace(path + " " + v.Name())
		v.Aliases = append(v.Aliases, aliases[at]...)
		if v.Name() == "list" {
			v.Aliases = append(v.Aliases, "ls")
		}
		addAliases(v, at)
	}
}

// neverEmpty are the flags that mean nothing without a value: an empty one is a variable of a
// script that is not set.
var neverEmpty = []string{"server", "tenant", "nats-context", "grep", "query", "call", "by", "since", "until", "zone", "prices", "user", "assistant", "output", "session", "after", "cwd", "branch"}

// checkFlags refuses values that no verb takes.
func (e *env) checkFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch v := f.Value.String(); {
		case err != nil:
		case v == "" && slices.Contains(neverEmpty, f.Name):
			err = fault.Usage(fmt.Errorf("--%s is empty", f.Name))
		case f.Value.Type() == "int" && strings.HasPrefix(v, "-"):
			err = fault.Usage(fmt.Errorf("--%s takes a whole number, 0 or more, not %q", f.Name, v))
		}
	})
	switch {
	case err != nil:
	case !turns.ValidName(e.Tenant):
		err = fault.Usage(fmt.Errorf("--tenant %q is not a name: a to z, 0 to 9 and -, at most 64 characters", e.Tenant))
	case e.Agent != "" && e.Agent != api.Operator && !turns.ValidName(e.Agent):
		from := "--agent"
		if !e.AgentNamed {
			from = "NEXUS_AGENT"
		}
		err = fault.Usage(fmt.Errorf("%s %q is not a name: a to z, 0 to 9 and -, at most 64 characters", from, e.Agent))
	}
	return err
}

// actsAsAgent reports whether NEXUS_AGENT says as whom a command acts, where --agent does not. It
// does not for what the operator alone may do, nor for a hook, whose transcripts are those that
// the daemon watches, and whose --agent is a coding agent.
func actsAsAgent(cmd *cobra.Command) bool {
	verb := cmd
	for verb.HasParent() && verb.Parent().HasParent() {
		verb = verb.Parent()
	}
	switch verb.Name() {
	case "backup", "erase", "prove", "redact", "hook":
		return false
	case "secrets":
		return !cmd.Flags().Changed("redact")
	case "verify":
		return cmd.Flags().NArg() > 0 // an agent may verify its own sessions
	}
	return true
}

// sessionVerb makes a command whose only argument is a session.
func (e *env) sessionVerb(use, short string, f func(cmd *cobra.Command, c *client.Client, s *api.Session) error) *cobra.Command {
	return verb(use, short, 1, 1, func(cmd *cobra.Command, args []string) error {
		c, s, err := e.Session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return f(cmd, c, s)
	})
}

// placeVerb makes a command for one session or turn, which a session and the number of a turn
// name, too; the number may be that of --at.
func placeVerb(use, short string, f func(cmd *cobra.Command, name string) error) *cobra.Command {
	var at string
	c := verb(use, short, 1, 2, func(cmd *cobra.Command, args []string) error {
		name, err := names.Joined(args, at)
		if err != nil {
			return err
		}
		return f(cmd, name)
	})
	atFlag(c, &at)
	return c
}

// atFlag adds --at to a command for one session or turn. It has no line of its own in a page of
// help: the second argument says the same.
func atFlag(c *cobra.Command, at *string) {
	c.Flags().StringVar(at, "at", "", "the turn of the session, as the second argument names it")
	_ = c.Flags().MarkHidden("at")
}

// helpCmd is the command help: the page of a verb. One that there is not is a usage error.
func helpCmd() *cobra.Command {
	return &cobra.Command{Use: "help [VERB…]", Short: "the page of a verb", RunE: func(cmd *cobra.Command, args []string) error {
		on := cmd.Root()
		for _, name := range args {
			sub, _, err := on.Find([]string{name})
			if err != nil || sub == on {
				if on.HasParent() && !on.HasSubCommands() {
					break // words of an example
				}
				return fault.NoVerb(on, name)
			}
			on = sub
		}
		return on.Help()
	}}
}

// verb makes a command whose arguments are counted by us, for the error's
// sake. Its help is a page of package help.
func verb(use, short string, least, most int, f func(*cobra.Command, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && cmd.HasSubCommands() {
			return fault.NoVerb(cmd, args[0])
		}
		if len(args) < least || (most >= 0 && len(args) > most) {
			return fault.Usage(fmt.Errorf("usage: ledgerctl %s", strings.TrimPrefix(cmd.CommandPath()+strings.TrimPrefix(use, cmd.Name()), "ledgerctl ")))
		}
		return nil
	}, RunE: f}
}
