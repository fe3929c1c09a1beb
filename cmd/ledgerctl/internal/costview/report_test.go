package costview

import (
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/cost"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/turns"
	"nexus/turns/tokens"
)

// The sum of all is a lower bound where a part of the ledger can't be read; a row is not.
func TestSumWithoutWhatCannotBeReadIsALowerBound(t *testing.T) {
	for name, tc := range map[string]struct {
		found cost.Found
		less  bool
	}{"all is read": {cost.Found{}, false}, "a session is not": {cost.Found{Unread: 2}, true}, "a branch is not": {cost.Found{Branches: 1}, true}} {
		x := Report{Found: &tc.found, By: []cost.Key{cost.ByModel}, Zone: time.UTC}
		x.Sum = cost.NewSum(cost.Options{By: x.By, Models: tokens.KnownModels()})
		for _, model := range []string{"gpt-5", "gpt-5-mini"} {
			x.Sum.Add(cost.Call{Model: model, Usage: &turns.Usage{InputTokens: 1_000_000}})
		}
		table := x.Table(new(terminal.Terminal))
		if strings.Contains(table, "≥ $1.50") != tc.less || strings.Contains(table, "≥ $1.25") || strings.Contains(table, "≥: ") != tc.less || x.JSON().Total.AtLeast != tc.less {
			t.Errorf("%s:\n%s", name, table)
		}
	}
}
