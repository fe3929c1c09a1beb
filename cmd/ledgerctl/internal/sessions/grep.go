package sessions

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/searchview"
	"nexus/cmd/ledgerctl/internal/sessionview"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/turns"
)

// Grep prints the sessions with the words of g, best first, each with its best turn.
func Grep(ctx context.Context, e *cli.Env, g *searchview.Filter) error {
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	since, err := g.Resolve()
	if err != nil {
		return err
	}
	r := api.Search{From: since, Text: g.Text, Kinds: []string{"turn", "note", "session"}, Cwd: g.Cwd, Branch: g.Branch, Project: g.Project, Hidden: g.Hidden, Model: g.Model, Source: g.Source, Page: api.Page{Limit: 100}}
	e.SayTimes(since, nil)
	type match struct {
		Session api.Session   `json:"session"`
		Hits    int           `json:"hits"` // turns that match
		Best    api.SearchHit `json:"best"`
	}
	var list []*match
	by := make(map[turns.ID]*match)
	hits, more, err := searchview.Find(ctx, e.Terminal, c.Search, r, true)
	if err != nil {
		return err
	}
	for _, h := range hits {
		m := by[h.Session]
		if m == nil {
			m = &match{Best: h}
			by[h.Session], list = m, append(list, m)
		}
		if h.Kind == "turn" {
			m.Hits++
		}
	}
	if g.Tag != "" {
		tagged := make(map[turns.ID]bool)
		for s, err := range c.ListSessions(ctx, api.ListSessions{Tag: g.Tag, Hidden: g.Hidden}) {
			if err != nil {
				return err
			}
			tagged[s.ID] = true
		}
		list = slices.DeleteFunc(list, func(m *match) bool { return !tagged[m.Best.Session] })
	}
	if n := len(list) - g.Limit; g.Limit > 0 && n > 0 {
		list = list[:g.Limit]
		defer e.Say("%s more; --limit 0 lists all", prose.Plural(uint64(n), "session"))
	}
	if more {
		defer e.Say("more turns match than were counted; name more words")
	}
	for _, m := range list {
		s, err := c.GetSession(ctx, m.Best.Session, api.GetSession{About: api.About{About: true}})
		if err != nil {
			return err
		}
		m.Session = *s
	}
	if e.JSON {
		return terminal.PrintJSON(e.Terminal, list)
	}
	if len(list) == 0 {
		if said := g.Described(since); said != "" {
			e.Say("no session %s has it", said)
			return nil
		}
		e.Say("no session has it")
		return nil
	}
	var rows [][]string
	for _, m := range list {
		where := prose.Short(m.Best.Session)
		if m.Best.Depth > 0 { // else it is what a person says of the session
			where = fmt.Sprintf("%s@%d", where, m.Best.Depth)
		}
		rows = append(rows, []string{terminal.ID.Render(where), prose.At(time.Time(m.Best.Time), m.Best.TimeBound, time.DateOnly), prose.Grouped(uint64(m.Hits)),
			prose.Source(m.Session.Meta), terminal.Cut(sessionview.Title(e.Terminal, &m.Session), 40), searchview.Snippet(m.Best)})
	}
	cols := []terminal.Column{{Head: "where"}, {Head: "day", Drop: 2}, {Head: "hits", Right: true, Drop: 3}, {Head: "source", Drop: 4}, {Head: "title", Drop: 1}, {Head: "text"}}
	if _, err := io.WriteString(e.Out, e.Table(cols, rows)); err != nil {
		return err
	}
	searchview.SayNext(e.Terminal, []api.SearchHit{list[0].Best})
	return nil
}
