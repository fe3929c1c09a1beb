package main

import (
	"errors"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/expansion"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/turns"
)

// expandCmd is the command expand.
func expandCmd(e *env) *cobra.Command {
	var all bool
	var r api.ExpandCompaction
	c := verb("expand COMPACTION|TURN|SESSION", "the turns behind what a context shows", 1, 1, func(cmd *cobra.Command, args []string) error {
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
		p, err := e.Find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if p.Turn.IsZero() && r.Call == "" {
			if p, err = expansion.NewestCompaction(cmd.Context(), e.Terminal, p); err != nil {
				return err
			}
		}
		if r.ID = p.Turn; all {
			r.Levels = turns.Raw(`"all"`)
		}
		switch {
		case r.Lines:
			err = expansion.PrintLines(cmd.Context(), e.Terminal, p, r)
		case r.Line > 0:
			err = expansion.PrintLine(cmd.Context(), e.Terminal, p, r)
		default:
			err = expansion.Print(cmd.Context(), e.Terminal, p, r)
		}
		if fault.HasCode(err, api.NotFound) && r.Call != "" {
			err = fault.WithHint(err, "ledgerctl show TURN --json has the ids of its calls")
		}
		if fault.HasCode(err, api.Unprocessable) {
			err = fault.WithHint(err, "ledgerctl tree "+prose.Short(p.Session.ID)+" shows its compactions")
		}
		return err
	})
	c.Flags().BoolVar(&all, "all", false, "expand older compactions inside it, too")
	c.Flags().Uint64Var(&r.Line, "line", 0, "the turns that one line of the summary is based on, from 1")
	c.Flags().BoolVar(&r.Lines, "lines", false, "each line of the summary, with the turns that it is based on")
	c.Flags().StringVar(&r.Call, "call", "", "the turns with a tool call and its results, by the call's id")
	return c
}
