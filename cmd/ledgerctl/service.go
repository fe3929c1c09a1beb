package main

import (
	"context"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/services"
)

// serviceCmd is the command service.
func serviceCmd(e *env) *cobra.Command {
	var r services.Request
	c := verb("service", "run nexusd and watch as services: install, uninstall, status", 0, 0, func(cmd *cobra.Command, _ []string) error { return cmd.Help() })
	sub := func(use, short string, do func(*services.Request, context.Context, *cli.Env) error) *cobra.Command {
		x := verb(use+" [nexusd|watch]", short, 0, 1, func(cmd *cobra.Command, args []string) error {
			r.Names = args
			return do(&r, cmd.Context(), e.Env)
		})
		x.Flags().BoolVar(&r.DryRun, "dry-run", false, "print the files; change nothing")
		x.Flags().StringVar(&r.Nexusd, "nexusd", "", "the program nexusd")
		x.Flags().StringVar(&r.Data, "data", "", "the data folder of nexusd")
		x.Flags().StringVar(&r.Manager, "manager", "", "systemd or launchd")
		c.AddCommand(x)
		return x
	}
	f := sub("install", "write the files", (*services.Request).Install).Flags()
	f.BoolVar(&r.Watch.Code, "code", false, "watch keeps the files of the folder after each turn")
	f.StringArrayVar(&r.Watch.From, "from", nil, "AGENT=DIR: watch follows this folder")
	f.StringVar(&r.Watch.State, "state", "", "where watch keeps its state")
	f.DurationVar(&r.Watch.Rescan, "rescan", 0, "how often watch looks at all files")
	sub("uninstall", "remove the files", (*services.Request).Uninstall)
	sub("status", "which files there are", (*services.Request).Status)
	return c
}
