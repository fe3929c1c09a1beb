package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"
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

// read checks the records up to last: the whole log in its order, or the named
// chains one after the other. For named chains it reads nothing else, so that an
// agent learns nothing of other sessions and causes no reads of them. Where it can't
// read to the end, no rows of the projections are compared.
func (v *verifier) read(ctx context.Context, last uint64) error {
	if v.chains != nil {
		for _, subject := range v.chains {
			_, whole, err := v.checkRecords(ctx, func(ctx context.Context) iter.Seq2[ledger.Record, error] {
				return v.audit.reader.Log.Chain(ctx, subject, 0)
			}, last)
			if err != nil {
				return err
			}
			if !whole {
				v.cut()
			}
		}
		return nil
	}
	if last == 0 {
		return nil
	}
	at, whole, err := v.checkRecords(ctx, func(ctx context.Context) iter.Seq2[ledger.Record, error] {
		return v.audit.reader.Log.Read(ctx, 1, false)
	}, last)
	if err != nil {
		return err
	}
	if whole && at < last {
		v.problem("", api.Problem{Code: api.Corrupt, Seq: at, Message: fmt.Sprintf("%v: the log ends at %d, the projections at %d%s", ledger.ErrCorrupt, at, last, notCompared)})
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

// checkRecords checks the records that read yields, up to position last. A goroutine of its
// own reads them and does what needs no other record, ahead of the checks that do. It returns
// the position of the last one that it checked; whole is false if the next can't be read.
func (v *verifier) checkRecords(ctx context.Context, read func(context.Context) iter.Seq2[ledger.Record, error], last uint64) (at uint64, whole bool, _ error) {
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
		}
	})
	for x := range ahead {
		more, err := v.visit(ctx, x.parsed, x.err)
		if err != nil || !more {
			return at, false, err
		}
		at = x.Seq
		room.Release(size(x.Record))
	}
	return at, true, ctx.Err()
}

// visit checks a record as it was read. more is false if the log can't be read
// further.
func (v *verifier) visit(ctx context.Context, r parsed, err error) (more bool, _ error) {
	if errors.Is(err, ledger.ErrCorrupt) {
		v.problem("", api.Problem{Code: api.Corrupt, Seq: r.Seq, Message: err.Error() + notCompared})
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
