package natsapi

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds on the requests that the service has accepted and not answered. A request
// over a bound gets busy.
const (
	// maxRequests bounds the requests that run or wait, maxOfConnection those that one
	// client connection sent, maxOfAgent those of one agent.
	maxRequests, maxOfConnection, maxOfAgent = 1024, 512, 256
	// maxBytes bounds their bytes, maxBytesOfConnection and maxBytesOfAgent those of
	// one connection and of one agent. A request in work takes some eight times its
	// bytes, one that waits takes its bytes.
	maxBytes, maxBytesOfConnection, maxBytesOfAgent = 96 << 20, 64 << 20, 48 << 20
	// maxLargeBytes bounds the bytes of the large requests in work. One request alone
	// may have more.
	maxLargeBytes = 16 << 20
	// largeRequest is the size from which a request is large, in bytes.
	largeRequest = 256 << 10
	// maxYield is the size up to which a request that waits for the disk leaves its place at
	// once. All that are accepted may wait together, with some eight times their bytes.
	maxYield = 16 << 10
)

// class is what a request mostly needs. Requests of one class share its places.
type class int

const (
	reads   class = iota // processor time
	changes              // processor time, and a write of the disk, for which it waits without its place
	large                // memory
	classes
)

// lease is how long a request counts as running. A request that takes longer mostly
// waits: for the disk, for a model, or for another request of its session. It keeps
// running, and another one gets its place. The bound on large requests is on memory,
// so they keep their places longer.
var lease = [classes]time.Duration{reads: 20 * time.Millisecond, changes: 20 * time.Millisecond, large: 2 * time.Second}

// task is one request that the intake runs.
type task struct {
	agent      string
	connection string // of the client; "" if it is not known
	order      string // tasks of one order run one after the other; "" if there is none
	class      class
	bytes      int
	run        func()

	running bool // it holds a place of its class; guarded by intake.mu
}

// intake bounds the requests in the service and decides which one runs next. Agents
// take turns in each class, so a request waits for one request of each other agent
// and not for all that another agent has sent. Safe for concurrent use.
//
// Invariants: all is the sum of agents; a task is in one queue, or runs, or has left.
type intake struct {
	mu          sync.Mutex
	all         load
	agents      map[string]*load
	connections map[string]*load
	ordered     map[string][]*task // tasks behind one that is ready or runs, by order
	places      [classes]places
	rate        rate
	changed     func(load) // if not nil, called with the new sum, with mu held

	next  chan *task    // to a worker that waits for a task
	idle  atomic.Int32  // workers that wait
	ended chan struct{} // closed by close
	once  sync.Once
}

// maxIdle bounds the goroutines that wait for a task. A goroutine that has served a
// request has a stack that is large enough for the next one: to grow a new one costs
// more than to read the request.
const maxIdle = 64

// load is a number of requests and their bytes.
type load struct {
	requests, bytes int
	next            time.Time // when the next refused request may come back
}

// places are the running tasks of a class, and those that wait for a place.
type places struct {
	max, running int // tasks; of the large class: bytes
	waiting      map[string][]*task
	turns        []string // agents with waiting tasks; the first is next
}

// newIntake returns an empty intake with places for the processors of this process.
func newIntake() *intake {
	n := runtime.GOMAXPROCS(0)
	in := &intake{agents: make(map[string]*load), connections: make(map[string]*load), ordered: make(map[string][]*task),
		next: make(chan *task), ended: make(chan struct{})}
	for c, m := range [classes]int{reads: 4 * n, changes: 16 * n, large: maxLargeBytes} {
		in.places[c] = places{max: m, waiting: make(map[string][]*task)}
	}
	return in
}

// close ends the workers that wait for a task, and those that run one after it. Tasks
// that are accepted still run.
func (in *intake) close() { in.once.Do(func() { close(in.ended) }) }

// bound names what a refused request is over.
type bound string

const (
	withinBounds    bound = ""
	boundRequests   bound = "requests"
	boundBytes      bound = "bytes"
	boundAgent      bound = "agent"
	boundConnection bound = "connection"
	boundUnread     bound = "unread" // see unread
)

// enter accepts t and runs it when it is its turn, in another goroutine. If there is
// no room for t, enter returns the bound that t is over, and after how long the
// sender may try again.
func (in *intake) enter(t *task) (bound, time.Duration) {
	in.mu.Lock()
	defer in.mu.Unlock()
	agent, connection := in.agents[t.agent], in.connections[t.connection]
	if agent == nil {
		agent = new(load)
	}
	if connection == nil {
		connection = new(load)
	}
	switch over := in.over(t, agent, connection); over {
	case withinBounds:
	case boundBytes, boundRequests:
		return over, in.pause(&in.all, t)
	default:
		return over, in.pause(agent, t)
	}
	in.agents[t.agent] = agent
	if t.connection != "" {
		in.connections[t.connection] = connection
		connection.add(1, t.bytes)
	}
	if in.all.requests == 0 {
		in.rate.begin()
	}
	agent.add(1, t.bytes)
	in.all.add(1, t.bytes)
	in.report()
	if t.order == "" {
		in.ready(t)
		return withinBounds, 0
	}
	behind, active := in.ordered[t.order]
	if active {
		in.ordered[t.order] = append(behind, t)
		return withinBounds, 0
	}
	in.ordered[t.order] = nil
	in.ready(t)
	return withinBounds, 0
}

