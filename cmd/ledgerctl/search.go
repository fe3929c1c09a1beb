package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nexus/ledger/api"
)

// searchCmd is the command search.
func searchCmd(e *env) *cobra.Command {
	var r api.Search
	var session, since string
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
		r.Text = strings.Join(args, " ")
		got, err := c.Search(cmd.Context(), r)
		if err != nil {
			return err
		}
		if got.Behind > 0 {
			e.say("the newest %d events were not searched yet", got.Behind)
		}
		if e.json {
			for _, h := range got.Hits {
				if err := e.print(h); err != nil {
					return err
				}
			}
			return nil
		}
		if len(got.Hits) == 0 {
			e.say("nothing found")
			return nil
		}
		if got.Any {
			e.say("nothing has all of the words; these have some")
		}
		if err := e.printHits(got.Hits); err != nil {
			return err
		}
		if got.Next != "" || got.Cut {
			e.say("there are more; name more words, or raise --limit")
		}
		e.sayNext(got.Hits)
		return nil
	})
	f := c.Flags()
	f.StringVar(&session, "session", "", "in this session, and what it inherits")
	f.BoolVar(&r.BranchOnly, "branch-only", false, "only the path of the session's head")
	f.StringVar(&since, "since", "", "from this day or time on")
	f.StringSliceVar(&r.Kinds, "kind", nil, "turn, memory or event")
	f.IntVar(&r.Limit, "limit", 20, "at most so many, up to 100")
	return c
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
		rows[i] = []string{idStyle.Render(where), time.Time(h.Time).Format(time.DateOnly), h.Kind, h.State, strings.Join(strings.Fields(printable(marked(h))), " ")}
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
