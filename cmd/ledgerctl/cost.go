package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"

	"nexus/cmd/internal/cost"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/ledgerctl/internal/costview"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/searchview"
	"nexus/ledger/api"
	"nexus/turns/tokens"
)

// costFlags are the flags of the command.
type costFlags struct {
	by, until, zone, prices, per string
	filter                       searchview.Filter // its since too
	budget                       float64
	limit                        int
	all                          bool
}

func costCmd(e *env) *cobra.Command {
	var f costFlags
	c := verb("cost [SESSION|TURN…]", "tokens and dollars", 0, -1, func(cmd *cobra.Command, args []string) error {
		return e.cost(cmd, args, f)
	})
	c.Flags().StringVar(&f.by, "by", "", "a row for each: turn, session, day, week, month, block, model, project, folder, branch, agent, source, kind; several with commas")
	c.Flags().StringVar(&f.filter.Since, "since", "", "calls from a time on: "+names.DayHelp)
	c.Flags().StringVar(&f.filter.Cwd, "cwd", "", "sessions in this folder or below; one without a / before it is below the current folder")
	c.Flags().StringVar(&f.filter.Branch, "branch", "", "sessions on this branch of git")
	c.Flags().StringVar(&f.filter.Project, "project", "", "sessions of this repository: its name, or a folder of it")
	c.Flags().StringVar(&f.filter.Tag, "tag", "", "sessions with this tag")
	c.Flags().StringVar(&f.filter.Model, "model", "", "calls of this model")
	c.Flags().StringVar(&f.filter.Source, "source", "", "sessions of this program, such as claude-code or codex")
	c.Flags().BoolVar(&f.filter.Hidden, "hidden", false, "hidden sessions too")
	c.Flags().Float64Var(&f.budget, "budget", 0, "compare with so many dollars, and fail with 10 if the cost is higher")
	c.Flags().StringVar(&f.per, "per", "week", "the period of --budget: day, week, month or block")
	c.Flags().StringVar(&f.until, "until", "", "calls "+names.UntilHelp)
	c.Flags().StringVar(&f.zone, "zone", "", "zone of days (this machine's)")
	c.Flags().StringVar(&f.prices, "prices", "", "file with your own prices")
	c.Flags().BoolVar(&f.all, "all", false, "count sessions too that import --refresh replaced")
	c.Flags().IntVarP(&f.limit, "limit", "n", 20, "at most N rows; 0: all")
	return c
}

// cost adds the calls up that the arguments name, and prints the sums.
func (e *env) cost(cmd *cobra.Command, args []string, f costFlags) error {
	x := &costview.Report{Limit: f.limit, Zone: time.Local}
	if f.limit < 0 {
		return fault.Usage(fmt.Errorf("--limit %d is below 0", f.limit))
	}
	if e.JSON && !cmd.Flags().Changed("limit") {
		x.Limit = 0
	}
	var err error
	if f.zone != "" {
		if x.Zone, err = time.LoadLocation(f.zone); err != nil || f.zone == "Local" {
			return fault.Usage(fmt.Errorf("--zone %q is no zone, such as Europe/Paris or UTC", f.zone))
		}
	}
	opt, now := cost.Options{Zone: x.Zone}, time.Now()
	if cmd.Flags().Changed("budget") || cmd.Flags().Changed("per") {
		if f.filter.Since != "" || f.until != "" || f.by != "" {
			return fault.Usage(errors.New("--budget has a period of its own, --per, and one row; leave out --since, --until and --by"))
		}
		return e.budget(cmd, args, f, opt, now)
	}
	if opt.Since, err = names.DayIn(x.Zone, now, "since", f.filter.Since); err != nil {
		return err
	}
	if opt.Until, err = names.UntilIn(x.Zone, now, "until", f.until); err != nil {
		return err
	}
	if !opt.Since.IsZero() && !opt.Until.IsZero() && !opt.Since.Before(opt.Until) {
		return fault.Usage(fmt.Errorf("--since %s is not before --until %s", f.filter.Since, f.until))
	}
	if times := names.SpanIn(x.Zone, apiTime(opt.Since), apiTime(opt.Until)); times != "" {
		e.Say("times: %s", times)
	}
	if opt.Models, err = modelPrices(f.prices); err != nil {
		return err
	}
	scope, err := e.costScope(cmd.Context(), args, &f, opt)
	if err != nil {
		return err
	}
	by := cmp.Or(f.by, string(cost.BySession))
	if f.by == "" && !scope.Turn.IsZero() {
		by = string(cost.ByTurn)
	}
	if opt.By, err = cost.ParseKeys(by); err != nil {
		return fault.Usage(err)
	}
	x.By, x.Since, x.Until, x.File = opt.By, opt.Since, opt.Until, f.prices
	if x.Sum, x.Found, err = e.addUp(cmd.Context(), scope, opt, f.filter.Model); err != nil {
		return err
	}
	if e.JSON {
		return e.Print(x.JSON())
	}
	if len(x.Sum.Rows()) == 0 {
		e.Say("no model call is there")
		return nil
	}
	_, err = fmt.Fprint(e.Out, x.Table(e.Terminal))
	return err
}

