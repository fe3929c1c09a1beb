package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// subjectsFor returns the subjects of the named sessions and of those they inherit
// from, ancestors first.
func (v *verifier) subjectsFor(ctx context.Context, ids []turns.ID) ([]string, error) {
	out, visited := []string{}, make(map[string]bool)
	for _, id := range ids {
		// A chain that was set aside is verified as far as it goes, and reported.
		if _, err := v.audit.reader.CatchUp(ctx, v.caller.Tenant, id); err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return nil, err
		}
		s, err := v.audit.reader.FindSession(ctx, v.caller, id, false)
		if err != nil {
			return nil, err
		}
		var up []string
		for !visited[s.Subject()] {
			visited[s.Subject()] = true
			v.total += s.Tail.Index + 1
			if up = append(up, s.Subject()); s.ForkOf == nil {
				break
			}
			parent, err := v.audit.reader.Projections.Session(s.ForkOf.At.Session)
			if err != nil {
				return nil, err
			}
			s = &parent
		}
		slices.Reverse(up)
		out = append(out, up...)
	}
	return out, nil
}

// readChains checks the next records of the named chains, one chain after the other, up to
// position last, and limit records at most. It returns how many. It reads nothing else, so that an
// agent learns nothing of other sessions and causes no reads of them. Where it can't read a chain to
// its end, no rows of the projections are compared.
func (v *verifier) readChains(ctx context.Context, last uint64, limit int) (n int, _ error) {
	for v.chain < len(v.chains) && n < limit {
		subject, after := v.chains[v.chain], v.at
		k, whole, err := v.checkRecords(ctx, func(ctx context.Context) iter.Seq2[ledger.Record, error] {
			return v.audit.reader.Log.Chain(ctx, subject, after)
		}, last, limit-n)
		n += k
		if err != nil {
			return n, err
		}
		if !whole {
			v.cut()
		} else if n == limit {
			break // there may be more of the chain
		}
		v.chain, v.at = v.chain+1, 0
	}
	return n, nil
}

// read checks the records of the whole log up to last, in its order. Where it can't read to
// the end, no rows of the projections are compared.
func (v *verifier) read(ctx context.Context, last uint64) error {
	if last == 0 {
		return nil
	}
	_, whole, err := v.checkRecords(ctx, func(ctx context.Context) iter.Seq2[ledger.Record, error] {
		return v.audit.reader.Log.Read(ctx, 1, false)
	}, last, math.MaxInt)
	if err != nil {
		return err
	}
	if whole && v.at < last {
		v.problem("", api.Problem{Code: api.Corrupt, Seq: api.Uint(v.at), Message: fmt.Sprintf("%v: the log ends at %d, the projections at %d%s", ledger.ErrCorrupt, v.at, last, notCompared)})
		whole = false
	}
	if !whole {
		v.cut()
	}
	return nil
}

// notCompared ends the text of a problem behind which nothing is read.
const notCompared = "; what comes after is not verified, and the rows of the projections are not compared"

// Records that are parsed ahead of the check: so many, and so many bytes of payloads.
const aheadRecords, aheadBytes = 256, 16 << 20

// checkRecords checks the records that read yields, up to position last, and limit of them at most. A
// goroutine of its own reads them and does what needs no other record, ahead of the checks that do. It
// returns how many it checked; whole is false if the next can't be read.
func (v *verifier) checkRecords(ctx context.Context, read func(context.Context) iter.Seq2[ledger.Record, error], last uint64, limit int) (n int, whole bool, _ error) {
	type outcome struct {
		parsed
		err error
	}
	reading, stop := context.WithCancel(ctx)
	ahead, room := make(chan outcome, aheadRecords), semaphore.NewWeighted(aheadBytes)
	size := func(r ledger.Record) int64 { return min(int64(len(r.Payload)), aheadBytes) }
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		defer close(ahead)
		left := limit
		for r, err := range read(reading) {
			if err == nil && r.Seq > last {
				return
			}
			if room.Acquire(reading, size(r)) != nil {
				return
			}
			select {
			case ahead <- outcome{parse(r), err}:
			case <-reading.Done():
				return
			}
			if left--; left == 0 {
				return
			}
		}
	})
	for x := range ahead {
		more, err := v.visit(ctx, x.parsed, x.err)
		if err != nil || !more {
			return n, false, err
		}
		n++
		room.Release(size(x.Record))
	}
	return n, true, ctx.Err()
}

// visit checks a record as it was read. more is false if the log can't be read
// further.
func (v *verifier) visit(ctx context.Context, r parsed, err error) (more bool, _ error) {
	if errors.Is(err, ledger.ErrCorrupt) {
		v.audit.Damaged()
		v.problem("", api.Problem{Code: api.Corrupt, Seq: api.Uint(r.Seq), Message: err.Error() + notCompared})
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, v.checkRecord(ctx, r)
}

// cut notes that the log could not be read to the end.
func (v *verifier) cut() {
	v.isCut = true
	v.rows.Cut()
}
