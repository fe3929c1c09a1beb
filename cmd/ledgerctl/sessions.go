package main

import (
	"strings"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/searchview"
	"nexus/cmd/ledgerctl/internal/sessions"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

func sessionsCmd(e *env) *cobra.Command {
	var all bool
	var sorted string
	var g searchview.Filter
	list := func(cmd *cobra.Command, _ []string) error {
		if g.Text == "" && !cmd.Flags().Changed("limit") {
			g.Limit = 0
		}
		if g.Text != "" {
			return sessions.Grep(cmd.Context(), e.Env, &g)
		}
		return sessions.List(cmd.Context(), e.Env, all, sorted, &g)
	}
	c := verb("sessions", "list, open, change and close sessions", 0, 0, list)
	lister := verb("list", "the sessions, oldest first", 0, 0, list)
	for _, v := range []*cobra.Command{c, lister} {
		g.Flags(v.Flags())
		v.Flags().StringVar(&sorted, "sort", "said", "what the list is in the order of: said (the newest turn), turns, tokens or opened; the most last")
		v.Flags().BoolVar(&all, "all", false, "list imported sessions without a turn too, and those that import --refresh replaced")
	}
	show := e.sessionVerb("show SESSION", "one session with its settings", func(cmd *cobra.Command, c *client.Client, s *api.Session) error {
		return sessions.Show(cmd.Context(), e.Env, c, s)
	})
	c.AddCommand(lister, show, newSessionCmd(e), setSessionCmd(e), resetSessionCmd(e), closeSessionCmd(e),
		hideSessionCmd(e, true), hideSessionCmd(e, false), titleSessionCmd(e), tagSessionCmd(e))
	return c
}

func newSessionCmd(e *env) *cobra.Command {
	var set sessions.Settings
	var kind string
	c := verb("new", "open a session", 0, 0, func(cmd *cobra.Command, _ []string) error {
		return sessions.Open(cmd.Context(), e.Env, kind, set)
	})
	set.Flags(c.Flags())
	c.Flags().StringVar(&kind, "kind", "", "peer, task or main")
	return c
}

func setSessionCmd(e *env) *cobra.Command {
	var set sessions.Settings
	c := verb("set SESSION", "change settings", 1, 1, func(cmd *cobra.Command, args []string) error {
		return sessions.Change(cmd.Context(), e.Env, args[0], set)
	})
	set.Flags(c.Flags())
	return c
}

func closeSessionCmd(e *env) *cobra.Command {
	var o sessions.Ending
	c := e.sessionVerb("close SESSION", "accept no more turns", func(cmd *cobra.Command, c *client.Client, s *api.Session) error {
		return sessions.Close(cmd.Context(), e.Env, c, s, o)
	})
	c.Flags().StringVar(&o.Cause, "cause", "", "why, for the record")
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "report what would be done; change nothing")
	return c
}

func resetSessionCmd(e *env) *cobra.Command {
	var o sessions.Ending
	c := e.sessionVerb("reset SESSION", "close it and open a successor", func(cmd *cobra.Command, c *client.Client, s *api.Session) error {
		return sessions.Reset(cmd.Context(), e.Env, c, s, o)
	})
	c.Flags().StringVar(&o.Cause, "cause", "", "why, for the record")
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "report what would be done; change nothing")
	return c
}

// hideSessionCmd is session hide, and session unhide with hidden unset.
func hideSessionCmd(e *env, hidden bool) *cobra.Command {
	use, short := "unhide SESSION…", "show sessions in lists again"
	if hidden {
		use, short = "hide SESSION…", "leave sessions out of lists, search and cost"
	}
	o := sessions.Hiding{Hidden: hidden}
	c := verb(use, short, 1, -1, func(cmd *cobra.Command, args []string) error {
		return sessions.Hide(cmd.Context(), e.Env, args, o)
	})
	c.Flags().StringVar(&o.Cause, "cause", "", "why, for the record")
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "report what would be done; change nothing")
	c.Flags().BoolVar(&o.Alone, "without-sub-agents", false, "leave the sub-agents that it started as they are")
	return c
}

func titleSessionCmd(e *env) *cobra.Command {
	var none bool
	c := verb("title SESSION [TITLE]", "give it a title of your own; without TITLE: print it", 1, -1, func(cmd *cobra.Command, args []string) error {
		return sessions.Title(cmd.Context(), e.Env, args[0], strings.Join(args[1:], " "), none)
	})
	c.Flags().BoolVar(&none, "none", false, "take the title away: the session's own shows again")
	return c
}

func tagSessionCmd(e *env) *cobra.Command {
	var r api.DescribeSession
	var project string
	c := verb("tag SESSION [TAG…]", "give it tags; without TAG: print them", 1, -1, func(cmd *cobra.Command, args []string) error {
		r.Tag = args[1:]
		if cmd.Flags().Changed("project") {
			r.Project = &project
		}
		return sessions.Tag(cmd.Context(), e.Env, args[0], r)
	})
	c.Flags().StringArrayVar(&r.Untag, "remove", nil, "take a tag away; may be repeated")
	c.Flags().StringVar(&project, "project", "", "the project that it belongs to; \"\": that of its folder")
	return c
}
