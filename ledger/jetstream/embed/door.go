package embed

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// door is the listener for clients. It does their TLS handshake, if there is TLS, and
// passes their bytes on to the server, as fast as the flow allows. The server itself does not
// listen, and knows nothing of TLS: else the door could not see where a message begins.
type door struct {
	listener   net.Listener
	flow       *flow
	tls        *tls.Config // nil: without TLS
	handshakes handshakes
	logger     *slog.Logger
	warned     atomic.Int64 // the second of the last line about a client that was not let in
	running    sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil once nobody is let in any more
	ever  uint64            // how many came in
}

// openDoor listens. Clients that connect wait until open.
func openDoor(listen string, secured *tls.Config, logger *slog.Logger) (*door, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	return &door{listener: l, flow: newFlow(), tls: secured, logger: logger, conns: make(map[net.Conn]bool)}, nil
}

// open lets clients in.
func (d *door) open(s *server.Server) {
	d.running.Go(func() {
		for {
			conn, err := d.listener.Accept()
			switch {
			case errors.Is(err, net.ErrClosed):
				return
			case err != nil: // as too many open files
				<-time.After(acceptPause)
				continue
			}
			d.running.Go(func() { d.admit(s, conn) })
		}
	})
}

// acceptPause is the pause after a connection could not be accepted.
const acceptPause = 50 * time.Millisecond

func (d *door) admit(s *server.Server, conn net.Conn) {
	d.mu.Lock()
	if d.conns == nil {
		d.mu.Unlock()
		_ = conn.Close()
		return
	}
	d.conns[conn] = true
	d.ever++
	d.mu.Unlock()
	if inner, err := s.InProcessConn(); err == nil {
		d.pass(conn, inner)
	}
	_ = conn.Close()
	d.mu.Lock()
	delete(d.conns, conn)
	d.mu.Unlock()
}

// pass lets a client and the server talk until one of them ends.
func (d *door) pass(raw, inner net.Conn) {
	defer inner.Close()
	conn, greeting := raw, []byte(nil)
	if d.tls != nil {
		end, closed := d.handshakes.begin(raw)
		if closed != nil {
			d.refused(closed, errHandshakes)
		}
		var err error
		conn, greeting, err = secure(raw, inner, d.tls)
		if end(); err != nil {
			d.refused(raw, err)
			return
		}
	}
	if len(greeting) > 0 {
		if _, err := conn.Write(greeting); err != nil {
			return
		}
	}
	d.flow.serve(conn, inner)
}

// clients returns how many clients are connected, and how many ever were.
func (d *door) clients() (open int, ever uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.conns), d.ever
}

// quiesce lets no one in any more if no client is connected, and reports whether that is so. A client that
// connects later is cut off before it is greeted.
func (d *door) quiesce() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.conns) > 0 {
		return false
	}
	d.conns = nil
	return true
}

// stop lets no one in any more. The server closes its connections.
func (d *door) stop() {
	_ = d.listener.Close()
	d.flow.stop()
}

// wait closes what is left, and waits until everything has ended. The server was
// shut down before.
func (d *door) wait() {
	d.mu.Lock()
	for conn := range d.conns {
		_ = conn.Close()
	}
	d.conns = nil
	d.mu.Unlock()
	d.running.Wait()
}
