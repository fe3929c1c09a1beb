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
	"sync/atomic"
	"time"
	"unicode/utf16"
	"unicode/utf8"

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
	creds, natsContext    string
	tlsCA                 string
	serverNamed           bool // by flag or environment
	json, quiet, noColor  bool
	noPager               bool
	lessFlags             string // of a pager whose owner set none
	in                    io.Reader
	out, err              io.Writer
	raw                   io.Writer   // out as it was given, for content that is not text
	width                 int         // of the terminal behind out, in cells; 0: not a terminal, or one of unknown width
	screen                bool        // out is a terminal
	talks                 bool        // err is a terminal
	waited                atomic.Bool // a call was said to be tried again
	stale                 atomic.Bool // the command has said that answers may be stale
	nc                    *nats.Conn
	link                  *api.Client   // on nc
	options               []nats.Option // of the connection
}

// run is main with its world given; it returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) int {
	e := &env{in: in, out: out, err: errw, raw: out, lessFlags: "FRX", noColor: slices.Contains(args, "--no-color")}
	e.dress()
	root := commands(e)
	root.SetArgs(args)
	root.SetOut(e.out)
	root.SetErr(e.err)
	cmd, err := root.ExecuteContextC(ctx)
	if e.nc != nil {
		e.nc.Close()
	}
	if err == nil {
		return 0
	}
	if said := (exitError{}); errors.As(err, &said) {
		return said.status
	}
	if ctx.Err() != nil {
		fmt.Fprintln(e.err, "ledgerctl: interrupted")
		return 130 // as shells say it
	}
	fmt.Fprintln(e.err, wrapped(e.width, fmt.Sprintf("ledgerctl: %s %s", bad.Render("error:"), printable(plainly(cmd, err))), "  "))
	if h := hint(cmd, err); h != "" {
		fmt.Fprintln(e.err, hintText(e.width, h))
	}
	if isUsage(err) {
		return 2
	}
	return api.Exit(err)
}

// hintText is a hint in lines of width cells. The lines of a list stay lines.
func hintText(width int, hint string) string {
	first, rest, listed := strings.Cut(printable(hint), "\n")
	text := wrapped(width, faint.Render("hint:")+" "+first, "  ")
	if listed {
		text += "\n" + rest
	}
	return text
}

// client connects for an agent; the agent given by flag wins.
func (e *env) client(def string) (*api.Client, error) {
	if e.nc == nil {
		nc, err := e.dial()
		if err != nil {
			return nil, err
		}
		e.nc, e.link = nc, api.NewClient(nc, e.tenant, def).Within(patience).OnWaiting(silence, e.sayWaiting).OnStale(e.sayStale)
	}
	agent := def
	if e.agent != "" {
		agent = e.agent
	}
	return e.link.As(agent), nil
}

// patience is how long a call is tried for: longer than a leader of a cluster is
// away, and than the daemon works on a request.
const patience = 45 * time.Second

// silence is how long a call is tried for before the command says so.
const silence = 2 * time.Second

// sayWaiting says on stderr, once in a command, why a call is tried again and for how
// long. Other calls of the command may come after this one.
func (e *env) sayWaiting(w api.Waiting) {
	if e.waited.Swap(true) {
		return
	}
	why := strings.TrimSuffix(plainly(nil, w.Why), ".")
	if w.Until.IsZero() {
		e.say("retrying: %s; until there is an answer", printable(why))
		return
	}
	e.say("retrying: %s; for %.0f s more at most", printable(why), max(1, time.Until(w.Until).Seconds()))
}

// sayStale says on stderr, once in a command, that answers may lack the newest turns.
func (e *env) sayStale() {
	if !e.stale.Swap(true) {
		e.say("the daemon's disk takes no writes: what is shown may lack the newest turns")
	}
}

// print writes v as one line of JSON: byte for byte where out is a file or a pipe,
// with hidden characters escaped where it is a terminal.
func (e *env) print(v any) error {
	b, err := turns.EncodeJSON(v)
	if err != nil {
		return err
	}
	_, err = e.lines().Write(append(b, '\n'))
	return err
}

// lines returns the writer of JSON, whole values at a time.
func (e *env) lines() io.Writer {
	if e.screen {
		return escaper{e.raw}
	}
	return e.raw
}

// escaper writes JSON with its hidden characters escaped. A write holds whole values.
type escaper struct{ w io.Writer }

