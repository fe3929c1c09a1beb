package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/reader"
	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/turns"
)

// survivalOf is a report of survival.
type survivalOf map[string]struct{ Total, Kept uint64 }

func readSurvival(t *testing.T, raw turns.Raw) survivalOf {
	t.Helper()
	out := survivalOf{}
	if err := turns.DecodeJSON([]byte(strings.NewReplacer("total", "Total", "kept", "Kept").Replace(string(raw))), &out); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return out
}

// lostFacts returns all pages of compaction.lost, of n facts each.
func lostFacts(t *testing.T, e *Engine, c reader.Caller, s turns.ID, r api.ListLost, n int) (facts []api.LostFact, last *api.LostList) {
	t.Helper()
	for r.Limit = n; ; r.After = last.Next {
		last = must(e.Covered.Lost(t.Context(), c, s, r))(t)
		facts = append(facts, last.Facts...)
		if last.Next == "" {
			return facts, last
		}
	}
}

// The facts that a compaction lost are as many as its survival says, of each kind, under
// every policy; and each stands where the list says, and not in the context.
func TestLostFactsAreThoseThatSurvivalCounts(t *testing.T) {
	for _, pol := range policy.Names() {
		e := newWorld().Engine(t)
		s := pathsAndPorts(t, e, pol, policy.BeforeCall)
		must(e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{}, nil))(t)
		for i := range 30 {
			add(t, e, s, say(fmt.Sprintf("more %d about lib/mod%d.py %s", i, i, long(1500)), "yes"))
			must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t)
		}
		n := 0
		for _, k := range must(e.History.ListCompactions(t.Context(), alice, s, api.ListCompactions{}))(t).Turns {
			if k.Compaction.Covered == 0 {
				continue
			}
			n++
			facts, last := lostFacts(t, e, alice, s, api.ListLost{ID: k.ID}, 7)
			if d := cmp.Diff(readSurvival(t, k.Compaction.Survival), readSurvival(t, last.Survival)); d != "" {
				t.Errorf("%s: the compaction's survival (-), that of the list (+):\n%s", pol, d)
			}
			lost := map[string]uint64{}
			for i, f := range facts {
				lost[f.Kind]++
				if i > 0 && facts[i-1].Kind == f.Kind && facts[i-1].Uses < f.Uses {
					t.Errorf("%s: fact %d is used %d times, the one before it %d times", pol, i, f.Uses, facts[i-1].Uses)
				}
			}
			for kind, of := range readSurvival(t, k.Compaction.Survival) {
				if of.Total-of.Kept != lost[kind] {
					t.Errorf("%s: %d %s are listed, survival has %d of %d", pol, lost[kind], kind, of.Kept, of.Total)
				}
			}
			if uint64(len(facts)) != last.Count {
				t.Errorf("%s: %d facts on all pages, count is %d", pol, len(facts), last.Count)
			}
		}
		facts, _ := lostFacts(t, e, alice, s, api.ListLost{Kinds: []string{"paths", "numbers"}}, 1000)
		if len(facts) == 0 {
			t.Errorf("%s: the session lost nothing, after %d compactions that cover", pol, n)
		}
		text := string(canon(must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t).Messages))
		for _, f := range facts {
			x := must(e.Covered.Expand(t.Context(), alice, s, api.ExpandCompaction{ID: f.Turn}))(t)
			switch stored := string(canon(x.Turns[0])); {
			case !strings.Contains(stored, f.Text) || x.Turns[0].Hash != f.Hash || x.Turns[0].Depth != f.Depth:
				t.Errorf("%s: turn %s does not hold %q, or is another", pol, f.Turn, f.Text)
			case f.Kind == "paths" && strings.Contains(text, f.Text+" "):
				t.Errorf("%s: %q is in the context", pol, f.Text)
			case (f.CoveredBy == nil) != (x.State == "elided" || x.State == "live"):
				t.Errorf("%s: %q is covered by %v, its turn is %s", pol, f.Text, f.CoveredBy, x.State)
			case f.CoveredBy != nil && x.CoveredBy[0] != *f.CoveredBy:
				t.Errorf("%s: %q is covered by %v, its turn by %v", pol, f.Text, f.CoveredBy, x.CoveredBy)
			}
		}
	}
}

