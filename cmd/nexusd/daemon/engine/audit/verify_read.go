package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// How many verifications run at a time: they are long, and read what nothing
// caches. The whole ledger's does not wait for those of sessions, and of these
// one agent has at most one, so that it does not hold every place.
const maxVerifyAll, maxVerifySome, maxVerifyAgent = 1, 2, 1

// runningVerifications are those that run. Safe for concurrent use.
type runningVerifications struct {
	mu      sync.Mutex
	all     int
	some    int
	byAgent map[string]int // of some sessions; no entry: none
}

// startVerification takes a place for a verification, of some sessions or of all.
func (au *Audit) startVerification(c reader.Caller, some bool) (leave func(), err error) {
	v, actor := &au.running, c.Actor()
	v.mu.Lock()
	defer v.mu.Unlock()
	busy := func(why string) (func(), error) {
		return nil, &api.Error{Code: api.Busy, Message: why, Details: map[string]any{"retry_after_ms": 1000}}
	}
	if !some {
		if v.all >= maxVerifyAll {
			return busy("the whole ledger is being verified already")
		}
		v.all++
		return func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.all--
		}, nil
	}
	switch {
	case v.byAgent[actor] >= maxVerifyAgent:
		return busy(fmt.Sprintf("%d verification of this agent runs already", maxVerifyAgent))
	case v.some >= maxVerifySome:
		return busy(fmt.Sprintf("%d verifications run already", maxVerifySome))
	}
	if v.byAgent == nil {
		v.byAgent = make(map[string]int)
	}
	v.some++
	v.byAgent[actor]++
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.some--
		if v.byAgent[actor]--; v.byAgent[actor] == 0 {
			delete(v.byAgent, actor)
		}
	}, nil
}

// subjectsFor is the subjects of the sessions named and of what they inherit from,
// ancestors first.
func (v *verifier) subjectsFor(ctx context.Context, ids []turns.ID) ([]string, error) {
	out, seen := []string{}, make(map[string]bool)
	for _, id := range ids {
		// One that was set aside is verified as far as it goes, and said to be.
		if _, err := v.audit.reader.CatchUp(ctx, v.caller.Tenant, id); err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return nil, err
		}
		s, err := v.audit.reader.FindSession(ctx, v.caller, id, false)
		if err != nil {
			return nil, err
		}
		var up []string
		for !seen[s.Subject()] {
			seen[s.Subject()] = true
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

// read takes the records up to last: of the whole log in its order, or of the
// chains that are needed, one after the other. Of those it reads nothing else, so
// that an agent learns, and costs, nothing beyond its own sessions.
func (v *verifier) read(ctx context.Context, last uint64) error {
	if v.chains == nil {
		if last == 0 {
			return nil
		}
		for r, err := range v.audit.reader.Log.Read(ctx, 1, false) {
			if more, err := v.visit(ctx, r, err); !more || err != nil {
				return err
			}
		}
		return nil
	}
	for _, subject := range v.chains {
		for after := uint64(0); ; {
			r, err := v.audit.reader.Log.Next(ctx, subject, after)
			if errors.Is(err, ledger.ErrNotFound) || (err == nil && r.Seq > last) {
				break
			}
			more, err := v.visit(ctx, r, err)
			if err != nil {
				return err
			}
			if !more {
				break
			}
			after = r.Seq
		}
	}
	return nil
}

// visit checks a record as it was read. No more: what is behind it can't be read.
func (v *verifier) visit(ctx context.Context, r ledger.Record, err error) (more bool, _ error) {
	if errors.Is(err, ledger.ErrCorrupt) {
		v.problem("", api.Problem{Code: api.Corrupt, Seq: r.Seq, Message: err.Error()})
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, v.checkRecord(ctx, r)
}
