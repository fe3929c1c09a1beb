package embed

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	host   string
	closed bool
}

func (a *addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(a.host), Port: 1} }
func (a *addressed) Close() error         { a.closed = true; return nil }

// Over the bound, the oldest handshake of the address that has most of them is ended, so that
// neither another address nor a newer client waits for it.
func TestTheOldestHandshakeOfTheBusiestAddressGivesWay(t *testing.T) {
	var h handshakes
	begin := func(host string) (*addressed, func()) {
		c := &addressed{host: host}
		end, closed := h.begin(c)
		if len(h.pending) > maxHandshakes {
			t.Fatalf("%d handshakes at a time", len(h.pending))
		}
		if closed != nil && !closed.(*addressed).closed {
			t.Fatal("a handshake that is not counted is not closed")
		}
		return c, end
	}
	quiet, endQuiet := begin("10.0.0.1")
	var busy []*addressed
	for range 3 * maxHandshakes {
		c, _ := begin("10.0.0.2")
		busy = append(busy, c)
	}
	late, _ := begin("10.0.0.3")
	if quiet.closed || late.closed {
		t.Error("the handshake of another address was ended")
	}
	for i, c := range busy {
		if want := i < len(busy)-(maxHandshakes-2); c.closed != want {
			t.Fatalf("handshake %d of %d was ended: %v, want %v", i, len(busy), c.closed, want)
		}
	}
	endQuiet()
	endQuiet()
	if n := len(h.pending); n != maxHandshakes-1 {
		t.Errorf("%d handshakes after one has ended", n)
	}
}

// A client that does not go on with its handshake is let go after a while, wherever it stops,
// and so is a server that does not say its INFO.
func TestAHandshakeEndsInTime(t *testing.T) {
	for name, says := range map[string]string{"the client is silent": "INFO {\"nonce\":\"x\"}\r\n", "the server is silent": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, raw := net.Pipe()
				inner, server := net.Pipe()
				go func() { _, _ = io.WriteString(server, says) }()
				go func() { _, _ = io.Copy(io.Discard, client) }()
				began := time.Now() // of the test's clock
				if _, _, err := secure(raw, inner, &tls.Config{MinVersion: tls.VersionTLS12}); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%v, want that the time is over", err)
				}
				if d := time.Since(began); d != handshakeTime {
					t.Errorf("it took %v, want %v", d, handshakeTime)
				}
				for _, c := range []net.Conn{client, raw, inner, server} {
					_ = c.Close()
				}
				synctest.Wait()
			})
		})
	}
}

// What the server says first has tls_required in it for the client, however it is cut, and
// what follows is kept for after the handshake.
func TestReadInfo(t *testing.T) {
	for name, c := range map[string]struct {
		says       []string
		line, rest string
		err        string
	}{
		"whole":     {says: []string{"INFO {\"nonce\":\"x\"} \r\n"}, line: "INFO {\"tls_required\":true,\"nonce\":\"x\"} \r\n"},
		"cut":       {says: []string{"INF", "O {\"n\"", ":1}\r", "\n"}, line: "INFO {\"tls_required\":true,\"n\":1}\r\n"},
		"followed":  {says: []string{"INFO {\"n\":1}\r\nPING\r\n"}, line: "INFO {\"tls_required\":true,\"n\":1}\r\n", rest: "PING\r\n"},
		"no info":   {says: []string{"-ERR 'x'\r\n"}, err: "not its INFO"},
		"ends":      {says: []string{"INFO {"}, err: "EOF"},
		"no end":    {says: []string{strings.Repeat("x", maxInfo+1)}, err: "more than"},
		"says none": {err: "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			inner, server := net.Pipe()
			defer inner.Close()
			go func() {
				defer server.Close()
				for _, s := range c.says {
					if _, err := io.WriteString(server, s); err != nil {
						return
					}
				}
			}()
			line, rest, err := readInfo(inner)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if string(line) != c.line || string(rest) != c.rest {
				t.Errorf("%q and %q, want %q and %q", line, rest, c.line, c.rest)
			}
		})
	}
}

// A connection is closed at once, though its client takes nothing: a lock may be held.
func TestClosingAConnectionWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, raw := net.Pipe() // of which nobody reads
		began := time.Now()
		if err := (&secureConn{tls.Server(raw, nil), raw}).Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("it took %v", d)
		}
		if _, err := bufio.NewReader(client).ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("%v, want the end", err)
		}
	})
}
