package embed

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// Bounds on what clients have sent and the service has not seen. The NATS server has
// no flow control for a client that publishes: it reads as fast as it can, and what
// it has read waits in one queue for the service, a neighbour's request behind all
// that a flooding client sent.
const (
	// shortWindow bounds the bytes of short messages, longWindow those of long ones.
	shortWindow, longWindow = 128 << 10, 2 * MaxPayload
	// shareWindow bounds the bytes of short messages of one agent, over all of its
	// connections. A neighbour's request waits behind no more of them.
	shareWindow = 16 << 10
	// longTurns is how many connections send a long message at a time. The server
	// keeps a message in memory until it is complete.
	longTurns = 2
	// longMessage is the size from which a message is long, in bytes.
	longMessage = 128 << 10
	// chunk is how many bytes are passed on at a time, longChunk of a long message.
	chunk, longChunk = 8 << 10, 64 << 10
)

const (
	// turnIdle ends the turn of a connection that sends nothing for so long, turnSlow that
	// of one that made the flow wait for so long in all.
	turnIdle, turnSlow = 20 * time.Millisecond, 250 * time.Millisecond
	// patience is how long the flow waits for the service to see what was sent. Then
	// it goes on: a service that hangs must not keep clients from connecting.
	patience = time.Second
)

// maxPartial bounds the bytes of long messages that are not complete, which the server
// keeps in memory. Over it, the client that made the flow wait longest is disconnected.
const maxPartial = 64 << 20

// flow decides which connection may pass how much on to the server. Agents get their
// share in bytes, over all of their connections, and the connections of an agent get
// theirs of that: of those that wait, the one that has got least is next. Safe for
// concurrent use.
//
// Invariant: unseen <= max in each lane, or one chunk alone is unseen. The same holds
// for each share of the short lane.
type flow struct {
	mu      sync.Mutex
	short   lane
	long    lane
	turns   lane         // of the connections that send a long message; unseen counts them
	probe   func(func()) // calls its argument when the service has seen what was sent; nil: no bounds
	probing bool         // a probe is on its way
	arrived int          // waiters so far
	stopped bool

	partial  int                  // bytes of long messages that are not complete
	partials map[*sender]net.Conn // who sent them
}

// sender is a connection's direction to the server. One goroutine uses it.
type sender struct {
	tag  uint64 // what it has got of its share, in bytes, in virtual time; guarded by flow.mu
	turn bool   // it has a turn
	scan scanner

	partial int           // bytes of the long message that is not complete; guarded by flow.mu
	waited  time.Duration // for the client, within that message; guarded by flow.mu
	since   time.Time     // of the wait that goes on; zero: none; guarded by flow.mu
	inTurn  time.Duration // for the client, within the turn
}

func newFlow() *flow {
	return &flow{partials: make(map[*sender]net.Conn), short: lane{max: shortWindow, each: shareWindow}, long: lane{max: longWindow}, turns: lane{max: longTurns}}
}

// bound makes the flow wait for the service. probe calls its argument once the
// service has seen everything that the server had sent to it before.
func (f *flow) bound(probe func(seen func())) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.probe = probe; probe == nil {
		f.short.clear()
		f.long.clear()
	}
}

// stop lets everything pass.
func (f *flow) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	f.short.clear()
	f.long.clear()
	f.turns.clear()
}

// take waits until s may pass n bytes of a message on.
func (f *flow) take(s *sender, n int, ofLong bool) {
	if !ofLong {
		f.wait(&f.short, s, n)
		return
	}
	if s.turn && s.inTurn > turnSlow {
		f.endTurn(s)
	}
	if !s.turn {
		f.wait(&f.turns, s, 1)
		s.turn, s.inTurn = true, 0
	}
	f.wait(&f.long, s, n)
}

// endTurn lets another connection send a long message.
func (f *flow) endTurn(s *sender) {
	if !s.turn {
		return
	}
	s.turn = false
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turns.unseen = max(0, f.turns.unseen-1)
	f.turns.grant()
}

// wait waits for room of n in l.
func (f *flow) wait(l *lane, s *sender, n int) {
	f.mu.Lock()
	if f.stopped || f.probe == nil && l != &f.turns {
		f.mu.Unlock()
		return
	}
	sh := l.share(s.scan.share())
	if len(l.queue) == 0 && len(sh.waiting) == 0 && l.fits(n) && l.fitsShare(sh, n) {
		l.pass(sh, n)
		f.look()
		f.mu.Unlock()
		return
	}
	w := &waiter{tag: max(s.tag, sh.virtual), seq: f.arrived, n: n, ok: make(chan struct{})}
	s.tag = w.tag + uint64(n)
	f.arrived++
	l.add(sh, w)
	f.look()
	f.mu.Unlock()
	<-w.ok
}

