package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/cost"
	"nexus/cmd/ledgerctl/fault"
	"nexus/cmd/ledgerctl/names"
	"nexus/cmd/ledgerctl/prose"
	"nexus/cmd/ledgerctl/sessionview"
	"nexus/cmd/ledgerctl/terminal"
	"nexus/cmd/nexusd/daemon"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/tokens"
)

// costFlags are the flags of the command.
type costFlags struct {
	by, since, until, zone, prices string
	limit                          int
}

func costCmd(e *env) *cobra.Command {
	var f costFlags
	c := verb("cost [SESSION|TURN…]", "tokens and dollars", 0, -1, func(cmd *cobra.Command, args []string) error {
		return e.cost(cmd, args, f)
	})
	c.Flags().StringVar(&f.by, "by", "", "a row for each: turn, session, day, model, project, agent, source, kind; several with commas")
	c.Flags().StringVar(&f.since, "since", "", "calls from a day, time or age on")
	c.Flags().StringVar(&f.until, "until", "", "calls before a day, time or age")
	c.Flags().StringVar(&f.zone, "zone", "", "zone of days (this machine's)")
	c.Flags().StringVar(&f.prices, "prices", "", "file with prices of your own")
	c.Flags().IntVarP(&f.limit, "limit", "n", 20, "at most so many rows; 0: all")
	var keys []string
	for _, k := range cost.Keys() {
		keys = append(keys, string(k))
	}
	_ = c.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(keys, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// cost adds the calls up that the arguments name, and prints the sums.
func (e *env) cost(cmd *cobra.Command, args []string, f costFlags) error {
	x := &costReport{limit: f.limit, zone: time.Local}
	if f.limit < 0 {
		return fault.Usage(fmt.Errorf("--limit %d is below 0", f.limit))
	}
	if e.JSON && !cmd.Flags().Changed("limit") {
		x.limit = 0
	}
	var err error
	if f.zone != "" {
		if x.zone, err = time.LoadLocation(f.zone); err != nil || f.zone == "Local" {
			return fault.Usage(fmt.Errorf("--zone %q is no zone, such as Europe/Paris or UTC", f.zone))
		}
	}
	opt := cost.Options{Zone: x.zone}
	if opt.Since, err = timeIn(x.zone, "since", f.since); err != nil {
		return err
	}
	if opt.Until, err = timeIn(x.zone, "until", f.until); err != nil {
		return err
	}
	if !opt.Since.IsZero() && !opt.Until.IsZero() && !opt.Since.Before(opt.Until) {
		return fault.Usage(fmt.Errorf("--since %s is not before --until %s", f.since, f.until))
	}
	if opt.Models, err = modelPrices(f.prices); err != nil {
		return err
	}
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	scope := cost.Scope{Since: opt.Since}
	for _, name := range args {
		p, err := e.Find(cmd.Context(), name)
		if err != nil {
			return err
		}
		if !p.Turn.IsZero() && len(args) > 1 {
			return fault.Usage(errors.New("a turn stands alone"))
		}
		session := p.Session.ID
		if !p.Turn.IsZero() { // it may be one that the session inherited
			t, err := p.Client.Turn(cmd.Context(), p.Session.ID, p.Turn)
			if err != nil {
				return err
			}
			session = t.Session
		}
		scope.Sessions, scope.Turn = append(scope.Sessions, session), p.Turn
	}
	by := cmp.Or(f.by, string(cost.BySession))
	if f.by == "" && !scope.Turn.IsZero() {
		by = string(cost.ByTurn)
	}
	if opt.By, err = cost.ParseKeys(by); err != nil {
		return fault.Usage(err)
	}
	x.by, x.since, x.until, x.file = opt.By, opt.Since, opt.Until, f.prices
	x.sum = cost.NewSum(opt)
	var calls func(func(cost.Call, error) bool)
	x.found, calls = cost.Read(cmd.Context(), c, scope)
	for call, err := range calls {
		if err != nil {
			return err
		}
		x.sum.Add(call)
	}
	if e.JSON {
		return e.Print(x.report())
	}
	if len(x.sum.Rows()) == 0 {
		e.Say("no model call is there")
		return nil
	}
	_, err = fmt.Fprint(e.Out, x.table(e))
	return err
}

// timeIn reads a flag of a day, time or age; a day begins in a zone. The zero time is
// that of an empty flag.
func timeIn(zone *time.Location, flag, value string) (time.Time, error) {
	if at, err := time.ParseInLocation(time.DateOnly, value, zone); err == nil {
		return at, nil
	}
	at, err := names.Day(flag, value)
	if err != nil || at == nil {
		return time.Time{}, err
	}
	return time.Time(*at), nil
}

// modelPrices returns the table of models that comes with this version, under the prices
// of a file, if one is named: the rows [[model]] as the configuration of nexusd has them.
func modelPrices(file string) (tokens.Models, error) {
	if file == "" {
		return tokens.KnownModels(), nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return tokens.Models{}, fault.Usage(err)
	}
	var rows struct {
		Model []daemon.ModelRow `toml:"model"`
	}
	if err := toml.Unmarshal(b, &rows); err != nil {
		return tokens.Models{}, fault.Usage(fmt.Errorf("prices in %s: %w", file, err))
	}
	// A row of a configuration may be there for the window alone.
	rows.Model = slices.DeleteFunc(rows.Model, func(r daemon.ModelRow) bool { return r.Input+r.Output+r.CacheRead+r.CacheWrite+r.CacheHour == 0 })
	if len(rows.Model) == 0 {
		return tokens.Models{}, fault.Usage(fmt.Errorf("%s has no price: it takes rows [[model]] with name and price_input, price_output, price_cache_read, price_cache_write, price_cache_write_1h, in dollars a million tokens", file))
	}
	for _, r := range rows.Model {
		if least, most := min(r.Input, r.Output, r.CacheRead, r.CacheWrite, r.CacheHour), max(r.Input, r.Output, r.CacheRead, r.CacheWrite, r.CacheHour); r.Name == "" || !(least >= 0) || most > 1e6 {
			return tokens.Models{}, fault.Usage(fmt.Errorf("%s: model %q has no name, or a price that is not a number of dollars", file, r.Name))
		}
	}
	return daemon.Config{Model: rows.Model}.ModelTable(), nil
}

// costReport is a sum as it is shown.
type costReport struct {
	sum          *cost.Sum
	found        *cost.Found
	by           []cost.Key
	zone         *time.Location
	since, until time.Time
	limit        int
	file         string // with prices
}

// isByTime reports whether the rows are in order of time, as [cost.Sum.Rows] orders them.
func (x *costReport) isByTime() bool {
	return slices.Contains(x.by, cost.ByDay) || slices.Contains(x.by, cost.ByTurn)
}

// rows returns the rows to show and those that are left out.
func (x *costReport) rows() (shown, rest []cost.Row) {
	all := x.sum.Rows()
	if x.limit == 0 || len(all) <= x.limit {
		return all, nil
	}
	if x.isByTime() { // the newest ones
		n := len(all) - x.limit
		return all[n:], all[:n]
	}
	return all[:x.limit], all[x.limit:]
}

// table returns the sums as text.
func (x *costReport) table(e *env) string {
	var cols []terminal.Column
	for _, k := range x.by {
		cols = append(cols, terminal.Column{Head: string(k)})
	}
	cols = append(cols, terminal.Column{Head: "calls", Right: true, Drop: 4}, terminal.Column{Head: "input", Right: true, Drop: 5}, terminal.Column{Head: "cache read", Right: true, Drop: 3}, terminal.Column{Head: "cache write", Right: true, Drop: 6},
		terminal.Column{Head: "output", Right: true, Drop: 2}, terminal.Column{Head: "reasoning", Right: true, Drop: 7}, terminal.Column{Head: "cost", Right: true})
	costAt := len(cols) - 1
	titled := slices.Contains(x.by, cost.BySession)
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
		return append([]string{terminal.Faint.Render(text)}, make([]string, len(x.by)-1)...)
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
		for _, k := range x.by {
			keys = append(keys, x.cell(e, k, &shown[i]))
		}
		row(keys, &shown[i].Amount, x.title(e, shown[i].Session))
	}
	if !x.isByTime() {
		others(" more")
	}
	if total := x.sum.Total(); len(shown)+len(rest) > 1 {
		if row(alone("total"), &total, ""); x.isPartial() {
			last := rows[len(rows)-1]
			last[costAt] = atLeast(last[costAt])
		}
	}
	var b strings.Builder
	b.WriteString(e.Table(cols, rows))
	for i, n := range x.notes() {
		if i == 0 {
			b.WriteByte('\n')
		}
		b.WriteString(terminal.Wrapped(e.Width, n, "  ") + "\n")
	}
	return b.String()
}

// cell is the key of a row.
func (x *costReport) cell(e *env, k cost.Key, r *cost.Row) string {
	most := 60
	if e.Width == 0 { // a file or a pipe
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
		return r.Day
	case cost.ByModel:
		return dash(r.Model)
	case cost.ByProject:
		return dash(r.Project)
	case cost.ByAgent:
		return dash(r.Agent)
	case cost.ByKind:
		return string(r.Kind)
	}
	return dash(r.Source)
}

// title is what a person knows a session by, and what it served.
func (x *costReport) title(e *env, id turns.ID) string {
	s := x.found.Sessions[id]
	if s == nil {
		return ""
	}
	title := sessionview.Title(e.Terminal, s)
	if sp := s.SpawnedBy; sp != nil {
		title = terminal.Faint.Render("for "+prose.Short(sp.Session)) + "  " + title
	}
	return title
}

// dollars is a cost; ≥ stands before one that is higher, and – where nothing is known.
func (x *costReport) dollars(a *cost.Amount) string {
	if !a.IsKnown() {
		return "–"
	}
	text := fmt.Sprintf("$%.2f", float64(a.Picos())/1e12)
	if slices.Contains(x.by, cost.ByTurn) {
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
func (x *costReport) isPartial() bool { return x.found.Unread+x.found.Branches+x.found.Channels > 0 }

// notes are the sentences below the table: where the dollars are from, and what is not
// known.
func (x *costReport) notes() (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	t := x.sum.Total()
	all, recorded, priced := t.Micros()
	dollars := func(micros uint64) string { return fmt.Sprintf("$%.2f", float64(micros)/1e6) }
	switch {
	case all == 0:
	case priced == 0:
		add("All of it is as the sources recorded it.")
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
	if models := x.sum.UnknownModels(); t.Unpriced > 0 {
		const most = 5
		for i := range models {
			models[i] = cmp.Or(prose.Clip(models[i], 60), "a model that is not named")
		}
		if n := len(models); n > most {
			models = append(models[:most], fmt.Sprintf("%d more", n-most))
		}
		add("≥: %s tokens have no dollars: no price is known of %s; --prices takes one.", prose.Grouped(t.Unpriced), strings.Join(models, ", "))
	}
	if t.WithoutUsage > 0 {
		add("≥: of %s the source does not tell the tokens.", prose.Plural(t.WithoutUsage, "call"))
	}
	if t.Repeated > 0 {
		add("%s a response that is counted already, in a copy of a history or a later part of the response, and counted once.", map[bool]string{true: "1 turn repeats", false: prose.Grouped(t.Repeated) + " turns repeat"}[t.Repeated == 1])
	}
	if t.OtherTier > 0 {
		add("%s of another service tier (batch, priority, fast) than the one that the prices are of; ≥ unless that is cheaper.", prose.Plural(t.OtherTier, "call"))
	}
	if t.WebSearches > 0 {
		add("≥: %s not in the dollars.", map[bool]string{true: "1 web search is", false: prose.Grouped(t.WebSearches) + " web searches are"}[t.WebSearches == 1])
	}
	if n := x.found.Foreign; n > 0 {
		add("Not in any source, and not counted: the calls of %s that the agents' own programs made, and calls beside the conversation, such as those for titles.", prose.Plural(n, "compaction"))
	}
	if n := x.found.Inherited; n > 0 {
		add("%s with turns of another; those are counted there.", map[bool]string{true: "1 session begins", false: prose.Grouped(n) + " sessions begin"}[n == 1])
	}
	if n := x.found.Channels; n > 0 {
		add("≥: you may not read what the extractions of memories of %s cost.", prose.Plural(n, "agent"))
	}
	if n := x.found.Unread; n > 0 {
		add("≥: %s can't be read.", map[bool]string{true: "1 turn or session", false: prose.Grouped(n) + " turns or sessions"}[n == 1])
	}
	if n := x.found.Branches; n > 0 {
		add("≥: %s not read: a tree lists the first ones of a session.", map[bool]string{true: "1 branch was", false: prose.Grouped(n) + " branches were"}[n == 1])
	}
	return out
}

// kinds says what of the sum is no answer; "" if all is answers.
func (x *costReport) kinds() string {
	var parts []string
	for _, k := range []struct {
		kind cost.Kind
		one  string
	}{{cost.Compaction, "compaction"}, {cost.Flush, "memory flush"}, {cost.Extraction, "extraction"}} {
		a := x.sum.OfKind(k.kind)
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
func (x *costReport) priceSources() string {
	var out []string
	for _, s := range x.sum.Sources() {
		if s.Date == "" {
			out = append(out, prose.Printable(filepath.Base(x.file)))
			continue
		}
		out = append(out, s.Date+" ("+s.Name+"), the standard tier of each model")
	}
	return strings.Join(out, "; ")
}

// costJSON is a report as JSON; costs in micro-dollars.
type costJSON struct {
	By       []cost.Key                   `json:"by"`
	Zone     string                       `json:"zone"`
	Since    *api.Time                    `json:"since,omitempty,omitzero"`
	Until    *api.Time                    `json:"until,omitempty,omitzero"`
	Prices   []tokens.Source              `json:"prices"` // those that were used; one without a date is --prices
	Rows     []costRowJSON                `json:"rows"`
	More     int                          `json:"more_rows,omitzero"`
	Total    costAmountJSON               `json:"total"`
	Kinds    map[cost.Kind]costAmountJSON `json:"kinds"` // the total by what models were asked for
	Unknown  []string                     `json:"models_without_price,omitempty,omitzero"`
	Foreign  uint64                       `json:"compactions_not_counted,omitzero"`
	Shared   uint64                       `json:"sessions_that_begin_in_another,omitzero"`
	Unread   uint64                       `json:"unreadable,omitzero"`
	Unlisted uint64                       `json:"branches_not_read,omitzero"`
	Denied   uint64                       `json:"agents_whose_extractions_are_not_read,omitzero"`
}

type costRowJSON struct {
	Turn      turns.ID  `json:"turn,omitzero"`
	Session   turns.ID  `json:"session,omitzero"`
	SpawnedBy turns.ID  `json:"spawned_by,omitzero"`
	Title     string    `json:"title,omitempty,omitzero"`
	Day       string    `json:"day,omitempty,omitzero"`
	Model     string    `json:"model,omitempty,omitzero"`
	Project   string    `json:"project,omitempty,omitzero"`
	Agent     string    `json:"agent,omitempty,omitzero"`
	Source    string    `json:"source,omitempty,omitzero"`
	Kind      cost.Kind `json:"kind,omitempty,omitzero"`
	costAmountJSON
}

type costAmountJSON struct {
	cost.Amount
	Cost     uint64 `json:"cost_micros"`
	Recorded uint64 `json:"recorded_micros"` // of the cost, what sources recorded
	Priced   uint64 `json:"priced_micros"`   // of the cost, what is by prices
	AtLeast  bool   `json:"at_least,omitzero"`
}

func amountJSON(a cost.Amount) costAmountJSON {
	out := costAmountJSON{Amount: a, AtLeast: a.IsLowerBound()}
	out.Cost, out.Recorded, out.Priced = a.Micros()
	return out
}

func (x *costReport) report() costJSON {
	shown, rest := x.rows()
	out := costJSON{By: x.by, Zone: x.zone.String(), Prices: x.sum.Sources(), Rows: []costRowJSON{}, More: len(rest), Total: amountJSON(x.sum.Total()), Unknown: x.sum.UnknownModels(),
		Foreign: x.found.Foreign, Shared: x.found.Inherited, Unread: x.found.Unread, Unlisted: x.found.Branches, Denied: x.found.Channels, Kinds: make(map[cost.Kind]costAmountJSON)}
	for _, k := range cost.Kinds() {
		if a := x.sum.OfKind(k); a.Calls+a.Missing > 0 {
			out.Kinds[k] = amountJSON(a)
		}
	}
	out.Total.AtLeast = out.Total.AtLeast || x.isPartial()
	for _, at := range []struct {
		to   **api.Time
		from time.Time
	}{{&out.Since, x.since}, {&out.Until, x.until}} {
		if !at.from.IsZero() {
			t := api.Time(at.from)
			*at.to = &t
		}
	}
	for i := range shown {
		r := &shown[i]
		j := costRowJSON{Turn: r.Turn, Session: r.Session, Day: r.Day, Model: r.Model, Project: r.Project, Agent: r.Agent, Source: r.Source, Kind: r.Kind, costAmountJSON: amountJSON(r.Amount)}
		if s := x.found.Sessions[r.Session]; s != nil && slices.Contains(x.by, cost.BySession) {
			j.Title = cmp.Or(s.Label, s.Title)
			if s.SpawnedBy != nil {
				j.SpawnedBy = s.SpawnedBy.Session
			}
		}
		out.Rows = append(out.Rows, j)
	}
	return out
}
