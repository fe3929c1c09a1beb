package main

import (
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/codeview"
)

func codeCmd(e *env) *cobra.Command {
	return placeVerb("code SESSION|TURN [N]", "the recorded files after a turn", func(cmd *cobra.Command, name string) error {
		return codeview.Show(cmd.Context(), e.Env, name)
	})
}
