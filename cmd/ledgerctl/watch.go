package main

import (
	"time"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/watch"
	"nexus/cmd/ledgerctl/internal/doctor"
	"nexus/cmd/ledgerctl/internal/follow"
	"nexus/cmd/ledgerctl/internal/hooks"
	"nexus/cmd/ledgerctl/internal/services"
)

// watchCmd is the command watch.
func watchCmd(e *env) *cobra.Command {
	var cfg watch.Config
	var from []string
	var dry, code bool
	c := verb("watch", "follow the transcripts of agents while they grow", 0, 0, func(cmd *cobra.Command, _ []string) error {
		if err := follow.Prepare(e.Env, &cfg, from, nil); err != nil {
			return err
		}
		if dry {
			return follow.Plan(e.Env, cfg)
		}
		return follow.Run(cmd.Context(), e.Env, cfg, code)
	})
	c.Flags().BoolVar(&code, "code", false, "keep the files of the folder after each turn")
	c.Flags().BoolVar(&cfg.Once, "once", false, "stop when everything in the files is in the ledger")
	c.Flags().BoolVar(&dry, "dry-run", false, "list the files that would be read")
	c.Flags().DurationVar(&cfg.Rescan, "rescan", 30*time.Second, "how often all files are looked at")
	var vanished bool
	status := verb("status", "what is in the ledger, what is behind, what failed", 0, 0, func(*cobra.Command, []string) error {
		if err := follow.Prepare(e.Env, &cfg, from, services.Watch()); err != nil {
			return err
		}
		if vanished {
			return follow.PrintVanished(e.Env, cfg)
		}
		return follow.Status(e.Env, cfg)
	})
	status.Flags().BoolVar(&vanished, "vanished", false, "list the transcripts that are no longer there")
	c.AddCommand(status, verb("doctor", "what is wrong with the watch and the hooks", 0, 0, func(*cobra.Command, []string) error {
		if err := follow.Prepare(e.Env, &cfg, from, services.Watch()); err != nil {
			return err
		}
		d := doctor.New(e.Terminal, e.Connection)
		if err := follow.Check(d, cfg, services.Watch()); err != nil {
			return err
		}
		if _, err := hooks.Check(d); err != nil {
			return err
		}
		return d.Report()
	}))
	for _, x := range append(c.Commands(), c) {
		x.Flags().StringArrayVar(&from, "from", nil, "AGENT=DIR: follow this folder")
		x.Flags().StringVar(&cfg.State, "state", "", "where the state is kept")
	}
	return c
}
