package web

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Clients that open connections and keep them take no more files than the bound, and keep
// nobody out.
func TestConnectionsThatAreKeptOpenGiveWay(t *testing.T) {
	const most = 4
	open := &Connections{Max: most}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ConnState = open.Changed
	s.StartTLS()
	defer s.Close()
	address := s.Listener.Addr().String()
	var kept []net.Conn
	for range 3 * most { // they say nothing
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		kept = append(kept, c)
	}
	for _, c := range kept[:2*most] {
		if _, err := c.Read(make([]byte, 1)); err == nil { // blocks until it is closed
			t.Error("a connection said something")
		}
	}
	for range 3 {
		res, err := s.Client().Get(s.URL)
		if err != nil {
			t.Fatalf("beside %d open connections: %v", most, err)
		}
		if err := errors.Join(res.Body.Close()); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("%s, %v", res.Status, err)
		}
		s.Client().CloseIdleConnections()
	}
}

// A connection whose request is at work stays; a new one gives way to it.
func TestAConnectionAtWorkStays(t *testing.T) {
	open := &Connections{Max: 1}
	at, answer := make(chan bool), make(chan bool)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		at <- true
		<-answer
	}))
	s.Config.ConnState = open.Changed
	s.Start()
	defer s.Close()
	first, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if _, err := io.WriteString(first, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-at
	second, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, err := second.Read(make([]byte, 1)); err == nil {
		t.Error("the second connection is served")
	}
	answer <- true
	res, err := http.ReadResponse(bufio.NewReader(first), nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusOK {
		t.Error(res.Status)
	}
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
