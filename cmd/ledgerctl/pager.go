package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/term"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/transcripts/written"
	"nexus/cmd/ledgerctl/internal/picker"
	"nexus/cmd/ledgerctl/internal/sessionview"
	"nexus/ledger/api"
)

// pick offers the sessions that changed last, newest first, and runs a verb on the one that is picked, until
// the person leaves. shown is false if there is no terminal or no session: then nothing was
// shown.
func (e *env) pick(ctx context.Context, verb func(args ...string) error) (shown bool, err error) {
	in, ok := e.In.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) || !e.OutIsTerminal || e.JSON || os.Getenv("TERM") == "dumb" {
		return false, nil
	}
	c, err := e.Client(api.Operator)
	if err != nil {
		return false, nil // the help says how to begin
	}
	var p picker.Picker
	var list []api.Session
	for s, err := range c.ListSessions(ctx, api.ListSessions{About: api.About{About: true}, Order: "updated", Page: api.Page{Limit: 500}}) {
		if err != nil {
			return false, nil
		}
		if s.Head != nil {
			list = append(list, s)
		}
		if len(list) == sessionview.MaxRecent {
			break
		}
	}
	slices.SortStableFunc(list, func(a, b api.Session) int { return saidAt(&b).Compare(saidAt(&a)) })
	list, depth := sessionview.WithParts(list)
	for i := range list {
		p.Items = append(p.Items, pickerItem(&list[i], sessionview.Part(depth[i])))
	}
	if len(p.Items) == 0 {
		return false, nil
	}
	e.LessFlags = "R" // less waits: the list comes back after it
	for {
		id, action, err := p.Run(ctx, in, e.Raw)
		if err != nil || action == picker.None {
			return true, err
		}
		if err := verb(string(action), id); err != nil {
			return true, err
		}
	}
}

// saidAt is when the newest turn of a session was said.
func saidAt(s *api.Session) time.Time {
	if s.HeadTime != nil {
		return time.Time(*s.HeadTime)
	}
	return time.Time(s.Created)
}

func pickerItem(s *api.Session, mark string) picker.Item {
	m := written.Session(s)
	title := mark + cmp.Or(prose.Clip(s.Label+" "+s.Title, 200), "(no title)")
	said := prose.At(saidAt(s), s.HeadTimeBound, time.DateOnly)
	about := fmt.Sprintf("%s  %s  %-11s  %11s  %s", prose.Short(s.ID), said, prose.Clip(prose.Source(s.Meta), 11), prose.Plural(s.Turns, "turn"), title)
	return picker.Item{ID: s.ID.String(), Line: about, Less: said + "  " + title, Find: s.ID.String() + " " + prose.Clip(s.Agent+" "+m.Cwd+" "+m.Branch, 400)}
}
