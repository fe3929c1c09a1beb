package engine_test

import (
	"fmt"
	"testing"

	"nexus/cmd/internal/engine/content"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// An index that catches up reads every session once. It leaves what the caches keep of others
// as it is.
func TestAnIndexThatCatchesUpFillsNoCache(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	var last turns.ID
	for i := range 5 {
		var r api.CreateSession
		system := api.System{{Content: noise(4000)}}
		r.System, r.Meta = &system, turns.Raw(fmt.Sprintf(`{"source":"codex","cwd":"/srv/%d"}`, i))
		last = must(e.Sessions.Create(t.Context(), alice, r, nil))(t).ID
		add(t, e, last, say("question", noise(600<<10))) // in a blob
		set, model := api.SetSession{}, "another"
		set.Model = &model
		must(e.Sessions.Set(t.Context(), alice, last, set, canon(set)))(t)
	}
	at := add(t, e, last, say("to be forked", "yes")).ID
	fork := must(e.Forks.Fork(t.Context(), alice, last, api.CreateFork{Turn: at}, nil))(t).ID
	add(t, e, fork, say("in the fork", "yes"))
	other := w.EngineOver(e.Reader.Projections)
	found := 0
	for seq := uint64(1); seq <= applied(t, e); seq++ {
		for _, d := range must(other.Search.Documents(t.Context(), seq))(t) {
			if found++; d.Cwd == "" || d.Source != "codex" {
				t.Errorf("record %d: folder %q, source %q", seq, d.Cwd, d.Source)
			}
		}
	}
	if found != 7 {
		t.Errorf("%d documents of 7 turns", found)
	}
	for name, n := range other.Caches.Sizes() {
		if n > 0 {
			t.Errorf("%q keeps %d bytes", name, n)
		}
	}
}

// applied returns the end of the log, once the projections have it.
func applied(t *testing.T, e *Engine) uint64 {
	t.Helper()
	last := must(e.Reader.Log.State(t.Context()))(t).Last
	if err := e.Reader.Projections.WaitFor(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	return last
}

// keyReads counts how often a key is read.
type keyReads struct {
	content.Keys
	n int
}

// Content implements [content.Keys].
func (k *keyReads) Content(id turns.ID) (seal.Content, error) {
	k.n++
	return k.Keys.Content(id)
}

// The settings of a session are opened once, not for each of its turns that leaves its folder to
// them: those before a change of the settings too.
func TestAnIndexOpensTheSettingsOfASessionOnce(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	opened := func(meta string) int {
		first := applied(t, e) + 1
		var r api.CreateSession
		r.Meta = turns.Raw(`{"source":"codex","cwd":"/srv"}`)
		s := must(e.Sessions.Create(t.Context(), alice, r, nil))(t).ID
		for half := range 2 {
			for i := range 20 {
				turn := say(fmt.Sprint("question ", half, i), "answer")
				turn.Meta = turns.Raw(meta)
				add(t, e, s, turn)
			}
			set := api.SetSession{}
			set.Meta = turns.Raw(fmt.Sprintf(`{"cwd":"/srv/%d"}`, half))
			must(e.Sessions.Set(t.Context(), alice, s, set, canon(set)))(t)
		}
		other := w.EngineOver(e.Reader.Projections)
		keys := &keyReads{Keys: w.Keys}
		other.Store.Keys = keys
		for seq := first; seq <= applied(t, e); seq++ {
			must(other.Search.Documents(t.Context(), seq))(t)
		}
		return keys.n
	}
	opened(`{}`) // with the default policy's event before it
	whole := opened(`{"source":"codex","cwd":"/srv","git_branch":"main"}`)
	if partly := opened(`{"git_branch":"main"}`); partly != whole+2 {
		t.Errorf("%d keys are read where turns leave something to two settings, %d where they do not", partly, whole)
	}
}

// A turn that begins a branch has what the turns above it state, though most of them are no
// longer kept.
func TestAnIndexLooksUpTheBranchesOfASession(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus").ID
	var all []turns.ID
	branch := map[turns.ID]string{}
	say := func(meta, want string) {
		turn := say("question", "answer")
		turn.Meta = turns.Raw(meta)
		id := add(t, e, s, turn).ID
		all, branch[id] = append(all, id), want
	}
	say(`{"source":"codex","cwd":"/srv","git_branch":"one"}`, "one")
	for range 69 {
		say(`{}`, "one")
	}
	say(`{"git_branch":"two"}`, "two")
	for range 70 {
		say(`{}`, "two")
	}
	for _, back := range []int{40, 100, 69, 1, 139} {
		must(e.Sessions.Move(t.Context(), alice, s, api.MoveSession{To: &all[back]}, nil))(t)
		say(`{}`, branch[all[back]])
		say(`{}`, branch[all[back]])
	}
	other := w.EngineOver(e.Reader.Projections)
	for seq := uint64(1); seq <= applied(t, e); seq++ {
		for _, d := range must(other.Search.Documents(t.Context(), seq))(t) {
			ev := must(turns.Decode(must(e.Reader.Projections.Record(seq))(t).Payload))(t)
			if d.Branch != branch[ev.ID] || d.Cwd != "/srv" {
				t.Errorf("record %d: branch %q and folder %q, want %q", seq, d.Branch, d.Cwd, branch[ev.ID])
			}
			delete(branch, ev.ID)
		}
	}
	if len(branch) > 0 {
		t.Errorf("%d turns have no document", len(branch))
	}
}
