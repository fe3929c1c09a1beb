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

// Another agent's session is nobody's sub-agent, whatever its settings name: for the operator, who may ask for both, as little
// as for the whole list.
func TestKinIsOfOneAgent(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	zoe := reader.Caller{Tenant: enginetest.Alice.Tenant, Agent: "zoe"}
	hers := enginetest.Must(e.Sessions.Create(t.Context(), zoe, api.CreateSession{}, []byte("{}")))(t).ID
	mine, part := enginetest.Create(t, e, 0, "nexus").ID, enginetest.Create(t, e, 0, "nexus").ID
	set := api.SetSession{ID: enginetest.ID(t), SpawnedBy: &api.SpawnedBy{Session: hers}}
	if got := enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, part, set, enginetest.JSON(set)))(t); got.SpawnedBy != nil {
		t.Fatalf("it shows another agent's session: %+v", got.SpawnedBy)
	}
	early := api.CreateSession{ID: enginetest.ID(t), SpawnedBy: &api.SpawnedBy{Session: hers}}
	enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, early, enginetest.JSON(early)))(t)
	for _, some := range [][]turns.ID{{hers}, {mine}, {mine, hers}} {
		if got := listed(t, e, enginetest.Operator, api.ListSessions{SpawnedBy: some}); len(got) != 0 {
			t.Errorf("sub-agents of %v: %v", some, got)
		}
	}
}

// Sub-agents and forks of sessions of which some are erased: those that were opened as such are there, with their headers
// alone; what the settings of an erased one named is gone. Nothing is listed to another tenant or agent.
func TestKinOfErasedSessions(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	ctx := t.Context()
	s := enginetest.Create(t, e, 0, "nexus").ID
	at := enginetest.Add(t, e, s, enginetest.Say("q", "a")).ID
	r := api.CreateSession{SpawnedBy: &api.SpawnedBy{Session: s}}
	r.Meta = turns.Raw(`{"title":"a secret"}`)
	opened := enginetest.Must(e.Sessions.Create(ctx, enginetest.Alice, r, []byte("1")))(t).ID
	later := enginetest.Create(t, e, 0, "nexus").ID
	set := api.SetSession{SpawnedBy: &api.SpawnedBy{Session: s}}
	enginetest.Must(e.Sessions.Set(ctx, enginetest.Alice, later, set, []byte("2")))(t)
	fork := enginetest.Must(e.Forks.Fork(ctx, enginetest.Alice, s, api.CreateFork{Turn: at, Meta: r.Meta}, []byte("3")))(t).ID
	check := func(what string, spawned, forks []turns.ID) {
		t.Helper()
		for _, e := range []*engine.Engine{e, w.Engine(t)} {
			for _, limit := range []int{1, 100} {
				if got := listed(t, e, enginetest.Alice, api.ListSessions{SpawnedBy: []turns.ID{s}, Page: api.Page{Limit: limit}}); !slices.Equal(got, spawned) {
					t.Errorf("%s: sub-agents %v, want %v", what, got, spawned)
				}
				if got := listed(t, e, enginetest.Alice, api.ListSessions{ForkedFrom: []turns.ID{s}, Page: api.Page{Limit: limit}}); !slices.Equal(got, forks) {
					t.Errorf("%s: forks %v, want %v", what, got, forks)
				}
			}
			for _, c := range []reader.Caller{{Tenant: enginetest.Alice.Tenant, Agent: "zoe"}, {Tenant: "other", Agent: enginetest.Alice.Agent}, {Tenant: "other", Agent: enginetest.Operator.Agent}} {
				for _, r := range []api.ListSessions{{SpawnedBy: []turns.ID{s}}, {ForkedFrom: []turns.ID{s}}} {
					if got, err := e.History.List(ctx, c, r); enginetest.Code(err) != api.NotFound {
						t.Errorf("%s: by %+v: %+v, %v", what, c, got, err)
					}
				}
			}
			page := enginetest.Must(e.History.List(ctx, enginetest.Alice, api.ListSessions{SpawnedBy: []turns.ID{s}, About: api.About{About: true}}))(t)
			for _, x := range page.Sessions {
				if x.State == "erased" && (x.Title != "" || x.Meta != nil) {
					t.Errorf("%s: of an erased session it shows %+v", what, x)
				}
			}
		}
	}
	check("before", []turns.ID{opened, later}, []turns.ID{fork})
	for _, id := range []turns.ID{opened, later, fork, s} {
		enginetest.Must(e.Erasure.Erase(ctx, enginetest.Operator, id, api.EraseSession{}))(t)
	}
	check("erased", []turns.ID{opened}, []turns.ID{fork})
}

// Sessions come and change while pages are read: each that was there from the first page to the last comes once.
func TestPagesOfKinWhileSessionsChange(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	e.History.PageSessions = 3
	ctx, r := t.Context(), rand.New(rand.NewPCG(5, 6))
	s := enginetest.Create(t, e, 0, "nexus").ID
	at := enginetest.Add(t, e, s, enginetest.Say("q", "a")).ID
	var spawned, forks, others []turns.ID
	more := func() {
		n := []byte{byte(r.IntN(256)), byte(r.IntN(256))}
		switch r.IntN(4) {
		case 0:
			spawned = append(spawned, enginetest.Must(e.Sessions.Create(ctx, enginetest.Alice, api.CreateSession{SpawnedBy: &api.SpawnedBy{Session: s}}, n))(t).ID)
		case 1:
			forks = append(forks, enginetest.Must(e.Forks.Fork(ctx, enginetest.Alice, s, api.CreateFork{Turn: at}, n))(t).ID)
		case 2:
			id := enginetest.Create(t, e, 0, "nexus").ID
			enginetest.Must(e.Sessions.Set(ctx, enginetest.Alice, id, api.SetSession{SpawnedBy: &api.SpawnedBy{Session: s}}, n))(t)
			spawned = append(spawned, id)
		case 3:
			others = append(others, enginetest.Create(t, e, 0, "nexus").ID)
		}
	}
	for range 40 {
		more()
	}
	for _, byForks := range []bool{false, true} {
		for range 4 {
			was, request := slices.Clone(spawned), api.ListSessions{SpawnedBy: []turns.ID{s}}
			if byForks {
				was, request = slices.Clone(forks), api.ListSessions{ForkedFrom: []turns.ID{s}}
			}
			count := make(map[turns.ID]int)
			for {
				request.Limit = 1 + r.IntN(4)
				page := enginetest.Must(e.History.List(ctx, enginetest.Alice, request))(t)
				for _, x := range page.Sessions {
					count[x.ID]++
				}
				if request.After = page.Next; page.Next == "" {
					break
				}
				more()
				x := was[r.IntN(len(was))]
				title := "t"
				enginetest.Must(e.Sessions.Describe(ctx, enginetest.Alice, x, api.DescribeSession{Title: &title}, []byte(request.After)))(t)
				enginetest.Must(e.Sessions.Set(ctx, enginetest.Alice, x, api.SetSession{SessionSettings: api.SessionSettings{Model: &title}}, []byte(request.After)))(t)
			}
			for _, id := range was {
				if count[id] != 1 {
					t.Errorf("by forks %t: session %s comes %d times", byForks, id, count[id])
				}
			}
			for id := range count {
				if !slices.Contains(append(slices.Clone(spawned), forks...), id) {
					t.Errorf("by forks %t: session %s is none", byForks, id)
				}
			}
		}
	}
}
