package main

import (
	"strings"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/sessions"
	"nexus/ledger/api"
)

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

func noteTurnCmd(e *env) *cobra.Command {
	var none bool
	c := verb("note TURN [TEXT]", "put a note on a turn; without TEXT: print it", 1, -1, func(cmd *cobra.Command, args []string) error {
		return sessions.Note(cmd.Context(), e.Env, args[0], strings.Join(args[1:], " "), none)
	})
	c.Flags().BoolVar(&none, "none", false, "take the note away")
	return c
}
