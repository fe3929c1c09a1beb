package costview

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nexus/cmd/internal/cost"
	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/sessionview"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Report is a sum as it is shown. Sum and Found are those of one reading.
type Report struct {
	Sum          *cost.Sum
	Found        *cost.Found
	By           []cost.Key
	Zone         *time.Location
	Since, Until time.Time
	Limit        int    // rows at most; 0: all
	File         string // with prices of the user; "" is none
}

// isByTime reports whether the rows are in order of time, as [cost.Sum.Rows] orders them.
func (x *Report) isByTime() bool {
	return slices.ContainsFunc(x.By, cost.Key.IsTime)
}

// rows returns the rows to show and those that are left out.
func (x *Report) rows() (shown, rest []cost.Row) {
	all := x.Sum.Rows()
	if x.Limit == 0 || len(all) <= x.Limit {
		return all, nil
	}
	if x.isByTime() { // the newest ones
		n := len(all) - x.Limit
		return all[n:], all[:n]
	}
	return all[:x.Limit], all[x.Limit:]
}

// Table returns the sums and their notes as text, for the width of a terminal.
func (x *Report) Table(term *terminal.Terminal) string {
	var cols []terminal.Column
	for _, k := range x.By {
		cols = append(cols, terminal.Column{Head: string(k)})
	}
	cols = append(cols, terminal.Column{Head: "calls", Right: true, Drop: 4}, terminal.Column{Head: "input", Right: true, Drop: 5}, terminal.Column{Head: "cache read", Right: true, Drop: 3}, terminal.Column{Head: "cache write", Right: true, Drop: 6},
		terminal.Column{Head: "output", Right: true, Drop: 2}, terminal.Column{Head: "reasoning", Right: true, Drop: 7}, terminal.Column{Head: "cost", Right: true})
	costAt := len(cols) - 1
	titled := slices.Contains(x.By, cost.BySession)
	if titled {
		cols = append(cols, terminal.Column{Head: "title", Least: 20})
	}
	var rows [][]string
	row := func(keys []string, a *cost.Amount, title string) {
		t := a.Tokens
		r := append(keys, prose.Grouped(a.Calls), prose.Grouped(t.Input), prose.Grouped(t.CacheRead), prose.Grouped(t.CacheWrite), prose.Grouped(t.Output), prose.Grouped(t.Reasoning), x.dollars(a))
		if titled {
			r = append(r, title)
		}
		rows = append(rows, r)
	}
	alone := func(text string) []string {
		return append([]string{terminal.Faint.Render(text)}, make([]string, len(x.By)-1)...)
	}
	shown, rest := x.rows()
	others := func(which string) {
		if a := cost.Rest(rest); len(rest) > 0 {
			row(alone("… "+prose.Grouped(uint64(len(rest)))+which), &a, "")
		}
	}
	if x.isByTime() {
		others(" earlier")
	}
	for i := range shown {
		var keys []string
		for _, k := range x.By {
			keys = append(keys, x.cell(term, k, &shown[i]))
		}
		row(keys, &shown[i].Amount, x.title(term, shown[i].Session))
	}
	if !x.isByTime() {
		others(" more")
	}
	if total := x.Sum.Total(); len(shown)+len(rest) > 1 {
		if row(alone("total"), &total, ""); x.isPartial() {
			last := rows[len(rows)-1]
			last[costAt] = atLeast(last[costAt])
		}
	}
	var b strings.Builder
	b.WriteString(term.Table(cols, rows))
	for i, n := range x.notes() {
		if i == 0 {
			b.WriteByte('\n')
		}
		b.WriteString(terminal.Wrapped(term.Width, n, "  ") + "\n")
	}
	return b.String()
}

// cell is the key of a row.
func (x *Report) cell(term *terminal.Terminal, k cost.Key, r *cost.Row) string {
	most := 60
	if term.Width == 0 { // a file or a pipe
		most = 4096
	}
	dash := func(s string) string { return cmp.Or(prose.Clip(s, most), "–") }
	switch k {
	case cost.ByTurn:
		if r.Turn.IsZero() {
			return terminal.ID.Render(prose.Short(r.Session))
		}
		return terminal.ID.Render(prose.Short(r.Session) + "/" + prose.Short(r.Turn))
	case cost.BySession:
		return terminal.ID.Render(prose.Short(r.Session))
	case cost.ByDay:
		if r.Day == "" {
			return "unknown"
		}
		return prose.Bound(r.Bound) + r.Day
	case cost.ByWeek, cost.ByMonth, cost.ByBlock:
		at := cmp.Or(map[cost.Key]string{cost.ByWeek: r.Week, cost.ByMonth: r.Month, cost.ByBlock: r.Block}[k], "unknown")
		if at == "unknown" {
			return at
		}
		return prose.Bound(r.Bound) + at
	case cost.ByModel:
		return dash(r.Model)
	case cost.ByProject:
		return dash(r.Project)
	case cost.ByFolder:
		return dash(r.Folder)
	case cost.ByBranch:
		return dash(r.Branch)
	case cost.ByAgent:
		return dash(r.Agent)
	case cost.ByKind:
		return string(r.Kind)
	}
	return dash(r.Source)
}

