package expansion

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"nexus/cmd/ledgerctl/fault"
	"nexus/cmd/ledgerctl/names"
	"nexus/cmd/ledgerctl/prose"
	"nexus/cmd/ledgerctl/terminal"
	"nexus/ledger/api"
	"nexus/turns"
)

// missedFirst are the kinds of lost facts that are listed, those that a person would miss
// first in front: what failed, what was run, the files, then names. Listings are full of
// numbers, so these are left out.
var missedFirst = [][]string{{"errors"}, {"commands"}, {"paths"}, {"identifiers"}}

// shared cuts lists to so many elements of all of them; 0: all. Each has a fair part, and
// what one does not need the first ones get.
func shared[T any](lists [][]T, limit int) [][]T {
	if limit == 0 {
		return lists
	}
	take := make([]int, len(lists))
	for left := limit; left > 0; {
		before := left
		for i, l := range lists {
			if left > 0 && take[i] < len(l) {
				take[i]++
				left--
			}
		}
		if left == before {
			break
		}
	}
	for i := range lists {
		lists[i] = lists[i][:take[i]]
	}
	return lists
}

// lostFacts asks for the lost facts of some kinds, so many at most; 0: all.
func lostFacts(ctx context.Context, term *terminal.Terminal, p names.Place, r api.ListLost, limit int) (facts []api.LostFact, last *api.LostList, err error) {
	for {
		r.Limit = 1000
		if limit > 0 {
			r.Limit = min(limit-len(facts), 1000)
		}
		if last, err = p.Client.LostFacts(ctx, p.Session.ID, r); err != nil {
			if fault.HasCode(err, api.Unprocessable) {
				err = fault.WithHint(err, "ledgerctl tree "+prose.Short(p.Session.ID)+" shows its compactions")
			}
			return nil, nil, err
		}
		facts = append(facts, last.Facts...)
		if r.After = last.Next; r.After == "" || limit > 0 && len(facts) >= limit {
			return facts, last, nil
		}
	}
}

// PrintLost prints the facts that a context does not hold any more.
func PrintLost(ctx context.Context, term *terminal.Terminal, find names.Finder, name string, r api.ListLost, limit int) error {
	p, err := find.Find(ctx, name)
	if err != nil {
		return err
	}
	if limit < 0 {
		return fault.Usage(errors.New("--limit is below 0"))
	}
	r.ID = p.Turn
	kinds := [][]string{r.Kinds}
	if len(r.Kinds) == 0 {
		kinds = missedFirst
	}
	var lists [][]api.LostFact
	var last api.LostList
	for _, k := range kinds {
		r.Kinds = k
		list, l, err := lostFacts(ctx, term, p, r, limit)
		if err != nil {
			return err
		}
		lists, last.Count, last.Survival, last.Partial = append(lists, list), last.Count+l.Count, l.Survival, last.Partial || l.Partial
	}
	facts := slices.Concat(shared(lists, limit)...)
	if term.JSON {
		for _, f := range facts {
			if err := term.Print(f); err != nil {
				return err
			}
		}
		return nil
	}
	if last.Partial {
		term.Say("only the first 20,000 facts of the path were considered, or the newest 48 MiB of content")
	}
	if len(facts) == 0 {
		term.Say("nothing is lost of what was compared: %s", comparedText(kinds))
		return nil
	}
	rows := make([][]string, len(facts))
	for i, f := range facts {
		by := "shortened"
		if f.CoveredBy != nil {
			by = prose.Short(*f.CoveredBy)
		}
		rows[i] = []string{fmt.Sprint(f.Uses), f.Kind, terminal.ID.Render(fmt.Sprintf("%s@t%d", prose.Short(p.Session.ID), f.Depth)), by, prose.Clip(f.Text, 200)}
	}
	cols := []terminal.Column{{Head: "uses", Right: true}, {Head: "kind", Drop: 2}, {Head: "newest in"}, {Head: "covered by", Drop: 1}, {Head: "fact", Least: 20}}
	if _, err := io.WriteString(term.Out, term.Table(cols, rows)); err != nil {
		return err
	}
	term.Say("%s of %s shown", prose.Grouped(uint64(len(facts))), prose.Grouped(last.Count))
	if kept := keptText(last.Survival); kept != "" {
		term.Say("kept in the context: %s", kept)
	}
	if len(facts) > 0 {
		term.Say("next: ledgerctl expand %s@t%d", prose.Short(p.Session.ID), facts[0].Depth)
	}
	return nil
}

// comparedText names the kinds of facts that were looked for in the context. Facts are found
// by their shape: what a sentence says is none.
func comparedText(kinds [][]string) string {
	return strings.Join(slices.Concat(kinds...), ", ") + "; other content is not compared"
}

// keptText says of each kind how many of its facts the context still has.
func keptText(survival turns.Raw) string {
	var by map[string]struct {
		Kept  uint64 `json:"kept"`
		Total uint64 `json:"total"`
	}
	if json.Unmarshal(survival, &by) != nil {
		return ""
	}
	var out []string
	for _, kinds := range append(slices.Clone(missedFirst), []string{"numbers"}) {
		for _, k := range kinds {
			if s, ok := by[k]; ok {
				out = append(out, fmt.Sprintf("%s %s of %s", k, prose.Grouped(s.Kept), prose.Grouped(s.Total)))
			}
		}
	}
	return strings.Join(out, ", ")
}
