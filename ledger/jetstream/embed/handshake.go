package embed

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// handshakeTime is how long a client has from its connect to the end of its TLS
	// handshake, and connectTime how long after that to say who it is.
	handshakeTime, connectTime = 5 * time.Second, 2 * time.Second
	// maxHandshakes is how many connections may be before the end of their handshake.
	maxHandshakes = 256
	// maxInfo bounds what the server says first, in bytes.
	maxInfo = 32 << 10
)

// tlsRequired is what a client gets that goes on without TLS. Clients know the server's
// errors by their text; this one is the server's own.
const tlsRequired = "-ERR 'Secure Connection - TLS Required'\r\n"

// secureConn is a connection after its handshake. Close does not wait for a client that
// takes nothing: it leaves out TLS's own goodbye, which NATS does not need.
type secureConn struct {
	*tls.Conn
	raw net.Conn
}

func (c *secureConn) Close() error { return c.raw.Close() }

// secure does what the NATS protocol has before everything else: the server's INFO in the
// clear, which says that TLS is required, then the handshake. It returns the connection to
// go on with, and what the server said after its INFO, if anything. The caller closes raw.
func secure(raw, inner net.Conn, c *tls.Config) (conn net.Conn, rest []byte, err error) {
	deadline := time.Now().Add(handshakeTime)
	if err := errors.Join(raw.SetDeadline(deadline), inner.SetReadDeadline(deadline)); err != nil {
		return nil, nil, err
	}
	line, rest, err := readInfo(inner)
	if err != nil {
		return nil, nil, err
	}
	if _, err := raw.Write(line); err != nil {
		return nil, nil, err
	}
	secured := tls.Server(raw, c)
	if err := secured.Handshake(); err != nil {
		if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) && plain.Conn != nil {
			sayGoodbye(raw, tlsRequired)
		}
		return nil, nil, fmt.Errorf("TLS handshake: %w", err)
	}
	if err := errors.Join(raw.SetDeadline(time.Time{}), inner.SetReadDeadline(time.Time{})); err != nil {
		return nil, nil, err
	}
	return &secureConn{secured, raw}, rest, nil
}

// goodbyeTime is how long a client that is refused has to read why, and goodbyeBytes how
// much it may send meanwhile: what it sent and nobody read would make the kernel drop the answer.
const (
	goodbyeTime  = time.Second
	goodbyeBytes = 64 << 10
)

// sayGoodbye sends the last words to a client, and waits a little until it has them.
func sayGoodbye(raw net.Conn, words string) {
	if raw.SetDeadline(time.Now().Add(goodbyeTime)) != nil {
		return
	}
	if _, err := io.WriteString(raw, words); err != nil {
		return
	}
	if c, ok := raw.(*net.TCPConn); ok && c.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, raw, goodbyeBytes)
	}
}

// readInfo reads the server's INFO, with tls_required in it, and what follows it.
func readInfo(inner net.Conn) (line, rest []byte, err error) {
	buf, n := make([]byte, maxInfo), 0
	for {
		k, err := inner.Read(buf[n:])
		n += k
		if end := bytes.IndexByte(buf[:n], '\n'); end >= 0 {
			line, rest = buf[:end+1], buf[end+1:n]
			break
		}
		if err == nil && n == len(buf) {
			err = fmt.Errorf("the server's INFO has more than %d bytes", maxInfo)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	members, ok := bytes.CutPrefix(line, []byte("INFO {"))
	if !ok {
		return nil, nil, fmt.Errorf("the server said %q, not its INFO", line)
	}
	return append([]byte(`INFO {"tls_required":true,`), members...), rest, nil
}

// handshakes bounds the connections that have not ended their handshake. A client that
// takes its time keeps none out: over the bound, the oldest connection of the address that has
// most of them is closed. Safe for concurrent use.
type handshakes struct {
	mu      sync.Mutex
	pending []net.Conn // oldest first
}

// begin counts a connection, and returns the one that it closed for it, if it did. The caller
// calls end when the handshake has ended.
func (h *handshakes) begin(conn net.Conn) (end func(), closed net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pending = append(h.pending, conn); len(h.pending) > maxHandshakes {
		i := h.victim()
		closed = h.pending[i]
		_ = closed.Close()
		h.pending = slices.Delete(h.pending, i, i+1)
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.pending = slices.DeleteFunc(h.pending, func(c net.Conn) bool { return c == conn })
	}, closed
}

// victim returns the oldest connection of the address that has most of them.
func (h *handshakes) victim() int {
	n, first := make(map[string]int), make(map[string]int)
	most := ""
	for i, c := range h.pending {
		host := hostOf(c)
		if n[host]++; n[host] == 1 {
			first[host] = i
		}
		if n[host] > n[most] {
			most = host
		}
	}
	return first[most]
}

// errHandshakes: a connection was closed to let another one in.
var errHandshakes = fmt.Errorf("more than %d TLS handshakes at a time: the oldest of the address that has most of them is ended", maxHandshakes)

// refused logs why a client was not let in, at most a line a second: whoever reaches the port
// can be the reason.
func (d *door) refused(conn net.Conn, err error) {
	if errors.Is(err, net.ErrClosed) { // the door closed it, and said so
		return
	}
	now := time.Now().Unix()
	if d.warned.Swap(now) != now {
		d.logger.Warn("a client was not let in", "client", conn.RemoteAddr().String(), "err", err)
	}
}

func hostOf(c net.Conn) string {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return ""
	}
	return host
}