// over returns the bound that t is over. A client chooses the agent's name, so only
// the bounds of all and of its connection limit what it takes. The first request of
// an agent may be larger than its share, since the server limits a message anyway.
func (in *intake) over(t *task, agent, connection *load) bound {
	switch {
	case agent.requests >= maxOfAgent, agent.requests > 0 && agent.bytes+t.bytes > maxBytesOfAgent:
		return boundAgent
	case t.connection != "" && (connection.requests >= maxOfConnection || connection.requests > 0 && connection.bytes+t.bytes > maxBytesOfConnection):
		return boundConnection
	case in.all.requests >= maxRequests:
		return boundRequests
	case in.all.bytes+t.bytes > maxBytes:
		return boundBytes
	}
	return withinBounds
}

func (l *load) add(requests, bytes int) {
	l.requests, l.bytes = l.requests+requests, l.bytes+bytes
}

func (in *intake) report() {
	if in.changed != nil {
		in.changed(in.all)
	}
}

// ready puts t behind the waiting tasks of its agent.
func (in *intake) ready(t *task) {
	p := &in.places[t.class]
	line := p.waiting[t.agent]
	if len(line) == 0 {
		p.turns = append(p.turns, t.agent)
	}
	p.waiting[t.agent] = append(line, t)
	in.dispatch(p)
}

// dispatch starts waiting tasks while there are places, one of each agent in turn.
func (in *intake) dispatch(p *places) {
	for len(p.turns) > 0 {
		agent := p.turns[0]
		line := p.waiting[agent]
		t := line[0]
		if p.running > 0 && p.running+t.weight() > p.max {
			return
		}
		line[0], p.turns[0] = nil, ""
		p.turns = p.turns[1:]
		if line = line[1:]; len(line) > 0 {
			p.waiting[agent], p.turns = line, append(p.turns, agent)
		} else {
			delete(p.waiting, agent)
		}
		t.running, p.running = true, p.running+t.weight()
		select {
		case in.next <- t:
		default:
			go in.worker(t)
		}
	}
}

// worker runs t, and then tasks as they come.
func (in *intake) worker(t *task) {
	for ok := true; ok; t, ok = in.wait() {
		in.work(t)
	}
}

// wait returns the next task for a worker; false if the worker is not needed.
func (in *intake) wait() (*task, bool) {
	defer in.idle.Add(-1)
	if in.idle.Add(1) > maxIdle {
		return nil, false
	}
	select {
	case t := <-in.next:
		return t, true
	case <-in.ended:
		return nil, false
	}
}

// weight returns how much of its class t takes.
func (t *task) weight() int {
	if t.class == large {
		return t.bytes
	}
	return 1
}

// work runs t.
func (in *intake) work(t *task) {
	expiry := time.AfterFunc(lease[t.class], func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.release(t)
	})
	defer func() {
		expiry.Stop()
		in.leave(t)
	}()
	t.run()
}

// yield gives the place of t to the next task, since t waits for the disk: the more changes
// wait together, the more of them share a fsync. One over maxYield keeps its place until its
// lease ends: fewer of them wait together. Their memory is bounded by maxBytes.
func (in *intake) yield(t *task) {
	if t.bytes > maxYield {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.release(t)
}

// release gives the place of t to the next task, once.
func (in *intake) release(t *task) {
	if t.running {
		t.running = false
		p := &in.places[t.class]
		p.running -= t.weight()
		in.dispatch(p)
	}
}

// leave ends what enter began.
func (in *intake) leave(t *task) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.all.add(-1, -t.bytes)
	in.rate.add(t.bytes)
	drop(in.agents, t.agent, t.bytes)
	if t.connection != "" {
		drop(in.connections, t.connection, t.bytes)
	}
	in.report()
	if behind := in.ordered[t.order]; t.order != "" && len(behind) > 0 {
		next := behind[0]
		behind[0] = nil
		in.ordered[t.order] = behind[1:]
		in.ready(next)
	} else if t.order != "" {
		delete(in.ordered, t.order)
	}
	in.release(t)
}

// drop takes a request off the load of name.
func drop(loads map[string]*load, name string, bytes int) {
	l := loads[name]
	if l.add(-1, -bytes); l.requests == 0 {
		delete(loads, name)
	}
}

// Bounds on the pause that a refused request is asked for.
const minPause, maxPause = 100 * time.Millisecond, 10 * time.Second

// requestTime is about how long a small request takes.
const requestTime = time.Millisecond

// pause returns when a refused request may try again. Each refused request gets a
// later time than the one before, by the time that its bytes take. So they come back
// one after the other, and not together as one more burst.
func (in *intake) pause(l *load, t *task) time.Duration {
	now := time.Now()
	if earliest := now.Add(minPause); l.next.Before(earliest) {
		l.next = earliest
	}
	d := l.next.Sub(now)
	if l.next = l.next.Add(max(requestTime, in.rate.time(t.bytes))); d > maxPause {
		l.next = now.Add(maxPause)
		return maxPause
	}
	return d
}

// rate measures how many bytes of requests a second the service gets done while it
// has requests.
type rate struct {
	began time.Time
	bytes int
}

// assumedRate is taken for the rate, in bytes a second, while little is measured. It
// is also the least that a measurement counts for.
const assumedRate, leastRate = 32 << 20, 8 << 20

func (r *rate) begin()    { *r = rate{began: time.Now()} }
func (r *rate) add(n int) { r.bytes += n }

// time returns how long n bytes take.
func (r *rate) time(n int) time.Duration {
	perSecond := float64(assumedRate)
	if r.bytes >= maxLargeBytes {
		if took := time.Since(r.began).Seconds(); took > 0 {
			perSecond = max(leastRate, float64(r.bytes)/took)
		}
	}
	return time.Duration(float64(n) / perSecond * float64(time.Second))
}
