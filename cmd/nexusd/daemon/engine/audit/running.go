package audit

import (
	"fmt"
	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/ledger/api"
	"sync"
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
