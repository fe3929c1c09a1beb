package main

import (
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/fault"
	"nexus/cmd/ledgerctl/plot"
	"nexus/cmd/ledgerctl/sessionview"
	"nexus/ledger/api"
)

func treeCmd(e *env) *cobra.Command {
	var svg bool
	v := e.sessionVerb("tree SESSION", "forks and compactions, drawn", func(cmd *cobra.Command, c *api.Client, s *api.Session) error {
		t, err := c.Tree(cmd.Context(), s.ID)
		if err != nil {
			return err
		}
		switch {
		case svg && e.JSON:
			return fault.Usage(fault.ErrBothForms)
		case svg:
			ls, left, err := plot.Lanes(cmd.Context(), c, t)
			if err != nil {
				return err
			}
			return plot.Tree(e.Raw, ls, left, s.ID)
		case e.JSON:
			return e.Print(t)
		}
		sessionview.PrintTree(e.Terminal, t, s.ID)
		return nil
	})
	v.Flags().BoolVar(&svg, "svg", false, "print a picture, as SVG")
	return v
}
