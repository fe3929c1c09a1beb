package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/export"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/plot"
	"nexus/cmd/ledgerctl/internal/sessionview"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

func treeCmd(e *env) *cobra.Command {
	var svg bool
	var file string
	v := e.sessionVerb("tree SESSION", "a drawing of forks and compactions", func(cmd *cobra.Command, c *client.Client, s *api.Session) error {
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
		return e.printParts(cmd.Context(), c, t)
	})
	v.Flags().BoolVar(&svg, "svg", false, "print a picture, as SVG")
	v.Flags().StringVarP(&file, "output", "o", "", "file to write")
	return v
}

// printParts prints the sub-agents of the sessions of a tree: they are no forks of it, but
// parts of the sessions that started them.
func (e *env) printParts(ctx context.Context, c *client.Client, t *api.Tree) error {
	in := make(map[turns.ID]bool)
	for _, s := range t.Sessions {
		in[s.ID] = true
	}
	var parts []api.Session
	for s, err := range c.ListSessions(ctx, api.ListSessions{About: api.About{About: true}}) {
		if err != nil {
			return err
		}
		if s.SpawnedBy != nil && in[s.SpawnedBy.Session] && !in[s.ID] {
			parts = append(parts, s)
		}
	}
	for i := range parts {
		s := &parts[i]
		e.Tell("%s %s  %s", terminal.Faint.Render("↳"), terminal.ID.Render(prose.Short(s.ID)),
			terminal.Faint.Render(fmt.Sprintf("%s, sub-agent of %s", prose.Plural(s.Turns, "turn"), prose.Short(s.SpawnedBy.Session)))+"  "+sessionview.Title(e.Terminal, s))
	}
	return nil
}
