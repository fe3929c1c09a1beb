package compare

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"nexus/cmd/internal/explorer/costs"
	"nexus/cmd/internal/explorer/views"
	"nexus/cmd/internal/explorer/visit"
	pages "nexus/cmd/internal/page"
	"nexus/cmd/internal/prose"
	"nexus/ledger/api"
	"nexus/turns"
)

type comparePage struct {
	A, B   string // as they were asked for
	Sides  [2]compareSide
	Pairs  []comparePair
	Base   *api.PathTurn
	BaseAt string
	Asked  bool
	Turns  bool // two turns are compared, not two sessions
	Same   bool // the two are one and the same turn
}

type compareSide struct {
	views.Head
	Turn *api.Turn // of two turns that are compared
	Name string
	URL  string
	More string // URL of the turns after those
	All  uint64 // of the turns behind what both have, compactions among them
	// First is the number of the first of those.
	First uint64
}

// comparePair is a turn of each side, which stand at the same place behind what both have.
type comparePair struct{ Cells [2]compareCell }

type compareCell struct {
	Depth  uint64 // 0: this side has no such turn
	URL    string
	Kind   string // of a compaction
	Pieces []comparePiece
	Cut    bool // its turn has more
}

type comparePiece struct {
	Who   string // Asked, Answer, a tool
	Words []wordPiece
	text  string
}

// compareShown is how many turns of a side a page shows.
const compareShown = 25

// Compare has the page; its sessions have their costs.
type Compare struct{ costs *costs.Costs }

// New returns a page with the costs of c.
func New(c *costs.Costs) *Compare { return &Compare{c} }

// Pages is what it serves, by pattern.
func (x *Compare) Pages() visit.Pages {
	return visit.Pages{"GET /ui/diff/{a}/{b}": x.compare, "GET /ui/diff": x.compare}
}

// compare shows what two sessions, or two turns, have in common, and how each goes on from there.
func (x *Compare) compare(v *visit.Visit) error {
	a, b := v.R.PathValue("a"), v.R.PathValue("b")
	if a == "" {
		if a, b = v.R.URL.Query().Get("a"), v.R.URL.Query().Get("b"); a == "" || b == "" {
			v.Render("compare", "Compare", "sessions", &comparePage{A: a, B: b})
			return nil
		}
	}
	p := &comparePage{A: a, B: b, Asked: true}
	var at [2]api.Place
	for i, name := range []string{a, b} {
		var err error
		if at[i], err = placeOf(v, name); err != nil {
			return err
		}
		s, err := v.C.GetSession(v.R.Context(), at[i].Session, api.GetSession{About: api.About{About: true}})
		if err != nil {
			return err
		}
		side := &p.Sides[i]
		side.Head, side.URL = views.HeadOf(v, s), "/ui/s/"+s.ID.String()
		side.Cost = x.costs.Of(v, s)
		side.Name = cmp.Or(side.Title, prose.Short(s.ID))
		if !at[i].Turn.IsZero() {
			if side.Turn, err = v.C.Turn(v.R.Context(), s.ID, at[i].Turn); err != nil {
				return err
			}
			side.Name, side.URL = fmt.Sprintf("turn %d of %s", side.Turn.Depth, side.Name), visit.TurnURL(s.ID, at[i].Turn)
		}
	}
	if p.Turns = p.Sides[0].Turn != nil; p.Turns != (p.Sides[1].Turn != nil) {
		return api.Errorf(api.Malformed, nil, "a turn is compared with a turn, a session with a session")
	}
	base, err := v.C.Base(v.R.Context(), at[0].Session, api.GetBase{At: at[0].Turn, Other: at[1]})
	if err != nil {
		return err
	}
	if p.Base = base.Base; p.Base != nil {
		p.BaseAt = visit.TurnURL(at[0].Session, p.Base.ID)
	}
	var cells [2][]compareCell
	if p.Turns {
		p.Same = at[0].Turn == at[1].Turn
		for i := range cells {
			_, e, _, err := views.Read(v, p.Sides[i].Session, at[i].Turn)
			if err != nil {
				return err
			}
			cells[i] = []compareCell{cellOf(e, visit.TurnURL(at[i].Session, at[i].Turn))}
		}
	} else if err := sinceBase(v, p, &cells); err != nil {
		return err
	}
	for i := range max(len(cells[0]), len(cells[1])) {
		var pair comparePair
		for k := range cells {
			if i < len(cells[k]) {
				pair.Cells[k] = cells[k][i]
			}
		}
		pair.compare()
		p.Pairs = append(p.Pairs, pair)
	}
	v.Render("compare", "Compare", "sessions", p)
	return nil
}

// fit shows less of each text: what is left out is on the page of its turn.
func (p *comparePage) Fit(z visit.Size) {
	for i := range p.Pairs {
		for k := range p.Pairs[i].Cells {
			c := &p.Pairs[i].Cells[k]
			left := z.Text * 3 / 2
			for j := range c.Pieces {
				x := &c.Pieces[j]
				for n := range x.Words {
					w := &x.Words[n]
					if len(w.Text) > left {
						w.Text, c.Cut = visit.Clip(w.Text, left), true
						x.Words = x.Words[:n+1]
						left = 0
						break
					}
					left -= len(w.Text)
				}
				if left == 0 {
					c.Pieces = c.Pieces[:j+1]
					break
				}
			}
		}
	}
}

