package searchview

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
)

// pageLimit is the most hits of one page.
const pageLimit = 100

// Find asks page after page: a page ends with fewer hits than its limit, or none, where
// it has looked at much text. It ends at the limit of r (0: there is none) or, with all, at the end of what has
// all of the words: what has some follows in the reply, and is none of these. If nothing has
// all, it takes a page of what has some. It says what the hits lack; more is set if others
// match.
func Find(ctx context.Context, term *terminal.Terminal, ask func(context.Context, api.Search) (*api.SearchHits, error), r api.Search, all bool) (hits []api.SearchHit, more bool, err error) {
	limit := cmp.Or(r.Limit, math.MaxInt)
	r.Limit = min(limit, pageLimit)
	for first := true; ; first = false {
		page, err := ask(ctx, r)
		if err != nil {
			return nil, false, err
		}
		if first && page.Behind > 0 {
			term.Say("the newest %s were not searched yet: the index is still reading them, and the same command finds more in a moment", prose.Plural(uint64(page.Behind), "event"))
		}
		if len(hits) == 0 && len(page.Hits) > 0 && page.Hits[0].Some {
			term.Say("nothing has all of the words; these have some")
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
			r.Limit = min(limit-len(hits), pageLimit)
		}
	}
}

// SayNext says how to read the first turn that was found, else the first event.
func SayNext(term *terminal.Terminal, hits []api.SearchHit) {
	first := func(kind string) int {
		return slices.IndexFunc(hits, func(h api.SearchHit) bool { return h.Kind == kind })
	}
	if i := first("session"); i == 0 {
		term.Say("next: ledgerctl log %s shows the session", prose.Short(hits[0].Session))
	} else if i := first("turn"); i >= 0 {
		if h := hits[i]; h.State == "other_branch" || h.Type == "compaction" { // no number of the head's path names it for sure
			term.Say("next: ledgerctl show %s/%s shows the first turn that was found", h.Session, h.Turn)
		} else {
			term.Say("next: ledgerctl show %s@%d shows the first turn that was found", prose.Short(h.Session), h.Depth)
		}
	} else if i := first("event"); i >= 0 {
		term.Say("next: ledgerctl event get %s %s --agent %s", prose.Printable(hits[i].Channel), hits[i].Event, hits[i].Agent)
	}
}

// InLog prints the turns of a session's path that have the words of text, newest first.
func InLog(ctx context.Context, term *terminal.Terminal, p names.Place, text string, limit int, shown bool) error {
	r := api.Search{Text: text, ShowSecrets: shown, Session: p.Session.ID, BranchOnly: true, Kinds: []string{"turn"}, Page: api.Page{Limit: 100}}
	hits, more, err := Find(ctx, term, p.Client.Search, r, true)
	if err != nil {
		return err
	}
	if more {
		defer term.Say("more turns match than are listed; name more words")
	}
	slices.SortStableFunc(hits, func(a, b api.SearchHit) int { return cmp.Compare(b.Depth, a.Depth) })
	if n := len(hits) - limit; limit > 0 && n > 0 {
		hits = hits[:limit]
		defer term.Say("%s more; raise --limit", prose.Plural(uint64(n), "turn"))
	}
	if term.JSON {
		return terminal.PrintJSON(term, hits)
	}
	if len(hits) == 0 {
		term.Say("nothing found")
		return nil
	}
	return Print(term, hits)
}

// Snippet returns the snippet of a hit for a line of a table.
func Snippet(h api.SearchHit) string {
	return strings.Join(strings.Fields(prose.Printable(marked(h))), " ")
}

// Print prints a line for each hit.
func Print(term *terminal.Terminal, hits []api.SearchHit) error {
	rows := make([][]string, len(hits))
	for i, h := range hits {
		where := ""
		switch h.Kind {
		case "turn", "note":
			where = fmt.Sprintf("%s@%d", prose.Short(h.Session), h.Depth)
		case "session":
			where = prose.Short(h.Session)
		case "memory":
			where = prose.Short(h.Memory)
		default:
			where = prose.Printable(h.Channel)
		}
		rows[i] = []string{terminal.ID.Render(where), prose.At(time.Time(h.Time), h.TimeBound, time.DateOnly), h.Kind, h.State, Snippet(h)}
	}
	cols := []terminal.Column{{Head: "where"}, {Head: "day", Drop: 2}, {Head: "kind", Drop: 1}, {Head: "state", Drop: 3}, {Head: "text"}}
	_, err := io.WriteString(term.Out, term.Table(cols, rows))
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
