package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// A request compares a bounded number of turns, however long the history is, and the
// pages go through all of them, the newest first.
func TestLostFactsOfALongHistoryComeInSpans(t *testing.T) {
	if testing.Short() {
		t.Skip("it appends 5,500 turns")
	}
	e := newWorld().Engine(t)
	s := create(t, e, 60_000, "nexus").ID
	const n, lostSlack = 5_500, 64
	for i := range n {
		add(t, e, s, say(fmt.Sprintf("Keep rule number%04d in mind. %s", i, long(160)), "yes"))
	}
	must(e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{Focus: "x"}, nil))(t)
	r := api.ListLost{Kinds: []string{"identifiers"}, Page: api.Page{Limit: 1000}}
	seen := make(map[string]int)
	var froms []uint64
	for {
		l := must(e.Covered.Lost(t.Context(), alice, s, r))(t)
		for _, f := range l.Facts {
			seen[f.Text]++
		}
		if len(froms) == 0 || froms[len(froms)-1] != l.From {
			froms = append(froms, l.From)
		}
		if r.After = l.Next; r.After == "" {
			break
		}
	}
	if len(froms) != 2 || froms[0] == 0 || froms[0] > n-4096+lostSlack || froms[1] != 0 {
		t.Errorf("the spans begin at %v", froms)
	}
	for text, times := range seen {
		if times != 1 {
			t.Errorf("%s is listed %d times", text, times)
		}
	}
	first := must(e.Covered.Lost(t.Context(), alice, s, api.ListLost{PerKind: 3}))(t)
	if !first.Partial || first.Compaction == nil || len(first.Facts) > 3*6 {
		t.Errorf("%d facts, partial %v, compaction %v", len(first.Facts), first.Partial, first.Compaction)
	}
	for i := range 100 {
		if _, ok := seen[fmt.Sprintf("number%04d", i)]; !ok {
			t.Errorf("number%04d is in no span", i)
		}
	}
}

func TestLostWithoutACompactionSaysSo(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 0, "nexus").ID
	add(t, e, s, say("Use a lock file instead.", "I will."))
	if l := must(e.Covered.Lost(t.Context(), alice, s, api.ListLost{}))(t); l.Compaction != nil || l.From != 0 || len(l.Facts) != 0 {
		t.Errorf("%+v", l)
	}
}

// What the user said comes first, and what a program said in the user's name is not of it.
func TestLostFactsBeginWithWhatTheUserSaid(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 60_000, "nexus").ID
	a := say("Never touch the billing tables.", "I see.")
	a.Messages = append(a.Messages, turns.TextMessage(turns.User, "Base directory for this skill: nowhere"))
	a.Meta = turns.Raw(`{"program_messages":[1]}`)
	add(t, e, s, a)
	for i := range 40 {
		add(t, e, s, say(fmt.Sprintf("page %d %s", i, long(4000)), "ok"))
	}
	must(e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{}, nil))(t)
	facts, _ := lostFacts(t, e, alice, s, api.ListLost{}, 100)
	var said []string
	for i, f := range facts {
		if f.Kind == "user" {
			said = append(said, f.Text)
			if i > 0 && facts[i-1].Kind != "user" {
				t.Errorf("fact %d of the user follows one of %s", i, facts[i-1].Kind)
			}
		}
	}
	if slices.ContainsFunc(said, func(s string) bool { return s == "Base directory for this skill: nowhere" }) {
		t.Errorf("the user said %q", said)
	}
}
