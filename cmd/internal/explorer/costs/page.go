package costs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"nexus/cmd/internal/cost"
	"nexus/cmd/internal/explorer/visit"
	pages "nexus/cmd/internal/page"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/tokens"
)

// costRows is how many rows of a sum a page shows.
const costRows = 60

type costPage struct {
	By      string
	Keys    []string // that it may go by
	Since   string
	ID      turns.ID // of the session whose calls these are; zero: those of all
	Title   string   // of that session
	Rows    []costRow
	Rest    *costRow
	Total   costRow
	Dearest []dearCall
	Notes   []string
	Prices  []string
	Reading bool   // calls are being read
	SoFar   uint64 // calls that were read by now
	AsOf    string // when the sums that are shown were, where newer ones are added up or failed
	Failed  string // why the newest reading failed
	At      string // when it failed
	Again   string // when it may be begun again
}

type costRow struct {
	Name   string
	URL    string
	Calls  uint64
	Tokens cost.Tokens
	Money  string
	Width  string // of 100, against the largest
	Hit    string // of the input, what came from the cache
	Sure   bool
	picos  uint64
}

// dearCall is one of the dearest calls.
type dearCall struct {
	Name, URL string
	Depth     uint64
	Model     string
	costRow
	Missed bool // nothing of a large input came from the cache, and much was written to it
	Split  split
}

// split is what the kinds of tokens of a call cost, for people; "" where it is not known, or nothing.
type split struct{ Input, Read, Write, Output string }

func splitOf(x cost.Split) split {
	part := func(picos uint64) string {
		return strings.TrimPrefix(visit.Dollars(float64(picos)/1e12, false), "≈ ")
	}
	return split{part(x.Input), part(x.CacheRead), part(x.CacheWrite), part(x.Output)}
}

// URLOf is the page of what the calls of a session cost.
func URLOf(session turns.ID) string { return visit.Link("/ui/cost", "session", session.String()) }

// missed is the least input, in tokens, of a call whose cache is worth a word.
const missed = 20_000

func dearCallOf(d *cost.Dear, found *cost.Found) dearCall {
	name, url := nameOfGroup(&cost.Group{Session: d.Session}, found)
	if !d.Turn.IsZero() {
		url += "/t/" + d.Turn.String()
	}
	in := d.Amount.Tokens.Input + d.Amount.Tokens.CacheRead + d.Amount.Tokens.CacheWrite
	return dearCall{Name: name, URL: url, Depth: d.Depth, Model: pages.Line(d.Model, 60), costRow: costRowOf("", &d.Amount), Split: splitOf(d.Split),
		Missed: in >= missed && d.Amount.Tokens.CacheRead < in/10}
}

func costRowOf(name string, a *cost.Amount) costRow {
	r := costRow{Name: name, Calls: a.Calls, Tokens: a.Tokens, Sure: !a.IsInferred(), picos: a.Picos()}
	r.Money = MoneyOf(a)
	if in := a.Tokens.Input + a.Tokens.CacheRead + a.Tokens.CacheWrite; in > 0 {
		r.Hit = visit.Share(a.Tokens.CacheRead, in)
	}
	return r
}

// MoneyOf is what calls cost, for people; "" if nothing of it is known.
func MoneyOf(a *cost.Amount) string {
	if !a.IsKnown() {
		return ""
	}
	return visit.Dollars(float64(a.Picos())/1e12, a.IsLowerBound())
}

// Pages is what the room serves, by pattern.
func (c *Costs) Pages() visit.Pages {
	return visit.Pages{"GET /ui/cost": c.page}
}

