package main

import (
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/history"
)

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
