package sessions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/export"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/plot"
	"nexus/cmd/ledgerctl/internal/sessionview"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Tree draws the forks and compactions of a session; with svg as a picture, into a file if one is named.
func Tree(ctx context.Context, e *cli.Env, c *client.Client, s *api.Session, svg bool, file string) error {
	if file != "" && !svg {
		return fault.Usage(errors.New("--output goes with --svg"))
	}
	t, err := c.Tree(ctx, s.ID)
	if err != nil {
		return err
	}
	switch {
	case svg && e.JSON:
		return fault.Usage(fault.ErrBothForms)
	case svg:
		ls, left, err := plot.Lanes(ctx, c, t)
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
	return printParts(ctx, e, c, t)
}

// printParts prints the sub-agents of the sessions of a tree: they are no forks of it, but
// parts of the sessions that started them.
func printParts(ctx context.Context, e *cli.Env, c *client.Client, t *api.Tree) error {
	in := make(map[turns.ID]bool)
	var ids []turns.ID
	for _, s := range t.Sessions {
		in[s.ID], ids = true, append(ids, s.ID)
	}
	var parts []api.Session
	for some := range slices.Chunk(ids, api.MaxKin) {
		for s, err := range c.ListSessions(ctx, api.ListSessions{About: api.About{About: true}, SpawnedBy: some}) {
			if err != nil {
				return err
			}
			if !in[s.ID] {
				parts = append(parts, s)
			}
		}
	}
	for i := range parts {
		s := &parts[i]
		e.Tell("%s %s  %s", terminal.Faint.Render("↳"), terminal.ID.Render(prose.Short(s.ID)),
			terminal.Faint.Render(fmt.Sprintf("%s, sub-agent of %s", prose.Plural(s.Turns, "turn"), prose.Short(s.SpawnedBy.Session)))+"  "+sessionview.Title(e.Terminal, s))
	}
	return nil
}
