package main

import (
	"strings"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/agents"
	"nexus/cmd/ledgerctl/internal/continuation"
)

func continueCmd(e *env) *cobra.Command {
	var o continuation.Options
	c := placeVerb("continue SESSION|TURN [N]", "continue in another coding agent", func(cmd *cobra.Command, name string) error {
		return continuation.Run(cmd.Context(), e.Env, name, o)
	})
	c.Flags().StringVar(&o.In, "in", "", strings.Join(agents.Resuming(), ", "))
	c.Flags().StringVar(&o.Model, "model", "", "the model that the agent is to use")
	c.Flags().StringVar(&o.Dir, "dir", "", "the folder that the agent works in")
	return c
}
