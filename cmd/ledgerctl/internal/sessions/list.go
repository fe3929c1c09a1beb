package sessions

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/searchview"
	"nexus/cmd/ledgerctl/internal/sessionview"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

// List lists the sessions: those that an import opened and that have no
// turn yet only with all.
func List(ctx context.Context, e *cli.Env, all bool, sorted string, g *searchview.Filter) error {
	order, ok := orders[sorted]
	if !ok {
		return fault.Usage(fmt.Errorf("--sort takes said, turns, tokens or opened, not %q", sorted))
	}
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	since, err := g.Resolve()
	if err != nil {
		return err
	}
	e.SayTimes(since, nil)
	var list []api.Session
	empty, hidden, others := uint64(0), uint64(0), false
	const page = 500
	r := api.ListSessions{About: api.About{About: true}, Superseded: all, Hidden: true, Tag: g.Tag, Project: g.Project}
	few := g.Limit > 0 && g.Limit <= sessionview.MaxRecent && !all && sorted == "said"
	if few {
		r.Order, r.Limit = "updated", page
	}
	var times []int64 // of the sessions in the list that were used last, the newest first: at most g.Limit
	rest, looked := "", 0
	for s, err := range c.ListSessions(ctx, r) {
		if err != nil {
			return err
		}
		if few { // what follows changed before s did, so its newest turn is older than that
			changed := time.Time(s.Updated)
			if since != nil && changed.Before(time.Time(*since)) {
				break
			}
			if looked >= page && len(times) == g.Limit && changed.UnixNano() < times[g.Limit-1] {
				rest = "older ones are not listed"
				break
			}
			if len(list) == sessionview.MaxRecent && !g.IsSet() { // those that it leaves out may be more: an undone import
				rest = fmt.Sprintf("the newest of the %s sessions that changed last", prose.Grouped(sessionview.MaxRecent))
				break
			}
			looked++
		}
		if g.IsSet() && !g.Keeps(&s, since) {
			others = true
			continue
		}
		if s.Hidden && !g.Hidden {
			hidden++
			continue
		}
		if e.JSON && g.Limit == 0 {
			if err := e.Print(s); err != nil {
				return err
			}
			continue
		}
		if !e.JSON && s.Head == nil && prose.Source(s.Meta) != "" && !all {
			empty++
			continue
		}
		list = append(list, s)
		if few {
			at := lastActivity(&s)
			i, _ := slices.BinarySearchFunc(times, at, func(a, b int64) int { return cmp.Compare(b, a) })
			if i < g.Limit {
				times = slices.Insert(times, i, at)[:min(len(times)+1, g.Limit)]
			}
		}
	}
	if few {
		slices.SortFunc(list, func(a, b api.Session) int { return cmp.Or(strings.Compare(a.Agent, b.Agent), a.ID.Compare(b.ID)) })
	}
	switch n := len(list) - g.Limit; {
	case rest != "":
		list = greatest(list, g.Limit, order)
		defer e.Say("%s; --limit 0 lists all", rest)
	case g.Limit > 0 && n > 0:
		list = greatest(list, g.Limit, order)
		defer e.Say("%s %s; --limit 0 lists all", prose.Plural(uint64(n), "session"), map[bool]string{true: "older", false: "with less"}[sorted == "said" || sorted == "opened"])
	}
	if e.JSON {
		return terminal.PrintJSON(e.Terminal, list)
	}
	if empty > 0 {
		defer e.Say("%s of an import without a turn not listed; sessions --all lists all", prose.Plural(empty, "session"))
	}
	if hidden > 0 {
		defer e.Say("%s not listed; sessions --hidden lists all", prose.Plural(hidden, "hidden session"))
	}
	if len(list) == 0 && hidden > 0 {
		return nil
	}
	if len(list) == 0 && (others || g.IsSet()) {
		e.Say("no session %s; ledgerctl sessions lists all%s", g.Described(since), names.SourceNote(g.Source))
		return nil
	}
	if len(list) == 0 && empty == 0 && e.Agent != "" && e.Agent != api.Operator {
		e.Say("agent %q has no session in tenant %q; %s", e.Agent, e.Tenant, whoHas(ctx, e, c))
		return nil
	}
	if len(list) == 0 && empty == 0 {
		e.Say("no session yet in tenant %q; ledgerctl import FILE brings one in, ledgerctl append new begins one", e.Tenant)
		return nil
	}
	slices.SortStableFunc(list, func(a, b api.Session) int { return cmp.Compare(order(&a), order(&b)) })
	_, err = io.WriteString(e.Out, sessionview.Table(e.Terminal, list))
	return err
}

// orders are the values of --sort.
var orders = map[string]func(*api.Session) int64{
	"said":   lastActivity,
	"turns":  func(s *api.Session) int64 { return int64(s.Turns) },
	"tokens": func(s *api.Session) int64 { return int64(s.Tokens) },
	"opened": func(s *api.Session) int64 { return time.Time(s.Created).UnixNano() },
}

// lastActivity is the time of a session's newest turn, in Unix nanoseconds; of one without
// a turn that of its opening.
func lastActivity(s *api.Session) int64 {
	if s.HeadTime == nil {
		return time.Time(s.Created).UnixNano()
	}
	return time.Time(*s.HeadTime).UnixNano()
}

// greatest returns so many sessions of a list, those that come last by an order, in the order of
// the list.
func greatest(list []api.Session, limit int, order func(*api.Session) int64) []api.Session {
	by := make([]int, len(list))
	for i := range by {
		by[i] = i
	}
	slices.SortStableFunc(by, func(a, b int) int {
		return cmp.Or(cmp.Compare(order(&list[b]), order(&list[a])), cmp.Compare(b, a))
	})
	by = by[:min(limit, len(by))]
	slices.Sort(by)
	out := make([]api.Session, len(by))
	for i, k := range by {
		out[i] = list[k]
	}
	return out
}

// whoHas says which agents of the tenant have sessions, if the user may know.
func whoHas(ctx context.Context, e *cli.Env, c *client.Client) string {
	counts := make(map[string]uint64)
	for s, err := range c.As(api.Operator).Sessions(ctx) {
		if err != nil {
			return "this user may not see those of others"
		}
		counts[s.Agent]++
	}
	if len(counts) == 0 {
		return "no agent has one; ledgerctl --agent " + e.Agent + " append new begins one"
	}
	var list []string
	for _, a := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s (%s)", a, prose.Grouped(counts[a])))
	}
	const most = 20
	if len(list) > most {
		list = append(list[:most], "…")
	}
	return "agents with sessions: " + strings.Join(list, ", ")
}
