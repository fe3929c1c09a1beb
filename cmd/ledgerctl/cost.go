package main

import (
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/costview"
	"nexus/cmd/ledgerctl/internal/names"
)

func costCmd(e *env) *cobra.Command {
	var f costview.Options
	c := verb("cost [SESSION|TURN…]", "tokens and dollars", 0, -1, func(cmd *cobra.Command, args []string) error {
		f.Budgeted = cmd.Flags().Changed("budget") || cmd.Flags().Changed("per")
		if e.JSON && !cmd.Flags().Changed("limit") {
			f.Limit = 0
		}
		return costview.Run(cmd.Context(), e.Env, args, f)
	})
	c.Flags().StringVar(&f.By, "by", "", "a row for each: turn, session, day, week, month, block, model, project, folder, branch, agent, source, kind; several with commas")
	c.Flags().StringVar(&f.Filter.Since, "since", "", "calls from a time on: "+names.DayHelp)
	c.Flags().StringVar(&f.Filter.Cwd, "cwd", "", "sessions in this folder or below; one without a / before it is below the current folder")
	c.Flags().StringVar(&f.Filter.Branch, "branch", "", "sessions on this branch of git")
	c.Flags().StringVar(&f.Filter.Project, "project", "", "sessions of this repository: its name, or a folder of it")
	c.Flags().StringVar(&f.Filter.Tag, "tag", "", "sessions with this tag")
	c.Flags().StringVar(&f.Filter.Model, "model", "", "calls of this model")
	c.Flags().StringVar(&f.Filter.Source, "source", "", "sessions of this program, such as claude-code or codex")
	c.Flags().BoolVar(&f.Filter.Hidden, "hidden", false, "hidden sessions too")
	c.Flags().Float64Var(&f.Budget, "budget", 0, "compare with so many dollars, and fail with 10 if the cost is higher")
	c.Flags().StringVar(&f.Per, "per", "week", "the period of --budget: day, week, month or block")
	c.Flags().StringVar(&f.Until, "until", "", "calls "+names.UntilHelp)
	c.Flags().StringVar(&f.Zone, "zone", "", "zone of days (this machine's)")
	c.Flags().StringVar(&f.Prices, "prices", "", "file with your own prices")
	c.Flags().BoolVar(&f.All, "all", false, "count sessions too that import --refresh replaced")
	c.Flags().IntVarP(&f.Limit, "limit", "n", 20, "at most N rows; 0: all")
	return c
}
