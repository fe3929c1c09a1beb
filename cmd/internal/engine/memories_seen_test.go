package engine_test

import (
	"slices"
	"strings"
	"testing"

	"nexus/compactor"
	"nexus/compactor/summary"
	"nexus/ledger/api"
	"nexus/turns"
)

// What a session saves it sees, though a memory that it does not see says the same. The reply
// tells nothing of that one.
func TestWhatASessionSavesItSees(t *testing.T) {
	const said = "We take plan B."
	for name, c := range map[string]func(t *testing.T, e *Engine) (hidden *api.Memory, session turns.ID){
		"only main sessions see the other one now": func(t *testing.T, e *Engine) (*api.Memory, turns.ID) {
			main := createMain(t, e)
			add(t, e, main, say("1", "a"))
			m := save(t, e, api.SaveMemory{Text: said, Session: main, Visibility: "all"})
			return must(promote(t, e, alice, api.PromoteMemory{Memory: m.ID, Visibility: "main"}))(t), create(t, e, 8000, "nexus").ID
		},
		"it is of a later turn of the path that both forked": func(t *testing.T, e *Engine) (*api.Memory, turns.ID) {
			s := create(t, e, 8000, "nexus")
			one := add(t, e, s.ID, say("1", "a"))
			two := add(t, e, s.ID, say("2", "b"))
			f, g := must(e.Forks.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: two.ID}, []byte("{}")))(t), must(e.Forks.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: one.ID}, []byte("{}")))(t)
			return save(t, e, api.SaveMemory{Text: said, Session: f.ID}), g.ID
		},
		"it is of a turn that the head left": func(t *testing.T, e *Engine) (*api.Memory, turns.ID) {
			s := create(t, e, 8000, "nexus")
			one := add(t, e, s.ID, say("1", "a"))
			add(t, e, s.ID, say("2", "b"))
			m := save(t, e, api.SaveMemory{Text: said, Session: s.ID, Visibility: "branch"})
			must(e.Sessions.Move(t.Context(), alice, s.ID, api.MoveSession{To: &one.ID}, nil))(t)
			return m, s.ID
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newWorld().Engine(t)
			hidden, session := c(t, e)
			visibility := map[string]string{"branch": "branch"}[hidden.Visibility]
			got := save(t, e, api.SaveMemory{Text: said, Session: session, Visibility: visibility})
			if got.ID == hidden.ID || got.Known || slices.ContainsFunc(got.Sources, func(s api.MemorySource) bool { return slices.Contains(hidden.Sources, s) }) {
				t.Errorf("the reply shows %+v, and %+v is not seen", got, hidden)
			}
			seen := list(t, e, alice, api.ListMemories{Session: session})
			if len(seen) != 1 || seen[0].ID != got.ID {
				t.Errorf("it saved %s and sees %+v", got.ID, seen)
			}
			again := save(t, e, api.SaveMemory{Text: said, Session: session, Visibility: visibility})
			if again.ID != got.ID || !again.Known {
				t.Errorf("saved again: %+v, want evidence of %s", again, got.ID)
			}
			verified(t, e)
		})
	}
}

// On a branch, the same text at a later turn is evidence of the first: whoever sees that turn
// sees it.
func TestATextIsOneMemoryAlongABranch(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 8000, "nexus")
	add(t, e, s.ID, say("1", "a"))
	first := save(t, e, api.SaveMemory{Text: "We take plan B.", Session: s.ID, Visibility: "branch"})
	add(t, e, s.ID, say("2", "b"))
	if got := save(t, e, api.SaveMemory{Text: "We take plan B.", Session: s.ID, Visibility: "branch"}); got.ID != first.ID || !got.Known {
		t.Errorf("%+v, want evidence of %s", got, first.ID)
	}
}

// A retry is answered as the session sees the memory now.
func TestARetryShowsNoMemoryThatBecamePrivate(t *testing.T) {
	e := newWorld().Engine(t)
	main, peer := createMain(t, e), create(t, e, 8000, "nexus").ID
	r := api.SaveMemory{ID: newID(t), Text: "We take plan B.", Session: peer}
	m := save(t, e, r)
	must(promote(t, e, alice, api.PromoteMemory{Memory: m.ID, Visibility: "main", Session: main}))(t)
	if got, err := trySave(t, e, alice, r); code(err) != api.NotFound {
		t.Errorf("a retry: %+v, %v, want not_found", got, err)
	}
}

// A promotion's text is found by the next that says it, also where a withdrawn memory said
// it before.
func TestAPromotedTextIsSaidOnce(t *testing.T) {
	e := newWorld().Engine(t)
	withdrawn := save(t, e, api.SaveMemory{Text: "We take plan B.", Visibility: "all"})
	must(withdraw(t, e, alice, api.WithdrawMemory{Memory: withdrawn.ID}))(t)
	m := save(t, e, api.SaveMemory{Text: "We take plan B.", Visibility: "main"})
	must(promote(t, e, alice, api.PromoteMemory{Memory: m.ID, Visibility: "all"}))(t)
	if got := save(t, e, api.SaveMemory{Text: "We take plan B.", Visibility: "all"}); got.ID != m.ID || !got.Known {
		t.Errorf("%+v, want evidence of %s", got, m.ID)
	}
}

// compactLearning compacts a session of policy gsv with a model that learns these memories.
func compactLearning(t *testing.T, e *Engine, session turns.ID, learns ...summary.Memory) *api.Turn {
	t.Helper()
	e.Loader.Tiers = []compactor.Tier{{Name: "recorder", Summarizer: recorder{&learns}, Local: true}}
	for range 12 {
		add(t, e, session, say(long(3000), "b"))
	}
	k := must(e.Compactions.Compact(t.Context(), alice, session, api.RunCompaction{}, []byte("{}")))(t).Compaction
	if k == nil {
		t.Fatal("nothing was compacted")
	}
	return k
}

// A model that copies characters which nobody sees leaves none of them in a memory.
func TestMemoriesOfACompactionAreVisibleText(t *testing.T) {
	e := newWorld().Engine(t)
	k := compactLearning(t, e, create(t, e, 8000, "gsv").ID,
		summary.Memory{Text: "The user likes\u202e tea\U000e0041\x1b."}, summary.Memory{Text: "\u200b"}, summary.Memory{Text: strings.Repeat("a", turns.MaxMemory+1)})
	if got := texts(list(t, e, alice, api.ListMemories{Read: api.Read{MinPosition: api.Position(k.Position)}})); !slices.Equal(got, []string{"The user likes tea."}) {
		t.Errorf("learned: %.80q", got)
	}
	verified(t, e)
}

// A compaction that says a proposed memory again accepts it, which changes what the files of
// the agent's memory hold.
func TestNotesChangeWithACompactionThatAcceptsAMemory(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 8000, "gsv")
	m := save(t, e, api.SaveMemory{Kind: "daily", Text: "The door is green.", Session: s.ID, State: "proposed"})
	before := must(e.Memories.NotesAt(alice.Tenant, alice.Agent))(t)
	k := compactLearning(t, e, s.ID, summary.Memory{Text: "The door is green."})
	got := list(t, e, alice, api.ListMemories{Read: api.Read{MinPosition: api.Position(k.Position)}})
	if len(got) != 1 || got[0].ID != m.ID || got[0].State != "accepted" {
		t.Fatalf("%+v, want %s accepted", got, m.ID)
	}
	if after := must(e.Memories.NotesAt(alice.Tenant, alice.Agent))(t); after <= before {
		t.Errorf("the notes are of position %d, before the compaction of %d", after, before)
	}
}
