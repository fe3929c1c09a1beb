package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"nexus/ledger"
)

// Race appends to one subject through all logs. In each round that many writers
// append different bytes at once: exactly one must win, and the others must get a
// conflict that names it. between runs during a round. Race returns the subject's
// tail.
func Race(t *testing.T, ctx context.Context, logs []ledger.Log, subject string, rounds, writers int, between func(round int)) uint64 {
	t.Helper()
	type result struct {
		seq uint64
		err error
	}
	var tail uint64
	for round := range rounds {
		results := make([]result, writers)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				results[w].seq, results[w].err = logs[w%len(logs)].Append(ctx, subject, tail, fmt.Append(nil, "round ", round, " writer ", w))
			})
		}
		if between != nil {
			between(round)
		}
		wg.Wait()
		var won uint64
		wins, open := 0, 0
		for w, r := range results {
			switch {
			case r.err == nil:
				wins++
				won = r.seq
			case errors.Is(r.err, ledger.ErrConflict):
			case between != nil && (errors.Is(r.err, ledger.ErrIndeterminate) || errors.Is(r.err, ledger.ErrUnavailable)):
				open++ // under a fault an append may stay open: a retry must close it
				t.Logf("round %d, writer %d: %v", round, w, r.err)
				seq, err := retry(ctx, logs[w%len(logs)], subject, tail, fmt.Append(nil, "round ", round, " writer ", w))
				if err == nil {
					wins++
					won = seq
				} else if !errors.Is(err, ledger.ErrConflict) {
					t.Fatalf("round %d, writer %d, retry: %v", round, w, err)
				}
			default:
				t.Fatalf("round %d, writer %d: %v", round, w, r.err)
			}
		}
		if wins != 1 {
			t.Fatalf("round %d: %d appends won (%d were open), want 1", round, wins, open)
		}
		for w, r := range results {
			var c *ledger.ConflictError
			if errors.As(r.err, &c) && (c.Got != won || c.Want != tail) {
				t.Errorf("round %d, writer %d: %v; the winner is at %d", round, w, r.err, won)
			}
		}
		tail = won
	}
	return tail
}

// retry appends until the answer is definite.
func retry(ctx context.Context, log ledger.Log, subject string, expect uint64, payload []byte) (uint64, error) {
	for {
		seq, err := log.Append(ctx, subject, expect, payload)
		open := errors.Is(err, ledger.ErrIndeterminate) || errors.Is(err, ledger.ErrUnavailable)
		if !open || ctx.Err() != nil {
			return seq, err
		}
	}
}

func testRaceOne(t *testing.T, ctx context.Context, log ledger.Log) {
	tail := Race(t, ctx, []ledger.Log{log}, subject(1), 8, 16, nil)
	if tail != 8 {
		t.Errorf("tail at %d after 8 rounds", tail)
	}
}

func testRaceMany(t *testing.T, ctx context.Context, log ledger.Log) {
	const chains, writers, each = 6, 3, 8 // each writer of a chain must get its records in
	var wg sync.WaitGroup
	for c := range chains {
		for w := range writers {
			wg.Go(func() {
				var tail uint64
				for i := 0; i < each; {
					seq, err := log.Append(ctx, subject(c), tail, fmt.Append(nil, c, w, i))
					var conflict *ledger.ConflictError
					switch {
					case err == nil:
						tail = seq
						i++
					case errors.As(err, &conflict) && conflict.Got > tail:
						tail = conflict.Got
					default:
						t.Errorf("chain %d, writer %d: %v", c, w, err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	if n := len(CheckLog(t, log)); n != chains*writers*each {
		t.Errorf("%d records, want %d", n, chains*writers*each)
	}
}

func testRaceSame(t *testing.T, ctx context.Context, log ledger.Log) {
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			if seq, err := log.Append(ctx, subject(1), 0, []byte("same")); seq != 1 || err != nil {
				t.Errorf("try %d: %d, %v; want 1", w, seq, err)
			}
		})
	}
	wg.Wait()
	if n := len(CheckLog(t, log)); n != 1 {
		t.Errorf("%d records, want 1", n)
	}
}
