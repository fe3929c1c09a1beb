package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/export"
	"nexus/cmd/ledgerctl/fault"
	"nexus/cmd/ledgerctl/plot"
	"nexus/cmd/ledgerctl/sessionview"
	"nexus/ledger/api"
)

func treeCmd(e *env) *cobra.Command {
	var svg bool
	var file string
	v := e.sessionVerb("tree SESSION", "forks and compactions, drawn", func(cmd *cobra.Command, c *api.Client, s *api.Session) error {
		if file != "" && !svg {
			return fault.Usage(errors.New("--output goes with --svg"))
		}
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
			draw := func(w io.Writer) error { return plot.Tree(w, ls, left, s.ID) }
			if file != "" {
				return export.WriteFile(file, draw)
			}
			return draw(e.Raw)
		case e.JSON:
			return e.Print(t)
		}
		sessionview.PrintTree(e.Terminal, t, s.ID)
		return nil
	})
	v.Flags().BoolVar(&svg, "svg", false, "print a picture, as SVG")
	v.Flags().StringVarP(&file, "output", "o", "", "file to write")
	return v
}
