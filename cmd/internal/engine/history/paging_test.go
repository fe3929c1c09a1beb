package history_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger/api"
	"nexus/projections"
	"nexus/turns"
)

// A page reads what it holds, and of what is behind it no more than the next
// turn, however large the turns are.
func TestPageReadsOnlyItsTurns(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	rng := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 300_000) // that does not compress
	for i := range text {
		text[i] = byte(' ' + rng.IntN(90))
	}
	const n = 100
	for range n {
		enginetest.Add(t, e, s.ID, enginetest.Say(string(text), "x"))
	}
	for name, page := range map[string]func() (int, error){
		"turn.list": func() (int, error) {
			l, err := e.History.ListTurns(t.Context(), enginetest.Alice, s.ID, api.ListTurns{Full: true, Page: api.Page{Limit: 10_000}})
			return len(l.Turns), err
		},
		"turn.list desc": func() (int, error) {
			l, err := e.History.ListTurns(t.Context(), enginetest.Alice, s.ID, api.ListTurns{Full: true, Order: "desc", Page: api.Page{Limit: 10_000}})
			return len(l.Turns), err
		},
		"lineage.path": func() (int, error) {
			l, err := e.History.Path(t.Context(), enginetest.Alice, s.ID, api.GetPath{})
			if err == nil && len(l.Turns) != n {
				t.Errorf("lineage.path: %d turns", len(l.Turns))
			}
			return 1, err
		},
		"lineage.tree": func() (int, error) {
			l, err := e.History.Tree(t.Context(), enginetest.Alice, s.ID, api.GetTree{})
			return len(l.Sessions), err
		},
	} {
		before := e.Reader.Projections.EventBytes()
		got, err := page()
		if err != nil || got != 1 {
			t.Errorf("%s: a page of %d, %v", name, got, err)
		}
		if read := int(e.Reader.Projections.EventBytes() - before); read > 5*len(text)/2 {
			t.Errorf("%s: a page of 1 reads %d bytes of events; a turn has about %d", name, read, len(text))
		}
	}
}

// slowTree returns the tree as the sessions' events say it, read one by one.
func slowTree(t *testing.T, e *engine.Engine, id turns.ID) []api.TreeSession {
	t.Helper()
	s := enginetest.Must(e.Reader.Projections.Session(id))(t)
	v := enginetest.Must(e.Reader.Describe(t.Context(), &s))(t)
	out := api.TreeSession{ID: id, Label: v.Label, State: v.State, ForkedFrom: v.ForkedFrom, Head: v.Head, Depth: v.Depth, Turns: s.Turns, Branches: []api.Branch{}}
	if s.ForkOf != nil {
		out.ForkDepth = enginetest.Must(e.Reader.Projections.Turn(s.ForkOf.At))(t).Depth
	}
	at := make(map[turns.ID]int)
	var own []turns.ID
	for payload, err := range e.Reader.Projections.Events(id, 1) {
		ev := enginetest.Must(turns.Decode(enginetest.Must(payload, err)(t)))(t)
		if !ev.Kind.IsTurn() {
			continue
		}
		own = append(own, ev.ID)
		i, ok := at[ev.Segment]
		if !ok {
			i = len(out.Branches)
			at[ev.Segment] = i
			b := api.Branch{Segment: ev.Segment, From: ev.Depth}
			if !ev.Parent.IsZero() {
				b.Parent = &ev.Parent.Turn
			}
			out.Branches = append(out.Branches, b)
		}
		b := &out.Branches[i]
		if b.Tip, b.To = ev.ID, ev.Depth; ev.Kind == turns.KindCompaction {
			b.CompactionCount++
			b.Compactions = append(b.Compactions, api.PathTurn{ID: ev.ID, Session: id, Depth: ev.Depth, Type: "compaction"})
		}
	}
	out.BranchCount = uint64(len(out.Branches))
	all := []api.TreeSession{out}
	slices.SortFunc(own, turns.ID.Compare)
	for _, turn := range own {
		for _, f := range enginetest.Must(e.Reader.Projections.Forks(turns.Ref{Session: id, Turn: turn}))(t) {
			all = append(all, slowTree(t, e, f)...)
		}
	}
	return all
}

