package socket

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// raw opens a connection and upgrades it with more headers. The test writes the frames itself.
func (w *world) raw(t *testing.T, headers string) (net.Conn, *bufio.Reader, *http.Response) {
	t.Helper()
	address := strings.TrimPrefix(w.url, "http://")
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil { // in place of a test that hangs
		t.Fatal(err)
	}
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n%s\r\n", address, headers)
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", res, err)
	}
	return c, r, res
}

// Bits of a frame's first byte, and its kinds. Source: RFC 6455, section 5.2.
const (
	final, continuation, text, ping = 0x80, 0, 1, 9
)

// frame is a frame of a client with zeros as its mask.
func frame(first byte, payload string) []byte {
	b := []byte{first, 0x80 | 126}
	b = binary.BigEndian.AppendUint16(b, uint16(len(payload)))
	if len(payload) < 126 {
		b = []byte{first, 0x80 | byte(len(payload))}
	}
	return append(append(b, 0, 0, 0, 0), payload...)
}

// Fragments are one message, with one bound and one time for all of them.
func TestFragmentsWithoutEndEndTheirConnection(t *testing.T) {
	w := start(t, Config{MaxMessage: 1 << 10}, echo)
	neighbour := w.dial(t)
	c, r, _ := w.raw(t, "")
	long := frame(text, strings.Repeat("x", 500))
	for range 3 {
		long = append(long, frame(continuation, strings.Repeat("x", 500))...)
	}
	if _, err := c.Write(long); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 2+len("too large"))
	if _, err := io.ReadFull(r, said); err != nil || string(said[2:]) != "too large" {
		t.Errorf("%q, %v", said, err)
	}
	empty, r, _ := w.raw(t, "")
	many := append(frame(text, ""), bytes.Repeat(frame(continuation, ""), 10_000)...)
	if _, err := empty.Write(many); err != nil {
		t.Fatal(err)
	}
	w.clock.await(30*time.Second, 2) // that of the long one, and this one
	w.clock.fire(30 * time.Second)
	if b, err := io.ReadAll(r); len(b) != 0 || err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("%q, %v: want the end", b, err)
	}
	say(t, neighbour, "hello")
	if got := hear(t, neighbour); got != "hello" {
		t.Errorf("%q", got)
	}
}

// Pings are answered one by one, and are no messages: they take no room and no turn.
func TestPingsInAFloodAreAnswered(t *testing.T) {
	w := start(t, Config{MaxWaiting: 1}, echo)
	neighbour := w.dial(t)
	c, r, _ := w.raw(t, "")
	const most = 10_000
	go func() {
		_, _ = c.Write(append(bytes.Repeat(frame(final|ping, ""), most), frame(final|text, "the end")...))
	}()
	for i := range most {
		b := make([]byte, 2)
		if _, err := io.ReadFull(r, b); err != nil || b[0] != 0x8a || b[1] != 0 {
			t.Fatalf("reply %d to a ping: %x, %v", i, b, err)
		}
		if i == most/2 {
			say(t, neighbour, "hello")
			if got := hear(t, neighbour); got != "hello" {
				t.Errorf("%q", got)
			}
		}
	}
	b := make([]byte, 2+len("the end"))
	if _, err := io.ReadFull(r, b); err != nil || string(b[2:]) != "the end" {
		t.Errorf("%q, %v", b, err)
	}
}

// Nothing is compressed: a small frame can't be a large message.
func TestCompressionIsNotNegotiated(t *testing.T) {
	w := start(t, Config{}, echo)
	c, r, res := w.raw(t, "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits, x-webkit-deflate-frame\r\n")
	if got := res.Header.Get("Sec-WebSocket-Extensions"); got != "" {
		t.Errorf("extensions %q", got)
	}
	if _, err := c.Write(frame(final|0x40|text, "compressed")); err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(r) // its error is that of a connection that was closed
	if len(b) < 4 || b[0] != 0x88 || binary.BigEndian.Uint16(b[2:]) != 1002 {
		t.Errorf("%x, want a close with 1002", b)
	}
}
