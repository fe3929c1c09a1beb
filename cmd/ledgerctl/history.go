package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/history"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
)

func logCmd(e *env) *cobra.Command {
	var o history.Logging
	c := verb("log SESSION|TURN", "the turns of a session, newest first", 1, 1, func(cmd *cobra.Command, args []string) error {
		return history.Log(cmd.Context(), e.Env, args[0], o)
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
	c := verb("show TURN | SESSION N", "one turn in full, or one part of it", 1, 2, func(cmd *cobra.Command, args []string) error {
		var part *int
		if cmd.Flags().Changed("part") {
			part = &n
		}
		return history.Show(cmd.Context(), e.Env, args, part)
	})
	c.Flags().IntVar(&n, "part", 0, "the content of one part, as it is")
	return c
}

func pathCmd(e *env) *cobra.Command {
	return verb("path SESSION|TURN", "the ids of its turns, from the first one", 1, 1, func(cmd *cobra.Command, args []string) error {
		p, err := e.Find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return terminal.PrintEach(e.Terminal, p.Client.Path(cmd.Context(), p.Session.ID, api.GetPath{At: p.Turn}), 0, func(t *api.PathTurn) string {
			return fmt.Sprintf("%6d  %s  %s", t.Depth, t.ID, t.Type)
		})
	})
}
