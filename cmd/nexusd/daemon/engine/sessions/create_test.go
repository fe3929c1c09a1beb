package sessions_test

import (
	"testing"

	"nexus/cmd/nexusd/daemon/engine/enginetest"
	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/ledger/api"
)

// What a session was spawned by is a turn that the agent can see, on any
// daemon, or the session is refused.
func TestSpawnedByMustNameAVisibleTurn(t *testing.T) {
	w := enginetest.NewWorld()
	e, other := w.Engine(t), w.Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	a := enginetest.Add(t, e, s.ID, enginetest.Say("go", "yes")).ID
	f := enginetest.Must(e.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: a}, []byte("{}")))(t)
	b := enginetest.Add(t, e, s.ID, enginetest.Say("on", "yes")).ID
	foreign := enginetest.Must(e.Create(t.Context(), reader.Caller{Tenant: "default", Agent: "bob"}, api.CreateSession{}, []byte("{}")))(t)
	for name, tc := range map[string]struct {
		by   api.SpawnedBy
		want api.Code
	}{
		"a session":                   {api.SpawnedBy{Session: s.ID}, ""},
		"its turn":                    {api.SpawnedBy{Session: s.ID, Turn: b}, ""},
		"an inherited turn":           {api.SpawnedBy{Session: f.ID, Turn: a}, ""},
		"a turn after the fork point": {api.SpawnedBy{Session: f.ID, Turn: b}, api.NotFound},
		"a turn that is nowhere":      {api.SpawnedBy{Session: s.ID, Turn: enginetest.ID(t)}, api.NotFound},
		"a session that is nowhere":   {api.SpawnedBy{Session: enginetest.ID(t)}, api.NotFound},
		"another agent's session":     {api.SpawnedBy{Session: foreign.ID}, api.NotFound},
		"no session":                  {api.SpawnedBy{Turn: a}, api.NotFound},
	} {
		r := api.CreateSession{ID: enginetest.ID(t), SpawnedBy: &tc.by}
		got, err := other.Create(t.Context(), enginetest.Alice, r, enginetest.JSON(r))
		if enginetest.Code(err) != tc.want {
			t.Errorf("spawned by %s: %v, want %q", name, err, tc.want)
		}
		if err == nil && *got.SpawnedBy != tc.by {
			t.Errorf("spawned by %s: stored is %+v", name, got.SpawnedBy)
		}
	}
	if n := len(enginetest.Must(other.List(t.Context(), enginetest.Alice, api.ListSessions{}))(t).Sessions); n != 5 {
		t.Errorf("%d sessions, want 5", n)
	}
	enginetest.Verified(t, other)
}
