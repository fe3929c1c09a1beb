package web

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
)

// Connections bounds the connections of a listener. Each takes a file of the process, also
// of a client that has no token, and the ledger needs files for its streams and its own
// clients. There are two kinds:
//
//	open      nobody sent a whole request: no byte, a part of a header or, without tokens, a
//	          part of a body; also one that waits for its client's next request
//	admitted  a request with a token, its body whole or not; or without tokens a whole one
//
// Where there is no room for a new connection, an open one goes: the oldest of the address
// that has most of them. So whoever opens connections keeps nobody out, and ends no request
// that was admitted. At most three quarters are admitted; then the agent that has most of
// them makes room for others. Safe for concurrent use.
type Connections struct {
	Max int

	mu      sync.Mutex
	next    uint64
	conns   map[net.Conn]*connection
	closing map[net.Conn]bool // closed here, and not yet gone
	gone    *sync.Cond        // one of closing is gone
}

// maxClosing bounds the connections that were closed and still have their file: their
// goroutine has to run once.
const maxClosing = 32

// connection is what is known of one. Its fields are guarded by the mutex of its Connections.
type connection struct {
	host   string
	since  uint64             // the ordinal of its last change of state
	agent  [2]string          // tenant and agent of an admitted one
	state  admission          //
	cancel context.CancelFunc // ends the request at work; nil: there is none
}

type admission int

const (
	open       admission = iota
	unfinished           // admitted, and its body did not come whole yet
	working              // admitted, its request is whole
)

type connKey struct{}

// Context is what a server calls as its ConnContext: [Guard] finds the connection in it.
func (c *Connections) Context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// Changed is what a server calls as its ConnState. For a new connection it waits until of
// those that it closed nearly all are gone.
func (c *Connections) Changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conns == nil {
		c.conns, c.closing, c.gone = make(map[net.Conn]*connection), make(map[net.Conn]bool), sync.NewCond(&c.mu)
	}
	if state == http.StateClosed || state == http.StateHijacked {
		delete(c.conns, conn)
		delete(c.closing, conn)
		c.gone.Broadcast()
		return
	}
	e := c.conns[conn]
	switch state {
	case http.StateNew:
		if len(c.conns) >= c.Max {
			if out := c.oldestOpen(); out != nil {
				c.close(out)
			} else {
				c.closing[conn] = true
				shut(conn)
				return
			}
		}
		e = &connection{host: hostOf(conn)}
		c.conns[conn] = e
		c.stamp(e)
		for len(c.closing) >= maxClosing {
			c.gone.Wait()
		}
	case http.StateIdle:
		if e != nil { // else it was closed here
			*e = connection{host: e.host}
			c.stamp(e)
		}
	}
}

func (c *Connections) stamp(e *connection) {
	c.next++
	e.since = c.next
}

// close closes a connection and ends its request. Its place is free at once.
func (c *Connections) close(conn net.Conn) {
	e := c.conns[conn]
	delete(c.conns, conn)
	if e.state == open { // the handler of an admitted one may take a while to end
		c.closing[conn] = true
	}
	if e.cancel != nil {
		e.cancel()
	}
	shut(conn)
}

// shut ends a connection; the server sees that. A TLS connection would say goodbye, and wait.
func shut(conn net.Conn) {
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = t.NetConn()
	}
	_ = conn.Close()
}

// oldestOpen returns the oldest open connection of the address that has most of them; nil:
// there is none.
func (c *Connections) oldestOpen() (out net.Conn) {
	count := make(map[string]int)
	for _, e := range c.conns {
		if e.state == open {
			count[e.host]++
		}
	}
	for conn, e := range c.conns {
		if e.state != open {
			continue
		}
		if b := c.conns[out]; b == nil || count[e.host] > count[b.host] || count[e.host] == count[b.host] && e.since < b.since {
			out = conn
		}
	}
	return out
}

// admit says who sent the request r. The request that it returns ends when the connection
// has to go; done frees it. false: the agent has its share, and all of its requests are at
// work.
func (c *Connections) admit(r *http.Request, by Caller) (_ *http.Request, done func(), ok bool) {
	if c == nil {
		return r, func() {}, true
	}
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.conns[conn]
	if e == nil { // closed meanwhile
		return r, func() {}, true
	}
	state := working
	if r.ContentLength != 0 {
		state = unfinished
	}
	agent := [2]string{by.Tenant, by.Agent}
	if by.Name != "" || state == working { // without a token, a part of a body is worth nothing
		ok = c.enter(e, agent, state)
	} else {
		ok = !c.full() || c.leaver(agent) != nil
	}
	if !ok {
		return r, nil, false
	}
	ctx, cancel := context.WithCancel(r.Context())
	e.cancel = cancel
	r = r.WithContext(ctx)
	if state == unfinished {
		r.Body = &noticed{ReadCloser: r.Body, left: r.ContentLength, whole: func() { c.whole(conn, e, agent) }}
	}
	return r, cancel, true
}

// whole says that the request of a connection came whole. Where its agent has no room, it
// stays what it is.
func (c *Connections) whole(conn net.Conn, e *connection, agent [2]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.conns[conn] != e:
	case e.state == unfinished:
		e.state = working
		c.stamp(e)
	case e.state == open:
		c.enter(e, agent, working)
	}
}

// enter admits e, and closes a connection for it if that is needed and fair.
func (c *Connections) enter(e *connection, agent [2]string, state admission) bool {
	if c.full() {
		out := c.leaver(agent)
		if out == nil {
			return false
		}
		c.close(out)
	}
	e.agent, e.state = agent, state
	c.stamp(e)
	return true
}

// full reports whether no more may be admitted.
func (c *Connections) full() bool {
	n := 0
	for _, e := range c.conns {
		if e.state != open {
			n++
		}
	}
	return n >= max(1, c.Max*3/4)
}

// leaver returns the admitted connection that makes room for one more of an agent, of the
// agent that then has most: the oldest whose request did not come whole, else, of another
// agent, the one that is at work for the shortest time. nil: the agent itself has most.
func (c *Connections) leaver(agent [2]string) (out net.Conn) {
	count := map[[2]string]int{agent: 1}
	for _, e := range c.conns {
		if e.state != open {
			count[e.agent]++
		}
	}
	most := agent
	for a, n := range count {
		if n > count[most] {
			most = a
		}
	}
	var last net.Conn
	for conn, e := range c.conns {
		if e.state == open || e.agent != most {
			continue
		}
		if e.state == unfinished && (out == nil || e.since < c.conns[out].since) {
			out = conn
		}
		if e.state == working && (last == nil || e.since > c.conns[last].since) {
			last = conn
		}
	}
	if out == nil && most != agent {
		out = last
	}
	return out
}

// noticed is a body that says when all of it was read.
type noticed struct {
	io.ReadCloser
	left  int64 // bytes that are to come; negative: unknown
	whole func()
	once  sync.Once
}

func (n *noticed) Read(b []byte) (int, error) {
	k, err := n.ReadCloser.Read(b)
	if n.left > 0 {
		n.left -= int64(k)
	}
	if err == io.EOF || n.left == 0 {
		n.once.Do(n.whole)
	}
	return k, err
}

func hostOf(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return ""
	}
	return host
}
