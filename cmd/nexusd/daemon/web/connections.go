package web

import (
	"net"
	"net/http"
	"sync"
)

// Connections bounds the connections of a listener. Each takes a file of the process, also
// of a client that has no token, and the ledger needs files for its streams and its own
// clients. Where there is no room for a new one, the connection goes that has had no request
// at work for longest; if all are at work, the new one. So nobody keeps others out by
// opening more.
type Connections struct {
	Max int

	mu    sync.Mutex
	next  uint64
	since map[net.Conn]uint64 // of those without a request at work: the ordinal of the change to that
	busy  map[net.Conn]bool   // the others
}

// Changed is what a server calls as its ConnState.
func (c *Connections) Changed(conn net.Conn, state http.ConnState) {
	if out := c.change(conn, state); out != nil {
		// The server sees the end of it. A TLS connection would say goodbye, and wait.
		if t, ok := out.(interface{ NetConn() net.Conn }); ok {
			out = t.NetConn()
		}
		_ = out.Close()
	}
}

// change notes the state of a connection, and returns one to close; nil: none.
func (c *Connections) change(conn net.Conn, state http.ConnState) (out net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since == nil {
		c.since, c.busy = make(map[net.Conn]uint64), make(map[net.Conn]bool)
	}
	delete(c.since, conn)
	delete(c.busy, conn)
	switch state {
	case http.StateActive:
		c.busy[conn] = true
	case http.StateNew, http.StateIdle:
		if state == http.StateNew && len(c.since)+len(c.busy) >= c.Max {
			if out = c.oldest(); out == nil {
				return conn
			}
			delete(c.since, out)
		}
		c.next++
		c.since[conn] = c.next
	}
	return out
}

func (c *Connections) oldest() (out net.Conn) {
	for conn, at := range c.since {
		if out == nil || at < c.since[out] {
			out = conn
		}
	}
	return out
}
