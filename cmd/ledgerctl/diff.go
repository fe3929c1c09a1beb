package main

import (
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/textdiff"
)

func mergeBaseCmd(e *env) *cobra.Command {
	return verb("merge-base SESSION|TURN SESSION|TURN", "the last turn that two sessions or turns share", 2, 2, func(cmd *cobra.Command, args []string) error {
		return textdiff.Base(cmd.Context(), e.Env, args)
	})
}

func diffCmd(e *env) *cobra.Command {
	var o textdiff.Options
	c := verb("diff SESSION|TURN SESSION|TURN", "the turns that two sessions or turns do not share", 2, 2, func(cmd *cobra.Command, args []string) error {
		return textdiff.Run(cmd.Context(), e.Env, args, o)
	})
	c.Flags().BoolVar(&o.Text, "text", false, "their texts, line by line")
	c.Flags().BoolVar(&o.Contexts, "context", false, "what the model sees at each: which pieces are gone, added or changed; with --text line by line")
	c.Flags().BoolVar(&o.Secrets, "show-secrets", false, "show credentials of known shapes")
	return c
}
