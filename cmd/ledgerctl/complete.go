package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/turnview"
	"nexus/compactor/policy"
	"nexus/ledger/api"
)

// complete gives every verb what a shell completes its arguments and flags with.
func (e *env) complete(root *cobra.Command) {
	root.InitDefaultCompletionCmd("completion")
	each(root, func(c *cobra.Command) {
		switch {
		case c.Name() == "completion" && c.Parent() == root:
			c.Args, c.RunE = nil, noShell
		case c.HasParent() && c.Parent().Name() == "completion":
			c.Args = func(_ *cobra.Command, args []string) error {
				if len(args) > 0 {
					return fault.Usage(errors.New("usage: ledgerctl completion " + c.Name()))
				}
				return nil
			}
		case c.ValidArgsFunction != nil || c.Parent() == nil:
		case strings.Contains(c.Use, "FILE") && !strings.Contains(c.Use, "SESSION"):
		case strings.Contains(c.Use, "NAME"):
			c.ValidArgsFunction = cobra.FixedCompletions(aboutPolicies(), cobra.ShellCompDirectiveNoFileComp)
		case strings.Contains(c.Use, "SESSION"), strings.Contains(c.Use, "TURN"), strings.Contains(c.Use, "COMPACTION"):
			c.ValidArgsFunction = e.liveNames
		default:
			c.ValidArgsFunction = cobra.NoFileCompletions
		}
		kinds := map[string][]string{"search": {"turn", "memory", "event"}, "new": {"peer", "task", "main"}}[c.Name()]
		if c.HasParent() && c.Parent().Name() == "memory" {
			kinds = []string{"daily", "long_term", "episodic", "semantic"}
		}
		for name, values := range map[string][]string{"policy": aboutPolicies(), "mode": {"as_seen", "full", "summary"}, "kind": kinds, "trust": {"person", "agent", "tool"}, "visibility": {"main", "all", "branch"}} {
			if c.Flags().Lookup(name) != nil {
				_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
			}
		}
	})
}

func each(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		each(sub, f)
	}
}

// noShell is completion without a shell that there is a script for.
func noShell(cmd *cobra.Command, args []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if len(args) == 0 {
		return fault.Usage(errors.New("for which shell? " + strings.Join(names, ", ")))
	}
	return fault.Usage(fmt.Errorf("there is no script for a shell %q; there are for %s", args[0], strings.Join(names, ", ")))
}

// aboutPolicies is the policies with what each does, as shells show it.
func aboutPolicies() (out []string) {
	for _, n := range policy.Names() {
		out = append(out, n+"\t"+names.BuiltinPolicies[n])
	}
	return out
}

// liveNames completes the names of open sessions: labels, then ids. It asks the
// daemon and gives up after a second, silently: a shell waits for it.
func (e *env) liveNames(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), time.Second)
	defer cancel()
	switch sess, _, at := strings.Cut(begun, "@"); {
	case len(args) == 1 && strings.Contains(cmd.Use, "SESSION TURN"):
		return e.liveTurns(ctx, args[0], "t"), cobra.ShellCompDirectiveNoFileComp
	case len(args) > 0 && !strings.Contains(cmd.Use, "…") && strings.Count(cmd.Use, "SESSION") < 2:
		return nil, cobra.ShellCompDirectiveNoFileComp
	case at:
		return e.liveTurns(ctx, sess, sess+"@"), cobra.ShellCompDirectiveNoFileComp
	}
	c, err := e.Client(api.Operator)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var labels, ids []string
	for s, err := range c.ListSessions(ctx, api.ListSessions{About: api.About{About: true}}) {
		if err != nil || len(ids) == 200 {
			break
		}
		if s.State != "open" || s.Error != "" {
			continue
		}
		about := fmt.Sprintf("\t%s, %s", s.Agent, prose.Plural(s.Turns, "turn"))
		if t := prose.Clip(s.Title, 50); t != "" {
			about = "\t" + t
		}
		switch {
		case s.Label != "" && strings.HasPrefix(s.Label, begun):
			labels = append(labels, s.Label+about)
		case strings.HasPrefix(s.ID.String(), strings.ToUpper(begun)):
			ids = append(ids, s.ID.String()+about)
		}
	}
	return append(labels, ids...), cobra.ShellCompDirectiveNoFileComp
}

// liveTurns completes the numbers of a session's newest turns. before is the text
// before the number.
func (e *env) liveTurns(ctx context.Context, sess, before string) (out []string) {
	c, s, err := e.Session(ctx, sess)
	if err != nil {
		return nil
	}
	const most = 30
	for t, err := range c.Turns(ctx, s.ID, api.ListTurns{Order: "desc", Full: true, Page: api.Page{Limit: most}}) {
		if err != nil || len(out) > most {
			break
		}
		about := "\t" + prose.Clip(words(&t), 50)
		if len(out) == 0 && strings.HasSuffix(before, "@") {
			out = append(out, before+"head"+about)
		}
		out = append(out, fmt.Sprintf("%s%d%s", before, t.Depth, about))
	}
	return out
}

// words is what a turn is about, in a few words.
func words(t *api.Turn) string {
	if t.Compaction != nil {
		return turnview.Did(t.Compaction)
	}
	return turnview.Describe(t.Messages)
}
