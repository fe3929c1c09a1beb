package socket

import (
	"bufio"
	"context"
	"flag"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

var connections = flag.Int("connections", 300, "WebSocket connections that one client opens and keeps (10000: 3 s; needs as many files)")

// A client that opens connections and keeps them takes the room of idle ones only: a
// neighbour with a request at work stays, and one that comes is served.
func TestManyConnectionsKeepNobodyOut(t *testing.T) {
	const most = 16
	begin, end := make(chan bool), make(chan bool)
	w := start(t, Config{Max: most}, func(_ context.Context, message []byte, send func([]byte) error) {
		if string(message) == "long" {
			begin <- true
			<-end
		}
		_ = send(message)
	})
	neighbour := w.dial(t)
	say(t, neighbour, "long")
	<-begin
	address := strings.TrimPrefix(w.url, "http://")
	var kept []net.Conn
	defer func() {
		for _, c := range kept {
			c.Close()
		}
	}()
	drained := make(chan bool)
	defer func() { <-drained }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // what Serve returns for each
		defer close(drained)
		for {
			select {
			case <-w.refuse:
			case <-ctx.Done():
				return
			}
		}
	}()
	for i := range *connections {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, c)
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+address+"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("connection %d: %v, %v", i, res, err)
		}
		if open := w.Open(); open > most {
			t.Fatalf("%d connections count, want at most %d", open, most)
		}
	}
	late := w.dial(t)
	say(t, late, "hello")
	if got := hear(t, late); got != "hello" {
		t.Errorf("%q", got)
	}
	close(end)
	if got := hear(t, neighbour); got != "long" {
		t.Errorf("%q", got)
	}
}
