package views

import (
	"fmt"
	"strings"
	"time"

	"nexus/cmd/internal/explorer/visit"
	pages "nexus/cmd/internal/page"
	"nexus/cmd/internal/prose"
	"nexus/ledger/api"
	"nexus/turns"
)

type searchPage struct {
	Q      string
	Hits   []hitRow
	Next   string
	Any    bool
	Behind uint64
	Cwd    string
	Kind   string
	Role   string
	Scope  string // a session's id
	Cov    bool
	Error  string
}

type hitRow struct {
	URL     string
	Context string
	Kind    string
	State   string
	Where   string
	Title   string
	When    string
	Pieces  []hitPiece
	Role    string
}

type hitPiece struct {
	Text string
	Hit  bool
}

func (v *visitor) search() error {
	q := v.R.URL.Query()
	p := &searchPage{Q: q.Get("q"), Cwd: q.Get("folder"), Kind: q.Get("kind"), Role: q.Get("role"), Scope: q.Get("session"), Cov: q.Get("covered") != ""}
	if strings.TrimSpace(p.Q) == "" {
		v.Render("search", "Search", "search", p)
		return nil
	}
	r := api.Search{Text: p.Q, Cwd: p.Cwd, Role: p.Role, Covered: p.Cov, Page: api.Page{After: q.Get("after"), Limit: 30}}
	if p.Kind != "" {
		r.Kinds = []string{p.Kind}
	}
	if p.Scope != "" {
		id, err := turns.ParseID(strings.ToUpper(p.Scope))
		if err != nil {
			return api.Errorf(api.Malformed, nil, "the address names no session")
		}
		r.Session = id
	}
	found, err := v.C.Search(v.R.Context(), r)
	if err != nil {
		if e := api.FromError(err); e.Status() == 400 {
			p.Error = e.Message
			v.Render("search", "Search", "search", p)
			return nil
		}
		return err
	}
	p.Any, p.Behind = found.Any, found.Behind
	titles := make(map[turns.ID]string)
	for _, h := range found.Hits {
		x := hitRow{Kind: h.Kind, State: strings.ReplaceAll(h.State, "_", " "), Role: h.Role}
		if !h.Session.IsZero() && titles[h.Session] == "" {
			titles[h.Session] = prose.Short(h.Session)
			if s, err := v.C.GetSession(v.R.Context(), h.Session, api.GetSession{About: api.About{About: true}}); err == nil {
				titles[h.Session] = pages.Title(s, 80)
			}
		}
		switch h.Kind {
		case "turn":
			x.Title, x.Where = titles[h.Session], fmt.Sprintf("turn %d", h.Depth)
			x.URL = visit.TurnURL(h.Session, h.Turn)
			if h.Type == "compaction" {
				x.URL, x.Where = fmt.Sprintf("/ui/s/%s/c/%s", h.Session, h.Turn), fmt.Sprintf("compaction %d", h.Depth)
			} else {
				x.Context = fmt.Sprintf("/ui/s/%s?from=%d#t%d", h.Session, max(h.Depth, 6)-5, h.Depth)
			}
		case "note":
			x.Title, x.Where, x.URL = titles[h.Session], fmt.Sprintf("note on turn %d", h.Depth), visit.TurnURL(h.Session, h.Turn)
		case "session":
			x.Title, x.Where, x.URL = titles[h.Session], "session", "/ui/s/"+h.Session.String()
		case "memory":
			x.Title, x.Where, x.URL = "Memory", prose.Short(h.Memory), "/ui/memory#"+h.Memory.String()
		default:
			x.Title, x.Where, x.URL = pages.Line(h.Channel, 80), "event", visit.Link("/ui/events", "channel", h.Channel)
		}
		x.When = prose.At(time.Time(h.Time), h.TimeBound, "2006-01-02 15:04")
		x.Pieces = marked(h.Snippet, h.Matches)
		p.Hits = append(p.Hits, x)
	}
	if found.Next != "" {
		q.Set("after", found.Next)
		p.Next = "/ui/search?" + q.Encode()
	}
	v.Render("search", "Search: "+pages.Line(p.Q, 60), "search", p)
	return nil
}

// marked splits a snippet at its matches, which are of characters.
func marked(s string, matches [][2]int) (out []hitPiece) {
	rs := []rune(s)
	at := 0
	for _, m := range matches {
		if m[0] < at || m[1] > len(rs) || m[0] >= m[1] {
			continue
		}
		out = append(out, hitPiece{string(rs[at:m[0]]), false}, hitPiece{string(rs[m[0]:m[1]]), true})
		at = m[1]
	}
	return append(out, hitPiece{string(rs[at:]), false})
}
