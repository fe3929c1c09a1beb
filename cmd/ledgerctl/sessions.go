package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nexus/ledger/api"
	"nexus/turns"
)

func sessionsCmd(e *env) *cobra.Command {
	list := func(cmd *cobra.Command, _ []string) error { return e.listSessions(cmd.Context()) }
	c := verb("sessions", "list, open, change and close sessions", 0, 0, list)
	c.AddCommand(verb("list", "the sessions, oldest first", 0, 0, list), showSessionCmd(e), newSessionCmd(e), setSessionCmd(e), resetSessionCmd(e), closeSessionCmd(e))
	return c
}

func (e *env) listSessions(ctx context.Context) error {
	c, err := e.client(api.Operator)
	if err != nil {
		return err
	}
	var rows [][]string
	for s, err := range c.Sessions(ctx) {
		if err != nil {
			return err
		}
		if e.json {
			if err := e.print(s); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{idStyle.Render(s.ID.String()), s.Agent, state(&s), fmt.Sprint(s.Turns), fmt.Sprint(s.Compactions), grouped(s.Tokens),
			gauge(s.Pressure, 10) + fmt.Sprintf(" %3.0f%%", 100*s.Pressure), age(time.Time(s.Updated)), s.Label})
	}
	if e.json {
		return nil
	}
	if len(rows) == 0 {
		e.say("no session yet; ledgerctl import FILE brings one in, ledgerctl append new begins one")
		return nil
	}
	_, err = io.WriteString(e.out, columns([]string{"session", "agent", "state", "turns", "compactions", "tokens", "window used", "changed", "label"}, rows, 3, 4, 5))
	return err
}

// state is a session's, and why it can't be read.
func state(s *api.Session) string {
	if s.Error != "" {
		return s.State + " (" + string(s.Error) + ")"
	}
	return s.State
}