// costScope is what the arguments and filters of cost name.
func (e *env) costScope(ctx context.Context, args []string, f *costFlags, opt cost.Options) (cost.Scope, error) {
	scope := cost.Scope{Since: opt.Since, Until: opt.Until, Superseded: f.all, Hidden: f.filter.Hidden}
	filter := f.filter
	filter.Since, filter.Model = "", "" // of calls, not of sessions
	if _, err := filter.Resolve(); err != nil {
		return scope, err
	}
	if filter.IsSet() {
		if len(args) > 0 {
			return scope, fault.Usage(errors.New("name sessions, or filter them"))
		}
		scope.Keep = func(s *api.Session) bool { return filter.Keeps(s, nil) }
	}
	for _, name := range args {
		p, err := e.Find(ctx, name)
		if err != nil {
			return scope, err
		}
		if !p.Turn.IsZero() && len(args) > 1 {
			return scope, fault.Usage(errors.New("a turn stands alone"))
		}
		session := p.Session.ID
		if !p.Turn.IsZero() { // it may be one that the session inherited
			t, err := p.Client.Turn(ctx, p.Session.ID, p.Turn)
			if err != nil {
				return scope, err
			}
			session = t.Session
		}
		scope.Sessions, scope.Turn = append(scope.Sessions, session), p.Turn
	}
	return scope, nil
}

// addUp reads the calls of a scope and adds them up; with a model, those of that model.
func (e *env) addUp(ctx context.Context, scope cost.Scope, opt cost.Options, model string) (*cost.Sum, *cost.Found, error) {
	c, err := e.Client(api.Operator)
	if err != nil {
		return nil, nil, err
	}
	found, calls := cost.Read(ctx, c, scope)
	blocks := slices.Contains(opt.By, cost.ByBlock)
	sum := cost.NewSum(opt)
	var kept []cost.Call // where the blocks follow from all calls
	var times []time.Time
	for call, err := range calls {
		switch {
		case err != nil:
			return nil, nil, err
		case model != "" && call.Model != model:
		case blocks:
			kept, times = append(kept, call), append(times, call.Time)
		default:
			sum.Add(call)
		}
	}
	if blocks {
		opt.Blocks = cost.Blocks(times)
		sum = cost.NewSum(opt)
		for _, call := range kept {
			sum.Add(call)
		}
	}
	return sum, found, nil
}

// overBudget is the exit status of cost --budget where the cost is higher.
const overBudget = 10

