package main

import (
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/history"
)

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
