package main

import (
	"errors"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/expansion"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
)

// expandCmd is the command expand.
func expandCmd(e *env) *cobra.Command {
	var all bool
	var r api.ExpandCompaction
	c := placeVerb("expand COMPACTION|TURN|SESSION [N]", "the turns behind what a context shows", func(cmd *cobra.Command, name string) error {
		set := 0
		for _, name := range []string{"all", "line", "lines", "call"} {
			if cmd.Flags().Changed(name) {
				set++
			}
		}
		if set > 1 {
			return fault.Usage(errors.New("--all, --line, --lines and --call do not go together"))
		}
		if cmd.Flags().Changed("line") && r.Line == 0 {
			return fault.Usage(errors.New("--line counts from 1; --lines shows the numbers"))
		}
		return expansion.Run(cmd.Context(), e.Env, name, r, all)
	})
	c.Flags().BoolVar(&all, "all", false, "expand older compactions inside it, too")
	c.Flags().Uint64Var(&r.Line, "line", 0, "the turns that one line of the summary is based on, from 1")
	c.Flags().BoolVar(&r.Lines, "lines", false, "each line of the summary, with the turns that it is based on")
	c.Flags().StringVar(&r.Call, "call", "", "the turns with a tool call and its results, by the call's id")
	return c
}