// title is what a person knows a session by, and what it served.
func (x *Report) title(term *terminal.Terminal, id turns.ID) string {
	s := x.Found.Sessions[id]
	if s == nil {
		return ""
	}
	title := sessionview.Title(term, s)
	if sp := s.SpawnedBy; sp != nil {
		title = terminal.Faint.Render("for "+prose.Short(sp.Session)) + "  " + title
	}
	return title
}

// dollars is a cost; ≥ stands before one that is higher, and – where nothing is known.
func (x *Report) dollars(a *cost.Amount) string {
	if !a.IsKnown() {
		return "–"
	}
	text := fmt.Sprintf("$%.2f", float64(a.Picos())/1e12)
	if slices.Contains(x.By, cost.ByTurn) {
		text = fmt.Sprintf("$%.4f", float64(a.Picos())/1e12)
	}
	if a.IsLowerBound() {
		return atLeast(text)
	}
	return text
}

// atLeast marks dollars as fewer than the cost.
func atLeast(dollars string) string {
	if strings.HasPrefix(dollars, "$") {
		return "≥ " + dollars
	}
	return dollars
}

// isPartial reports whether calls are missing in the sum of all.
func (x *Report) isPartial() bool { return x.Found.Unread+x.Found.Branches+x.Found.Channels > 0 }