// budget compares the cost of the period that is running with so many dollars.
func (e *env) budget(cmd *cobra.Command, args []string, f costFlags, opt cost.Options, now time.Time) (err error) {
	if f.budget <= 0 || f.budget > 1e9 {
		return fault.Usage(fmt.Errorf("--budget %v is not a number of dollars over 0", f.budget))
	}
	at := now.In(opt.Zone)
	today := time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, opt.Zone)
	switch f.per {
	case "day":
		opt.Since = today
	case "week":
		opt.Since = today.AddDate(0, 0, -(int(at.Weekday())+6)%7)
	case "month":
		opt.Since = time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, opt.Zone)
	case "block": // the one that is running began at most so long ago, behind others
		opt.Since, opt.By = now.Add(-2*24*time.Hour), []cost.Key{cost.ByBlock}
	default:
		return fault.Usage(fmt.Errorf("--per %q is none of day, week, month, block", f.per))
	}
	if opt.Models, err = modelPrices(f.prices); err != nil {
		return err
	}
	scope, err := e.costScope(cmd.Context(), args, &f, opt)
	if err != nil {
		return err
	}
	sum, _, err := e.addUp(cmd.Context(), scope, opt, f.filter.Model)
	if err != nil {
		return err
	}
	total, since := sum.Total(), opt.Since
	if f.per == "block" {
		total, since = cost.Amount{}, time.Time{}
		if rows := sum.Rows(); len(rows) > 0 {
			last := rows[len(rows)-1]
			begun, err := time.ParseInLocation("2006-01-02 15:04", last.Block, opt.Zone)
			if err == nil && now.Before(begun.Add(cost.BlockLength)) {
				total, since = last.Amount, begun
			}
		}
	}
	micros, _, _ := total.Micros()
	out := struct {
		Per    string    `json:"per"`
		Since  *api.Time `json:"since,omitzero"` // absent: no block is running
		Budget uint64    `json:"budget_micros"`
		Cost   uint64    `json:"cost_micros"`
		Lower  bool      `json:"lower_bound,omitzero"` // the cost is at least so much
		Over   bool      `json:"over"`
	}{Per: f.per, Since: apiTime(since), Budget: uint64(f.budget * 1e6), Cost: micros, Lower: total.IsLowerBound()}
	out.Over = out.Cost > out.Budget
	least := map[bool]string{true: "≥ "}[out.Lower]
	from := ""
	if !since.IsZero() {
		from = " since " + since.Format("Mon 2006-01-02 15:04 MST")
	}
	if err := e.Result(out, "%s$%.2f of $%.2f this %s%s, %.0f %%", least, float64(micros)/1e6, f.budget, f.per, from, 100*float64(micros)/1e6/f.budget); err != nil {
		return err
	}
	if out.Over {
		return fault.Exit(overBudget)
	}
	return nil
}

// apiTime returns a time, nil for the zero one.
func apiTime(at time.Time) *api.Time {
	if at.IsZero() {
		return nil
	}
	t := api.Time(at)
	return &t
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
		Model []config.ModelRow `toml:"model"`
	}
	if err := toml.Unmarshal(b, &rows); err != nil {
		return tokens.Models{}, fault.Usage(fmt.Errorf("prices in %s: %w", file, err))
	}
	// A row of a configuration may be there for the window alone.
	rows.Model = slices.DeleteFunc(rows.Model, func(r config.ModelRow) bool { return r.Input+r.Output+r.CacheRead+r.CacheWrite+r.CacheHour == 0 })
	if len(rows.Model) == 0 {
		return tokens.Models{}, fault.Usage(fmt.Errorf("%s has no price: it takes rows [[model]] with name and price_input, price_output, price_cache_read, price_cache_write, price_cache_write_1h, in dollars a million tokens", file))
	}
	for _, r := range rows.Model {
		if least, most := min(r.Input, r.Output, r.CacheRead, r.CacheWrite, r.CacheHour), max(r.Input, r.Output, r.CacheRead, r.CacheWrite, r.CacheHour); r.Name == "" || !(least >= 0) || most > 1e6 {
			return tokens.Models{}, fault.Usage(fmt.Errorf("%s: model %q has no name, or a price that is not a number of dollars", file, r.Name))
		}
	}
	return config.Config{Model: rows.Model}.ModelTable(), nil
}
