package plan_test

import (
	"errors"
	"fmt"
	"testing"

	"nexus/compactor/compactortest"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
)

func TestNothing(t *testing.T) {
	nexus, _ := policy.Builtin("nexus")
	w := compactortest.NewSession()
	manual := turns.Trigger{Kind: plan.TriggerManual}
	for _, c := range []struct {
		what string
		do   func()
		path func() view.Path
	}{
		{"no turn", func() {}, w.Path},
		{"all is kept", func() { must(t, w.Turn(user("hello"), says("hi"))) }, w.Path},
	} {
		c.do()
		if _, err := plan.New(c.path(), nexus, manual, plan.Options{}); !errors.Is(err, plan.ErrNothing) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	p := compactortest.NewLongSession(t).Path()
	p.Overhead = 5000
	var b *plan.BudgetError
	if _, err := plan.New(p, nexus, manual, plan.Options{}); !errors.Is(err, plan.ErrOverhead) || !errors.As(err, &b) || b.Overhead != 5000 || b.Budget != nexus.Budget(p.Limits) {
		t.Errorf("overhead alone over budget: %v", err)
	}
	// A plan that would free too little is no plan, unless it was asked for.
	strict, err := nexus.With(turns.Raw(`{"min_reclaim_ratio":0.9,"keep_tokens":900}`))
	must(t, err)
	p = compactortest.NewLongSession(t).Path()
	if _, err := plan.New(p, strict, turns.Trigger{Kind: plan.TriggerThreshold}, plan.Options{}); !errors.Is(err, plan.ErrNothing) {
		t.Errorf("little to free: %v", err)
	}
	pl, err := plan.New(p, strict, manual, plan.Options{})
	must(t, err)
	if _, err := plan.New(p, strict, manual, plan.Options{PrevPlan: pl.Digest}); !errors.Is(err, plan.ErrNothing) {
		t.Errorf("tried before: %v", err)
	}
	if other, err := plan.New(p, strict, manual, plan.Options{PrevPlan: pl.Digest, Focus: "auth"}); err != nil || other.Digest == pl.Digest {
		t.Errorf("another focus is another plan: %v", err)
	}
}

func BenchmarkNewPlan(b *testing.B) {
	p := view.Path{Session: testID(1)}
	for i := range uint64(50_000) {
		ref := turns.Ref{Session: p.Session, Turn: testID(i + 2)}
		id, last := fmt.Sprintf("c%d", i), fmt.Sprintf("c%d", i-1)
		p.Halves = append(p.Halves,
			summary.HalfTurn{Ref: ref, Depth: i + 1, Half: turns.MessagesHalf, Messages: []turns.Message{tool(result(last, "ok"))}, Tokens: 50},
			summary.HalfTurn{Ref: ref, Depth: i + 1, Half: turns.ResponseHalf, Messages: []turns.Message{*says("", id)}, Tokens: 50})
	}
	p.Head.Depth = 50_000
	pol, _ := policy.Builtin("balanced")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := plan.New(p, pol, turns.Trigger{Kind: plan.TriggerThreshold}, plan.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// With nothing new to cover, a summary from the originals replaces the one in force; a
// summary of the same length from the last summary does not.
func TestFromOriginalsRenewsTheSummaryInForce(t *testing.T) {
	w := compactortest.NewLongSession(t)
	pol := builtin("nexus")
	manual := turns.Trigger{Kind: plan.TriggerManual}
	first, err := plan.New(w.Path(), pol, manual, plan.Options{})
	must(t, err)
	commit(t, w, first)
	pl, err := plan.New(w.Path(), pol, manual, plan.Options{FromOriginals: true, Originals: w.Halves})
	must(t, err)
	if len(pl.Covered) != 0 || pl.Previous != "" || len(pl.Reads) != len(first.Covered) || pl.Span.Through != first.Span.Through {
		t.Errorf("%v: reads %d halves", pl, len(pl.Reads))
	}
	if _, err := plan.New(w.Path(), pol, manual, plan.Options{Focus: "other"}); !errors.Is(err, plan.ErrNothing) {
		t.Errorf("nothing new: %v", err)
	}
}

// A context that is due by a number of messages or turns keeps half of that number.
func TestDueByCountKeepsHalfOfIt(t *testing.T) {
	for set, halves := range map[string]int{`{"max_messages":20}`: 10, `{"every_turns":10}`: 10, `{"every_turns":1}`: 2} {
		pol, err := builtin("nexus").With(turns.Raw(set))
		must(t, err)
		w := compactortest.NewSession()
		w.Policy = pol
		w.Talk(t, "some", 15, 50)
		p := w.Path()
		trigger, due := plan.Due(p, pol, p.Tokens())
		if !due || trigger.Kind != plan.TriggerTurns {
			t.Fatalf("%s: due %v by %s", set, due, trigger.Kind)
		}
		pl, err := plan.New(p, pol, trigger, plan.Options{})
		must(t, err)
		if len(pl.Kept) != halves {
			t.Errorf("%s: keeps %d halves, want %d", set, len(pl.Kept), halves)
		}
	}
}

// A part in a blob has only its preview here, so it is not shortened again.
func TestUnseenBlobIsNotShortened(t *testing.T) {
	w := compactortest.NewSession()
	w.Limits.ContextWindow = 4000
	w.Talk(t, "some", 5, 60)
	moved := turns.TextPart(words(3000))
	moved.Ref = &turns.BlobRef{Size: 12_000}
	must(t, w.Turn([]turns.Message{{Role: turns.User, Parts: []turns.Part{moved, turns.TextPart(words(3000))}}}, nil))
	pl, err := plan.New(w.Path(), builtin("balanced"), turns.Trigger{Kind: plan.TriggerThreshold}, plan.Options{})
	must(t, err)
	for at := range pl.Shortens {
		if pl.Path.Part(at).Ref != nil {
			t.Errorf("%+v is in a blob, and shortened", at)
		}
	}
	if len(pl.Shortens) != 1 {
		t.Errorf("%d parts are shortened, want the text alone", len(pl.Shortens))
	}
}

// Close to the trigger, few calls are left in which shortening a result could pay.
func TestShorteningPaysOnlyFarFromTheTrigger(t *testing.T) {
	for before, want := range map[int]bool{8: true, 33: false} {
		w := compactortest.NewSession()
		w.Policy, w.Limits.ContextWindow, w.Overhead = pruning(), 16_000, 500
		w.Policy.Cost.Patience = 1
		w.Policy.MinReclaimRatio = 0.9
		w.Talk(t, "some", before, 120)
		must(t, w.Turn(user("look"), says("", "l")))
		must(t, w.Turn([]turns.Message{tool(result("l", words(1200)))}, says("noted", "m")))
		must(t, w.Turn([]turns.Message{tool(result("m", words(5)))}, says("", "n")))
		must(t, w.Turn([]turns.Message{tool(result("n", words(5)))}, says("done")))
		p := w.Path()
		trigger, due := plan.Due(p, w.Policy, p.Tokens())
		if due != want {
			t.Errorf("after %d turns, %d tokens: due %v %s", before, p.Tokens(), due, trigger.Detail)
		}
	}
}

// A path is read for its number of messages as soon as it may have too many, however few turns
// it has: a turn of 20 parallel calls has 21 messages or more.
func TestMessagesAreCountedInTurnsOfManyMessages(t *testing.T) {
	pol, err := builtin("nexus").With(turns.Raw(`{"max_messages":100,"measure":""}`))
	must(t, err)
	w := compactortest.NewSession()
	w.Policy = pol
	for i := range 6 {
		var ms []turns.Message
		for k := range 20 {
			ms = append(ms, turns.TextMessage(turns.User, fmt.Sprint("result ", i, " ", k)))
		}
		must(t, w.Turn(ms, says("answer")))
		p := w.Path()
		messages := uint64(21 * (i + 1))
		_, due := plan.Due(p, pol, p.Tokens())
		if due != (messages > 100) {
			t.Errorf("with %d messages: due %v", messages, due)
		}
		known := view.Load{Tokens: p.Tokens(), Turns: uint64(i + 1)} // without reading the path
		if due && !plan.NeedsPath(pol, known) {
			t.Errorf("with %d messages in %d turns the path is not read, so nobody counts them", messages, i+1)
		}
	}
	if plan.NeedsPath(pol, view.Load{Tokens: 400, Turns: 10}) {
		t.Error("a path is read that can't have more than 100 messages")
	}
}
