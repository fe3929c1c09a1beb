package engine_test

import (
	"testing"

	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/ledger/api"
)

// What a session was spawned by is a turn that the agent can see, on any
// daemon, or the session is refused.
func TestSpawnedByATurnThatIsThere(t *testing.T) {
	w := newWorld()
	e, other := w.Engine(t), w.Engine(t)
	s := create(t, e, 0, "nexus")
	a := add(t, e, s.ID, say("go", "yes")).ID
	f := must(e.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: a}, []byte("{}")))(t)
	b := add(t, e, s.ID, say("on", "yes")).ID
	strange := must(e.Create(t.Context(), reader.Caller{Tenant: "default", Agent: "bob"}, api.CreateSession{}, []byte("{}")))(t)
	for name, tc := range map[string]struct {
		by   api.SpawnedBy
		want api.Code
	}{
		"a session":                   {api.SpawnedBy{Session: s.ID}, ""},
		"its turn":                    {api.SpawnedBy{Session: s.ID, Turn: b}, ""},
		"an inherited turn":           {api.SpawnedBy{Session: f.ID, Turn: a}, ""},
		"a turn after the fork point": {api.SpawnedBy{Session: f.ID, Turn: b}, api.NotFound},
		"a turn that is nowhere":      {api.SpawnedBy{Session: s.ID, Turn: newID(t)}, api.NotFound},
		"a session that is nowhere":   {api.SpawnedBy{Session: newID(t)}, api.NotFound},
		"another agent's session":     {api.SpawnedBy{Session: strange.ID}, api.NotFound},
		"no session":                  {api.SpawnedBy{Turn: a}, api.NotFound},
	} {
		r := api.CreateSession{ID: newID(t), SpawnedBy: &tc.by}
		got, err := other.Create(t.Context(), alice, r, canon(r))
		if code(err) != tc.want {
			t.Errorf("spawned by %s: %v, want %q", name, err, tc.want)
		}
		if err == nil && *got.SpawnedBy != tc.by {
			t.Errorf("spawned by %s: stored is %+v", name, got.SpawnedBy)
		}
	}
	if n := len(must(other.List(t.Context(), alice, api.ListSessions{}))(t).Sessions); n != 5 {
		t.Errorf("%d sessions, want 5", n)
	}
	verified(t, other)
}
