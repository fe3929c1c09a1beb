package acts

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"nexus/cmd/internal/explorer/visit"
	pages "nexus/cmd/internal/page"
	"nexus/cmd/internal/prose"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// everywherePage asks for a text that is to be taken out of all sessions, and of what agents saved; it says what that reaches, and what
// was done.
//
// Every event of the ledger is read for it. So a form looks at some sessions, and its page has the form that goes on: nothing is kept
// between two forms, and one that is left leaves the rest as it is.
type everywherePage struct {
	Text   string
	Ground string
	Asked  bool   // a form was sent
	Sure   bool   // it takes the text out
	After  string // where the next form goes on; "": all was looked at

	Rows     []everywhereRow   // sessions of this form that have the text
	Memories []memoriesRow     // of the last form: agents that saved it
	Stores   []api.ErasedStore // of the last session of this form that has the text

	// Totals of this form and those before it.
	Looked, Sessions, Events, Failed int
}

type everywhereRow struct {
	ID      turns.ID // zero: of no session
	Title   string
	Events  []foundEvent
	More    int  // events that are not listed
	Pending bool // something of it is still being done
	Error   string
}

type memoriesRow struct {
	Agent     string
	Memories  int
	Documents uint64
}

const (
	// sessionsAForm and timeAForm bound what one form looks at. Each request has [visit.Patience].
	sessionsAForm = 100
	timeAForm     = 10 * time.Second
	// afterSessions is where the form goes on that looks at memories alone: behind it stands the last agent that was looked at.
	afterSessions = "memories of "
)

// takeOutEverywhere is the page that asks.
func takeOutEverywhere(v *visit.Visit) error {
	if _, err := mayErase(v); err != nil {
		return err
	}
	v.Render("everywhere", "Take out everywhere", "sessions", &everywherePage{})
	return nil
}

// doTakeOutEverywhere says what the form would take out; a form that is sure takes it out.
func doTakeOutEverywhere(v *visit.Visit) error {
	c, err := mayErase(v)
	if err != nil {
		return err
	}
	if err := v.Parse(); err != nil {
		return err
	}
	f := v.R.PostForm
	p := &everywherePage{Text: textOf(f.Get("text")), Ground: f.Get("ground"), Asked: true, Sure: f.Get("sure") != "", After: f.Get("after")}
	for name, n := range map[string]*int{"looked": &p.Looked, "sessions": &p.Sessions, "events": &p.Events, "failed": &p.Failed} {
		if *n, err = strconv.Atoi(cmp.Or(f.Get(name), "0")); err != nil || *n < 0 {
			return api.Errorf(api.Malformed, nil, "the form can't be read")
		}
	}
	if p.Text == "" {
		return api.Errorf(api.Malformed, nil, "the form has no text")
	}
	if err := p.look(v, c); err != nil {
		return err
	}
	v.Render("everywhere", "Take out everywhere", "sessions", p)
	return nil
}

// look looks at sessions, from where the form goes on, and at the memories once there are no more.
func (p *everywherePage) look(v *visit.Visit, c *client.Client) error {
	until := time.Now().Add(timeAForm)
	ctx, cancel := context.WithDeadline(v.R.Context(), until.Add(timeAForm/2)) // what a form did by then has its page
	defer cancel()
	left := eventsListed
	for n := 0; !strings.HasPrefix(p.After, afterSessions); n++ {
		if n == sessionsAForm || time.Now().After(until) {
			return nil
		}
		list, err := v.C.SessionPage(ctx, api.ListSessions{Hidden: true, Superseded: true, Page: api.Page{After: p.After, Limit: 1}}) // one: the next form may go on behind any
		if err != nil && n > 0 && tooLong(ctx, v) {
			return nil // what was done has its page
		}
		if err != nil {
			return err
		}
		p.After = cmp.Or(list.Next, afterSessions)
		for i := range list.Sessions {
			p.Looked++
			if err := p.redact(ctx, v, c, &list.Sessions[i], &left); err != nil {
				return err
			}
		}
	}
	if time.Now().After(until) {
		return nil
	}
	agents := make(map[string]bool)
	for s, err := range v.C.ListSessions(ctx, api.ListSessions{Hidden: true, Superseded: true}) {
		if err != nil && len(p.Rows) > 0 && tooLong(ctx, v) {
			return nil
		}
		if err != nil {
			return err
		}
		agents[s.Agent] = true
	}
	was := strings.TrimPrefix(p.After, afterSessions)
	for _, agent := range slices.Sorted(maps.Keys(agents)) {
		if agent <= was {
			continue
		}
		if time.Now().After(until) {
			return nil
		}
		p.After = afterSessions + agent
		r, err := c.RedactMemories(ctx, api.RedactMemories{Agent: agent, Text: p.Text, Ground: p.Ground, DryRun: !p.Sure})
		if err != nil && tooLong(ctx, v) {
			p.Failed++
			p.Rows = append(p.Rows, everywhereRow{Title: "memories of " + agent, Error: takesLonger})
			return nil
		}
		if err != nil {
			return err
		}
		if len(r.Memories) > 0 || r.Documents > 0 {
			p.Memories = append(p.Memories, memoriesRow{agent, len(r.Memories), r.Documents})
		}
	}
	p.After = ""
	return nil
}

// takesLonger is said of what a form has no time for.
const takesLonger = "it takes longer than a page waits: ledgerctl redact has the time"

// tooLong reports whether the time of a form is over, and its page is still waited for.
func tooLong(ctx context.Context, v *visit.Visit) bool {
	return ctx.Err() != nil && v.R.Context().Err() == nil
}

// redact takes the text out of a session, or says where it stands there. left is how many events the page may still list. What is wrong
// with one session keeps no other one waiting.
func (p *everywherePage) redact(ctx context.Context, v *visit.Visit, c *client.Client, s *api.Session, left *int) error {
	if s.State == turns.Erased.String() {
		return nil
	}
	r, err := c.Redact(ctx, s.ID, api.RedactTurn{Text: p.Text, Ground: p.Ground, DryRun: !p.Sure})
	if err != nil && tooLong(ctx, v) {
		p.Failed++
		p.Rows = append(p.Rows, everywhereRow{ID: s.ID, Title: pages.Title(s, 80), Error: takesLonger})
		return nil
	}
	if err != nil {
		switch said := api.FromError(err); {
		case v.R.Context().Err() != nil, said.Code == api.Malformed, said.Code == api.Unsupported, said.Code == api.Denied: // of no session in particular
			return err
		case said.Code != api.Erased: // meanwhile
			p.Failed++
			p.Rows = append(p.Rows, everywhereRow{ID: s.ID, Title: pages.Title(s, 80), Error: pages.Line(said.Message, 300)})
		}
		return nil
	}
	if len(r.Events) == 0 {
		return nil
	}
	p.Sessions, p.Stores = p.Sessions+1, r.Stores
	p.Events += len(r.Events)
	shown := r.Events[:min(len(r.Events), *left)]
	*left -= len(shown)
	p.Rows = append(p.Rows, everywhereRow{ID: s.ID, Title: cmp.Or(pages.Title(s, 80), prose.Short(s.ID)), Events: foundIn(s.ID, shown), More: len(r.Events) - len(shown), Pending: p.Sure && !r.Done})
	return nil
}

// Preview reports whether the page says what would be done.
func (p *everywherePage) Preview() bool { return !p.Sure }

// Nothing reports whether all was looked at, and nothing has the text.
func (p *everywherePage) Nothing() bool {
	return p.After == "" && p.Events == 0 && p.Failed == 0 && len(p.Memories) == 0
}
