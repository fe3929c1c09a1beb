package mcp

import (
	"context"
	"sync"

	"nexus/ledger/api"
)

// places bounds the calls that are served at a time: those of each agent, and all. A call
// waits for a place of its agent first, so what one agent sends at once takes no place of the
// others while it waits. Safe for concurrent use.
type places struct {
	all      chan struct{} // one element for each call that is served
	perAgent int

	mu sync.Mutex
	of map[owner]*agentPlaces // those with a call that is served or waits
}

// owner is whose calls share a bound.
type owner struct{ tenant, agent string }

type agentPlaces struct {
	served chan struct{} // one element for each call that has a place of its agent
	calls  int           // that are served or wait; with none the row is dropped
}

func newPlaces(all, perAgent int) *places {
	return &places{all: make(chan struct{}, all), perAgent: perAgent, of: make(map[owner]*agentPlaces)}
}

// take waits for a place. The caller releases it. [api.Busy]: ctx ended first.
func (p *places) take(ctx context.Context, o owner) (release func(), err error) {
	p.mu.Lock()
	own := p.of[o]
	if own == nil {
		own = &agentPlaces{served: make(chan struct{}, p.perAgent)}
		p.of[o] = own
	}
	own.calls++
	p.mu.Unlock()
	leave := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if own.calls--; own.calls == 0 {
			delete(p.of, o)
		}
	}
	if !enter(ctx, own.served) {
		leave()
		return nil, api.Errorf(api.Busy, nil, "%d other calls of this agent are served, and none ended in time", p.perAgent)
	}
	if !enter(ctx, p.all) {
		<-own.served
		leave()
		return nil, api.Errorf(api.Busy, nil, "%d other calls are served, and none ended in time", cap(p.all))
	}
	return func() {
		<-p.all
		<-own.served
		leave()
	}, nil
}

// enter takes a place that is free, or waits for one. It reports false if ctx ended first.
func enter(ctx context.Context, places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	default:
	}
	select {
	case places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
