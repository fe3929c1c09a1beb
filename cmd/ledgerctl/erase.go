package main

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nexus/cmd/ledgerctl/internal/erasure"
)

func redactCmd(e *env) *cobra.Command {
	var o erasure.Redacting
	c := verb("redact TURN|SESSION…", "take a text, a part or a turn out for ever; a marker stands in its place", 0, -1, func(cmd *cobra.Command, args []string) error {
		return erasure.Redact(cmd.Context(), e.Env, args, o)
	})
	f := c.Flags()
	f.StringVar(&o.TextFrom, "text-from", "", "file with the text, - is the input; wherever it stands, it is taken out")
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "file" {
			name = "text-from"
		}
		return pflag.NormalizedName(name)
	})
	f.BoolVar(&o.Everywhere, "everywhere", false, "in all sessions, and in what agents saved")
	f.IntSliceVar(&o.Parts, "part", nil, "a part of the turn, numbered from 1, as show numbers them")
	f.StringSliceVar(&o.Spans, "span", nil, "bytes of a part: N:FROM-TO, or N:FROM-TO@DIGEST")
	f.StringVar(&o.Ground, "ground", "", "a code for the record, as a number of a request; it stays")
	f.BoolVar(&o.DryRun, "dry-run", false, "report what would be done; change nothing")
	f.BoolVar(&o.Yes, "yes", false, "do not ask on a terminal")
	f.DurationVar(&o.Wait, "wait", 30*time.Second, "how long to wait for what is done in the background")
	return c
}

func eraseCmd(e *env) *cobra.Command {
	var o erasure.Erasing
	c := verb("erase SESSION…", "make the content of sessions unreadable for ever", 0, -1, func(cmd *cobra.Command, args []string) error {
		return erasure.Erase(cmd.Context(), e.Env, args, o)
	})
	f := c.Flags()
	f.StringVar(&o.Ground, "ground", "", "a code for the record, as a number of a request; it stays")
	f.StringVar(&o.User, "user", "", "all sessions of a user")
	f.StringVar(&o.Project, "project", "", "all sessions of a project")
	f.StringVar(&o.Import, "import", "", "all sessions that an import opened")
	f.BoolVar(&o.DryRun, "dry-run", false, "report what would be done; change nothing")
	f.BoolVar(&o.WithForks, "with-forks", false, "erase the sessions that were forked from them too")
	f.BoolVar(&o.WithEvents, "with-events", false, "erase the external events too that their turns answered")
	f.BoolVar(&o.Alone, "without-sub-agents", false, "leave the sub-agents that they started as they are")
	f.BoolVar(&o.Yes, "yes", false, "do not ask on a terminal")
	f.DurationVar(&o.Wait, "wait", 30*time.Second, "how long to wait for what is done in the background")
	return c
}