func (x escaper) Write(b []byte) (int, error) {
	if _, err := x.w.Write(escapeHidden(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// escapeHidden returns the JSON b with its hidden characters as \u escapes. It is the
// same value: such a character is in strings only, or white space around the value.
func escapeHidden(b []byte) []byte {
	var out []byte
	for _, r := range string(b) {
		if turns.IsHidden(r) && r != '\n' && r != '\t' {
			for _, u := range utf16.AppendRune(nil, r) { // JSON escapes half a surrogate pair at a time
				out = fmt.Appendf(out, `\u%04x`, u)
			}
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// tell writes a sentence to stdout, in as many lines as the terminal makes of it.
func (e *env) tell(format string, args ...any) {
	fmt.Fprintln(e.out, wrapped(e.width, fmt.Sprintf(format, args...), "  "))
}

// result writes what a verb did: as JSON, or as a sentence.
func (e *env) result(v any, format string, args ...any) error {
	if e.json {
		return e.print(v)
	}
	e.tell(format, args...)
	return nil
}

// say writes a sentence to stderr.
func (e *env) say(format string, args ...any) {
	if !e.quiet {
		fmt.Fprintln(e.err, wrapped(e.width, fmt.Sprintf(format, args...), "  "))
	}
}

func commands(e *env) *cobra.Command {
	root := &cobra.Command{Use: "ledgerctl", SilenceErrors: true, SilenceUsage: true,
		Args:              cobra.ArbitraryArgs,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noVerb(cmd, args[0])
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
	root.Version = version
	root.SetVersionTemplate("ledgerctl {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { fmt.Fprint(e.out, manualOf(cmd)) })
	def := os.Getenv("NEXUS_URL")
	if def == "" {
		def = nats.DefaultURL
	}
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		e.serverNamed = os.Getenv("NEXUS_URL") != "" || cmd.Flags().Changed("server")
	}
	f := root.PersistentFlags()
	f.StringVar(&e.server, "server", def, "NATS server (NEXUS_URL)")
	f.StringVar(&e.creds, "creds", os.Getenv("NEXUS_CREDS"), "file of credentials (NEXUS_CREDS)")
	f.StringVar(&e.tlsCA, "tls-ca", os.Getenv("NEXUS_TLS_CA"), "PEM file of the authorities to trust (NEXUS_TLS_CA)")
	f.StringVar(&e.natsContext, "nats-context", "", "context of the nats command")
	f.StringVar(&e.tenant, "tenant", "default", "tenant")
	f.StringVar(&e.agent, "agent", "", "agent (default: main where a verb creates, the operator where it reads)")
	f.BoolVar(&e.json, "json", false, "JSON: one object, or one object a line")
	f.BoolVar(&e.quiet, "quiet", false, "no talk on stderr")
	f.BoolVar(&e.noColor, "no-color", false, "no colour")
	f.BoolVar(&e.noPager, "no-pager", false, "no pager on a terminal")
	root.AddCommand(quickstartCmd(e), importCmd(e), watchCmd(e), hooksCmd(e), hookCmd(e), serviceCmd(e), exportCmd(e), sessionsCmd(e), appendCmd(e), e.paged(logCmd(e)), tailCmd(e), showCmd(e), e.paged(treeCmd(e)),
		pathCmd(e), mergeBaseCmd(e), diffCmd(e), e.paged(contextCmd(e)), compactCmd(e), expandCmd(e), rewindCmd(e), forkCmd(e), bisectCmd(e), continueCmd(e), compareCmd(e), costCmd(e), benchCmd(e), policiesCmd(e), policyCmd(e), verifyCmd(e), archiveCmd(e), backupCmd(e), restoreCmd(e), eventsCmd(e), memoryCmd(e), searchCmd(e), mcpCmd(e), doctorCmd(e), natsContextCmd(e), versionCmd(e))
	root.SetHelpCommand(helpCmd())
	e.complete(root)
	return root
}

// sessionVerb makes a command whose only argument is a session.
func (e *env) sessionVerb(use, short string, f func(cmd *cobra.Command, c *api.Client, s *api.Session) error) *cobra.Command {
	return verb(use, short, 1, 1, func(cmd *cobra.Command, args []string) error {
		c, s, err := e.session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return f(cmd, c, s)
	})
}

// helpCmd is the command help: the page of a verb. One that there is not is a usage error.
func helpCmd() *cobra.Command {
	return &cobra.Command{Use: "help [VERB]", Short: "the page of a verb", RunE: func(cmd *cobra.Command, args []string) error {
		on := cmd.Root()
		for _, name := range args {
			sub, _, err := on.Find([]string{name})
			if err != nil || sub == on {
				if on.HasParent() && !on.HasSubCommands() {
					break // words of an example
				}
				return noVerb(on, name)
			}
			on = sub
		}
		return on.Help()
	}}
}

// manualOf is the help of a verb: its own, or that of the verb it is part of.
func manualOf(cmd *cobra.Command) string {
	for c := cmd; c.HasParent(); c = c.Parent() {
		if text, ok := manual[c.Name()]; ok {
			return text
		}
	}
	return manual[""]
}

// verb makes a command whose arguments are counted by us, for the error's
// sake. Its help is in [manual].
func verb(use, short string, least, most int, f func(*cobra.Command, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && cmd.HasSubCommands() {
			return noVerb(cmd, args[0])
		}
		if len(args) < least || (most >= 0 && len(args) > most) {
			return usageError{fmt.Errorf("usage: ledgerctl %s", strings.TrimPrefix(cmd.CommandPath()+strings.TrimPrefix(use, cmd.Name()), "ledgerctl "))}
		}
		return nil
	}, RunE: f}
}