// sinceBase reads the turns that each side has behind what both have.
func sinceBase(v *visit.Visit, p *comparePage, cells *[2][]compareCell) error {
	from := uint64(1)
	if p.Base != nil {
		from = p.Base.Depth + 1
	}
	for i := range p.Sides {
		side := &p.Sides[i]
		s := side.Session
		side.First = from
		if side.All = s.Depth - min(s.Depth, from-1); side.All == 0 {
			continue
		}
		to := min(from+compareShown-1, s.Depth)
		rows, _, err := views.Turns(v, s, from, to, nil)
		if err != nil {
			return err
		}
		for _, r := range rows {
			cells[i] = append(cells[i], cellOf(r.Entry, visit.TurnURL(s.ID, r.Turn)))
		}
		if to < s.Depth {
			side.More = fmt.Sprintf("/ui/s/%s?from=%d", s.ID, to+1)
		}
	}
	return nil
}

// cellOf reads a turn for a comparison.
func cellOf(e *pages.Entry, url string) compareCell {
	c := compareCell{Depth: e.Depth, URL: url}
	left := maxCompared
	add := func(who, text string) {
		if text = strings.TrimSpace(text); text == "" {
			return
		}
		if len(text) > left {
			text, c.Cut = visit.Clip(text, left), true
		}
		if left -= len(text); text != "" {
			c.Pieces = append(c.Pieces, comparePiece{Who: who, text: text})
		}
	}
	if k := e.Compaction; k != nil {
		if c.Kind = "compaction"; k.Summary != nil {
			add("Summary", k.Summary.Text)
		}
		return c
	}
	for _, list := range [][]*pages.Block{e.Asked, e.Answer} {
		for _, b := range list {
			switch b.Kind {
			case "person":
				add("Asked", b.Text.Text)
			case "answer":
				add("Answer", b.Text.Text)
			case "call":
				add(cmp.Or(b.Name, "tool"), argumentsOf(b))
				if b.Result != nil {
					add("result", b.Result.Text.Text)
				}
			case "result":
				add("result", b.Text.Text)
			default:
				add(cmp.Or(b.Brief, string(b.Kind)), b.Text.Text)
			}
		}
	}
	return c
}

// argumentsOf is what a tool is called with, as text.
func argumentsOf(b *pages.Block) string {
	var out []string
	for _, f := range b.Fields {
		if f.Name == "" || len(b.Fields) == 1 {
			out = append(out, f.Text.Text)
		} else {
			out = append(out, f.Name+": "+f.Text.Text)
		}
	}
	return strings.Join(out, "\n")
}

// compare finds the words that only one cell has: pieces of one kind are compared in their order. A
// cell without a counterpart is not marked: all of it is its own.
func (p *comparePair) compare() {
	a, b := &p.Cells[0], &p.Cells[1]
	used := make([]bool, len(b.Pieces))
	for i := range a.Pieces {
		x := &a.Pieces[i]
		x.Words = []wordPiece{{x.text, b.Depth > 0}}
		for k := range b.Pieces {
			if y := &b.Pieces[k]; !used[k] && y.Who == x.Who {
				x.Words, y.Words = compareWords(x.text, y.text)
				used[k] = true
				break
			}
		}
	}
	for k := range b.Pieces {
		if y := &b.Pieces[k]; !used[k] {
			y.Words = []wordPiece{{y.text, a.Depth > 0}}
		}
	}
}

// placeOf finds a session by its name, see named, or a turn of one: NAME@DEPTH or SESSION/TURN.
func placeOf(v *visit.Visit, name string) (at api.Place, err error) {
	if session, turn, ok := strings.Cut(name, "/"); ok {
		if at.Session, err = named(v, session); err != nil {
			return at, err
		}
		if at.Turn, err = turns.ParseID(strings.ToUpper(strings.TrimSpace(turn))); err != nil {
			return at, api.Errorf(api.NotFound, nil, "%q names no turn", pages.Line(name, 80))
		}
		return at, nil
	}
	session, depth, ok := strings.Cut(name, "@")
	if at.Session, err = named(v, session); err != nil || !ok {
		return at, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(depth), 10, 64)
	if err != nil || n == 0 {
		return at, api.Errorf(api.NotFound, nil, "%q names no turn: after @ comes its number", pages.Line(name, 80))
	}
	page, err := v.C.TurnPage(v.R.Context(), at.Session, api.ListTurns{From: n, Page: api.Page{Limit: 1}})
	if err != nil {
		return at, err
	}
	if len(page.Turns) == 0 || page.Turns[0].Depth != n {
		return at, api.Errorf(api.NotFound, nil, "the session has no turn %d", n)
	}
	at.Turn = page.Turns[0].ID
	return at, nil
}

// named finds a session by its id, or the beginning or end of one, or its label.
func named(v *visit.Visit, name string) (turns.ID, error) {
	name = strings.TrimSpace(name)
	if id, err := turns.ParseID(strings.ToUpper(name)); err == nil {
		return id, nil
	}
	found, err := v.C.FindNames(v.R.Context(), api.FindNames{Name: name, Kind: "session", Limit: 2})
	if err != nil {
		return turns.ID{}, err
	}
	switch len(found.Sessions) {
	case 0:
		return turns.ID{}, api.Errorf(api.NotFound, nil, "no session is called %q", pages.Line(name, 60))
	case 1:
		return found.Sessions[0].ID, nil
	}
	return turns.ID{}, api.Errorf(api.NotFound, nil, "several sessions are called %q", pages.Line(name, 60))
}
