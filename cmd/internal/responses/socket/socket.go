package socket

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Config is what a server is made from. The zero value of a field is its default.
type Config struct {
	// Max bounds the connections. Where there is no room for a new one, a connection without
	// a request at work goes: of the owner that has most connections among those who have such
	// a one, the one that has had none for longest. If all are at work, the new one is
	// refused. Default: 128.
	Max int
	// MaxMessage bounds a message, in bytes. Default: 8 MiB.
	MaxMessage int64
	// MaxWaiting bounds the messages of a connection that wait while one is at work. It is
	// also read no further while MaxMessage bytes wait. Default: 16.
	MaxWaiting int
	// Lifetime of a connection. A request that is at work then ends first. Default: 60 minutes.
	Lifetime time.Duration
	// Slow is how long a peer may take to send a message that it has begun, to read an event,
	// or to answer a ping. Default: 30 seconds.
	Slow time.Duration
	// Expired is the event that a connection gets at the end of its lifetime; TooLarge the one
	// for a message over MaxMessage. Then the connection is closed.
	// NoRoom is the one where Take refuses.
	Expired, TooLarge, NoRoom []byte
	// Take takes the bytes of an owner's message that comes or waits or is at work, and Give
	// gives them back. Where Take refuses, the connection ends. nil: they are not counted.
	Take func(owner string, n int64) bool
	Give func(owner string, n int64)

	// after returns a channel that gets a value after d, and frees it. nil: the clock's.
	after func(d time.Duration) (<-chan time.Time, func() bool)
}

func (c Config) withDefaults() Config {
	c.Max = cmp.Or(c.Max, 128)
	c.MaxMessage = cmp.Or(c.MaxMessage, 8<<20)
	c.MaxWaiting = cmp.Or(c.MaxWaiting, 16)
	c.Lifetime = cmp.Or(c.Lifetime, time.Hour)
	c.Slow = cmp.Or(c.Slow, 30*time.Second)
	if c.Take == nil {
		c.Take, c.Give = func(string, int64) bool { return true }, func(string, int64) {}
	}
	if c.after == nil {
		c.after = func(d time.Duration) (<-chan time.Time, func() bool) {
			t := time.NewTimer(d)
			return t.C, t.Stop
		}
	}
	return c
}

// Handler serves one message of a connection. It calls send for each event, from one
// goroutine; send fails when the connection is gone. ctx ends with the connection.
type Handler func(ctx context.Context, message []byte, send func(event []byte) error)

// Server holds the connections of a listener. Its methods are safe for concurrent use.
type Server struct {
	cfg Config

	mu     sync.Mutex
	closed bool
	change uint64
	idle   map[*conn]uint64 // those without a request at work: the ordinal of the change to that
	busy   map[*conn]bool   // the others
	serves sync.WaitGroup
}

// New returns a server without connections.
func New(cfg Config) *Server {
	return &Server{cfg: cfg.withDefaults(), idle: make(map[*conn]uint64), busy: make(map[*conn]bool)}
}

// ErrFull: there are [Config.Max] connections, and a request is at work on each.
var ErrFull = errors.New("too many WebSocket connections")

// ErrClosed: the server is closed.
var ErrClosed = errors.New("the server of WebSocket connections is closed")

// IsUpgrade reports whether a request asks for a WebSocket.
func IsUpgrade(r *http.Request) bool {
	return r.Method == http.MethodGet && headerHas(r.Header, "Connection", "upgrade") && headerHas(r.Header, "Upgrade", "websocket")
}

// headerHas reports whether a header lists a word, in whatever case.
func headerHas(h http.Header, name, word string) bool {
	return slices.ContainsFunc(h.Values(name), func(v string) bool {
		for w := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(w), word) {
				return true
			}
		}
		return false
	})
}

// Serve upgrades a request and serves the connection of an owner until it ends. handle gets
// its messages one after the other. Requests of pages of other origins are refused.
//
// The error says why nothing was upgraded. With [ErrFull] and [ErrClosed] nothing was
// written to w; with another one, a refusal was.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, owner string, handle Handler) error {
	// The request's context ends with the server's handler, not with the connection.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	c := &conn{server: s, owner: owner, cancel: cancel, room: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	before, err := s.admit(c)
	if err != nil {
		return err
	}
	defer s.leave(c)
	if before != nil { // its file is free before another one is taken
		before.abort()
		<-before.done
	}
	ws, err := websocket.Accept(&recorder{ResponseWriter: w, conn: c}, r, nil) // no compression: a small message could be a large one
	if err != nil {
		return err
	}
	ws.SetReadLimit(-1) // read bounds each message itself, to say so before it closes
	c.ws = ws
	c.serve(ctx, handle)
	return nil
}