// notes are the sentences below the table: where the dollars are from, and what is not
// known.
func (x *Report) notes() (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	t := x.Sum.Total()
	all, recorded, priced := t.Micros()
	dollars := func(micros uint64) string { return fmt.Sprintf("$%.2f", float64(micros)/1e6) }
	switch {
	case all == 0:
	case priced == 0 && !t.IsInferred() && !x.isPartial():
		add("All of it is as the sources recorded it.")
	case priced == 0:
		add("%s as the sources recorded it.", dollars(recorded))
	case recorded == 0:
		add("By the prices of %s.", x.priceSources())
	default:
		add("%s as the sources recorded it, %s by the prices of %s.", dollars(recorded), dollars(priced), x.priceSources())
	}
	if kinds := x.kinds(); kinds != "" {
		add("%s", kinds)
	}
	if t.Missing > 0 {
		add("≥: %s of /v1 did not arrive: the call failed or was cancelled, or the answer was lost. The provider may have billed it.", prose.Plural(t.Missing, "answer"))
	}
	if t.AtStart > 0 {
		add("≥: of %s the source has the output as it was counted when the stream began, so the true output and cost are higher (Claude Code before 2.1.100 or so).", prose.Plural(t.AtStart, "call"))
	}
	if models := x.Sum.UnknownModels(); t.Unpriced > 0 {
		const most = 5
		for i := range models {
			models[i] = cmp.Or(prose.Clip(models[i], 60), "(no name)")
		}
		if n := len(models); n > most {
			models = append(models[:most], fmt.Sprintf("%d more", n-most))
		}
		add("≥: %s tokens have no dollars: no price is known of these models: %s; --prices takes one.", prose.Grouped(t.Unpriced), strings.Join(models, ", "))
	}
	if t.WithoutUsage > 0 {
		add("≥: of %s the source does not tell the tokens.", prose.Plural(t.WithoutUsage, "call"))
	}
	if n := t.Added; n > 0 {
		add("%s appended to the history of a program without a model and tokens, and not counted as calls.", map[bool]string{true: "1 answer was", false: prose.Grouped(n) + " answers were"}[n == 1])
	}
	if t.Repeated > 0 {
		add("%s a response that is counted already, in a copy of a history or a later part of the response, and counted once.", map[bool]string{true: "1 turn repeats", false: prose.Grouped(t.Repeated) + " turns repeat"}[t.Repeated == 1])
	}
	if t.Uncounted > 0 {
		add("≥: of %s an import found the tokens and no turn to give them to; the report of the import has them.", prose.Plural(t.Uncounted, "call"))
	}
	if t.Bounded > 0 {
		add("Of %s the source does not state the time: ≤ and ≥ stand before the nearest that it has, by which --since and --until go.", prose.Plural(t.Bounded, "call"))
	}
	if t.OtherTier > 0 {
		add("%s of another service tier (batch, priority, fast) than the one that the prices are of; ≥ unless that is cheaper.", prose.Plural(t.OtherTier, "call"))
	}
	if t.OtherPlace > 0 {
		add("≥: the source says of %s where the model had to run, and a provider may charge more for that than the prices say.", prose.Plural(t.OtherPlace, "call"))
	}
	if t.WebSearches > 0 {
		add("≥: %s not in the dollars.", map[bool]string{true: "1 web search is", false: prose.Grouped(t.WebSearches) + " web searches are"}[t.WebSearches == 1])
	}
	if n := x.Found.Foreign; n > 0 {
		add("Not in any source, and not counted: the calls of %s that the agents' own programs made, and calls beside the conversation, such as those for titles.", prose.Plural(n, "compaction"))
	}
	if n := x.Found.Inherited; n > 0 {
		add("%s with turns of another; those are counted there.", map[bool]string{true: "1 session begins", false: prose.Grouped(n) + " sessions begin"}[n == 1])
	}
	if n := x.Found.Superseded; n > 0 {
		add("%s left out, since the transcript was read anew and a successor has what it holds; --all counts both.", map[bool]string{true: "1 session is", false: prose.Grouped(n) + " sessions are"}[n == 1])
	}
	if n := x.Found.Hidden; n > 0 {
		add("%s not counted; --hidden counts what was hidden.", map[bool]string{true: "1 hidden session is", false: prose.Grouped(n) + " hidden sessions are"}[n == 1])
	}
	if n := x.Found.Channels; n > 0 {
		add("≥: you may not read what the extractions of memories of %s cost.", prose.Plural(n, "agent"))
	}
	if n := x.Found.Unread; n > 0 {
		add("≥: %s can't be read.", map[bool]string{true: "1 turn or session", false: prose.Grouped(n) + " turns or sessions"}[n == 1])
	}
	if n := x.Found.Branches; n > 0 {
		add("≥: %s not read: a tree lists the first ones of a session.", map[bool]string{true: "1 branch was", false: prose.Grouped(n) + " branches were"}[n == 1])
	}
	return out
}

// kinds says what of the sum is no answer; "" if all is answers.
func (x *Report) kinds() string {
	var parts []string
	for _, k := range []struct {
		kind cost.Kind
		one  string
	}{{cost.Compaction, "compaction"}, {cost.Flush, "memory flush"}, {cost.Extraction, "extraction"}} {
		a := x.Sum.OfKind(k.kind)
		if a.Calls == 0 {
			continue
		}
		name := prose.Plural(a.Calls, k.one)
		if k.kind == cost.Flush && a.Calls != 1 {
			name = prose.Grouped(a.Calls) + " memory flushes"
		}
		parts = append(parts, fmt.Sprintf("%s %s", name, x.dollars(&a)))
	}
	if len(parts) == 0 {
		return ""
	}
	return "Among them: " + strings.Join(parts, ", ") + "; --by kind has their tokens."
}

// priceSources names the tables that prices are from, with their days.
func (x *Report) priceSources() string {
	var out []string
	for _, s := range x.Sum.Sources() {
		if s.Date == "" {
			out = append(out, prose.Printable(filepath.Base(x.File)))
			continue
		}
		out = append(out, s.Date+" ("+s.Name+"), the standard tier of each model")
	}
	return strings.Join(out, "; ")
}

// ReportJSON is a report as JSON; costs in micro-dollars.
type ReportJSON struct {
	By       []cost.Key                `json:"by"`
	Zone     string                    `json:"zone"`
	Since    *api.Time                 `json:"since,omitempty,omitzero"`
	Until    *api.Time                 `json:"until,omitempty,omitzero"`
	Prices   []tokens.Source           `json:"prices"` // those that were used; one without a date is --prices
	Rows     []rowJSON                 `json:"rows"`
	More     int                       `json:"more_rows,omitzero"`
	Total    amountsJSON               `json:"total"`
	Kinds    map[cost.Kind]amountsJSON `json:"kinds"` // the total by what models were asked for
	Unknown  []string                  `json:"models_without_price,omitempty,omitzero"`
	Foreign  uint64                    `json:"compactions_not_counted,omitzero"`
	Shared   uint64                    `json:"sessions_that_begin_in_another,omitzero"`
	Unread   uint64                    `json:"unreadable,omitzero"`
	Unlisted uint64                    `json:"branches_not_read,omitzero"`
	Replaced uint64                    `json:"superseded_sessions_left_out,omitzero"`
	Denied   uint64                    `json:"agents_whose_extractions_are_not_read,omitzero"`
}

