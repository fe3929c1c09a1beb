package request_test

import (
	"context"
	"errors"
	"testing"

	"nexus/cmd/internal/engine/request"
	"nexus/ledger/api"
)

// Each change keeps what the request had before.
func TestChangesOfOneRequestAddUp(t *testing.T) {
	refused, left := errors.New("too old"), 0
	ctx := request.With(t.Context(), func(r *request.Request) {
		r.Append, r.MayDecide, r.Leave = true, func() error { return refused }, func() { left++ }
	})
	m := request.NewMemory()
	inner, end := m.Begin(request.Ending(ctx))
	defer end()
	if r := request.Of(inner); !r.Append || !r.Ends || !errors.Is(request.MayDecide(inner), refused) {
		t.Errorf("%+v", r)
	}
	if request.LeavePlace(inner); left != 1 {
		t.Errorf("left its place %d times", left)
	}
	if r := request.Of(ctx); r.Ends {
		t.Error("a change reached the context that it was made from")
	}
	if err := request.Charge(ctx, 5); err != nil || m.Loaded() != 0 {
		t.Errorf("%v, %d bytes of a context without a memory are counted", err, m.Loaded())
	}
	if err := request.Charge(inner, 5); err != nil || m.Loaded() != 5 {
		t.Errorf("%v, %d bytes are counted, want 5", err, m.Loaded())
	}
	if request.Dropped(inner); m.Loaded() != 0 {
		t.Errorf("%d bytes are counted of what was dropped", m.Loaded())
	}
}

// Requests of a few bytes that put a lot of stored content together wait for each other.
func TestExpandedContentIsBounded(t *testing.T) {
	m := request.NewMemory()
	first, endFirst := m.Begin(t.Context())
	second, endSecond := m.Begin(t.Context())
	for _, ctx := range []context.Context{first, second} {
		if err := request.Expand(ctx, 32<<20); err != nil {
			t.Fatal(err)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	third, endThird := m.Begin(over)
	got := make(chan error)
	go func() { got <- request.Expand(third, 1<<20) }()
	select {
	case err := <-got:
		t.Fatalf("a third request has room: %v", err)
	default:
	}
	if err := request.Expand(first, 32<<20); err != nil { // it has its room
		t.Fatal(err)
	}
	endFirst()
	if err := <-got; err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
	large, endLarge := m.Begin(over)
	cancel()
	if err := request.Expand(large, 1<<30); api.FromError(err).Code != api.Busy {
		t.Errorf("a request that is over: %v, want busy", err)
	}
	endSecond()
	endThird()
	endLarge()
	if err := request.Expand(t.Context(), 1<<30); err != nil { // no request: a program that uses the engine itself
		t.Error(err)
	}
}
