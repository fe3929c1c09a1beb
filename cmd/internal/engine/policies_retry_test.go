package engine_test

import (
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// A put of the settings that are in force is answered the same way for ever, on any
// daemon, whatever versions came since.
func TestLateRetryOfAPutThatMadeNoVersionMakesNone(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	first := must(putPolicy(t, e, alice, api.PutPolicy{ID: newID(t), Name: "mine", Settings: putSettings("2100")}))(t)
	same := api.PutPolicy{ID: newID(t), Name: "mine", Settings: putSettings("2100")}
	if got := must(putPolicy(t, e, alice, same))(t); !got.Duplicate || got.Digest != first.Digest {
		t.Fatalf("%+v, want a duplicate of version 1", got)
	}
	must(putPolicy(t, e, alice, api.PutPolicy{ID: newID(t), Name: "mine", Settings: putSettings("2200")}))(t)
	for _, e := range []*Engine{e, w.Engine(t)} {
		got := must(putPolicy(t, e, alice, same))(t)
		if !got.Duplicate || got.Version != 1 || got.Digest != first.Digest || got.Agent != "alice" {
			t.Errorf("a late retry: %+v, want a duplicate of version 1", got)
		}
		if newest := must(e.Policies.GetPolicy(t.Context(), alice, api.GetPolicy{Name: "mine"}))(t); newest.Version != 2 {
			t.Errorf("the newest version is %d, want 2", newest.Version)
		}
		other := api.PutPolicy{ID: same.ID, Name: "mine", Settings: putSettings("2300")}
		if _, err := putPolicy(t, e, alice, other); code(err) != api.IDReused {
			t.Errorf("the id with other settings: %v, want id_reused", err)
		}
		if _, err := putPolicy(t, e, bobby, same); code(err) != api.IDReused {
			t.Errorf("the id from another agent: %v, want id_reused", err)
		}
	}
	verified(t, e)
}

// A stored create, fork and set are answered as stored, though the policy that they
// name has a version since under which they would be refused.
func TestStoredRequestIsAnsweredWhateverBecameOfItsPolicy(t *testing.T) {
	w := newWorld()
	e, behind := w.Engine(t), w.Engine(t)
	must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: putSettings("2100")}))(t)
	named := api.SessionSettings{Policy: &api.Policy{Name: "mine", Set: turns.Raw(`{"target_ratio":0.7}`)}}

	r := api.CreateSession{ID: newID(t), SessionSettings: named}
	s := must(e.Sessions.Create(t.Context(), alice, r, canon(r)))(t)
	add(t, behind, s.ID, say("1", "a"))
	turn := must(e.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t).Head
	fr := api.CreateFork{ID: newID(t), Turn: *turn, Policy: named.Policy}
	f := must(e.Forks.Fork(t.Context(), alice, s.ID, fr, canon(fr)))(t)
	set := api.SetSession{ID: newID(t), SessionSettings: named}
	must(e.Sessions.Set(t.Context(), alice, s.ID, set, canon(set)))(t)

	low := turns.Raw(`{"mode":"before_call","trigger_ratio":0.6,"target_ratio":0.5,"keep_tokens":2000,"summary_max_ratio":0.1,"max_strikes":2,"replacement_role":"user","context_window":200000}`)
	must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: low}))(t)
	last := must(w.Log.State(t.Context()))(t).Last
	for name, e := range map[string]*Engine{"the same daemon": e, "a daemon that was behind": behind, "a new daemon": w.Engine(t)} {
		if got, err := e.Sessions.Create(t.Context(), alice, r, canon(r)); err != nil || got.ID != s.ID {
			t.Errorf("%s: session.create: %v", name, err)
		}
		if got, err := e.Forks.Fork(t.Context(), alice, s.ID, fr, canon(fr)); err != nil || got.ID != f.ID || got.Mode != f.Mode {
			t.Errorf("%s: fork.create: %v", name, err)
		}
		if _, err := e.Sessions.Set(t.Context(), alice, s.ID, set, canon(set)); err != nil {
			t.Errorf("%s: session.set: %v", name, err)
		}
		unstored := api.CreateSession{ID: newID(t), SessionSettings: named}
		if _, err := e.Sessions.Create(t.Context(), alice, unstored, canon(unstored)); code(err) != api.Malformed {
			t.Errorf("%s: a create that is not stored: %v, want malformed", name, err)
		}
	}
	if after := must(w.Log.State(t.Context()))(t).Last; after != last {
		t.Errorf("%d events were stored by retries", after-last)
	}
}
