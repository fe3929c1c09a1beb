package costview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"nexus/cmd/internal/cost"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/searchview"
	"nexus/ledger/api"
)

// Options are the flags of the command.
type Options struct {
	By, Until, Zone, Prices, Per string
	Filter                       searchview.Filter // its since too
	Budget                       float64
	Limit                        int // of rows; 0: all
	All                          bool
	Budgeted                     bool // compare with the budget, in its period
}

// Run adds the calls up that the arguments name, and prints the sums.
func Run(ctx context.Context, e *cli.Env, args []string, f Options) error {
	x := &Report{Limit: f.Limit, Zone: time.Local}
	if f.Limit < 0 {
		return fault.Usage(fmt.Errorf("--limit %d is below 0", f.Limit))
	}
	var err error
	if f.Zone != "" {
		if x.Zone, err = time.LoadLocation(f.Zone); err != nil || f.Zone == "Local" {
			return fault.Usage(fmt.Errorf("--zone %q is no zone, such as Europe/Paris or UTC", f.Zone))
		}
	}
	opt, now := cost.Options{Zone: x.Zone}, time.Now()
	if f.Budgeted {
		if f.Filter.Since != "" || f.Until != "" || f.By != "" {
			return fault.Usage(errors.New("--budget has a period of its own, --per, and one row; leave out --since, --until and --by"))
		}
		return budget(ctx, e, args, f, opt, now)
	}
	if opt.Since, err = names.DayIn(x.Zone, now, "since", f.Filter.Since); err != nil {
		return err
	}
	if opt.Until, err = names.UntilIn(x.Zone, now, "until", f.Until); err != nil {
		return err
	}
	if !opt.Since.IsZero() && !opt.Until.IsZero() && !opt.Since.Before(opt.Until) {
		return fault.Usage(fmt.Errorf("--since %s is not before --until %s", f.Filter.Since, f.Until))
	}
	if times := names.SpanIn(x.Zone, apiTime(opt.Since), apiTime(opt.Until)); times != "" {
		e.Say("times: %s", times)
	}
	if opt.Models, err = Prices(f.Prices); err != nil {
		return err
	}
	scope, err := scopeOf(ctx, e, args, &f, opt)
	if err != nil {
		return err
	}
	by := cmp.Or(f.By, string(cost.BySession))
	if f.By == "" && !scope.Turn.IsZero() {
		by = string(cost.ByTurn)
	}
	if opt.By, err = cost.ParseKeys(by); err != nil {
		return fault.Usage(err)
	}
	x.By, x.Since, x.Until, x.File = opt.By, opt.Since, opt.Until, f.Prices
	if x.Sum, x.Found, err = addUp(ctx, e, scope, opt, f.Filter.Model); err != nil {
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

// scopeOf is what the arguments and filters of cost name.
func scopeOf(ctx context.Context, e *cli.Env, args []string, f *Options, opt cost.Options) (cost.Scope, error) {
	scope := cost.Scope{Since: opt.Since, Until: opt.Until, Superseded: f.All, Hidden: f.Filter.Hidden}
	filter := f.Filter
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
func addUp(ctx context.Context, e *cli.Env, scope cost.Scope, opt cost.Options, model string) (*cost.Sum, *cost.Found, error) {
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
