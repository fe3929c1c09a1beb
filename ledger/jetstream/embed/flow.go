package embed

import (
	"bytes"
	"container/heap"
	"errors"
	"net"
	"os"
	"strconv"
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
	// longTurns is how many connections send a long message at a time. The server
	// keeps a message in memory until it is complete.
	longTurns = 2
	// longMessage is the size from which a message is long, in bytes.
	longMessage = 128 << 10
	// chunk is how many bytes are passed on at a time, longChunk of a long message.
	chunk, longChunk = 4 << 10, 64 << 10
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

// flow decides which connection may pass how much on to the server. Connections get
// their share in bytes: of those that wait, the one that has got least is next.
// Safe for concurrent use.
//
// Invariant: unseen <= max in each lane, or one chunk alone is unseen.
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

// lane is a bound and those that wait for room in it.
type lane struct {
	max, unseen int
	marked      int // of unseen: sent before the probe that is on its way
	waiting     waiters
	virtual     uint64 // tag of the last one that got room
}

// sender is a connection's direction to the server. One goroutine uses it.
type sender struct {
	tag  uint64 // what it has got, in bytes, in virtual time; guarded by flow.mu
	turn bool   // it has a turn
	scan scanner

	partial int           // bytes of the long message that is not complete; guarded by flow.mu
	waited  time.Duration // for the client, within that message; guarded by flow.mu
	since   time.Time     // of the wait that goes on; zero: none; guarded by flow.mu
	inTurn  time.Duration // for the client, within the turn
}

// waiter waits for room of n.
type waiter struct {
	tag uint64
	seq int
	n   int
	ok  chan struct{}
}

type waiters []*waiter

func (w waiters) Len() int { return len(w) }
func (w waiters) Less(i, j int) bool {
	return w[i].tag < w[j].tag || w[i].tag == w[j].tag && w[i].seq < w[j].seq
}
func (w waiters) Swap(i, j int) { w[i], w[j] = w[j], w[i] }
func (w *waiters) Push(x any)   { *w = append(*w, x.(*waiter)) }
func (w *waiters) Pop() any {
	old := *w
	x := old[len(old)-1]
	old[len(old)-1], *w = nil, old[:len(old)-1]
	return x
}

func newFlow() *flow {
	return &flow{partials: make(map[*sender]net.Conn), short: lane{max: shortWindow}, long: lane{max: longWindow}, turns: lane{max: longTurns}}
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
	if l.waiting.Len() == 0 && l.fits(n) {
		l.unseen += n
		f.look()
		f.mu.Unlock()
		return
	}
	s.tag = max(s.tag, l.virtual)
	w := &waiter{tag: s.tag, seq: f.arrived, n: n, ok: make(chan struct{})}
	s.tag += uint64(n)
	f.arrived++
	heap.Push(&l.waiting, w)
	f.look()
	f.mu.Unlock()
	<-w.ok
}

func (l *lane) fits(n int) bool { return l.unseen == 0 || l.unseen+n <= l.max }

// grant gives room to those that wait, least served first.
func (l *lane) grant() {
	for l.waiting.Len() > 0 && l.fits(l.waiting[0].n) {
		w := heap.Pop(&l.waiting).(*waiter)
		l.unseen, l.virtual = l.unseen+w.n, w.tag
		close(w.ok)
	}
}

// clear gives room to all that wait, and forgets what is unseen.
func (l *lane) clear() {
	for l.waiting.Len() > 0 {
		close(heap.Pop(&l.waiting).(*waiter).ok)
	}
	l.unseen, l.marked = 0, 0
}

// look asks whether the service has seen what was sent, if that makes room that is
// needed soon.
func (f *flow) look() {
	if f.probing || f.probe == nil || f.stopped || f.short.unseen < f.short.max/2 && f.long.unseen < f.long.max/2 && f.short.waiting.Len()+f.long.waiting.Len() == 0 {
		return
	}
	f.probing = true
	f.short.marked, f.long.marked = f.short.unseen, f.long.unseen
	var once sync.Once
	seen := func() {
		once.Do(func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.probing = false
			for _, l := range []*lane{&f.short, &f.long} {
				l.unseen -= min(l.marked, l.unseen)
				l.grant()
			}
			f.look()
		})
	}
	expiry := time.AfterFunc(patience, seen)
	go f.probe(func() { expiry.Stop(); seen() })
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
		if err := conn.SetReadDeadline(deadline); err != nil {
			return
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

// scanner finds the messages in what a client sends: a line PUB or HPUB, whose last
// word is the size of what follows. It checks nothing; the server does.
type scanner struct {
	line []byte // the beginning of a line that is not complete
	rest int    // bytes of a message that are still to come
	long bool   // that message is long
}

// maxLine bounds the line that the scanner keeps. The server takes lines of 4 KiB,
// and CONNECT lines, whose end does not matter here.
const maxLine = 4 << 10

// next returns how many bytes at the beginning of b belong together, and whether
// they are of a long message.
func (s *scanner) next(b []byte) (n int, long bool) {
	if s.rest > 0 && s.long {
		n = min(s.rest, len(b))
		s.rest -= n
		return n, true
	}
	for n < len(b) {
		if s.rest > 0 {
			if s.long {
				return n, false // the line is passed on before its message
			}
			k := min(s.rest, len(b)-n)
			n, s.rest = n+k, s.rest-k
			continue
		}
		end := bytes.IndexByte(b[n:], '\n')
		if end < 0 {
			if len(s.line)+len(b)-n <= maxLine {
				s.line = append(s.line, b[n:]...)
			}
			return len(b), false
		}
		line := b[n : n+end]
		if len(s.line) > 0 {
			line = append(s.line, line...)
		}
		n, s.rest = n+end+1, payload(line)
		s.long, s.line = s.rest >= longMessage, s.line[:0]
	}
	return n, false
}

// payload returns how many bytes follow a line of a client: a message and its line
// end; 0 if the line brings none.
func payload(line []byte) int {
	words := bytes.Fields(line)
	if len(words) < 3 || !bytes.EqualFold(words[0], []byte("PUB")) && !bytes.EqualFold(words[0], []byte("HPUB")) {
		return 0
	}
	n, err := strconv.Atoi(string(words[len(words)-1]))
	if err != nil || n < 0 || n > MaxPayload {
		return 0 // the server closes the connection
	}
	return n + len("\r\n")
}
