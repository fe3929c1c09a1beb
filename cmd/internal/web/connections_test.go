package web

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"
)

// listen serves h behind a guard whose listener has at most most connections, and returns
// its address.
func listen(t *testing.T, g *Guard, most int, h http.HandlerFunc) string {
	t.Helper()
	g.Connections = &Connections{Max: most}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: g.Handler(h), ConnState: g.Connections.Changed, ConnContext: g.Connections.Context}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-ended); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// dial opens a connection and says something.
func dial(t *testing.T, address, say string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil { // in place of a test that hangs
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, say); err != nil {
		t.Fatal(err)
	}
	return c
}

// post is the beginning of a request with a body of ten bytes.
func post(secret string) string {
	return "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n" + bearer(secret)
}

func getOf(secret string) string { return "GET / HTTP/1.1\r\nHost: localhost\r\n" + bearer(secret) }

func bearer(secret string) string {
	if secret == "" {
		return "\r\n"
	}
	return "Authorization: Bearer " + secret + "\r\n\r\n"
}

// answered reads a reply, and returns its status.
func answered(t *testing.T, c net.Conn) int {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Error(err)
	}
	return res.StatusCode
}

// isEnded blocks until the server ended a connection, and says whether it did so without a reply.
func isEnded(c net.Conn) bool {
	n, err := c.Read(make([]byte, 1))
	timeout := net.Error(nil)
	return n == 0 && err != nil && !(errors.As(err, &timeout) && timeout.Timeout())
}

// reads is a handler that says on at when a request arrived, and reads its body.
func reads(at chan<- string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, _ := CallerOf(r.Context())
		at <- c.Agent
		if _, err := io.ReadAll(r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// Clients that open connections and keep them take no more files than the bound, and keep
// nobody out.
func TestConnectionsThatAreKeptOpenGiveWay(t *testing.T) {
	const most = 4
	address := listen(t, new(Guard), most, func(http.ResponseWriter, *http.Request) {})
	var kept []net.Conn
	for i := range 3 * most {
		kept = append(kept, dial(t, address, []string{"", "GET / HT", "GET / HTTP/1.1\r\nHost: localhost\r\nX-A: b"}[i%3]))
	}
	for _, c := range kept[:2*most] {
		if !isEnded(c) {
			t.Error("a connection was answered, or stays")
		}
	}
	for range 3 {
		if got := answered(t, dial(t, address, getOf(""))); got != http.StatusOK {
			t.Errorf("beside %d open connections: %d", most, got)
		}
	}
}

// Without tokens a body that does not come whole is no request yet: it gives way to a new
// connection, the oldest first. Before, bodies that dripped kept all others out.
func TestBodiesThatDripGiveWayWhereThereAreNoTokens(t *testing.T) {
	const most = 4
	at := make(chan string, 3*most)
	address := listen(t, &Guard{Anyone: &Caller{Agent: "main", Scope: Write}}, most, reads(at))
	var dripping []net.Conn
	for range most {
		dripping = append(dripping, dial(t, address, post("")+"12345"))
		<-at
	}
	if got := answered(t, dial(t, address, getOf(""))); got != http.StatusOK {
		t.Errorf("beside bodies that drip: %d", got)
	}
	if !isEnded(dripping[0]) {
		t.Error("the oldest of them stays")
	}
	if _, err := io.WriteString(dripping[most-1], "67890"); err != nil {
		t.Fatal(err)
	}
	if got := answered(t, dripping[most-1]); got != http.StatusOK {
		t.Errorf("the newest of them: %d", got)
	}
}

// A client that has begun a request with a token is not thrown out by those without one,
// however many they are.
func TestARequestWithATokenOutlivesConnectionsWithout(t *testing.T) {
	secret, at := NewSecret(), make(chan string, 1)
	g := &Guard{Tokens: []Token{{Hash(secret), Caller{"ci", "default", "main", Write}}}}
	address := listen(t, g, 4, reads(at))
	honest := dial(t, address, post(secret)+"12345")
	<-at
	for i := range 100 {
		dial(t, address, []string{"", "POST /", post("")[:40]}[i%3])
	}
	// The last of the connections without a token was accepted before this one.
	if got := answered(t, dial(t, address, getOf(secret))); got != http.StatusOK {
		t.Errorf("a second request with the token: %d", got)
	}
	<-at
	if _, err := io.WriteString(honest, "67890"); err != nil {
		t.Fatal(err)
	}
	if got := answered(t, honest); got != http.StatusOK {
		t.Errorf("the first request with the token: %d", got)
	}
}

// Of the requests with tokens, those of the agent that has most make room for the others: the
// oldest that did not come whole, then the newest that is at work.
func TestAnAgentWithManyRequestsMakesRoomForOthers(t *testing.T) {
	many, few := NewSecret(), NewSecret()
	for name, tc := range map[string]struct {
		request string
		victim  int
	}{"parts of bodies": {post(many) + "12345", 0}, "at work": {getOf(many), 2}} {
		t.Run(name, func(t *testing.T) {
			g := &Guard{Tokens: []Token{{Hash(many), Caller{"a", "default", "many", Write}}, {Hash(few), Caller{"b", "default", "few", Write}}}}
			at, release := make(chan string, 8), make(chan bool)
			address := listen(t, g, 4, func(w http.ResponseWriter, r *http.Request) {
				c, _ := CallerOf(r.Context())
				at <- c.Agent
				if _, err := io.ReadAll(r.Body); err != nil {
					panic(http.ErrAbortHandler)
				}
				if c.Agent == "many" {
					select {
					case <-release:
					case <-r.Context().Done():
						panic(http.ErrAbortHandler)
					}
				}
			})
			var kept []net.Conn
			for range 3 { // three quarters of all
				kept = append(kept, dial(t, address, tc.request))
				<-at
			}
			if got := answered(t, dial(t, address, getOf(few))); got != http.StatusOK {
				t.Errorf("the other agent: %d", got)
			}
			if !isEnded(kept[tc.victim]) {
				t.Errorf("request %d stays", tc.victim)
			}
			close(release)
		})
	}
}

// An agent whose requests are all at work is refused one more, in words that say when to try
// again, and none of them ends.
func TestAnAgentAtItsShareIsRefused(t *testing.T) {
	secret, at, release := NewSecret(), make(chan bool), make(chan bool)
	g := &Guard{Tokens: []Token{{Hash(secret), Caller{"a", "default", "main", Write}}}}
	address := listen(t, g, 4, func(http.ResponseWriter, *http.Request) {
		at <- true
		<-release
	})
	var kept []net.Conn
	for range 3 {
		kept = append(kept, dial(t, address, getOf(secret)))
		<-at
	}
	for _, request := range []string{getOf(secret), post(secret) + "12345"} {
		if got := answered(t, dial(t, address, request)); got != http.StatusTooManyRequests {
			t.Errorf("one more: %d", got)
		}
	}
	close(release)
	for _, c := range kept {
		if got := answered(t, c); got != http.StatusOK {
			t.Errorf("one at work: %d", got)
		}
	}
}

// from is a connection of an address.
type from struct {
	net.Conn
	host   string
	closed bool
}

func (f *from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.host), Port: 1} }
func (f *from) Close() error         { f.closed = true; return nil }

