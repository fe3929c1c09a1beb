package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock makes timers that fire when the test says so, by their duration.
type clock struct {
	mu     sync.Mutex
	timers map[time.Duration][]chan time.Time
	set    chan time.Duration // each timer that is set
}

func newClock() *clock {
	return &clock{timers: make(map[time.Duration][]chan time.Time), set: make(chan time.Duration, 10_000)}
}

func (c *clock) after(d time.Duration) (<-chan time.Time, func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := make(chan time.Time, 1)
	c.timers[d] = append(c.timers[d], t)
	select {
	case c.set <- d:
	default: // nobody awaits so many
	}
	return t, func() bool { return true }
}

// await returns when n timers of a duration are set.
func (c *clock) await(d time.Duration, n int) {
	for n > 0 {
		if <-c.set == d {
			n--
		}
	}
}

// fire lets all timers of a duration go off.
func (c *clock) fire(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.timers[d] {
		select {
		case t <- time.Time{}:
		default:
		}
	}
}

// world is a server with its listener.
type world struct {
	*Server
	url    string
	clock  *clock
	refuse chan error // what Serve returns
}

func start(t *testing.T, cfg Config, handle Handler) *world {
	t.Helper()
	w := &world{clock: newClock(), refuse: make(chan error, 100)}
	cfg.after, cfg.Expired, cfg.TooLarge = w.clock.after, []byte("expired"), []byte("too large")
	w.Server = New(cfg)
	h := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		err := w.Serve(rw, r, r.Header.Get("X-Owner"), handle)
		if errors.Is(err, ErrFull) || errors.Is(err, ErrClosed) {
			http.Error(rw, err.Error(), http.StatusServiceUnavailable)
		}
		w.refuse <- err
	}))
	w.url = h.URL
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = w.Close(ctx)
		h.Close()
	})
	return w
}

func (w *world) dial(t *testing.T) *websocket.Conn { return w.dialAs(t, "") }

