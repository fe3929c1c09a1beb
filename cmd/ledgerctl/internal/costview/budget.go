package costview

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nexus/cmd/internal/cost"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
)

// overBudget is the exit status of cost --budget where the cost is higher.
const overBudget = 10

// budget compares the cost of the period that is running with so many dollars.
func budget(ctx context.Context, e *cli.Env, args []string, f Options, opt cost.Options, now time.Time) (err error) {
	if f.Budget == 0 {
		return fault.Usage(errors.New("--per is the period of --budget: name the dollars too, as in --budget 50, or ask for --by week"))
	}
	if f.Budget < 0 || f.Budget > 1e9 {
		return fault.Usage(fmt.Errorf("--budget %v is not a number of dollars over 0", f.Budget))
	}
	at := now.In(opt.Zone)
	today := time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, opt.Zone)
	switch f.Per {
	case "day":
		opt.Since = today
	case "week":
		opt.Since = today.AddDate(0, 0, -(int(at.Weekday())+6)%7)
	case "month":
		opt.Since = time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, opt.Zone)
	case "block": // the one that is running began at most so long ago, behind others
		opt.Since, opt.By = now.Add(-2*24*time.Hour), []cost.Key{cost.ByBlock}
	default:
		return fault.Usage(fmt.Errorf("--per %q is none of day, week, month, block", f.Per))
	}
	if opt.Models, err = Prices(f.Prices); err != nil {
		return err
	}
	scope, err := scopeOf(ctx, e, args, &f, opt)
	if err != nil {
		return err
	}
	sum, _, err := addUp(ctx, e, scope, opt, f.Filter.Model)
	if err != nil {
		return err
	}
	total, since := sum.Total(), opt.Since
	if f.Per == "block" {
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
	}{Per: f.Per, Since: apiTime(since), Budget: uint64(f.Budget * 1e6), Cost: micros, Lower: total.IsLowerBound()}
	out.Over = out.Cost > out.Budget
	least := map[bool]string{true: "≥ "}[out.Lower]
	from := ""
	if !since.IsZero() {
		from = " since " + since.Format("Mon 2006-01-02 15:04 MST")
	}
	if err := e.Result(out, "%s$%.2f of $%.2f this %s%s, %.0f %%", least, float64(micros)/1e6, f.Budget, f.Per, from, 100*float64(micros)/1e6/f.Budget); err != nil {
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
