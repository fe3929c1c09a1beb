package paths_test

import (
	"context"
	"testing"

	"nexus/cmd/internal/engine/cache"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/paths"
	"nexus/ledger/api"
)

// Requests of a few bytes that put a lot of stored content together wait for each other.
func TestExpandedContentIsBounded(t *testing.T) {
	pl := paths.New(nil, 0, nil, nil, &page.Limits{}, cache.NewBudget(0))
	first, endFirst := pl.MeterRequest(t.Context())
	second, endSecond := pl.MeterRequest(t.Context())
	for _, ctx := range []context.Context{first, second} {
		if err := paths.Expand(ctx, 32<<20); err != nil {
			t.Fatal(err)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	third, endThird := pl.MeterRequest(over)
	got := make(chan error)
	go func() { got <- paths.Expand(third, 1<<20) }()
	select {
	case err := <-got:
		t.Fatalf("a third request has room: %v", err)
	default:
	}
	if err := paths.Expand(first, 32<<20); err != nil { // it has its room
		t.Fatal(err)
	}
	endFirst()
	if err := <-got; err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
	large, endLarge := pl.MeterRequest(over)
	cancel()
	if err := paths.Expand(large, 1<<30); enginetest.Code(err) != api.Busy {
		t.Errorf("a request that is over: %v, want busy", err)
	}
	endSecond()
	endThird()
	endLarge()
	if err := paths.Expand(t.Context(), 1<<30); err != nil { // no request: a program that uses the engine itself
		t.Error(err)
	}
}
