package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nexus/ledger/api"
	"nexus/turns"
)

// searchCmd is the command search.
func searchCmd(e *env) *cobra.Command {
	var r api.Search
	var session, since, until string
	c := verb("search TEXT", "turns, memories and events by words", 1, -1, func(cmd *cobra.Command, args []string) error {
		c, err := e.client(api.Operator)
		if err != nil {
			return err
		}
		if r.Session, err = e.sessionFlag(cmd.Context(), &c, session); err != nil {
			return err
		}
		if r.From, err = dayFlag("since", since); err != nil {
			return err
		}
		if r.To, err = dayFlag("until", until); err != nil {
			return err
		}
		r.Text = strings.Join(args, " ")
		hits, more, err := e.findHits(cmd.Context(), c.Search, r, false)
		if err != nil {
			return err
		}
		if more {
			defer e.say("there are more; name more words, or raise --limit")
		}
		if e.json {
			return printAll(e, hits)
		}
		if len(hits) == 0 {
			if !more {
				e.say("nothing found")
			}
			return nil
		}
		if err := e.printHits(hits); err != nil {
			return err
		}
		e.sayNext(hits)
		return nil
	})
	f := c.Flags()
	f.StringVar(&session, "session", "", "in this session, and what it inherits")
	f.BoolVar(&r.BranchOnly, "branch-only", false, "only the path of the session's head")
	f.StringVar(&since, "since", "", "from this day, time or age (3d) on")
	f.StringVar(&until, "until", "", "before this day, time or age")
	f.StringVar(&r.Cwd, "cwd", "", "turns in this folder or below")
	f.StringVar(&r.Branch, "branch", "", "turns on this branch of git")
	f.StringVar(&r.Source, "source", "", "turns of this program, such as claude-code or codex")
	f.StringVar(&r.Model, "model", "", "turns of this model")
	f.StringVar(&r.Tool, "tool", "", "turns that call this tool")
	f.StringVar(&r.Role, "role", "", "what user, assistant, tool or system says")
	f.BoolVar(&r.Covered, "covered", false, "only what the model no longer sees, or sees shortened")
	f.BoolVar(&r.ShowSecrets, "show-secrets", false, "show credentials of known shapes")
	f.StringVar(&r.AsOf, "as-of", "", "a position: only what was stored then")
	f.StringSliceVar(&r.Kinds, "kind", nil, "turn, memory or event")
	f.IntVar(&r.Limit, "limit", 20, "at most so many, up to 100")
	return c
}

// printAll prints each value as a line of JSON.
func printAll[T any](e *env, list []T) error {
	for _, x := range list {
		if err := e.print(x); err != nil {
			return err
		}
	}
	return nil
}

// findHits asks page after page: a page ends with fewer hits than its limit, or none, where
// it has looked at much text. It ends at the limit of r or, with all, at the end of what has
// all of the words: what has some follows in the reply, and is none of these. If nothing has
// all, it takes a page of what has some. It says what the hits lack; more is set if others
// match.
func (e *env) findHits(ctx context.Context, ask func(context.Context, api.Search) (*api.SearchHits, error), r api.Search, all bool) (hits []api.SearchHit, more bool, err error) {
	limit := cmp.Or(r.Limit, 20)
	for first := true; ; first = false {
		page, err := ask(ctx, r)
		if err != nil {
			return nil, false, err
		}
		if first && page.Behind > 0 {
			e.say("the newest %d events were not searched yet", page.Behind)
		}
		if len(hits) == 0 && len(page.Hits) > 0 && page.Hits[0].Some {
			e.say("nothing has all of the words; these have some")
		}
		some := slices.IndexFunc(page.Hits, func(h api.SearchHit) bool { return h.Some })
		if all && some >= 0 && len(hits)+some > 0 { // what is before it has all of the words
			return append(hits, page.Hits[:some]...), false, nil
		}
		hits = append(hits, page.Hits...)
		r.After = page.Next
		switch {
		case r.After == "", all && len(hits) > 0 && hits[0].Some, !all && len(hits) >= limit:
			return hits, r.After != "" || page.Cut, nil
		case !all:
			r.Limit = limit - len(hits)
		}
	}
}

// sayNext says how to read the first turn that was found, else the first event.
func (e *env) sayNext(hits []api.SearchHit) {
	first := func(kind string) int {
		return slices.IndexFunc(hits, func(h api.SearchHit) bool { return h.Kind == kind })
	}
	if i := first("turn"); i >= 0 {
		if h := hits[i]; h.State == "other_branch" || h.Type == "compaction" { // no number of the head's path names it for sure
			e.say("next: ledgerctl show %s/%s", h.Session, h.Turn)
		} else {
			e.say("next: ledgerctl show %s@%d", h.Session, h.Depth)
		}
	} else if i := first("event"); i >= 0 {
		e.say("next: ledgerctl events get %s %s --agent %s", printable(hits[i].Channel), hits[i].Event, hits[i].Agent)
	}
}

// grep is what sessions --grep and the filters beside it ask for.
type grep struct {
	text, since, cwd, branch, model, source string
	limit                                   int
}

func (g *grep) flags(f *pflag.FlagSet) {
	f.StringVar(&g.text, "grep", "", "those with these words, best first")
	f.StringVar(&g.since, "since", "", "with a turn from this day, time or age (3d) on")
	f.StringVar(&g.cwd, "cwd", "", "those in this folder or below")
	f.StringVar(&g.branch, "branch", "", "those on this branch of git")
	f.StringVar(&g.model, "model", "", "those of this model")
	f.StringVar(&g.source, "source", "", "those of this program, such as claude-code or codex")
	f.IntVarP(&g.limit, "limit", "n", 20, "with --grep, at most so many; 0: all")
}

