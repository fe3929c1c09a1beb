package main

import (
	"errors"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/bisect"
	"nexus/cmd/ledgerctl/internal/fault"
)

func bisectCmd(e *env) *cobra.Command {
	var o bisect.Options
	c := verb("bisect SESSION|TURN -- COMMAND…", "the turn after which a command fails", 2, -1, func(cmd *cobra.Command, args []string) error {
		if cmd.ArgsLenAtDash() != 1 {
			return fault.Usage(errors.New("the command stands after --, as in: ledgerctl bisect SESSION -- make test"))
		}
		return bisect.InSession(cmd.Context(), e.Env, args[0], o, args[1:])
	})
	c.Flags().BoolVar(&o.Every, "every", false, "run the command on the files of all turns")
	c.Flags().StringVar(&o.Repo, "repo", "", "the git repository that has the files")
	return c
}