// On random trees of forks, branches and compactions: the tree is what the
// events say, in pages of any size, and lists up and down the path are each
// other's reverse, in pages too.
func TestTreesAndListsInPages(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	rng := rand.New(rand.NewPCG(3, 4))
	root := enginetest.Create(t, e, 0, "nexus")
	sessions := []turns.ID{root.ID}
	own := make(map[turns.ID][]turns.ID)
	for i := range 300 {
		s := sessions[rng.IntN(len(sessions))]
		ids := own[s]
		switch k := rng.IntN(10); {
		case k == 0 && len(ids) > 0:
			f := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s, api.CreateFork{Turn: ids[rng.IntN(len(ids))]}, []byte("{}")))(t)
			sessions = append(sessions, f.ID)
		case k == 1 && len(ids) > 0:
			enginetest.Must(e.Sessions.Move(t.Context(), enginetest.Alice, s, api.MoveSession{To: &ids[rng.IntN(len(ids))]}, nil))(t)
		case k == 2 && len(ids) > 0:
			r := api.RecordCompaction{Replacement: []turns.Message{turns.TextMessage(turns.User, "summary")}}
			if c, err := e.Compactions.Record(t.Context(), enginetest.Alice, s, r, enginetest.JSON(r)); err == nil {
				own[s] = append(own[s], c.ID)
			}
		default:
			own[s] = append(own[s], enginetest.Add(t, e, s, enginetest.Say(fmt.Sprint(i), "ok")).ID)
		}
	}
	want := slowTree(t, e, root.ID)
	if len(want) != len(sessions) || len(sessions) < 10 {
		t.Fatalf("%d sessions in the tree of %d", len(want), len(sessions))
	}
	for _, limit := range []int{1, 3, 7, 1000} {
		var got []api.TreeSession
		for r := (api.GetTree{Page: api.Page{Limit: limit}}); ; {
			page := enginetest.Must(e.History.Tree(t.Context(), enginetest.Alice, sessions[rng.IntN(len(sessions))], r))(t)
			got = append(got, page.Sessions...)
			if r.After = page.Next; r.After == "" {
				break
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("in pages of %d: %s", limit, d)
		}
		for _, s := range sessions {
			list := func(order string) (ids []turns.ID) {
				for r := (api.ListTurns{Order: order, Page: api.Page{Limit: limit}}); ; {
					page := enginetest.Must(e.History.ListTurns(t.Context(), enginetest.Alice, s, r))(t)
					for _, x := range page.Turns {
						ids = append(ids, x.ID)
					}
					if r.After = page.Next; r.After == "" {
						return ids
					}
				}
			}
			up, down := list("desc"), list("asc")
			slices.Reverse(up)
			if d := cmp.Diff(down, up); d != "" {
				t.Errorf("in pages of %d, up and down: %s", limit, d)
			}
			var path []turns.ID
			for r := (api.GetPath{Page: api.Page{Limit: limit}}); ; {
				page := enginetest.Must(e.History.Path(t.Context(), enginetest.Alice, s, r))(t)
				for _, x := range page.Turns {
					path = append(path, x.ID)
				}
				if r.After = page.Next; r.After == "" {
					break
				}
			}
			if d := cmp.Diff(down, path); d != "" {
				t.Errorf("in pages of %d, the path: %s", limit, d)
			}
		}
	}
	if _, err := e.History.Tree(t.Context(), enginetest.Alice, root.ID, api.GetTree{Page: api.Page{After: enginetest.Create(t, e, 0, "nexus").ID.String()}}); enginetest.Code(err) != api.Malformed {
		t.Errorf("a page after a session of another tree: %v", err)
	}
}

// On a server of small messages the tree of a session with very many branches
// and compactions has room in one.
func TestTreeOfSmallMessages(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	e.Limits.MaxPayload = 64 << 10
	label := strings.Repeat("x", turns.MaxLabel)
	s := enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, api.CreateSession{SessionSettings: api.SessionSettings{Label: &label}}, []byte("{}")))(t)
	first := enginetest.Add(t, e, s.ID, enginetest.Say("q", "a"))
	for range 80 {
		enginetest.Must(e.Sessions.Move(t.Context(), enginetest.Alice, s.ID, api.MoveSession{To: &first.ID}, nil))(t)
		for range 8 {
			enginetest.Add(t, e, s.ID, enginetest.Say("q", "a"))
			r := api.RecordCompaction{Replacement: []turns.Message{turns.TextMessage(turns.User, "summary")}}
			enginetest.Must(e.Compactions.Record(t.Context(), enginetest.Alice, s.ID, r, enginetest.JSON(r)))(t)
		}
	}
	v := enginetest.Must(e.History.Tree(t.Context(), enginetest.Alice, s.ID, api.GetTree{}))(t)
	if n := len(enginetest.JSON(v)); n > e.Limits.MaxPayload || v.Sessions[0].BranchCount != 80 {
		t.Errorf("%d bytes, %d branches", n, v.Sessions[0].BranchCount)
	}
}

// The session that changed last is the first one, and each is on one page.
func TestListByChangesHasEachSessionOnce(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	var made []turns.ID
	later := func() { // no two changes in one millisecond
		for at := time.Now().UnixMilli(); time.Now().UnixMilli() == at; {
		}
	}
	for range 5 {
		made = append(made, enginetest.Create(t, e, 0, "nexus").ID)
		later()
	}
	changed := enginetest.Add(t, e, made[1], enginetest.Say("question", "answer"))
	for _, c := range []reader.Caller{enginetest.Alice, enginetest.Operator} {
		var got []turns.ID
		for after := ""; ; {
			list := enginetest.Must(e.History.List(t.Context(), c, api.ListSessions{Order: "updated", Page: api.Page{Limit: 2, After: after}, Read: api.Read{MinPosition: api.Position(changed.Position)}}))(t)
			for _, s := range list.Sessions {
				got = append(got, s.ID)
			}
			if after = list.Next; after == "" {
				break
			}
		}
		if want := []turns.ID{made[1], made[4], made[3], made[2], made[0]}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", c.Agent, got, want)
		}
	}
	if _, err := e.History.List(t.Context(), enginetest.Alice, api.ListSessions{Order: "newest"}); enginetest.Code(err) != api.Malformed {
		t.Errorf("an order that is none: %v", err)
	}
}