// recorder notes the connection that an upgrade takes over.
type recorder struct {
	http.ResponseWriter
	conn *conn
}

// Hijack implements [http.Hijacker].
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	raw, buffer, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.conn.mu.Lock()
		r.conn.raw = raw
		r.conn.mu.Unlock()
	}
	return raw, buffer, err
}

// Close ends all connections that have no request at work, and the others when it ends or
// at the end of ctx. It returns when none is left.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	var all []*conn
	for c := range s.idle {
		all = append(all, c)
	}
	for c := range s.busy {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		c.end()
	}
	done := make(chan struct{})
	go func() { s.serves.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, c := range all {
		c.abort()
	}
	<-done
	return ctx.Err()
}

// Open returns how many connections there are.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.idle) + len(s.busy)
}

// admit counts c in. It returns the connection that has to go for it, if one has.
func (s *Server) admit(c *conn) (oldest *conn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if len(s.idle)+len(s.busy) >= s.cfg.Max {
		if oldest = s.leaver(c.owner); oldest == nil {
			return nil, ErrFull
		}
		delete(s.idle, oldest)
	}
	s.change++
	s.idle[c] = s.change
	s.serves.Add(1)
	return oldest, nil
}

// leaver returns the connection that gives way to a new one of an owner; nil: none.
func (s *Server) leaver(owner string) (out *conn) {
	count := map[string]int{owner: 1}
	for c := range s.idle {
		count[c.owner]++
	}
	for c := range s.busy {
		count[c.owner]++
	}
	for c, at := range s.idle {
		if out == nil || count[c.owner] > count[out.owner] || count[c.owner] == count[out.owner] && at < s.idle[out] {
			out = c
		}
	}
	return out
}

func (s *Server) leave(c *conn) {
	s.mu.Lock()
	delete(s.idle, c)
	delete(s.busy, c)
	s.mu.Unlock()
	close(c.done)
	s.serves.Done()
}

// mark notes whether a request of c is at work; false: c has to go.
func (s *Server) mark(c *conn, busy bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, idle := s.idle[c]
	if !idle && !s.busy[c] || s.closed && busy {
		return false
	}
	delete(s.idle, c)
	delete(s.busy, c)
	if busy {
		s.busy[c] = true
		return true
	}
	s.change++
	s.idle[c] = s.change
	return true
}

// conn is one connection. Serve owns it: one goroutine reads, one works.
type conn struct {
	server *Server
	owner  string
	ws     *websocket.Conn
	cancel context.CancelFunc
	once   sync.Once
	stop   chan struct{} // closed by end
	done   chan struct{} // closed when nothing of it is left

	mu      sync.Mutex
	raw     net.Conn // nil before the upgrade
	waiting [][]byte
	bytes   int64
	over    error         // why reading ended; nil: it goes on, or the peer is gone
	room    chan struct{} // has a value after each change of what is above
}

// end lets the connection end after the request that is at work.
func (c *conn) end() { c.once.Do(func() { close(c.stop) }) }

// abort ends the connection at once, also one that waits for its peer to say goodbye.
func (c *conn) abort() {
	c.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.raw != nil {
		_ = c.raw.Close()
	}
}

func (c *conn) serve(ctx context.Context, handle Handler) {
	arrived, read := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(read)
		defer c.cancel() // a client that is gone ends the request at work
		c.read(ctx, arrived)
	}()
	code, reason := c.work(ctx, arrived, handle)
	if ctx.Err() != nil {
		_ = c.ws.CloseNow()
	} else {
		_ = c.ws.Close(code, reason) // waits a few seconds for the peer's answer
	}
	c.cancel()
	<-read
	for _, message := range c.waiting {
		c.server.cfg.Give(c.owner, int64(len(message)))
	}
}

// work serves the messages one after the other until the connection has to end. It returns
// how to close it.
func (c *conn) work(ctx context.Context, arrived <-chan struct{}, handle Handler) (websocket.StatusCode, string) {
	cfg := c.server.cfg
	expired, free := cfg.after(cfg.Lifetime)
	defer free()
	send := func(event []byte) error { return c.send(ctx, event) }
	for {
		select { // the end comes before a message that waits
		case <-expired:
			_ = send(cfg.Expired)
			return websocket.StatusPolicyViolation, "the connection has reached its limit"
		case <-c.stop:
			return websocket.StatusGoingAway, "the server ends this connection"
		case <-ctx.Done():
			return websocket.StatusGoingAway, ""
		default:
		}
		message, over, ok := c.next()
		switch {
		case over == errLarge:
			_ = send(cfg.TooLarge)
			return websocket.StatusMessageTooBig, "the message is too large"
		case over != nil:
			_ = send(cfg.NoRoom)
			return websocket.StatusTryAgainLater, "too much is under way"
		case ok:
			stays := c.server.mark(c, true)
			if stays {
				handle(ctx, message, send)
				c.server.mark(c, false)
			}
			cfg.Give(c.owner, int64(len(message)))
			if !stays {
				return websocket.StatusGoingAway, "the server ends this connection"
			}
			continue
		}
		if !c.wait(ctx, arrived, expired) {
			continue
		}
		_ = send(cfg.Expired)
		return websocket.StatusPolicyViolation, "the connection has reached its limit"
	}
}

