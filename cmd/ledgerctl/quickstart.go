package main

import (
	"os"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/quickstart"
)

func quickstartCmd(e *env) *cobra.Command {
	var data string
	c := verb("quickstart [FILE]", "a tour with a real transcript", 0, 1,
		func(cmd *cobra.Command, args []string) error {
			file := ""
			if len(args) == 1 {
				file = args[0]
				if _, err := os.Stat(file); err != nil { // before a ledger is made
					return fault.Usage(err)
				}
			}
			dir := data
			if dir == "" {
				tmp, err := os.MkdirTemp("", "nexus-quickstart-")
				if err != nil {
					return err
				}
				defer os.RemoveAll(tmp)
				dir = tmp
			}
			return quickstart.Run(cmd.Context(), e.Terminal, dir, file, data != "")
		})
	c.Flags().StringVar(&data, "data", "", "keep the ledger in this folder (default: a temporary one)")
	return c
}
