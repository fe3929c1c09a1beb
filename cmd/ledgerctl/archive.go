package main

import (
	"io"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/archive"
	"nexus/cmd/ledgerctl/fault"
	"nexus/ledger/api"
)

func archiveCmd(e *env) *cobra.Command {
	c := verb("archive verify FILE…", "check the archives that nexusd writes beside the ledger", 0, 0, func(cmd *cobra.Command, _ []string) error { return cmd.Help() })
	c.AddCommand(verb("verify FILE…", "compute the hashes of archives again", 1, -1, func(cmd *cobra.Command, args []string) error {
		var failed error
		for _, name := range args {
			a, err := archive.Check(name)
			if err != nil && !fault.HasCode(err, api.Corrupt) {
				return err
			}
			if failed == nil {
				failed = err
			}
			if e.JSON {
				if err := e.Print(a); err != nil {
					return err
				}
				continue
			}
			if _, err := io.WriteString(e.Out, a.Line()); err != nil {
				return err
			}
		}
		return failed
	}))
	return c
}
