// Package request is what a request brings with it through the rooms of the engine: its place among
// those that work, its share of the memory, until when it may be decided, and what it leaves to others.
// It travels in the context, so a verb does not hand on what it does not look at.
package request

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"nexus/ledger/api"
)

// Request is one request. The zero value, which a context without one has, may do everything and
// is counted nowhere: that of a program that uses the engine itself.
type Request struct {
	// Append: it is turn.append, which takes no resource of the compactor.
	Append bool
	// Ends: it ends the session itself, so a reset that is due is left to it.
	Ends bool
	// MayDecide, if not nil, returns an error once the request may be decided no longer. That is
	// then the error of the append, and nothing is stored.
	MayDecide func() error
	// Leave, if not nil, gives the request's place to another one. It can be called again.
	Leave func()

	memory *share
}

type key struct{}

// Of returns the request of a context.
func Of(ctx context.Context) Request {
	r, _ := ctx.Value(key{}).(Request)
	return r
}

// With returns a context whose request is that of ctx with a change.
func With(ctx context.Context, change func(*Request)) context.Context {
	r := Of(ctx)
	change(&r)
	return context.WithValue(ctx, key{}, r)
}

// Ending returns a context for a request that ends a session.
func Ending(ctx context.Context) context.Context {
	return With(ctx, func(r *Request) { r.Ends = true })
}

// LeavePlace gives the request's place to another one: from here on it mostly waits for the disk.
func LeavePlace(ctx context.Context) {
	if leave := Of(ctx).Leave; leave != nil {
		leave()
	}
}

// MayDecide returns the error of [Request].MayDecide, nil if there is none.
func MayDecide(ctx context.Context) error {
	if may := Of(ctx).MayDecide; may != nil {
		return may()
	}
	return nil
}

const (
	// maxLoaded bounds the content that all requests together have loaded, in bytes, unless [Memory]
	// says otherwise.
	maxLoaded = 512 << 20
	// maxExpanded bounds the bytes that all requests together make of content that is stored
	// already, of which they name a few bytes only.
	maxExpanded = 64 << 20
)

// Memory is what all requests together may hold. Safe for concurrent use.
type Memory struct {
	// Max bounds what they have loaded, in bytes. 0 means 512 MiB.
	Max int64

	loaded atomic.Int64
	room   *semaphore.Weighted
}

// NewMemory returns a memory that nothing is taken of.
func NewMemory() *Memory { return &Memory{room: semaphore.NewWeighted(maxExpanded)} }

// Loaded returns how many bytes of content all requests have loaded now.
func (m *Memory) Loaded() int64 { return m.loaded.Load() }

// share is what one request has taken of the memory.
type share struct {
	of       *Memory
	max      int64 // bytes of all requests
	used     atomic.Int64
	expanded int64 // taken of the room; of the request's goroutine
}

// Begin returns a context whose loads count against the memory. A load past its bound fails as
// busy. The caller calls end when it has answered the request.
func (m *Memory) Begin(ctx context.Context) (_ context.Context, end func()) {
	s := &share{of: m, max: m.Max}
	if s.max <= 0 {
		s.max = maxLoaded
	}
	return With(ctx, func(r *Request) { r.memory = s }), func() {
		m.loaded.Add(-s.used.Swap(0))
		if s.expanded > 0 {
			m.room.Release(s.expanded)
			s.expanded = 0
		}
	}
}

// Charge counts n bytes that the request has loaded. n may be negative. [api.Busy] where there is
// no memory for them.
func Charge(ctx context.Context, n int) error {
	s := Of(ctx).memory
	if s == nil {
		return nil
	}
	s.used.Add(int64(n))
	if s.of.loaded.Add(int64(n)) > s.max && n > 0 {
		return &api.Error{Code: api.Busy, Message: "the histories that are being read take all the memory that there is for them", Details: map[string]any{"retry_after_ms": 500}}
	}
	return nil
}

// Dropped tells the memory that the request dropped everything it has loaded.
func Dropped(ctx context.Context) {
	if s := Of(ctx).memory; s != nil {
		s.of.loaded.Add(-s.used.Swap(0))
	}
}

// Expand waits until there is room for a request to hold n bytes of stored content, or to
// work on as many, and keeps the room until the request is answered. A request does it once;
// another call does nothing. [api.Busy] if ctx ends first.
func Expand(ctx context.Context, n int) error {
	s := Of(ctx).memory
	if s == nil || s.expanded > 0 || n <= 0 {
		return nil
	}
	want := min(int64(n), maxExpanded)
	if err := s.of.room.Acquire(ctx, want); err != nil {
		return &api.Error{Code: api.Busy, Message: "the requests that put stored content together take all the memory that there is for them", Details: map[string]any{"retry_after_ms": 1000}}
	}
	s.expanded = want
	return nil
}