func (g *grep) isSet() bool { return g.text+g.since+g.cwd+g.branch+g.model+g.source != "" }

// keeps reports whether the filters keep a session, by its meta.
func (g *grep) keeps(s *api.Session, since *api.Time) bool {
	w := turns.WorkContextOf(s.Meta)
	return (g.cwd == "" || w.IsIn(g.cwd)) && (g.branch == "" || w.Branch == g.branch) && (g.model == "" || s.Model == g.model) &&
		(g.source == "" || w.Source == g.source) && (since == nil || s.HeadTime != nil && !time.Time(*s.HeadTime).Before(time.Time(*since)))
}

// grepSessions prints the sessions with the words of g, best first, each with its best turn.
func (e *env) grepSessions(ctx context.Context, g *grep) error {
	c, err := e.client(api.Operator)
	if err != nil {
		return err
	}
	r := api.Search{Text: g.text, Kinds: []string{"turn"}, Cwd: g.cwd, Branch: g.branch, Model: g.model, Source: g.source, Page: api.Page{Limit: 100}}
	if r.From, err = dayFlag("since", g.since); err != nil {
		return err
	}
	type match struct {
		Session api.Session   `json:"session"`
		Turns   int           `json:"turns"` // that match
		Best    api.SearchHit `json:"best"`
	}
	var list []*match
	by := make(map[turns.ID]*match)
	hits, more, err := e.findHits(ctx, c.Search, r, true)
	if err != nil {
		return err
	}
	for _, h := range hits {
		if m := by[h.Session]; m != nil {
			m.Turns++
			continue
		}
		m := &match{Turns: 1, Best: h}
		by[h.Session], list = m, append(list, m)
	}
	if n := len(list) - g.limit; g.limit > 0 && n > 0 {
		list = list[:g.limit]
		defer e.say("%s more; --limit 0 lists all", plural(uint64(n), "session"))
	}
	if more {
		defer e.say("more turns match than were counted; name more words")
	}
	for _, m := range list {
		s, err := c.GetSession(ctx, m.Best.Session, api.GetSession{About: api.About{About: true}})
		if err != nil {
			return err
		}
		m.Session = *s
	}
	if e.json {
		return printAll(e, list)
	}
	if len(list) == 0 {
		e.say("no session has it")
		return nil
	}
	var rows [][]string
	for _, m := range list {
		rows = append(rows, []string{idStyle.Render(fmt.Sprintf("%s@%d", short(m.Best.Session), m.Best.Depth)), time.Time(m.Best.Time).Format(time.DateOnly), grouped(uint64(m.Turns)),
			source(m.Session.Meta), clip(e.titleOf(&m.Session), 40), snippet(m.Best)})
	}
	cols := []column{{head: "where"}, {head: "day", drop: 2}, {head: "turns", right: true, drop: 3}, {head: "source", drop: 4}, {head: "title", drop: 1}, {head: "text"}}
	if _, err := io.WriteString(e.out, e.table(cols, rows)); err != nil {
		return err
	}
	e.sayNext([]api.SearchHit{list[0].Best})
	return nil
}

// grepLog prints the turns of a session's path that have the words of text, newest first.
func (e *env) grepLog(ctx context.Context, p place, text string, limit int, shown bool) error {
	r := api.Search{Text: text, ShowSecrets: shown, Session: p.s.ID, BranchOnly: true, Kinds: []string{"turn"}, Page: api.Page{Limit: 100}}
	hits, more, err := e.findHits(ctx, p.c.Search, r, true)
	if err != nil {
		return err
	}
	if more {
		defer e.say("more turns match than are listed; name more words")
	}
	slices.SortStableFunc(hits, func(a, b api.SearchHit) int { return cmp.Compare(b.Depth, a.Depth) })
	if n := len(hits) - limit; limit > 0 && n > 0 {
		hits = hits[:limit]
		defer e.say("%s more; raise --limit", plural(uint64(n), "turn"))
	}
	if e.json {
		return printAll(e, hits)
	}
	if len(hits) == 0 {
		e.say("nothing found")
		return nil
	}
	return e.printHits(hits)
}

// snippet returns the snippet of a hit for a line of a table.
func snippet(h api.SearchHit) string {
	return strings.Join(strings.Fields(printable(marked(h))), " ")
}

// printHits prints a line for each hit.
func (e *env) printHits(hits []api.SearchHit) error {
	rows := make([][]string, len(hits))
	for i, h := range hits {
		where := ""
		switch h.Kind {
		case "turn":
			where = fmt.Sprintf("%s@%d", short(h.Session), h.Depth)
		case "memory":
			where = short(h.Memory)
		default:
			where = printable(h.Channel)
		}
		rows[i] = []string{idStyle.Render(where), time.Time(h.Time).Format(time.DateOnly), h.Kind, h.State, snippet(h)}
	}
	cols := []column{{head: "where"}, {head: "day", drop: 2}, {head: "kind", drop: 1}, {head: "state", drop: 3}, {head: "text"}}
	_, err := io.WriteString(e.out, e.table(cols, rows))
	return err
}

// marked returns the snippet of a hit with its matches in brackets.
func marked(h api.SearchHit) string {
	var b strings.Builder
	r, at := []rune(h.Snippet), 0
	for _, m := range h.Matches {
		if m[0] < at || m[1] < m[0] || m[1] > len(r) {
			break
		}
		b.WriteString(string(r[at:m[0]]) + "[" + string(r[m[0]:m[1]]) + "]")
		at = m[1]
	}
	return b.String() + string(r[at:])
}
