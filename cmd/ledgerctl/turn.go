package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/history"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/sessions"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
)

// turnCmd is the group of what is done with turns. Each of them is a verb of its own, too.
func turnCmd(e *env) *cobra.Command {
	c := verb("turn", "turns: list, show, append, path, expand, note", 0, 0, func(cmd *cobra.Command, _ []string) error { return cmd.Help() })
	list := e.Paged(logCmd(e))
	list.Use = "list SESSION|TURN [N]"
	list.Aliases = []string{"log"}
	c.AddCommand(list, showCmd(e), appendCmd(e), pathCmd(e), expandCmd(e), noteTurnCmd(e))
	return c
}

func appendCmd(e *env) *cobra.Command {
	var o history.Appending
	c := verb("append SESSION|new", "add a turn", 1, -1, func(cmd *cobra.Command, args []string) error {
		return history.Append(cmd.Context(), e.Env, args, o)
	})
	c.Flags().StringVar(&o.User, "user", "", "the user's text")
	c.Flags().StringVar(&o.Assistant, "assistant", "", "the assistant's text")
	o.Policy.Add(c.Flags(), "the compaction policy of the new session")
	return c
}

func logCmd(e *env) *cobra.Command {
	var o history.Logging
	c := placeVerb("log SESSION|TURN [N]", "the turns of a session, newest first", func(cmd *cobra.Command, name string) error {
		return history.Log(cmd.Context(), e.Env, name, o)
	})
	c.Flags().IntVarP(&o.Limit, "limit", "n", 0, "at most N; 0: all")
	c.Flags().StringVar(&o.Since, "since", "", "from a time on: "+names.DayHelp)
	c.Flags().StringVar(&o.Until, "until", "", names.UntilHelp)
	c.Flags().BoolVar(&o.ShowSecrets, "show-secrets", false, "show credentials of known shapes")
	c.Flags().StringVar(&o.Words, "grep", "", "those with these words, as search finds them")
	return c
}

func showCmd(e *env) *cobra.Command {
	var n int
	c := placeVerb("show TURN | SESSION N", "one turn in full, or one part of it", func(cmd *cobra.Command, name string) error {
		var part *int
		if cmd.Flags().Changed("part") {
			part = &n
		}
		return history.Show(cmd.Context(), e.Env, name, part)
	})
	c.Flags().IntVar(&n, "part", 0, "the content of one part, as it is")
	return c
}

func pathCmd(e *env) *cobra.Command {
	return placeVerb("path SESSION|TURN [N]", "the ids of its turns, from the first one", func(cmd *cobra.Command, name string) error {
		p, err := e.Find(cmd.Context(), name)
		if err != nil {
			return err
		}
		return terminal.PrintEach(e.Terminal, p.Client.Path(cmd.Context(), p.Session.ID, api.GetPath{At: p.Turn}), 0, func(t *api.PathTurn) string {
			return fmt.Sprintf("%6d  %s  %s", t.Depth, t.ID, t.Type)
		})
	})
}

func tailCmd(e *env) *cobra.Command {
	var o history.Tailing
	c := verb("tail SESSION", "the newest turns; -f waits for more", 1, 1, func(cmd *cobra.Command, args []string) error {
		return history.Tail(cmd.Context(), e.Env, args[0], o)
	})
	c.Flags().StringVar(&o.After, "after", "", "begin after this turn")
	c.Flags().BoolVarP(&o.Follow, "follow", "f", false, "continue until interrupted")
	c.Flags().IntVarP(&o.Lines, "lines", "n", 10, "how many turns to begin with")
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
