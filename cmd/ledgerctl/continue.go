package main

import (
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/continuation"
)

func continueCmd(e *env) *cobra.Command {
	var o continuation.Options
	c := verb("continue SESSION|TURN", "continue in another coding agent", 1, 1, func(cmd *cobra.Command, args []string) error {
		return continuation.Run(cmd.Context(), e.Env, args[0], o)
	})
	c.Flags().StringVar(&o.In, "in", "", "claude, codex, pi, gemini")
	c.Flags().StringVar(&o.Model, "model", "", "the model that the agent is to use")
	c.Flags().StringVar(&o.Dir, "dir", "", "the folder that the agent works in")
	return c
}
