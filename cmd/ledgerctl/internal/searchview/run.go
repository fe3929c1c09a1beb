package searchview

import (
	"context"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
)

// Asking is what search was asked for, as a person types it.
type Asking struct {
	api.Search
	In           string // this session
	Since, Until string
}

// Run finds turns, memories and events by words.
func Run(ctx context.Context, e *cli.Env, r Asking) error {
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	if r.Session, err = e.SessionFlag(ctx, &c, r.In); err != nil {
		return err
	}
	if r.From, err = names.Day("since", r.Since); err != nil {
		return err
	}
	if r.To, err = names.Until("until", r.Until); err != nil {
		return err
	}
	if r.Cwd, err = names.Folder(r.Cwd); err != nil {
		return err
	}
	r.Project = names.Project(r.Project)
	e.SayTimes(r.From, r.To)
	hits, more, err := Find(ctx, e.Terminal, c.Search, r.Search, false)
	if err != nil {
		return err
	}
	if more {
		defer e.Say("there are more; name more words, or raise --limit")
	}
	if e.JSON {
		return terminal.PrintJSON(e.Terminal, hits)
	}
	if len(hits) == 0 {
		if !more {
			e.Say("nothing found%s", searched(&r.Search))
		}
		return nil
	}
	if err := Print(e.Terminal, hits); err != nil {
		return err
	}
	SayNext(e.Terminal, hits)
	return nil
}

// searched says where a search looked, where a flag may mean something else than it seems.
func searched(r *api.Search) string {
	note := names.SourceNote(r.Source)
	if r.Cwd == "" {
		return note
	}
	return " in " + prose.Printable(r.Cwd) + note
}
