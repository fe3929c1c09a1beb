package main

import (
	"cmp"
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
	"nexus/ledger/api"
	"nexus/turns/tokens"
)

// costFlags are the flags of the command.
type costFlags struct {
	by, since, until, zone, prices string
	limit                          int
	all                            bool
}

func costCmd(e *env) *cobra.Command {
	var f costFlags
	c := verb("cost [SESSION|TURN…]", "tokens and dollars", 0, -1, func(cmd *cobra.Command, args []string) error {
		return e.cost(cmd, args, f)
	})
	c.Flags().StringVar(&f.by, "by", "", "a row for each: turn, session, day, model, project, agent, source, kind; several with commas")
	c.Flags().StringVar(&f.since, "since", "", "calls from a time on: "+names.DayHelp)
	c.Flags().StringVar(&f.until, "until", "", "calls before a day, time or age")
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
	if opt.Since, err = names.DayIn(x.Zone, now, "since", f.since); err != nil {
		return err
	}
	if opt.Until, err = names.DayIn(x.Zone, now, "until", f.until); err != nil {
		return err
	}
	if !opt.Since.IsZero() && !opt.Until.IsZero() && !opt.Since.Before(opt.Until) {
		return fault.Usage(fmt.Errorf("--since %s is not before --until %s", f.since, f.until))
	}
	if times := names.SpanIn(x.Zone, apiTime(opt.Since), apiTime(opt.Until)); times != "" {
		e.Say("times: %s", times)
	}
	if opt.Models, err = modelPrices(f.prices); err != nil {
		return err
	}
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	scope := cost.Scope{Since: opt.Since, Until: opt.Until, Superseded: f.all}
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
	x.By, x.Since, x.Until, x.File = opt.By, opt.Since, opt.Until, f.prices
	x.Sum = cost.NewSum(opt)
	var calls func(func(cost.Call, error) bool)
	x.Found, calls = cost.Read(cmd.Context(), c, scope)
	for call, err := range calls {
		if err != nil {
			return err
		}
		x.Sum.Add(call)
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
