package audit

import (
	"fmt"
	"sync"

	"nexus/cmd/internal/engine/reader"
	"nexus/ledger/api"
)

// maxVerifyAll bounds the verifications of the whole ledger that run at a time,
// maxVerifySome those of sessions, and maxVerifyAgent those of one agent's sessions.
// They take long and read what no cache holds. They have separate places, so that
// the whole ledger's does not wait for the others, and one agent does not take every
// place.
const maxVerifyAll, maxVerifySome, maxVerifyAgent = 1, 2, 1

// runningVerifications counts the verifications that run. Safe for concurrent use.
type runningVerifications struct {
	mu      sync.Mutex
	all     int
	some    int
	byAgent map[string]int // those of sessions, by agent; no entry means none
}

// startVerification takes a place for a verification, of some sessions or of all.
// The caller calls leave at its end. It returns [ledger.ErrBusy] if no place is
// free.
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
