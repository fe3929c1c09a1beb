package expansion

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/turns"
)

// missedFirst are the kinds of lost facts that are listed, those that a person would miss
// first in front: what the user said, what failed, what was run, the files, then names.
// Listings are full of numbers, so these are left out.
var missedFirst = []string{"user", "errors", "commands", "paths", "identifiers"}

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

// lostFacts asks for lost facts: with limit for so many of each kind of the newest turns
// that are covered; 0: for all, of all turns.
func lostFacts(ctx context.Context, term *terminal.Terminal, p names.Place, r api.ListLost, limit int) (facts []api.LostFact, first *api.LostList, err error) {
	for r.PerKind, r.Limit = limit, 1000; ; {
		l, err := p.Client.LostFacts(ctx, p.Session.ID, r)
		if err != nil {
			if api.HasCode(err, api.Unprocessable) {
				err = fault.WithHint(err, "ledgerctl tree "+prose.Short(p.Session.ID)+" shows its compactions")
			}
			return nil, nil, err
		}
		if first == nil {
			first = l
		}
		facts = append(facts, l.Facts...)
		if r.After = l.Next; r.After == "" || limit > 0 && uint64(len(facts)) >= l.Count {
			return facts, first, nil
		}
	}
}

// byKind returns facts in a list for each kind.
func byKind(facts []api.LostFact, kinds []string) (out [][]api.LostFact) {
	for _, k := range kinds {
		var list []api.LostFact
		for _, f := range facts {
			if f.Kind == k {
				list = append(list, f)
			}
		}
		out = append(out, list)
	}
	return out
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
	if len(r.Kinds) == 0 {
		r.Kinds = missedFirst
	}
	all, first, err := lostFacts(ctx, term, p, r, limit)
	if err != nil {
		return err
	}
	facts := slices.Concat(shared(byKind(all, r.Kinds), limit)...)
	if term.JSON {
		for _, f := range facts {
			if err := term.Print(f); err != nil {
				return err
			}
		}
		return nil
	}
	switch {
	case first.From > 0 && limit > 0:
		term.Say("compared: the turns from %s@t%d on; --limit 0 compares all", prose.Short(p.Session.ID), first.From)
	case first.From == 0 && first.Partial:
		term.Say("not all was compared: a turn has more content than one request reads, or the turns have more than 20,000 facts")
	}
	if len(facts) == 0 && first.Compaction == nil {
		term.Say("no compaction: the context shows every turn of %s", prose.Short(p.Session.ID))
		return nil
	}
	if len(facts) == 0 {
		term.Say("nothing is lost of what was compared: %s", comparedText(r.Kinds))
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
	kept, lost := keptText(first.Survival, r.Kinds)
	term.Say("%s of %s shown", prose.Grouped(uint64(len(facts))), prose.Grouped(max(lost, uint64(len(facts)))))
	if kept != "" {
		term.Say("kept in the context: %s", kept)
	}
	if len(facts) > 0 {
		term.Say("next: ledgerctl expand %s@t%d", prose.Short(p.Session.ID), facts[0].Depth)
	}
	return nil
}

// factsName says what the facts of a kind are.
var factsName = map[string]string{"user": "sentences of the user", "errors": "lines of errors", "commands": "commands", "paths": "paths", "identifiers": "identifiers", "numbers": "numbers"}

// comparedText names the kinds of facts that were looked for in the context. Facts are found
// by their shape: what a sentence means is not compared.
func comparedText(kinds []string) string {
	return strings.Join(kinds, ", ") + "; other content is not compared"
}

// keptText says of each kind how many of its facts the context still has. lost is how many
// of some kinds it has not.
func keptText(survival turns.Raw, kinds []string) (kept string, lost uint64) {
	var by map[string]turns.Raw // beside the kinds there is a flag
	if json.Unmarshal(survival, &by) != nil {
		return "", 0
	}
	var out []string
	for _, k := range append(slices.Clone(missedFirst), "numbers") {
		var s struct{ Kept, Total uint64 }
		if json.Unmarshal(by[k], &s, json.MatchCaseInsensitiveNames(true)) != nil {
			continue
		}
		out = append(out, fmt.Sprintf("%s of %s %s", prose.Grouped(s.Kept), prose.Grouped(s.Total), factsName[k]))
		if slices.Contains(kinds, k) {
			lost += s.Total - min(s.Kept, s.Total)
		}
	}
	return strings.Join(out, ", "), lost
}