// grouped is n with its thousands apart.
func grouped(n uint64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// age is how long ago t was, in its largest unit.
func age(t time.Time) string {
	d := time.Since(t)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

func showSessionCmd(e *env) *cobra.Command {
	return verb("show SESSION", "one session with its settings", 1, 1, func(cmd *cobra.Command, args []string) error {
		_, s, err := e.session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return e.printSession(s)
	})
}

func (e *env) printSession(s *api.Session) error {
	if e.json {
		return e.print(s)
	}
	row := func(name, format string, args ...any) {
		if v := fmt.Sprintf(format, args...); v != "" {
			fmt.Fprintf(e.out, "%s %s\n", faint.Render(fmt.Sprintf("%-12s", name)), v)
		}
	}
	row("session", "%s", idStyle.Render(s.ID.String()))
	row("label", "%s", s.Label)
	row("agent", "%s, %s", s.Agent, s.Kind)
	row("state", "%s", s.State)
	if !s.Successor.IsZero() {
		row("successor", "%s", s.Successor)
	}
	if f := s.ForkedFrom; f != nil {
		row("forked from", "%s at turn %s (%s)", f.Session, f.Turn, f.Mode)
	}
	if sp := s.SpawnedBy; sp != nil {
		row("spawned by", "%s turn %s", sp.Session, sp.Turn)
	}
	if s.Head != nil {
		row("head", "%s at depth %d", s.Head, s.Depth)
	}
	row("turns", "%d, %s", s.Turns, plural(s.Compactions, "compaction"))
	row("window", "%s %s of %s tokens (%s of system and tools)", gauge(s.Pressure, 20), grouped(s.Tokens+s.Overhead), grouped(s.Budget), grouped(s.Overhead))
	row("model", "%s", s.Model)
	row("policy", "%s%s", s.Policy.Name, s.Policy.Set)
	row("used", "%s tokens in, %s out", grouped(s.Usage.InputTokens), grouped(s.Usage.OutputTokens))
	row("opened", "%s", time.Time(s.Created).Format(time.DateTime))
	row("changed", "%s", time.Time(s.Updated).Format(time.DateTime))
	row("hash", "%s", s.Hash)
	if len(s.Meta) > 0 {
		row("meta", "%s", s.Meta)
	}
	return nil
}

// settings are the flags of sessions new and sessions set.
type settings struct {
	label, model, system, tools, policy string
	window, output                      uint64
}

func (s *settings) flags(f *pflag.FlagSet) {
	f.StringVar(&s.label, "label", "", "a name of your own")
	f.StringVar(&s.model, "model", "", "the model")
	f.StringVar(&s.system, "system", "", "file with the system text")
	f.StringVar(&s.tools, "tools", "", "file with the tools, a JSON array")
	f.StringVar(&s.policy, "policy", "", "the compaction policy")
	f.Uint64Var(&s.window, "window", 0, "the model's context window, in tokens")
	f.Uint64Var(&s.output, "output", 0, "what is kept free for the answer, in tokens")
}

// request is the settings whose flags were given. Limits go together: those
// of was that no flag names stay.
func (s *settings) request(e *env, f *pflag.FlagSet, was turns.Limits) (r api.SessionSettings, err error) {
	set := func(name string, value *string, to **string) {
		if f.Changed(name) {
			*to = value
		}
	}
	set("label", &s.label, &r.Label)
	set("model", &s.model, &r.Model)
	if f.Changed("policy") {
		if r.Policy, err = policyArg(s.policy); err != nil {
			return r, err
		}
	}
	if f.Changed("system") {
		text, err := e.readFile(s.system)
		if err != nil {
			return r, err
		}
		r.System = &api.System{{Content: string(text)}}
	}
	if f.Changed("tools") {
		b, err := e.readFile(s.tools)
		if err != nil {
			return r, err
		}
		r.Tools = new([]turns.Raw)
		if err := turns.DecodeJSON(b, r.Tools); err != nil {
			return r, usageError{fmt.Errorf("%s: %w", s.tools, err)}
		}
	}
	if f.Changed("window") || f.Changed("output") {
		if f.Changed("window") {
			was.ContextWindow = s.window
		}
		if f.Changed("output") {
			was.MaxOutputTokens = s.output
		}
		r.Limits = &was
	}
	return r, nil
}

// readFile is a file's content; - is standard input.
func (e *env) readFile(name string) (b []byte, err error) {
	if name == "-" {
		return io.ReadAll(e.in)
	}
	if b, err = os.ReadFile(name); err != nil {
		err = usageError{err}
	}
	return b, err
}

func newSessionCmd(e *env) *cobra.Command {
	var set settings
	c := verb("new", "open a session", 0, 0, func(cmd *cobra.Command, _ []string) error {
		r, err := set.request(e, cmd.Flags(), turns.Limits{})
		if err != nil {
			return err
		}
		c, err := e.client("main")
		if err != nil {
			return err
		}
		s, err := c.Create(cmd.Context(), api.CreateSession{SessionSettings: r})
		if err != nil {
			return err
		}
		if e.json {
			return e.print(s)
		}
		_, err = fmt.Fprintln(e.out, s.ID)
		return err
	})
	set.flags(c.Flags())
	return c
}

func setSessionCmd(e *env) *cobra.Command {
	var set settings
	c := verb("set SESSION", "change settings", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, s, err := e.session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		r, err := set.request(e, cmd.Flags(), s.Limits)
		if err != nil {
			return err
		}
		if s, err = c.Set(cmd.Context(), s.ID, api.SetSession{SessionSettings: r}); err != nil {
			return err
		}
		return e.printSession(s)
	})
	set.flags(c.Flags())
	return c
}

func closeSessionCmd(e *env) *cobra.Command {
	var cause string
	c := verb("close SESSION", "take no more turns", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, s, err := e.session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if s, err = c.Close(cmd.Context(), s.ID, api.CloseSession{Cause: cause}); err != nil {
			return err
		}
		if e.json {
			return e.print(s)
		}
		_, err = fmt.Fprintf(e.out, "session %s is %s\n", s.ID, s.State)
		return err
	})
	c.Flags().StringVar(&cause, "cause", "", "why, for the record")
	return c
}

func resetSessionCmd(e *env) *cobra.Command {
	var cause string
	c := verb("reset SESSION", "close it and go on in a fresh successor", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, s, err := e.session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		next, err := c.Reset(cmd.Context(), s.ID, api.ResetSession{Cause: cause})
		if err != nil {
			return err
		}
		if e.json {
			return e.print(next)
		}
		_, err = fmt.Fprintln(e.out, next.ID)
		return err
	})
	c.Flags().StringVar(&cause, "cause", "", "why, for the record")
	return c
}

// liveNames completes the names of sessions: labels, then ids. It asks the
// daemon and gives up after a second, silently: a shell waits for it.
func (e *env) liveNames(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), time.Second)
	defer cancel()
	c, err := e.client(api.Operator)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var labels, ids []string
	for s, err := range c.Sessions(ctx) {
		if err != nil || len(ids) == 200 {
			break
		}
		about := fmt.Sprintf("\t%s, %d turns, %s", s.Agent, s.Turns, s.State)
		if s.Label != "" && strings.HasPrefix(s.Label, begun) {
			labels = append(labels, s.Label+about)
		}
		if strings.HasPrefix(s.ID.String(), strings.ToUpper(begun)) {
			ids = append(ids, s.ID.String()+about)
		}
	}
	return append(labels, ids...), cobra.ShellCompDirectiveNoFileComp
}
