package explorer

import (
	"fmt"
	"strings"

	pages "nexus/cmd/internal/page"
	"nexus/ledger/api"
	"nexus/turns"
)

type comparePage struct {
	A, B   string // as they were asked for
	Sides  [2]compareSide
	Base   *api.PathTurn
	BaseAt string
	Asked  bool
	Other  bool // they are of different trees
}

type compareSide struct {
	head
	Rows []turnRow
	From uint64
	More string // URL of the turns after those
	All  uint64
}

// compareShown is how many turns of a side a page shows.
const compareShown = 25

// compare shows what two sessions have in common, and what each has since.
func (v *visit) compare() error {
	a, b := v.r.PathValue("a"), v.r.PathValue("b")
	if a == "" {
		if a, b = v.r.URL.Query().Get("a"), v.r.URL.Query().Get("b"); a == "" || b == "" {
			v.page("compare", "Compare", "sessions", &comparePage{A: a, B: b})
			return nil
		}
	}
	p := &comparePage{A: a, B: b, Asked: true}
	var ss [2]*api.Session
	for i, name := range []string{a, b} {
		id, err := v.named(name)
		if err != nil {
			return err
		}
		if ss[i], err = v.c.GetSession(v.r.Context(), id, api.GetSession{About: api.About{About: true}}); err != nil {
			return err
		}
		p.Sides[i].head = v.head(ss[i])
	}
	base, err := v.c.Base(v.r.Context(), ss[0].ID, api.GetBase{Other: api.Place{Session: ss[1].ID}})
	if err != nil {
		return err
	}
	p.Base, p.Other = base.Base, base.Base == nil
	from := uint64(1)
	if p.Base != nil {
		from, p.BaseAt = p.Base.Depth+1, v.turnURL(ss[0].ID, p.Base.ID)
	}
	for i, s := range ss {
		side := &p.Sides[i]
		side.From, side.All = from, s.Depth-min(s.Depth, from-1)
		if side.All == 0 {
			continue
		}
		to := min(from+compareShown-1, s.Depth)
		if side.Rows, _, err = v.turns(s, from, to, nil); err != nil {
			return err
		}
		if to < s.Depth {
			side.More = fmt.Sprintf("/ui/s/%s?from=%d", s.ID, to+1)
		}
	}
	v.page("compare", "Compare", "sessions", p)
	return nil
}

// named finds a session by its id, or the beginning or end of one, or its label.
func (v *visit) named(name string) (turns.ID, error) {
	name = strings.TrimSpace(name)
	if id, err := turns.ParseID(strings.ToUpper(name)); err == nil {
		return id, nil
	}
	found, err := v.c.FindNames(v.r.Context(), api.FindNames{Name: name, Kind: "session", Limit: 2})
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