// wait waits for a message or an end, and asks a quiet peer now and then whether it is
// there. true: the connection has expired.
func (c *conn) wait(ctx context.Context, arrived <-chan struct{}, expired <-chan time.Time) bool {
	quiet, free := c.server.cfg.after(2 * c.server.cfg.Slow)
	defer free()
	select {
	case <-arrived:
	case <-c.stop:
	case <-ctx.Done():
	case <-expired:
		return true
	case <-quiet:
		alive, cancel := context.WithTimeout(ctx, c.server.cfg.Slow)
		defer cancel()
		if err := c.ws.Ping(alive); err != nil {
			c.abort()
		}
	}
	return false
}

// send writes an event. A peer that does not read it in time loses the connection.
func (c *conn) send(ctx context.Context, event []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.server.cfg.Slow)
	defer cancel()
	err := c.ws.Write(ctx, websocket.MessageText, event)
	if err != nil {
		c.abort()
	}
	return err
}

// read reads messages while there is room for them. It returns at the end of the
// connection, or behind a message that is too large.
func (c *conn) read(ctx context.Context, arrived chan<- struct{}) {
	for {
		message, err := c.message(ctx)
		var over error
		if errors.Is(err, errLarge) || errors.Is(err, errNoRoom) {
			over = err
		} else if err != nil {
			return
		}
		c.mu.Lock()
		c.waiting, c.bytes, c.over = append(c.waiting, message), c.bytes+int64(len(message)), over
		full := len(c.waiting) >= c.server.cfg.MaxWaiting || c.bytes >= c.server.cfg.MaxMessage
		c.mu.Unlock()
		select {
		case arrived <- struct{}{}:
		default: // it is going to look
		}
		if over != nil { // nothing more of this peer is read; its end is ours to say
			<-ctx.Done()
			return
		}
		for full {
			select {
			case <-ctx.Done():
				return
			case <-c.room:
			}
			c.mu.Lock()
			full = len(c.waiting) >= c.server.cfg.MaxWaiting || c.bytes >= c.server.cfg.MaxMessage
			c.mu.Unlock()
		}
	}
}

// Why reading ended.
var (
	errLarge  = errors.New("the message is too large")
	errNoRoom = errors.New("the messages of the owner take too much")
)

// message reads one message. The peer may take its time to begin, and not to end.
func (c *conn) message(ctx context.Context) ([]byte, error) {
	_, r, err := c.ws.Reader(ctx)
	if err != nil {
		return nil, err
	}
	slow, free := c.server.cfg.after(c.server.cfg.Slow)
	done := make(chan struct{})
	defer func() { free(); close(done) }()
	go func() {
		select {
		case <-slow:
			c.abort()
		case <-done:
		}
	}()
	t := &taking{r: r, conn: c}
	b, err := io.ReadAll(io.LimitReader(t, c.server.cfg.MaxMessage+1))
	if err == nil && int64(len(b)) > c.server.cfg.MaxMessage {
		err = errLarge
	}
	if err != nil {
		c.server.cfg.Give(c.owner, t.n)
		return nil, err
	}
	return b, nil
}

// taking is a message whose bytes are taken as they come.
type taking struct {
	r    io.Reader
	conn *conn
	n    int64
}

func (t *taking) Read(b []byte) (int, error) {
	n, err := t.r.Read(b)
	if !t.conn.server.cfg.Take(t.conn.owner, int64(n)) {
		return 0, errNoRoom
	}
	t.n += int64(n)
	return n, err
}

// next takes the first message that waits. over is why there is none behind those before.
func (c *conn) next() (message []byte, over error, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		return nil, nil, false
	}
	message, c.waiting = c.waiting[0], c.waiting[1:]
	c.bytes -= int64(len(message))
	select {
	case c.room <- struct{}{}:
	default:
	}
	if len(c.waiting) == 0 {
		over = c.over
	}
	return message, over, true
}
