package engine_test

import (
	"errors"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// A name that a person reads in a list must not look like another one. A request that
// gives such a name is malformed, and says which member it is.
func TestNameWithAHiddenCharacterIsMalformed(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s, err := labelled(t, e, api.NewID(), "support-42")
	if err != nil {
		t.Fatal(err)
	}
	turn := add(t, e, s.ID, say("hello", "hi")).ID
	for _, bad := range []string{"support-42\u200b", "support\u202e-42", "support-42\u009b", "support-42\ufeff", "support-42\ufffe", "support-42\uffff"} {
		for field, settings := range map[string]api.SessionSettings{
			"/label":         {Label: &bad},
			"/model":         {Model: &bad},
			"/system/0/name": {System: &api.System{{Name: bad, Content: "Be terse."}}},
		} {
			create := api.CreateSession{ID: api.NewID(), SessionSettings: settings}
			_, created := e.Sessions.Create(t.Context(), alice, create, canon(create))
			set := api.SetSession{SessionSettings: settings}
			_, changed := e.Sessions.Set(t.Context(), alice, s.ID, set, canon(set))
			for verb, err := range map[string]error{"create": created, "set": changed} {
				wantField(t, verb+" "+field, err, field)
			}
		}
		f := api.CreateFork{Turn: turn, Label: &bad}
		_, err := e.Forks.Fork(t.Context(), alice, s.ID, f, canon(f))
		wantField(t, "fork", err, "/label")
	}
	holds(t, "support-42", s.ID, e)
}

func wantField(t *testing.T, what string, err error, field string) {
	t.Helper()
	var f *turns.FieldError
	if code(err) != api.Malformed || !errors.As(err, &f) || f.Field != field {
		t.Errorf("%s: %v, want malformed at %s", what, err, field)
	}
}
