package history_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger/api"
	"nexus/turns"
)

// listed returns the ids of all pages of a list.
func listed(t *testing.T, e *engine.Engine, c reader.Caller, r api.ListSessions) (ids []turns.ID) {
	t.Helper()
	for {
		page := enginetest.Must(e.History.List(t.Context(), c, r))(t)
		for _, s := range page.Sessions {
			ids = append(ids, s.ID)
		}
		if r.After = page.Next; page.Next == "" {
			return ids
		}
	}
}

// The sub-agents and the forks of some sessions are those that the whole list has, in pages of any
// length: by what they were opened with, or by their settings. What only may be one is left out.
func TestKinIsThatOfTheWholeList(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	e.History.PageSessions = 5 // a page looks at so many
	ctx, r := t.Context(), rand.New(rand.NewPCG(1, 2))
	agents := []reader.Caller{enginetest.Alice, {Tenant: enginetest.Alice.Tenant, Agent: "zoe"}}
	var ids []turns.ID
	var heads []turns.ID
	var of []reader.Caller
	for i := range 80 {
		c := agents[i%2]
		var by *api.SpawnedBy
		if i > 3 && r.IntN(2) == 0 {
			by = &api.SpawnedBy{Session: ids[r.IntN(len(ids))]} // of any agent
		}
		from := r.IntN(max(1, i))
		var s *api.Session
		if i > 3 && r.IntN(3) == 0 && of[from] == c {
			s = enginetest.Must(e.Forks.Fork(ctx, c, ids[from], api.CreateFork{Turn: heads[from], SpawnedBy: by}, []byte("{}")))(t)
		} else {
			s = enginetest.Must(e.Sessions.Create(ctx, c, api.CreateSession{SpawnedBy: by}, []byte("{}")))(t)
		}
		a := enginetest.Must(e.Sessions.Append(ctx, c, s.ID, enginetest.Say("q", "a"), nil))(t)
		if by == nil && r.IntN(2) == 0 {
			set := api.SetSession{SessionSettings: api.SessionSettings{Meta: turns.Raw(`{"a":1}`)}}
			if i > 3 && r.IntN(2) == 0 {
				set.SpawnedBy = &api.SpawnedBy{Session: ids[r.IntN(len(ids))]}
			}
			enginetest.Must(e.Sessions.Set(ctx, c, s.ID, set, enginetest.JSON(set)))(t)
		}
		if r.IntN(10) == 0 {
			enginetest.Must(e.Sessions.Hide(ctx, c, s.ID, true, api.HideSession{}, []byte("{}")))(t)
		}
		ids, heads, of = append(ids, s.ID), append(heads, a.ID), append(of, c)
	}
	for range 60 {
		c := []reader.Caller{agents[0], agents[1], enginetest.Operator}[r.IntN(3)]
		var some []turns.ID
		for range 1 + r.IntN(6) {
			if i := r.IntN(len(ids)); c.Operator() || of[i] == c {
				some = append(some, ids[i])
			}
		}
		if len(some) == 0 {
			continue
		}
		hidden := r.IntN(2) == 0
		var agentsOf, forksOf []turns.ID
		for after := ""; ; {
			page := enginetest.Must(e.History.List(ctx, c, api.ListSessions{Hidden: hidden, Page: api.Page{After: after}}))(t)
			for _, s := range page.Sessions {
				if s.SpawnedBy != nil && slices.Contains(some, s.SpawnedBy.Session) {
					agentsOf = append(agentsOf, s.ID)
				}
				if s.ForkedFrom != nil && slices.Contains(some, s.ForkedFrom.Session) {
					forksOf = append(forksOf, s.ID)
				}
			}
			if after = page.Next; after == "" {
				break
			}
		}
		limit := api.Page{Limit: 1 + r.IntN(4)}
		for _, x := range []struct {
			want []turns.ID
			r    api.ListSessions
		}{
			{agentsOf, api.ListSessions{SpawnedBy: some, Hidden: hidden, Page: limit}},
			{forksOf, api.ListSessions{ForkedFrom: some, Hidden: hidden, Page: limit}},
		} {
			got := listed(t, e, c, x.r)
			slices.SortFunc(got, turns.ID.Compare)
			slices.SortFunc(x.want, turns.ID.Compare)
			if !slices.Equal(got, x.want) {
				t.Fatalf("%+v by %s: %v, the whole list has %v", x.r, c.Agent, got, x.want)
			}
		}
	}
}

func TestKinRefusesWhatItCannotList(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s, other := enginetest.Create(t, e, 0, "nexus"), enginetest.Create(t, e, 0, "nexus")
	zoe := reader.Caller{Tenant: enginetest.Alice.Tenant, Agent: "zoe"}
	some := []turns.ID{s.ID}
	for name, x := range map[string]struct {
		c    reader.Caller
		r    api.ListSessions
		want api.Code
	}{
		"both":                            {enginetest.Alice, api.ListSessions{SpawnedBy: some, ForkedFrom: some}, api.Malformed},
		"the order of changes":            {enginetest.Alice, api.ListSessions{SpawnedBy: some, Order: "updated"}, api.Malformed},
		"too many":                        {enginetest.Alice, api.ListSessions{ForkedFrom: make([]turns.ID, 1001)}, api.Malformed},
		"behind a session that is no kin": {enginetest.Alice, api.ListSessions{ForkedFrom: some, Page: api.Page{After: other.ID.String()}}, api.Malformed},
		"of another agent":                {zoe, api.ListSessions{SpawnedBy: some}, api.NotFound},
	} {
		if _, err := e.History.List(t.Context(), x.c, x.r); enginetest.Code(err) != x.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