// The connection that gives way is one of the address that has most: an address with a few
// is not thrown out by one with many, though its own are older.
func TestTheBusiestAddressGivesWay(t *testing.T) {
	c := &Connections{Max: 8}
	quiet := []*from{{host: "192.0.2.1"}, {host: "192.0.2.2"}}
	for _, f := range quiet {
		c.Changed(f, http.StateNew)
	}
	var busy []*from
	for range 30 {
		f := &from{host: "192.0.2.9"}
		busy = append(busy, f)
		c.Changed(f, http.StateNew)
		for _, f := range busy { // as a server does for what is closed
			if f.closed {
				c.Changed(f, http.StateClosed)
			}
		}
	}
	for _, f := range quiet {
		if f.closed {
			t.Errorf("%s had to go", f.host)
		}
	}
	for i, f := range busy {
		if f.closed != (i < 24) {
			t.Errorf("connection %d of the busy one: closed %v", i, f.closed)
		}
	}
	if len(c.conns) != 8 || len(c.closing) != 0 {
		t.Errorf("%d connections, %d closing", len(c.conns), len(c.closing))
	}
}

// A new connection waits while too many are closed and not gone: their files count too.
func TestFilesOfClosedConnectionsAreBounded(t *testing.T) {
	c := &Connections{Max: 2}
	var all []*from
	for range 2 + maxClosing - 1 {
		all = append(all, &from{host: "192.0.2.9"})
		c.Changed(all[len(all)-1], http.StateNew)
	}
	last, in := &from{host: "192.0.2.9"}, make(chan bool)
	go func() { c.Changed(last, http.StateNew); close(in) }()
	for waits := false; !waits; { // until it stands among the connections, and so behind the closing ones
		c.mu.Lock()
		waits = c.conns[last] != nil
		n := len(c.closing)
		c.mu.Unlock()
		if waits && n != maxClosing {
			t.Fatalf("%d are closing", n)
		}
		runtime.Gosched()
	}
	select {
	case <-in:
		t.Error("it did not wait")
	default:
	}
	c.Changed(all[0], http.StateClosed)
	<-in
}

// A request of nobody who keeps its body back is answered at once, and its connection ends:
// else it would be at work while the server waits for the body, and keep others out.
func TestABodyOfNobodyIsNotWaitedFor(t *testing.T) {
	guard := new(Guard)
	s := httptest.NewServer(guard.Handler(Require(Read, http.NotFoundHandler())))
	defer s.Close()
	for _, length := range []string{"Content-Length: 1000", "Transfer-Encoding: chunked"} {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil { // in place of a test that hangs
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\n"+length+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(c)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("%s: %v", length, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusUnauthorized || !res.Close {
			t.Errorf("%s: %s, closed %v, %v", length, res.Status, res.Close, err)
		}
		res.Body.Close()
		if _, err := r.ReadByte(); err != io.EOF {
			t.Errorf("%s: %v behind the reply, want its end", length, err)
		}
	}
}
