package main

import (
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/codeview"
)

func codeCmd(e *env) *cobra.Command {
	return verb("code SESSION|TURN", "the recorded files after a turn", 1, 1, func(cmd *cobra.Command, args []string) error {
		return codeview.Show(cmd.Context(), e.Env, args[0])
	})
}
