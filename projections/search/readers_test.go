package search

import (
	"sync/atomic"
	"testing"
)

// A long search is in nobody's way: the index follows the log meanwhile, and other searches
// answer. Only a close waits for it.
func TestALongSearchHoldsNobodyUp(t *testing.T) {
	src := newSource()
	src.add(turnOf("s", "the quick brown fox"))
	x, stop := open(t, t.TempDir(), src, 0)
	b := blocking{began: make(chan struct{}), end: make(chan struct{}), first: new(atomic.Bool)}
	b.first.Store(true)
	x.mu.Lock()
	b.library = x.idx
	x.idx = b
	x.mu.Unlock()
	long := make(chan error)
	go func() {
		_, err := x.Search(t.Context(), mustParse(t, "fox"), Filter{Tenant: "default"})
		long <- err
	}()
	<-b.began
	seq := src.add(turnOf("s", "a second fox"))
	if err := x.WaitFor(t.Context(), seq); err != nil {
		t.Fatal(err)
	}
	if r, err := x.Search(t.Context(), mustParse(t, "second"), Filter{Tenant: "default"}); err != nil || len(r.Hits) != 1 || r.Position != seq || x.Position() != seq {
		t.Errorf("beside the long search: %+v, %v", r, err)
	}
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	select {
	case <-stopped:
		t.Error("the index was closed under a search")
	default:
	}
	close(b.end)
	if err := <-long; err != nil {
		t.Error(err)
	}
	<-stopped
}

func mustParse(t *testing.T, text string) Query {
	t.Helper()
	q, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return q
}
