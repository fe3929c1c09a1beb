package transfer

import (
	"context"
	"errors"
	"testing"

	"nexus/ledger/api"
)

// Only so many bodies of imports are in memory at a time, whatever their number and their size on the wire.
func TestImportedBodiesAreOpenedAFewAtATime(t *testing.T) {
	tr := New(nil, nil, nil, nil, nil, nil, nil, nil)
	var release func()
	for range maxOpened {
		r, err := tr.waitToOpen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		release = r
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var busy *api.Error
	if _, err := tr.waitToOpen(ctx); !errors.As(err, &busy) || busy.Code != api.Busy {
		t.Errorf("one more: %v, want busy", err)
	}
	release()
	if _, err := tr.waitToOpen(t.Context()); err != nil {
		t.Errorf("after one was done: %v", err)
	}
}