func TestLostRefusesWhatIsNoCompactionAndOtherAgents(t *testing.T) {
	e := newWorld().Engine(t)
	s, ids, k := nexusSession(t, e)
	for name, tc := range map[string]struct {
		c    reader.Caller
		r    api.ListLost
		want api.Code
	}{
		"a turn":                      {alice, api.ListLost{ID: ids[0]}, api.Unprocessable},
		"no such kind":                {alice, api.ListLost{Kinds: []string{"lines"}}, api.Malformed},
		"another agent":               {bob, api.ListLost{}, api.NotFound},
		"a cursor that nobody gave":   {alice, api.ListLost{Page: api.Page{After: "x~1"}}, api.Malformed},
		"a cursor of another request": {alice, api.ListLost{ID: k.ID, Page: api.Page{After: ids[0].String() + "~1"}}, api.Malformed},
	} {
		if _, err := e.Covered.Lost(t.Context(), tc.c, s.ID, tc.r); code(err) != tc.want {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
	empty := create(t, e, 0, "nexus")
	if l := must(e.Covered.Lost(t.Context(), alice, empty.ID, api.ListLost{}))(t); len(l.Facts) != 0 || l.Count != 0 {
		t.Errorf("a session without a turn lost %+v", l)
	}
}

// NEX-4: from what a context shows to the turns as they were said: by an id, by what a
// summary cites, by a call; through summaries of summaries.
func TestExpandLeadsFromWhatIsShownToTheTurn(t *testing.T) {
	e := newWorld().Engine(t)
	s, ids, first := nexusSession(t, e)
	add(t, e, s.ID, enginetest.CallTool("call-7"))
	result := add(t, e, s.ID, enginetest.AnswerCalls("call-7")).ID
	for i := range 6 {
		ids = append(ids, add(t, e, s.ID, say(mailPage(fmt.Sprint("later ", i), 2_000), fmt.Sprint("answer ", i))).ID)
	}
	second := must(e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")))(t).Compaction
	expand := func(r api.ExpandCompaction) *api.Expanded {
		t.Helper()
		return must(e.Covered.Expand(t.Context(), alice, s.ID, r))(t)
	}
	x := expand(api.ExpandCompaction{ID: ids[0]})
	if len(x.Turns) != 1 || x.Turns[0].ID != ids[0] || x.Turns[0].Hash.IsZero() || x.State != "compacted" || !slices.Equal(x.CoveredBy, []turns.ID{first.ID, second.ID}) {
		t.Errorf("a turn under two summaries: %s", canon(x))
	}
	for handle, want := range map[string]turns.ID{"t1": ids[0], "t8": ids[7], "t9": first.ID} {
		if x := expand(api.ExpandCompaction{Handle: handle}); len(x.Turns) == 0 || handle != "t9" && x.Turns[0].ID != want {
			t.Errorf("%s: %s", handle, canon(x))
		}
		if x := expand(api.ExpandCompaction{Handle: handle, ID: second.ID}); len(x.Turns) == 0 || handle != "t9" && x.Turns[0].ID != want {
			t.Errorf("%s as the second summary cites it: %s", handle, canon(x))
		}
	}
	if x := expand(api.ExpandCompaction{ID: ids[len(ids)-1]}); x.State != "live" || len(x.CoveredBy) != 0 {
		t.Errorf("the newest turn: %s", canon(x))
	}
	if x := expand(api.ExpandCompaction{Call: "call-7"}); len(x.Turns) != 2 || x.Turns[1].ID != result {
		t.Errorf("by a call: %s", canon(x))
	}
	must(e.Sessions.Move(t.Context(), alice, s.ID, api.MoveSession{To: &ids[2]}, nil))(t)
	if x := expand(api.ExpandCompaction{ID: ids[5]}); x.State != "other_branch" {
		t.Errorf("a turn that the head left: %s", canon(x))
	}
	for name, tc := range map[string]struct {
		c    reader.Caller
		r    api.ExpandCompaction
		want api.Code
	}{
		"no such turn above":   {alice, api.ExpandCompaction{Handle: "t99"}, api.NotFound},
		"a handle that is not": {alice, api.ExpandCompaction{Handle: "12"}, api.Malformed},
		"no such call":         {alice, api.ExpandCompaction{Call: "call-99"}, api.NotFound},
		"another agent's":      {bob, api.ExpandCompaction{ID: ids[0]}, api.NotFound},
		"lines of a turn":      {alice, api.ExpandCompaction{ID: ids[0], Lines: true}, api.Unprocessable},
		"a line too far":       {alice, api.ExpandCompaction{ID: second.ID, Line: 1 << 20}, api.Malformed},
		"two names":            {alice, api.ExpandCompaction{Handle: "t1", Call: "x"}, api.Malformed},
	} {
		if _, err := e.Covered.Expand(t.Context(), tc.c, s.ID, tc.r); code(err) != tc.want {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
}

// Where an agent gave an id to two calls, the newest call is shown, with its results alone.
func TestExpandOfACallIDGivenTwiceIsTheNewestCall(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 0, "nexus")
	for _, between := range []int{0, 70} { // in one read of the path, and in two
		add(t, e, s.ID, enginetest.CallTool("same"))
		add(t, e, s.ID, enginetest.AnswerCalls("same"))
		call := add(t, e, s.ID, enginetest.CallTool("same", "other")).ID
		for i := range between {
			add(t, e, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, fmt.Sprint("wait ", i))}})
		}
		add(t, e, s.ID, enginetest.AnswerCalls("other"))
		result := add(t, e, s.ID, enginetest.AnswerCalls("same")).ID
		var got []turns.ID
		for _, x := range must(e.Covered.Expand(t.Context(), alice, s.ID, api.ExpandCompaction{Call: "same"}))(t).Turns {
			got = append(got, x.ID)
		}
		if want := []turns.ID{call, result}; !slices.Equal(got, want) {
			t.Errorf("%d turns between call and result: %v, want %v", between, got, want)
		}
	}
}

// A turn of which a part is shown shortened is found whole, and says so.
func TestExpandOfAShortenedTurnIsWhole(t *testing.T) {
	e := newWorld().Engine(t)
	s := opened(t, e, alice, "wolffish", `{"mode":"before_call"}`, turns.Limits{ContextWindow: 32_000})
	text := func(i int) string { return fmt.Sprintf("output %d %s", i, long(6_000)) }
	add(t, e, s.ID, say("go", ""))
	for i := range 7 {
		id := fmt.Sprint("c", i)
		add(t, e, s.ID, enginetest.CallTool(id))
		add(t, e, s.ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText(text(i))}}}}})
		must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
	}
	x := must(e.Covered.Expand(t.Context(), alice, s.ID, api.ExpandCompaction{Call: "c0"}))(t)
	last := x.Turns[len(x.Turns)-1]
	if got, _ := last.Messages[0].Parts[0].Response.Text(); got != text(0) {
		t.Errorf("the result has %d characters, it had %d", len(got), len(text(0)))
	}
	if x := must(e.Covered.Expand(t.Context(), alice, s.ID, api.ExpandCompaction{ID: last.ID}))(t); x.State != "elided" {
		t.Errorf("a shortened turn is %s", x.State)
	}
}

// A turn that only the policy shortens, in each context, is not shown as it is. Once the policy
// shortens nothing it is.
func TestExpandSaysThatThePolicyShortensATurn(t *testing.T) {
	e := newWorld().Engine(t)
	s := opened(t, e, alice, "spec-008", `{}`, turns.Limits{})
	add(t, e, s.ID, enginetest.CallTool("c"))
	result := add(t, e, s.ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "c", Response: turns.RawText(long(9000))}}}}})
	state := func() string {
		return must(e.Covered.Expand(t.Context(), alice, s.ID, api.ExpandCompaction{ID: result.ID}))(t).State
	}
	if got := state(); got != "live" {
		t.Errorf("the newest result is %s", got)
	}
	for range 4 {
		add(t, e, s.ID, say("and now?", "wait"))
	}
	if got := state(); got != "shortened" {
		t.Errorf("the result behind four answers is %s", got)
	}
	must(e.Sessions.Set(t.Context(), alice, s.ID, api.SetSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "spec-008", Set: turns.Raw(`{"prune":{"when":""}}`)}}}, nil))(t)
	if got := state(); got != "live" {
		t.Errorf("under a policy that shortens nothing it is %s", got)
	}
}
