package names

import (
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

func TestOnlyRoot(t *testing.T) {
	a, b, c := turns.ID{1}, turns.ID{2}, turns.ID{3}
	fork := func(id, of turns.ID) api.Session {
		return api.Session{ID: id, ForkedFrom: &api.ForkedFrom{Session: of, Turn: of}}
	}
	part := func(id, of turns.ID) api.Session {
		return api.Session{ID: id, SpawnedBy: &api.SpawnedBy{Session: of}}
	}
	for _, x := range []struct {
		list []api.Session
		want int
	}{
		{nil, -1},
		{[]api.Session{{ID: a}}, 0},
		{[]api.Session{fork(b, a), {ID: a}, part(c, a)}, 1},
		{[]api.Session{fork(b, a), fork(c, b)}, 0}, // the one that they begin in has another id
		{[]api.Session{{ID: a}, {ID: b}, fork(c, a)}, -1},
		{[]api.Session{fork(b, c), fork(a, c)}, -1},
	} {
		if got := onlyRoot(x.list); got != x.want {
			t.Errorf("%v: %d, want %d", x.list, got, x.want)
		}
	}
}
