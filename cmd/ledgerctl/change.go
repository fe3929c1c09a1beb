package main

import (
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/expansion"
	"nexus/cmd/ledgerctl/internal/sessions"
	"nexus/ledger/api"
)

func compactCmd(e *env) *cobra.Command {
	var o sessions.Compacting
	c := verb("compact SESSION", "replace older turns in the context by a summary", 1, 1, func(cmd *cobra.Command, args []string) error {
		return sessions.Compact(cmd.Context(), e.Env, args[0], o)
	})
	o.Policy.Add(c.Flags(), "another policy")
	c.Flags().BoolVar(&o.IfNeeded, "if-needed", false, "exit with 0 if there is nothing to compact")
	c.Flags().StringVar(&o.Focus, "focus", "", "what the summary should concentrate on")
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "plan only")
	c.Flags().BoolVar(&o.FromOriginals, "from-originals", false, "summarize the turns themselves, not the previous summary")
	return c
}

func lostCmd(e *env) *cobra.Command {
	var l api.ListLost
	var limit int
	c := verb("lost SESSION|COMPACTION", "the facts that compactions left out of the context", 1, 1, func(cmd *cobra.Command, args []string) error {
		return expansion.PrintLost(cmd.Context(), e.Terminal, e.Finder, args[0], l, limit)
	})
	c.Flags().StringSliceVar(&l.Kinds, "kind", nil, "user, errors, commands, paths, identifiers, numbers")
	c.Flags().IntVarP(&limit, "limit", "n", 50, "at most N; 0: all")
	return c
}

func rewindCmd(e *env) *cobra.Command {
	var dry bool
	c := verb("rewind SESSION TURN", "move the head, back or forward", 2, 2, func(cmd *cobra.Command, args []string) error {
		return sessions.Rewind(cmd.Context(), e.Env, args[0], args[1], dry)
	})
	c.Flags().BoolVar(&dry, "dry-run", false, "report where the head would be; change nothing")
	return c
}

func forkCmd(e *env) *cobra.Command {
	var o sessions.Forking
	c := placeVerb("fork SESSION|TURN [N]", "a new session that starts at a turn of another", func(cmd *cobra.Command, name string) error {
		return sessions.Fork(cmd.Context(), e.Env, name, o)
	})
	c.Flags().StringVar(&o.Mode, "mode", "as_seen", "as_seen, full, summary")
	c.Flags().StringVar(&o.Label, "label", "", "label of the new session")
	o.Policy.Add(c.Flags(), "another policy for the new session")
	c.Flags().StringVar(&o.Worktree, "worktree", "", "put the files of the turn into this folder")
	c.Flags().StringVar(&o.Repo, "repo", "", "the git repository that has the files")
	return c
}
