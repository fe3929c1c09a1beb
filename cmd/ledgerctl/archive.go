package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/archive"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
)

func archiveCmd(e *env) *cobra.Command {
	c := verb("archive", "check archives and exports without a server", 0, 0, func(cmd *cobra.Command, _ []string) error { return cmd.Help() })
	c.AddCommand(verb("verify FILE…", "compute the hashes of archives again", 1, -1, func(cmd *cobra.Command, args []string) error {
		var damaged, others []error
		for _, name := range args {
			a, err := archive.Check(name)
			if err != nil && !fault.HasCode(err, api.Corrupt) {
				others = append(others, err)
				continue
			}
			if err != nil {
				damaged = append(damaged, err)
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
		failed := append(damaged, others...) // damage decides on the exit status
		if len(failed) == 0 {
			return nil
		}
		for _, err := range failed[1:] {
			fmt.Fprintln(e.Err, "ledgerctl: "+prose.Printable(err.Error()))
		}
		return failed[0]
	}))
	return c
}
