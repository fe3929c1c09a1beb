package main

import (
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
