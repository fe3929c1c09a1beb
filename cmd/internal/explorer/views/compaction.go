package views

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/explorer/visit"
	pages "nexus/cmd/internal/page"
	"nexus/cmd/internal/prose"
	"nexus/ledger/api"
	"nexus/turns"
)

const (
	linesShown = 100
	lostShown  = 60
)

type compactionPage struct {
	Head
	Row      TurnRow
	Turn     *api.Turn
	K        *api.Compaction
	Through  uint64 // depth
	Lines    []lineRow
	LinesCut bool
	Lost     []lostGroup
	LostAll  uint64 // facts, of all kinds
	Listed   int    // of them
	LostMore bool   // the oldest of the covered turns were not compared
	LostErr  string
	Summary  pages.Prose
	Policy   string
	Focus    string
	Prev     string
	Next     string
	Undo     turns.ID // the turn before it
	Before   string   // widths of bars, of 100
	After    string
	IsHead   bool
	Elided   uint64
	Survival []survivalRow
	Money    string
	Since    *api.Since
}

type lineRow struct {
	N       uint64
	Text    string
	Frame   bool
	Missing []string
	Sources []sourceRow
	More    uint64
}

type sourceRow struct {
	URL     string
	Depth   uint64
	Word    bool // word for word
	Excerpt string
}

type lostGroup struct {
	Kind  string
	Name  string // for people
	Facts []lostRow
	All   uint64 // facts of the kind that were lost; 0: not known
}

type lostRow struct {
	Text  string
	Uses  uint64
	URL   string
	Depth uint64
}

// survivalRow is how many facts of a kind a compaction kept.
type survivalRow struct {
	Kind        string
	Kept, Total uint64
	Width       string
}

func (v *visitor) compaction() error {
	s, id, err := v.Place()
	if err != nil {
		return err
	}
	t, err := v.C.Compaction(v.R.Context(), s.ID, id)
	if err != nil {
		return err
	}
	k := t.Compaction
	if k == nil {
		return api.Errorf(api.NotFound, nil, "turn %s is no compaction", prose.Short(id))
	}
	p := &compactionPage{Head: HeadOf(v.Visit, s), Turn: t, K: k, Policy: pages.Line(k.Policy, 60), Focus: pages.Line(k.Focus, 200), IsHead: s.Head != nil && *s.Head == id, Elided: max(k.Elided, uint64(len(k.Elisions))), Since: k.Since}
	entries, _, err := pages.Entries(s, []api.Turn{*t}, pages.Options{})
	if err != nil {
		return err
	}
	p.Row = turnRowOf(v.Visit, s, t, entries[0])
	if c := entries[0].Compaction; c != nil && c.Summary != nil {
		p.Summary = *c.Summary
	}
	most := max(k.TokensBefore, k.TokensAfter, 1)
	p.Before, p.After = fmt.Sprint(100*k.TokensBefore/most), fmt.Sprint(max(1, 100*k.TokensAfter/most))
	if t.Parent != nil {
		p.Undo, p.Prev = *t.Parent, visit.TurnURL(s.ID, *t.Parent)
	}
	if k.CostMicros > 0 {
		p.Money = visit.Dollars(float64(k.CostMicros)/1e6, false)
	}
	if k.Through != nil {
		if x, err := v.C.Turn(v.R.Context(), s.ID, *k.Through); err == nil {
			p.Through = x.Depth
		}
	}
	if k.Covered > 0 {
		x, err := v.C.Expansion(v.R.Context(), s.ID, api.ExpandCompaction{ID: id, Lines: true, Page: api.Page{Limit: linesShown}})
		if err != nil {
			return err
		}
		p.LinesCut = x.Next != ""
		for _, l := range x.Lines {
			p.Lines = append(p.Lines, v.line(s, l))
		}
	}
	if k.Covered > 0 || p.Elided > 0 {
		v.lost(s, id, p)
	}
	v.Render("compaction", fmt.Sprintf("Compaction at turn %d", t.Depth), "sessions", p)
	return nil
}

func (v *visitor) line(s *api.Session, l api.SummaryLine) lineRow {
	r := lineRow{N: l.Line, Text: pages.Text(visit.Clip(l.Text, 2000)).Text, Frame: l.Frame, More: l.More}
	for _, m := range l.Missing[:min(len(l.Missing), 8)] {
		r.Missing = append(r.Missing, pages.Line(m, 80))
	}
	for i, t := range l.Turns {
		if i == 3 {
			r.More += uint64(len(l.Turns) - i)
			break
		}
		r.Sources = append(r.Sources, sourceRow{URL: visit.TurnURL(s.ID, t.Turn), Depth: t.Depth, Word: t.Quoted, Excerpt: pages.Line(t.Excerpt, 160)})
	}
	return r
}

// lost reads what the context lost.
func (v *visitor) lost(s *api.Session, id turns.ID, p *compactionPage) {
	list, err := v.C.LostFacts(v.R.Context(), s.ID, api.ListLost{ID: id, PerKind: 10, Page: api.Page{Limit: lostShown}})
	if err != nil {
		p.LostErr = api.FromError(err).Message
		return
	}
	p.Listed, p.LostMore = len(list.Facts), list.Partial || list.From > 0
	for _, f := range list.Facts {
		if n := len(p.Lost); n == 0 || p.Lost[n-1].Kind != f.Kind {
			p.Lost = append(p.Lost, lostGroup{Kind: f.Kind, Name: factName(f.Kind)})
		}
		g := &p.Lost[len(p.Lost)-1]
		g.Facts = append(g.Facts, lostRow{Text: pages.Line(f.Text, 160), Uses: f.Uses, URL: visit.TurnURL(s.ID, f.Turn), Depth: f.Depth})
	}
	var kept map[string]struct {
		Total uint64 `json:"total"`
		Kept  uint64 `json:"kept"`
	}
	if json.Unmarshal(list.Survival, &kept) != nil {
		kept = nil
	}
	for i := range p.Lost { // list.Count is of the facts on the list's pages, which per_kind bounds
		g := &p.Lost[i]
		x := kept[g.Kind]
		g.All = max(x.Total-min(x.Total, x.Kept), uint64(len(g.Facts)))
		p.LostAll += g.All
	}
	for _, kind := range []string{"user", "errors", "commands", "paths", "identifiers", "numbers"} {
		if x, ok := kept[kind]; ok && x.Total > 0 {
			p.Survival = append(p.Survival, survivalRow{Kind: factName(kind), Kept: x.Kept, Total: x.Total, Width: fmt.Sprint(100 * x.Kept / x.Total)})
		}
	}
}

// factName is a kind of facts for people.
func factName(kind string) string {
	if kind == "user" {
		return "a person's sentences"
	}
	return kind
}

// Around is where a window begins that has the compaction near its top.
func (p *compactionPage) Around() uint64 { return around(p.Turn.Depth) }

// Covers says which turns a compaction covers.
func (p *compactionPage) Covers() string {
	switch {
	case p.K.Covered == 0 && p.Elided > 0:
		return "covers no turn; shortens " + prose.Plural(p.Elided, "part")
	case p.Through > 0:
		return "covers turns 1–" + prose.Grouped(p.Through)
	}
	return "covers " + prose.Plural(p.K.Covered, "turn")
}