// page adds up what calls used and cost.
func (c *Costs) page(v *visit.Visit) error {
	q := v.R.URL.Query()
	p := &costPage{By: q.Get("by"), Since: q.Get("since")}
	sums, of, err := c.scope(v, p)
	if err != nil {
		return err
	}
	for _, k := range costKeys {
		if of == nil || k != cost.BySession && k != cost.ByProject {
			p.Keys = append(p.Keys, string(k))
		}
	}
	if !slices.Contains(p.Keys, p.By) {
		p.By = p.Keys[0]
	}
	var since time.Time
	if days, ok := map[string]int{"day": 1, "week": 7, "month": 31, "quarter": 92}[p.Since]; ok {
		since = v.Now().AddDate(0, 0, -days)
	} else {
		p.Since = ""
	}
	done, running, failed := sums.get(v.R.Context(), sumScope{v.Who.Tenant, v.Who.Agent, p.Since, p.ID}, c.addAll(v, since, of))
	if running != nil {
		p.Reading, p.SoFar = true, running.calls.Load()
	}
	if failed != nil {
		p.Failed, p.At, p.Again = pages.Line(api.FromError(failed.err).Message, 300), failed.end().Local().Format("15:04:05"), failed.retry().Local().Format("15:04:05")
	}
	switch {
	case done == nil && failed != nil:
		v.Show(v.W, v.R, "cost", visit.Page{Title: "Cost", Nav: "cost", Agent: v.Who.Agent, Tenant: v.Who.Tenant, Data: p, Status: api.FromError(failed.err).Status()})
		return nil
	case done == nil:
		v.W.Header().Set("Refresh", "2") // not where sums are shown: they would move under who reads them
		v.Render("cost", "Cost", "cost", p)
		return nil
	case running != nil || failed != nil:
		p.AsOf = done.began.Local().Format("15:04:05")
	}
	sum, found := done.sums[cost.Key(p.By)], done.found
	rows := sum.Rows()
	most := uint64(1)
	for i := range rows {
		most = max(most, rows[i].Picos())
	}
	if cost.Key(p.By).IsTime() {
		slices.Reverse(rows)
	}
	for i := range rows {
		if i == costRows {
			rest := cost.Rest(rows[i:])
			r := costRowOf(fmt.Sprintf("%d more", len(rows)-i), &rest)
			p.Rest = &r
			break
		}
		name, url := nameOfGroup(&rows[i].Group, found)
		r := costRowOf(name, &rows[i].Amount)
		if r.URL = url; !rows[i].Session.IsZero() {
			r.URL = URLOf(rows[i].Session)
		}
		r.Width = fmt.Sprintf("%.1f", 100*float64(r.picos)/float64(most))
		p.Rows = append(p.Rows, r)
	}
	for _, d := range done.sums[costKeys[0]].Dearest() {
		p.Dearest = append(p.Dearest, dearCallOf(&d, found))
	}
	total := sum.Total()
	p.Total = costRowOf("Total", &total)
	p.Notes = notesOf(&total, sum.UnknownModels(), found)
	for _, s := range sum.Sources() {
		p.Prices = append(p.Prices, sourceOf(s))
	}
	v.Render("cost", "Cost", "cost", p)
	return nil
}

// scope reads the session that a page is narrowed to, nil if it is not, and returns where its sums are kept.
func (c *Costs) scope(v *visit.Visit, p *costPage) (*sums, *api.Session, error) {
	text := v.R.URL.Query().Get("session")
	if text == "" {
		return &c.sums, nil, nil
	}
	id, err := turns.ParseID(strings.ToUpper(text))
	if err != nil {
		return nil, nil, api.Errorf(api.NotFound, nil, "the address names no session")
	}
	s, err := v.C.GetSession(v.R.Context(), id, api.GetSession{About: api.About{About: true}})
	if err != nil {
		return nil, nil, err
	}
	p.ID, p.Title = id, pages.Title(s, 80)
	return &c.one, s, nil
}

func sourceOf(s tokens.Source) string { return pages.Line(fmt.Sprintf("%+v", s), 120) }

// boundWords say what of a day is known, where the source of a call does not state its time.
var boundWords = map[turns.TimeBound]string{turns.TimeNotAfter: "by ", turns.TimeNotBefore: "from "}

func nameOfGroup(g *cost.Group, found *cost.Found) (name, url string) {
	switch {
	case !g.Session.IsZero():
		name = g.Session.String()
		if s := found.Sessions[g.Session]; s != nil {
			name = pages.Title(s, 80)
		}
		return name, "/ui/s/" + g.Session.String()
	case g.Day+g.Week+g.Month != "":
		return boundWords[g.Bound] + g.Day + g.Week + g.Month, ""
	case g.Project != "" && (g.Project[0] == '/' || g.Project[0] == '~'): // a working folder, of whose repository nothing is known
		return pages.Line(g.Project, 120), visit.Link("/ui/", "folder", g.Project)
	case g.Project != "":
		return pages.Line(g.Project, 120), visit.Link("/ui/", "project", g.Project)
	case g.Model != "":
		return pages.Line(g.Model, 80), ""
	case g.Kind != "":
		return string(g.Kind), ""
	}
	return "not known", ""
}

// notesOf says what of a sum is not certain.
func notesOf(a *cost.Amount, models []string, found *cost.Found) (out []string) {
	add := func(n uint64, what string) {
		if n == 1 {
			noun, rest, _ := strings.Cut(what, " ")
			what = strings.TrimSuffix(noun, "s") + " " + rest
		}
		if n > 0 {
			out = append(out, fmt.Sprintf("%s %s", pages.Count(n), what))
		}
	}
	add(a.WithoutUsage, "calls whose source does not tell their tokens")
	add(a.Unpriced, "tokens of models without a known price: "+join(models))
	add(a.AtStart, "calls whose output is as it was when their stream began: too low")
	add(a.Uncounted, "calls that no turn has")
	add(a.Repeated, "records of responses that are counted once")
	add(a.OtherTier, "calls of a service tier with other prices")
	add(a.OtherPlace, "calls that had to run in one place, which may cost more")
	add(a.Missing, "answers that failed or were lost, and may be billed")
	add(found.Unread, "turns and sessions that can't be read")
	add(found.Superseded, "sessions that are left out, since their transcripts were read anew")
	return out
}

func join(models []string) (out string) {
	for i, m := range models {
		if i == 5 {
			return out + ", …"
		}
		if i > 0 {
			out += ", "
		}
		out += pages.Line(m, 40)
	}
	return out
}
