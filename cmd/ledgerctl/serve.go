package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nexus/cmd/internal/build"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/localserver"
	"nexus/cmd/internal/watch"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/follow"
	"nexus/cmd/ledgerctl/internal/serve"
	"nexus/cmd/ledgerctl/internal/services"
)

func serveCmd(e *env) *cobra.Command {
	c := verb("serve", "serve the ledger of a folder until nobody uses it", 0, 0, func(cmd *cobra.Command, _ []string) error {
		return serve.Run(cmd.Context(), serve.Options{Data: localserver.Folder(e.Data), Idle: e.idle, Version: build.Version(), Out: e.Out, Log: e.Err, Vanished: e.vanishedFiles})
	})
	e.localFlags(c.Flags())
	return c
}

// vanishedFiles lists the transcripts that an import or a watch of this user has read and that are gone.
func (e *env) vanishedFiles() (out []config.VanishedFile, err error) {
	var cfg watch.Config
	if err := follow.Prepare(e.Env, &cfg, nil, services.Watch()); err != nil {
		return nil, err
	}
	list, err := watch.Vanished(cfg.State, cfg.Sources)
	for _, x := range list {
		out = append(out, config.VanishedFile{File: x.File, Agent: x.Agent, Session: x.Session, Kept: x.Bytes, Lost: x.Lost, Gone: x.Gone})
	}
	return out, err
}

// localFlags are those of the ledger that a program serves itself.
func (e *env) localFlags(f *pflag.FlagSet) {
	f.StringVar(&e.Data, "data", os.Getenv("NEXUS_DATA"), "folder of the ledger to serve where no daemon answers (NEXUS_DATA)")
	f.DurationVar(&e.idle, "idle", time.Minute, "end serving when no command has asked for that long; 0: with this command")
}

// mayServe has a command start a process that serves the ledger of this user, where no daemon answers.
func (e *env) mayServe(cmd *cobra.Command) error {
	if e.idle < 0 {
		return fault.Usage(fmt.Errorf("--idle takes a time, as 60s, or 0"))
	}
	if e.program == "" {
		return nil
	}
	data, err := filepath.Abs(localserver.Folder(e.Data))
	if err != nil {
		return err
	}
	e.Local = &localserver.Starter{Program: e.program, Version: build.Version(), Data: data, Idle: e.idle, Began: func(r localserver.Ready) {
		e.Say("serving the ledger in %s (%s) for as long as it is used", data, countText(r.Sessions))
		if other := localserver.OtherLedger(data); other != "" {
			e.Say("there is another ledger in %s: ledgerctl --data %s asks that one", other, other)
		}
	}}
	e.Command = cmd.Context()
	if cmd.Name() == cobra.ShellCompRequestCmd || cmd.Name() == cobra.ShellCompNoDescRequestCmd { // a tab starts nothing
		if !e.Local.IsServed() {
			e.Local = nil
		}
	}
	return nil
}

// countText says how many sessions a child counted.
func countText(sessions int) string {
	switch {
	case sessions > localserver.MostSessions:
		return fmt.Sprintf("over %d sessions", localserver.MostSessions)
	case sessions == 1:
		return "1 session"
	}
	return fmt.Sprintf("%d sessions", sessions)
}
