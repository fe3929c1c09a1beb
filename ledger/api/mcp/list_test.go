package mcp

import (
	"context"
	"iter"
	"slices"
	"testing"
	"time"

	"nexus/ledger/api"
	"nexus/turns"
)

// fakeSessions is the sessions of an agent as session.list and session.get give them.
type fakeSessions struct {
	all    []api.Session // by their ids
	listed int
	got    int
}

func (f *fakeSessions) list(_ context.Context, r api.ListSessions) iter.Seq2[api.Session, error] {
	all := slices.Clone(f.all)
	if r.Order == "updated" {
		slices.SortFunc(all, func(a, b api.Session) int { return time.Time(b.Updated).Compare(time.Time(a.Updated)) })
	}
	return func(yield func(api.Session, error) bool) {
		for _, s := range all {
			if f.listed++; !yield(s, nil) {
				return
			}
		}
	}
}

func (f *fakeSessions) get(_ context.Context, id turns.ID) (*api.Session, error) {
	f.got++
	i, _ := slices.BinarySearchFunc(f.all, id, func(s api.Session, id turns.ID) int { return s.ID.Compare(id) })
	return &f.all[i], nil
}

// Of more sessions than are looked at, those that changed last are found, whenever they
// began, and no more work is done for it.
func TestTheNewestOfManySessionsAreFound(t *testing.T) {
	at := func(hours int) time.Time { return time.Unix(0, 0).Add(time.Duration(hours) * time.Hour) }
	f := new(fakeSessions)
	for i := range 2 * maxListed {
		when := api.Time(at(i))
		f.all = append(f.all, api.Session{ID: turns.DeriveID(at(i), "session"), Depth: 1, Updated: when, HeadTime: &when, Meta: turns.Raw(`{"cwd":"/a"}`)})
	}
	late, old := api.Time(at(3*maxListed)), api.Time(at(1))
	f.all[0].Updated, f.all[0].HeadTime = late, &late                     // the first one goes on
	f.all[7].Updated, f.all[7].HeadTime = api.Time(at(4*maxListed)), &old // an old one is stored now
	f.all[0].Meta = turns.Raw(`{"turn_context":{"cwd":"/b/c"}}`)
	found, err := newestOf(t.Context(), 3, nil, f.list, f.get)
	if err != nil || len(found.sessions) != 3 || !found.more || found.counted != maxListed || f.listed != maxListed+1 || f.got > 2*considered {
		t.Fatalf("%+v, %v: %d listed, %d asked", found, err, f.listed, f.got)
	}
	for i, want := range []int{0, 2*maxListed - 1, 2*maxListed - 2} {
		if found.sessions[i].ID != f.all[want].ID {
			t.Errorf("session %d is %v, want number %d", i, found.sessions[i].ID, want)
		}
	}
	if found, err = newestOf(t.Context(), 3, (&briefInput{Cwd: "/b/"}).keep(), f.list, f.get); err != nil || len(found.sessions) != 1 || found.sessions[0].ID != f.all[0].ID {
		t.Errorf("in a folder: %+v, %v", found, err)
	}
	f.all[2*maxListed-1].Meta, f.all[2*maxListed-1].Project = turns.Raw(`{"cwd":"/elsewhere","project":{"remote":"github.com/acme/shelf"}}`), "github.com/acme/shelf"
	if found, err = newestOf(t.Context(), 3, (&briefInput{Cwd: "/b/", Project: "github.com/acme/shelf"}).keep(), f.list, f.get); err != nil || len(found.sessions) != 2 {
		t.Errorf("in a folder and its repository: %+v, %v", found, err)
	}
}