// look asks whether the service has seen what was sent, if that makes room that is
// needed soon.
func (f *flow) look() {
	none := f.short.unseen+f.long.unseen == 0 // who waits then, waits for a pause to end
	enough := f.short.unseen >= f.short.max/2 || f.long.unseen >= f.long.max/2 || f.short.waiters+f.long.waiters > 0
	if f.probing || f.probe == nil || f.stopped || none || !enough {
		return
	}
	f.probing = true
	f.short.mark()
	f.long.mark()
	var once sync.Once
	seen := func() {
		once.Do(func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.probing = false
			for _, l := range []*lane{&f.short, &f.long} {
				l.removeMarked()
				l.grant()
			}
			f.look()
		})
	}
	expiry := time.AfterFunc(patience, seen)
	go f.probe(func() { expiry.Stop(); seen() })
}

// refusedPause is how long the short messages of an agent wait after the service refused
// one of them as too many. The refused request comes back later than that.
const refusedPause = 50 * time.Millisecond

// slow lets the short messages of a user's agent wait for refusedPause. A refusal costs the
// server and the service about what a request does, and a client that floods does not wait
// for its answers: unread by the server its requests cost nothing.
func (f *flow) slow(user, agent string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped || f.probe == nil {
		return
	}
	for _, name := range []string{agent, severalAgents} {
		sh := f.short.shares[shareOf(user, name)]
		if sh == nil || sh.slow {
			continue
		}
		sh.slow = true
		time.AfterFunc(refusedPause, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			sh.slow = false
			f.short.enqueue(sh)
			f.short.grant()
			f.look()
		})
	}
}

// keep notes that n bytes of a long message of s went to the server, which keeps them until
// the message is complete; n is negative when it is.
func (f *flow) keep(s *sender, conn net.Conn, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n < 0 {
		f.partial, s.partial, s.waited = f.partial-s.partial, 0, 0
		delete(f.partials, s)
		return
	}
	f.partial, s.partial = f.partial+n, s.partial+n
	f.partials[s] = conn
	if f.partial <= maxPartial {
		return
	}
	slowest, longest := s, time.Duration(-1)
	for other := range f.partials {
		waited := other.waited
		if !other.since.IsZero() {
			waited += time.Since(other.since)
		}
		if waited > longest {
			slowest, longest = other, waited
		}
	}
	_ = f.partials[slowest].Close() // its send ends, and gives back what it has
}

// awaiting notes that the flow begins to wait for the client, within a message.
func (f *flow) awaiting(s *sender) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.since = time.Now()
}

// awaited notes that the client has sent something.
func (f *flow) awaited(s *sender) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := time.Since(s.since)
	s.waited, s.inTurn, s.since = s.waited+d, s.inTurn+d, time.Time{}
}

// serve passes on what the client of conn and the server of inner send each other,
// until one of them ends.
func (f *flow) serve(conn, inner net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer conn.Close()
		defer inner.Close()
		buf := make([]byte, 32<<10)
		for {
			n, err := inner.Read(buf)
			if _, werr := conn.Write(buf[:n]); err != nil || werr != nil {
				return
			}
		}
	}()
	f.send(conn, inner)
	conn.Close()
	inner.Close()
	<-done
}

// send passes on what the client sends.
func (f *flow) send(conn, inner net.Conn) {
	s := new(sender)
	defer f.endTurn(s)
	defer f.keep(s, conn, -1)
	small := make([]byte, chunk)
	var large []byte
	limited := false // the connection has a deadline
	for {
		buf, deadline := small, time.Time{}
		if s.turn {
			if large == nil {
				large = make([]byte, longChunk)
			}
			buf, deadline = large, time.Now().Add(turnIdle)
		} else {
			large = nil
		}
		if limited || s.turn {
			if err := conn.SetReadDeadline(deadline); err != nil {
				return
			}
			limited = s.turn
		}
		within := s.scan.rest > 0
		if within {
			f.awaiting(s)
		}
		n, err := conn.Read(buf)
		if within {
			f.awaited(s)
		}
		for buf = buf[:n]; len(buf) > 0; {
			n, long := s.scan.next(buf)
			if s.scan.bad {
				return
			}
			f.take(s, n, long)
			if _, err := inner.Write(buf[:n]); err != nil {
				return
			}
			if long {
				f.keep(s, conn, n)
			}
			if buf = buf[n:]; s.scan.rest == 0 {
				if s.partial > 0 {
					f.keep(s, conn, -1)
				}
				f.endTurn(s)
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			f.endTurn(s)
		} else if err != nil {
			return
		}
	}
}