// A list by changes has the order of its first page, whatever changes between the pages:
// sessions that were listed, that were not, and new ones.
func TestListByChangesIsWalkedAsItWasAtTheFirstPage(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := enginetest.NewWorld()
		e := w.Engine(t)
		var made []turns.ID
		for range 12 {
			made = append(made, enginetest.Create(t, e, 0, "nexus").ID)
		}
		var last string
		for range 6 {
			last = enginetest.Add(t, e, made[rng.IntN(len(made))], enginetest.Say("q", "a")).Position
		}
		walk := func(limit int, between func()) (ids []turns.ID) {
			r := api.ListSessions{Order: "updated", Page: api.Page{Limit: limit}, Read: api.Read{MinPosition: api.Position(last)}}
			for {
				list := enginetest.Must(e.History.List(t.Context(), enginetest.Alice, r))(t)
				for _, s := range list.Sessions {
					ids = append(ids, s.ID)
				}
				if r.After = list.Next; r.After == "" {
					return ids
				}
				between()
			}
		}
		want := walk(1000, nil)
		got := walk(1+rng.IntN(4), func() {
			for range rng.IntN(6) {
				if rng.IntN(5) == 0 {
					made = append(made, enginetest.Create(t, e, 0, "nexus").ID)
				}
				enginetest.Add(t, e, made[rng.IntN(len(made))], enginetest.Say("q", "a"))
			}
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d (-first page +walked):\n%s", seed, diff)
		}
	}
	e := enginetest.NewWorld().Engine(t)
	enginetest.Create(t, e, 0, "nexus")
	for _, after := range []string{"x", "p1~2", "p1~x~01JF0000000000000000000000", "~~", "p1~1~x"} {
		if _, err := e.History.List(t.Context(), enginetest.Alice, api.ListSessions{Order: "updated", Page: api.Page{After: after}}); enginetest.Code(err) != api.Malformed {
			t.Errorf("after %q: %v, want malformed", after, err)
		}
	}
}

// A page by changes reads the records behind the position of its cursor. So a cursor of long ago
// is refused before anything is read, and a walk ends with its request.
func TestACursorOfLongAgoIsRefused(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	e.Limits.CursorRecords = 10
	var made turns.ID
	for range 3 {
		made = enginetest.Create(t, e, 0, "nexus").ID
	}
	first := enginetest.Must(e.History.List(t.Context(), enginetest.Alice, api.ListSessions{Order: "updated", Page: api.Page{Limit: 1}}))(t)
	r := api.ListSessions{Order: "updated", Page: api.Page{Limit: 1, After: first.Next}}
	for range 10 {
		enginetest.Add(t, e, made, enginetest.Say("q", "a"))
	}
	enginetest.Must(e.History.List(t.Context(), enginetest.Alice, r))(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range e.Reader.Projections.SessionsAt(ended, "default", "alice", 1, projections.Change{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a walk goes on after its request: %v", err)
		}
	}
	last := enginetest.Add(t, e, made, enginetest.Say("q", "a"))
	if err := e.Reader.Projections.WaitFor(t.Context(), enginetest.Must(w.Log.State(t.Context()))(t).Last); err != nil {
		t.Fatal(err)
	}
	if _, err := e.History.List(t.Context(), enginetest.Alice, r); enginetest.Code(err) != api.Conflict {
		t.Errorf("a cursor behind which 11 records are, to %s: %v, want a conflict", last.Position, err)
	}
}

// A list that begins at a depth has the turns from there on, in its order; the next of a page
// goes on behind that.
func TestAListBeginsAtADepth(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	for range 9 {
		enginetest.Add(t, e, s.ID, enginetest.Say("hello", "ok"))
	}
	depths := func(r api.ListTurns) (out []uint64) {
		for {
			page := enginetest.Must(e.History.ListTurns(t.Context(), enginetest.Alice, s.ID, r))(t)
			for _, x := range page.Turns {
				out = append(out, x.Depth)
			}
			if r.After = page.Next; r.After == "" {
				return out
			}
		}
	}
	for _, tc := range []struct {
		request api.ListTurns
		want    []uint64
	}{
		{api.ListTurns{From: 6, Page: api.Page{Limit: 2}}, []uint64{6, 7, 8, 9}},
		{api.ListTurns{From: 3, Order: "desc", Page: api.Page{Limit: 2}}, []uint64{3, 2, 1}},
		{api.ListTurns{From: 10}, nil},
		{api.ListTurns{From: 99, Order: "desc"}, []uint64{9, 8, 7, 6, 5, 4, 3, 2, 1}},
	} {
		if got := depths(tc.request); !slices.Equal(got, tc.want) {
			t.Errorf("%+v: %v, want %v", tc.request, got, tc.want)
		}
	}
}
