package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/searchview"
	"nexus/cmd/ledgerctl/internal/sessionview"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/turns"
)

// searchCmd is the command search.
func searchCmd(e *env) *cobra.Command {
	var r api.Search
	var session, since, until string
	c := verb("search TEXT", "find turns, memories and events by words", 1, -1, func(cmd *cobra.Command, args []string) error {
		c, err := e.Client(api.Operator)
		if err != nil {
			return err
		}
		if r.Session, err = e.SessionFlag(cmd.Context(), &c, session); err != nil {
			return err
		}
		if r.From, err = names.Day("since", since); err != nil {
			return err
		}
		if r.To, err = names.Until("until", until); err != nil {
			return err
		}
		if r.Cwd, err = names.Folder(r.Cwd); err != nil {
			return err
		}
		r.Text, r.Project = strings.Join(args, " "), names.Project(r.Project)
		e.SayTimes(r.From, r.To)
		hits, more, err := searchview.Find(cmd.Context(), e.Terminal, c.Search, r, false)
		if err != nil {
			return err
		}
		if more {
			defer e.Say("there are more; name more words, or raise --limit")
		}
		if e.JSON {
			return searchview.PrintJSON(e.Terminal, hits)
		}
		if len(hits) == 0 {
			if !more {
				e.Say("nothing found%s", searched(&r))
			}
			return nil
		}
		if err := searchview.Print(e.Terminal, hits); err != nil {
			return err
		}
		searchview.SayNext(e.Terminal, hits)
		return nil
	})
	f := c.Flags()
	f.StringVar(&session, "session", "", "in this session, and what it inherits")
	f.BoolVar(&r.BranchOnly, "branch-only", false, "only the path of the session's head")
	f.StringVar(&since, "since", "", "from a time on: "+names.DayHelp)
	f.StringVar(&until, "until", "", names.UntilHelp)
	f.StringVar(&r.Cwd, "cwd", "", "turns in this folder or below; one without a / before it is below the current folder")
	f.StringVar(&r.Branch, "branch", "", "turns on this branch of git")
	f.StringVar(&r.Project, "project", "", "turns of sessions of this repository: its name, or a folder of it")
	f.BoolVar(&r.Hidden, "hidden", false, "turns of hidden sessions too")
	f.StringVar(&r.Source, "source", "", "turns of this program, such as claude-code or codex")
	f.StringVar(&r.Model, "model", "", "turns of this model")
	f.StringVar(&r.Tool, "tool", "", "turns that call this tool")
	f.StringVar(&r.Role, "role", "", "what user, assistant, tool or system says")
	f.BoolVar(&r.Covered, "covered", false, "only what the model no longer sees, or sees shortened")
	f.BoolVar(&r.ShowSecrets, "show-secrets", false, "show credentials of known shapes")
	f.StringVar(&r.AsOf, "as-of", "", "a position: only what was stored then")
	f.StringSliceVar(&r.Kinds, "kind", nil, "turn, memory or event")
	f.IntVarP(&r.Limit, "limit", "n", 20, "at most N; 0: all")
	return c
}

// searched says where a search looked, where a flag may mean something else than it seems.
func searched(r *api.Search) string {
	note := names.SourceNote(r.Source)
	if r.Cwd == "" {
		return note
	}
	return " in " + prose.Printable(r.Cwd) + note
}

// grepSessions prints the sessions with the words of g, best first, each with its best turn.
func (e *env) grepSessions(ctx context.Context, g *searchview.Filter) error {
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
		return searchview.PrintJSON(e.Terminal, list)
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
