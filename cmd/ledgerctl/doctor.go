package main

import (
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/doctor"
)

func doctorCmd(e *env) *cobra.Command {
	d := doctor.New(e.Terminal, e.Connection)
	c := verb("doctor", "what is wrong with this ledger, and what to do", 0, 0, func(cmd *cobra.Command, _ []string) error {
		d.CheckAll(cmd.Context())
		return d.Report()
	})
	c.Flags().StringVar(&d.HTTP, "http", "", "nexusd's HTTP address (else: as nexusd wrote it)")
	return c
}
