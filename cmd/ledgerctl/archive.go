package main

import (
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/archive"
)

func archiveCmd(e *env) *cobra.Command {
	c := verb("archive", "check archives and exports without a server", 0, 0, func(cmd *cobra.Command, _ []string) error { return cmd.Help() })
	c.AddCommand(verb("verify FILE…", "compute the hashes of archives again", 1, -1, func(_ *cobra.Command, args []string) error {
		return archive.Verify(e.Env, args)
	}))
	return c
}