func (w *world) dialAs(t *testing.T, owner string) *websocket.Conn {
	t.Helper()
	c, res, err := websocket.Dial(t.Context(), w.url, &websocket.DialOptions{HTTPHeader: http.Header{"X-Owner": {owner}}})
	if err != nil {
		t.Fatalf("%v, %v", err, res)
	}
	c.SetReadLimit(-1)
	t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

// until waits for a state of the server.
func (w *world) until(t *testing.T, ok func() bool) {
	t.Helper()
	for t.Context().Err() == nil {
		w.mu.Lock()
		done := ok()
		w.mu.Unlock()
		if done {
			return
		}
		runtime.Gosched()
	}
}

func say(t *testing.T, c *websocket.Conn, text string) {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c *websocket.Conn) string {
	t.Helper()
	_, b, err := c.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// closed reads until the end, and returns its code.
func closed(t *testing.T, c *websocket.Conn) websocket.StatusCode {
	t.Helper()
	_, b, err := c.Read(t.Context())
	if err == nil {
		t.Fatalf("%q behind the last event", b)
	}
	return websocket.CloseStatus(err)
}

func echo(_ context.Context, message []byte, send func([]byte) error) { _ = send(message) }

// Messages are served one after the other, in their order, however many wait.
func TestMessagesAreServedOneAfterTheOther(t *testing.T) {
	const messages = 100
	var atWork, most atomic.Int32
	w := start(t, Config{MaxWaiting: 3, MaxMessage: 50}, func(_ context.Context, message []byte, send func([]byte) error) {
		most.Store(max(most.Load(), atWork.Add(1)))
		for i := range 3 {
			_ = send(fmt.Appendf(nil, "%s.%d", message, i))
		}
		atWork.Add(-1)
	})
	c := w.dial(t)
	sent := make(chan error, 1)
	go func() {
		for i := range messages {
			if err := c.Write(t.Context(), websocket.MessageText, fmt.Append(nil, i)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for i := range messages {
		for j := range 3 {
			if got, want := hear(t, c), fmt.Sprintf("%d.%d", i, j); got != want {
				t.Fatalf("event %q, want %q", got, want)
			}
		}
	}
	if err := <-sent; err != nil || most.Load() != 1 {
		t.Errorf("%v; %d requests at work at once, want 1", err, most.Load())
	}
}

// While a request is at work, only so much of the client is read: the rest stays with it.
func TestWaitingMessagesAreBounded(t *testing.T) {
	begin, end := make(chan bool), make(chan bool)
	var served atomic.Int32
	w := start(t, Config{MaxWaiting: 2, MaxMessage: 1 << 20}, func(context.Context, []byte, func([]byte) error) {
		if served.Add(1) == 1 {
			begin <- true
			<-end
		}
	})
	c := w.dial(t)
	say(t, c, "first")
	<-begin
	// The kernel's buffers take some; a client that does not stop is stopped by them.
	large := strings.Repeat("x", 1<<20)
	ctx, cancel := context.WithCancel(t.Context())
	blocked := make(chan int, 1)
	go func() {
		n := 0
		for ; c.Write(ctx, websocket.MessageText, []byte(large)) == nil && n < 500; n++ {
		}
		blocked <- n
	}()
	// Half a gigabyte does not go through while nothing is read. To see that without
	// waiting for nothing to happen, the client ends it as soon as its writes stand still at
	// a full queue, which the server's own count shows.
	w.until(t, func() (full bool) {
		for one := range w.busy {
			one.mu.Lock()
			if full = one.bytes >= 1<<20; one.bytes > 2<<20 {
				t.Errorf("%d bytes wait", one.bytes)
			}
			one.mu.Unlock()
		}
		return full
	})
	cancel()
	if n := <-blocked; n >= 500 {
		t.Errorf("%d messages of 1 MiB went through", n)
	}
	close(end)
}

// A connection ends at its limit, with the event, when the request at work is done.
func TestLimitOfAConnection(t *testing.T) {
	begin, end := make(chan bool), make(chan bool)
	w := start(t, Config{}, func(_ context.Context, message []byte, send func([]byte) error) {
		begin <- true
		<-end
		_ = send(message)
	})
	c := w.dial(t)
	say(t, c, "at work")
	<-begin
	say(t, c, "waits")
	w.clock.fire(time.Hour)
	end <- true
	if got := hear(t, c); got != "at work" {
		t.Errorf("%q", got)
	}
	if got := hear(t, c); got != "expired" {
		t.Errorf("%q, want the event of the limit", got)
	}
	if code := closed(t, c); code != websocket.StatusPolicyViolation {
		t.Errorf("code %d", code)
	}

	quiet := w.dial(t)
	w.clock.await(time.Hour, 2) // that of c is the first
	w.clock.fire(time.Hour)
	if got := hear(t, quiet); got != "expired" {
		t.Errorf("%q, want the event of the limit", got)
	}
}

func TestTooLargeMessageIsSaidAndEndsTheConnection(t *testing.T) {
	w := start(t, Config{MaxMessage: 100}, echo)
	c := w.dial(t)
	say(t, c, strings.Repeat("x", 100))
	hear(t, c)
	say(t, c, "small")
	say(t, c, strings.Repeat("x", 101))
	if got := hear(t, c); got != "small" {
		t.Errorf("%q", got)
	}
	if got := hear(t, c); got != "too large" {
		t.Errorf("%q", got)
	}
	if code := closed(t, c); code != websocket.StatusMessageTooBig {
		t.Errorf("code %d", code)
	}
}

// A peer that begins a message and does not end it loses the connection; one that is quiet
// does not.
func TestSlowMessageEndsTheConnection(t *testing.T) {
	w := start(t, Config{}, echo)
	c := w.dial(t)
	wr, err := c.Writer(t.Context(), websocket.MessageText)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wr.Write([]byte(strings.Repeat("x", 10_000))); err != nil {
		t.Fatal(err)
	}
	w.clock.await(30*time.Second, 1)
	w.clock.fire(30 * time.Second)
	if code := closed(t, c); code != -1 {
		t.Errorf("code %d, want none: the connection is cut", code)
	}
}

// A quiet peer is asked whether it is there, and stays if it answers.
func TestQuietPeerIsAsked(t *testing.T) {
	w := start(t, Config{}, echo)
	asked := make(chan bool, 1)
	c, _, err := websocket.Dial(t.Context(), w.url, &websocket.DialOptions{OnPingReceived: func(context.Context, []byte) bool {
		asked <- true
		return true
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	w.clock.await(time.Minute, 1)
	w.clock.fire(time.Minute)
	heard := make(chan string, 1)
	go func() {
		_, b, _ := c.Read(t.Context())
		heard <- string(b)
	}()
	<-asked
	say(t, c, "still here")
	if got := <-heard; got != "still here" {
		t.Errorf("%q", got)
	}
}

// The connection that has been idle for longest gives way; where all are at work, the new
// one is refused.
func TestIdleConnectionsGiveWay(t *testing.T) {
	at, end := make(chan bool), make(chan bool)
	w := start(t, Config{Max: 2}, func(_ context.Context, message []byte, send func([]byte) error) {
		if string(message) == "stay" {
			at <- true
			<-end
		}
		_ = send(message)
	})
	first := w.dial(t)
	say(t, first, "hello")
	hear(t, first)
	w.until(t, func() bool { return len(w.idle) == 1 })
	second := w.dial(t)
	say(t, second, "hello")
	hear(t, second)
	w.until(t, func() bool { return len(w.idle) == 2 })
	third := w.dial(t)
	if code := closed(t, first); code != -1 { // nobody waits for its goodbye
		t.Errorf("the oldest: code %d", code)
	}
	if err := <-w.refuse; err != nil {
		t.Error(err)
	}
	for _, c := range []*websocket.Conn{second, third} {
		say(t, c, "stay")
		<-at
	}
	if _, res, err := websocket.Dial(t.Context(), w.url, nil); err == nil || res == nil || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a third beside two at work: %v, %v", res, err)
	}
	if err := <-w.refuse; !errors.Is(err, ErrFull) {
		t.Errorf("%v, want ErrFull", err)
	}
	close(end)
	for _, c := range []*websocket.Conn{second, third} {
		if got := hear(t, c); got != "stay" {
			t.Errorf("%q", got)
		}
	}
}

// An owner that opens connections takes the room of its own: another's, which is idle for
// longer, stays.
func TestIdleConnectionsOfTheBusiestOwnerGiveWay(t *testing.T) {
	const most = 4
	w := start(t, Config{Max: most}, echo)
	quiet := w.dialAs(t, "quiet")
	for range 5 * most {
		w.dialAs(t, "busy")
	}
	say(t, quiet, "hello")
	if got := hear(t, quiet); got != "hello" {
		t.Errorf("%q", got)
	}
}

// A client that goes away ends the context of its request.
func TestClientThatGoesAwayEndsItsRequest(t *testing.T) {
	begin, ended := make(chan bool), make(chan error)
	w := start(t, Config{}, func(ctx context.Context, _ []byte, send func([]byte) error) {
		begin <- true
		<-ctx.Done()
		ended <- send([]byte("nobody reads this"))
	})
	c := w.dial(t)
	say(t, c, "hello")
	<-begin
	_ = c.CloseNow()
	if err := <-ended; err == nil {
		t.Error("an event was sent to a client that is gone")
	}
	if err := <-w.refuse; err != nil || w.Open() != 0 {
		t.Errorf("%v, %d connections", err, w.Open())
	}
}

// Close lets a request at work end, and takes no connection after it.
func TestCloseLetsARequestEnd(t *testing.T) {
	begin, end := make(chan bool), make(chan bool)
	w := start(t, Config{}, func(_ context.Context, message []byte, send func([]byte) error) {
		begin <- true
		<-end
		_ = send(message)
	})
	idle, busy := w.dial(t), w.dial(t)
	say(t, busy, "last")
	<-begin
	done := make(chan error, 1)
	go func() { done <- w.Close(t.Context()) }()
	if code := closed(t, idle); code != websocket.StatusGoingAway {
		t.Errorf("idle: code %d", code)
	}
	if _, res, err := websocket.Dial(t.Context(), w.url, nil); err == nil || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a connection behind Close: %v, %v", res, err)
	}
	end <- true
	if got := hear(t, busy); got != "last" {
		t.Errorf("%q", got)
	}
	if code := closed(t, busy); code != websocket.StatusGoingAway {
		t.Errorf("busy: code %d", code)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A page of another origin gets no socket.
func TestOtherOriginsAreRefused(t *testing.T) {
	w := start(t, Config{}, echo)
	for origin, ok := range map[string]bool{w.url: true, "https://evil.example": false, "null": false} {
		c, res, err := websocket.Dial(t.Context(), w.url, &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {origin}}})
		if (err == nil) != ok || !ok && res.StatusCode != http.StatusForbidden {
			t.Errorf("origin %s: %v, %v", origin, res, err)
		}
		if err == nil {
			_ = c.CloseNow()
		}
	}
}

// Frames that break the protocol end their connection, and no other.
func TestBrokenFramesEndTheirConnection(t *testing.T) {
	w := start(t, Config{}, echo)
	neighbour := w.dial(t)
	for name, frame := range map[string]string{"unmasked": "\x81\x01x", "reserved bits": "\xf1\x81\x00\x00\x00\x00x", "an unknown kind": "\x83\x80\x00\x00\x00\x00",
		"a length without end": "\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00", "a continuation of nothing": "\x80\x80\x00\x00\x00\x00", "a long ping": "\x89\xfe\xff\xff\x00\x00\x00\x00"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n%s", strings.TrimPrefix(w.url, "http://"), frame)
		if err := <-w.refuse; err != nil { // the server let it go
			t.Errorf("%s: %v", name, err)
		}
		say(t, neighbour, name)
		if got := hear(t, neighbour); got != name {
			t.Errorf("%q, want %q", got, name)
		}
	}
}

func TestUpgradesAreRecognized(t *testing.T) {
	for _, tc := range []struct {
		method, connection, upgrade string
		want                        bool
	}{
		{"GET", "keep-alive, Upgrade", "WebSocket", true},
		{"GET", "upgrade", "h2c", false},
		{"GET", "close", "websocket", false},
		{"POST", "upgrade", "websocket", false},
	} {
		r := httptest.NewRequest(tc.method, "/", nil)
		r.Header.Set("Connection", tc.connection)
		r.Header.Set("Upgrade", tc.upgrade)
		if got := IsUpgrade(r); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}