// rowJSON has the keys that the sums are by; the others are empty.
type rowJSON struct {
	Turn      turns.ID        `json:"turn,omitzero"`
	Session   turns.ID        `json:"session,omitzero"`
	SpawnedBy turns.ID        `json:"spawned_by,omitzero"`
	Title     string          `json:"title,omitempty,omitzero"`
	Day       string          `json:"day,omitempty,omitzero"` // without a day where it is the key: nothing is known of the time
	DayBound  turns.TimeBound `json:"day_bound,omitempty,omitzero"`
	Model     string          `json:"model,omitempty,omitzero"`
	Week      string          `json:"week,omitempty,omitzero"`
	Month     string          `json:"month,omitempty,omitzero"`
	Block     string          `json:"block,omitempty,omitzero"`
	Project   string          `json:"project,omitempty,omitzero"`
	Folder    string          `json:"folder,omitempty,omitzero"`
	Branch    string          `json:"branch,omitempty,omitzero"`
	Agent     string          `json:"agent,omitempty,omitzero"`
	Source    string          `json:"source,omitempty,omitzero"`
	Kind      cost.Kind       `json:"kind,omitempty,omitzero"`
	amountsJSON
}

// amountsJSON is an amount with its dollars, in micro-dollars.
type amountsJSON struct {
	cost.Amount
	Cost     uint64 `json:"cost_micros"`
	Recorded uint64 `json:"recorded_micros"` // of the cost, what sources recorded
	Priced   uint64 `json:"priced_micros"`   // of the cost, what is by prices
	AtLeast  bool   `json:"at_least,omitzero"`
}

func amountJSON(a cost.Amount) amountsJSON {
	out := amountsJSON{Amount: a, AtLeast: a.IsLowerBound()}
	out.Cost, out.Recorded, out.Priced = a.Micros()
	return out
}

// JSON returns the sums for --json. Without a limit it has all rows.
func (x *Report) JSON() ReportJSON {
	shown, rest := x.rows()
	out := ReportJSON{By: x.By, Zone: x.Zone.String(), Prices: x.Sum.Sources(), Rows: []rowJSON{}, More: len(rest), Total: amountJSON(x.Sum.Total()), Unknown: x.Sum.UnknownModels(),
		Foreign: x.Found.Foreign, Shared: x.Found.Inherited, Unread: x.Found.Unread, Unlisted: x.Found.Branches, Replaced: x.Found.Superseded, Denied: x.Found.Channels, Kinds: make(map[cost.Kind]amountsJSON)}
	for _, k := range cost.Kinds() {
		if a := x.Sum.OfKind(k); a.Calls+a.Missing > 0 {
			out.Kinds[k] = amountJSON(a)
		}
	}
	out.Total.AtLeast = out.Total.AtLeast || x.isPartial()
	for _, at := range []struct {
		to   **api.Time
		from time.Time
	}{{&out.Since, x.Since}, {&out.Until, x.Until}} {
		if !at.from.IsZero() {
			t := api.Time(at.from)
			*at.to = &t
		}
	}
	for i := range shown {
		r := &shown[i]
		j := rowJSON{Turn: r.Turn, Session: r.Session, Day: r.Day, DayBound: r.Bound, Model: r.Model, Week: r.Week, Month: r.Month, Block: r.Block, Project: r.Project, Folder: r.Folder, Branch: r.Branch, Agent: r.Agent, Source: r.Source, Kind: r.Kind, amountsJSON: amountJSON(r.Amount)}
		if s := x.Found.Sessions[r.Session]; s != nil && slices.Contains(x.By, cost.BySession) {
			j.Title = cmp.Or(s.Label, s.Title)
			if s.SpawnedBy != nil {
				j.SpawnedBy = s.SpawnedBy.Session
			}
		}
		out.Rows = append(out.Rows, j)
	}
	return out
}
