package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// togetherBlobs lets reads go on when as many wait as it says, and then all
// others.
type togetherBlobs struct {
	ledger.Blobs
	want int

	mu               sync.Mutex
	reading, highest int
	reads            map[turns.Hash]int
	met              chan struct{}
}

func together(b ledger.Blobs, want int) *togetherBlobs {
	return &togetherBlobs{Blobs: b, want: want, reads: make(map[turns.Hash]int), met: make(chan struct{})}
}

func (b *togetherBlobs) GetBlob(ctx context.Context, tenant string, digest turns.Hash) ([]byte, error) {
	b.mu.Lock()
	b.reads[digest]++
	b.reading++
	b.highest = max(b.highest, b.reading)
	if b.reading == b.want {
		select {
		case <-b.met:
		default:
			close(b.met)
		}
	}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.reading--
		b.mu.Unlock()
	}()
	select {
	case <-b.met:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %d reads at a time, not %d: %w", ledger.ErrUnavailable, b.highest, b.want, ctx.Err())
	}
	return b.Blobs.GetBlob(ctx, tenant, digest)
}

// The blobs of a path, of a turn that refers to them and of a turn that is
// verified are read several at a time, each once.
func TestBlobsAreReadInParallel(t *testing.T) {
	const parts, size, atATime = 60, 20_000, 16
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 1_000_000, "nexus")
	var many []turns.Part
	for i := range parts {
		many = append(many, turns.Part{Type: turns.Text, Content: fmt.Sprintf("%d %s", i, long(size))})
	}
	a := add(t, e, s.ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.User, Parts: many}}})
	stored := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: a.ID}))(t)
	blobs := 0
	for _, p := range stored.Messages[0].Parts {
		if p.Ref != nil {
			blobs++
		}
	}
	if blobs < atATime {
		t.Fatalf("only %d parts are in blobs", blobs)
	}
	for name, run := range map[string]func(ctx context.Context, e *Engine) error{
		"context": func(ctx context.Context, e *Engine) error {
			_, err := e.Contexts.Context(ctx, alice, s.ID, api.GetContext{})
			return err
		},
		"append of refs": func(ctx context.Context, e *Engine) error {
			r := api.AppendTurn{Messages: []turns.Message{{Role: turns.User, Parts: stored.Messages[0].Parts}}}
			_, err := e.Sessions.Append(ctx, alice, s.ID, r, canon(r))
			return err
		},
		"verify": func(ctx context.Context, e *Engine) error {
			_, err := e.Audit.Verify(ctx, alice, api.Verify{Sessions: []turns.ID{s.ID}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := w.Engine(t) // with nothing in its cache
			slow := together(w.Blobs, atATime)
			e.Store.Blobs = slow
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := run(ctx, e); err != nil {
				t.Fatal(err)
			}
			if slow.highest > atATime || len(slow.reads) != blobs {
				t.Errorf("%d reads at a time of %d blobs, want %d of %d", slow.highest, len(slow.reads), atATime, blobs)
			}
			for digest, n := range slow.reads {
				if n != 1 {
					t.Errorf("blob %s was read %d times", digest, n)
				}
			}
		})
	}
}
