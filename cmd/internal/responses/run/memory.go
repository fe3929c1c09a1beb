package run

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"nexus/cmd/internal/responses/wire"
)

// budget is the memory that all responses under way share: what is asked of models, what
// comes of answers, and the events that clients have not read. An agent may use as much as
// stays free, as with [room].
//
// Where an agent's responses grow over its part, the largest of them ends, so a small one
// beside a model that never stops is served. Safe for concurrent use.
type budget struct {
	max int64

	mu     sync.Mutex
	used   int64 // of all shares but those that were evicted
	agents map[string]*agentShares
	ended  uint64 // shares that were evicted
}

type agentShares struct {
	used   int64
	shares map[*share]struct{}
}

// share is what one response uses. A nil share has no bound.
type share struct {
	budget  *budget
	owner   string
	n       int64
	evicted bool
	over    bool   // its response ended, and is read: to evict it would free nothing
	closed  bool   // nothing is counted any more
	evict   func() // ends the response; it must not wait
}

func newBudget(bytes int64) *budget {
	return &budget{max: bytes, agents: make(map[string]*agentShares)}
}

// open begins a share of an agent. evict is called once, if the share has to go.
func (b *budget) open(owner string, evict func()) *share {
	s := &share{budget: b, owner: owner, evict: evict}
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.agents[owner]
	if a == nil {
		a = &agentShares{shares: make(map[*share]struct{})}
		b.agents[owner] = a
	}
	a.shares[s] = struct{}{}
	return s
}

// take adds n bytes to the share, and evicts larger shares of the agent where that is needed.
// Error: errMemory, where the share was evicted, or would be the largest.
func (s *share) take(n int64) error {
	if s == nil || n <= 0 {
		return nil
	}
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.evicted || s.closed {
		return ErrMemory
	}
	a := b.agents[s.owner]
	for a.used+n > b.max-b.used-n {
		largest := s
		for other := range a.shares {
			if !other.evicted && !other.over && other.n > largest.n {
				largest = other
			}
		}
		b.evict(a, largest)
		if largest == s {
			return ErrMemory
		}
	}
	b.add(a, s, n)
	return nil
}

// force is take of what has to be kept, however much there is: the end of a response.
func (s *share) force(n int64) {
	if s == nil {
		return
	}
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	if !s.closed {
		s.budget.add(s.budget.agents[s.owner], s, n)
	}
}

// add adds n bytes to a share. Those of an evicted one are as good as free, and not counted
// for its agent.
func (b *budget) add(a *agentShares, s *share, n int64) {
	s.n += n
	if !s.evicted {
		a.used += n
		b.used += n
	}
}

func (b *budget) evict(a *agentShares, s *share) {
	a.used -= s.n
	b.used -= s.n
	b.ended++
	s.evicted = true
	s.evict()
}

// keep makes the share as large as what is left of an ended response, n bytes. An evicted one
// counts again.
func (s *share) keep(n int64) {
	if s == nil {
		return
	}
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	if !s.closed {
		s.budget.resize(s, n)
		s.over = true
	}
}

func (b *budget) resize(s *share, n int64) {
	a := b.agents[s.owner]
	if !s.evicted {
		a.used -= s.n
		b.used -= s.n
	}
	s.evicted, s.n = false, 0
	b.add(a, s, n)
}

// close gives the share back. Nothing is taken for it any more. To close it twice does nothing.
func (s *share) close() {
	if s == nil {
		return
	}
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.closed {
		return
	}
	b.resize(s, 0)
	s.closed = true
	a := b.agents[s.owner]
	if delete(a.shares, s); len(a.shares) == 0 {
		delete(b.agents, s.owner)
	}
}

// state returns how many bytes are used, those of evicted shares too, and how many shares
// were evicted since the start.
func (b *budget) state() (used int64, ended uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	used = b.used
	for _, a := range b.agents {
		for s := range a.shares {
			if s.evicted {
				used += s.n
			}
		}
	}
	return used, b.ended
}

// ErrMemory ends the largest response of an agent whose responses take too much memory.
var ErrMemory = &wire.Error{Status: http.StatusTooManyRequests, Type: wire.TooMany, Code: "memory_limit_exceeded", RetryAfter: time.Second,
	Message: "The responses of this agent that are under way take too much memory, and this one took the most."}

// errAnswerSize ends a response whose answer is larger than most bytes.
func errAnswerSize(most int64) *wire.Error {
	return &wire.Error{Status: http.StatusBadGateway, Type: wire.ModelError, Code: wire.CodeTooLarge, Message: fmt.Sprintf("The model's answer is larger than %d bytes, and was cut off.", most)}
}

// isOversize reports whether a response ended because it took too much.
func isOversize(e *wire.Error) bool { return e.Code == ErrMemory.Code || e.Code == wire.CodeTooLarge }
