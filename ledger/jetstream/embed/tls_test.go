package embed_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/ledger/jetstream/embed"
	"nexus/ledger/ledgertest"
)

// newSecureWorld is newWorld with TLS.
func newSecureWorld(t *testing.T) *world {
	t.Helper()
	source := httptest.NewTLSServer(nil) // of a certificate for this machine
	source.Close()
	w := newWorldWith(t, &tls.Config{Certificates: source.TLS.Certificates, MinVersion: tls.VersionTLS12})
	w.trust = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	w.trust.RootCAs.AddCert(source.Certificate())
	w.options = []nats.Option{nats.Secure(w.trust), nats.Timeout(time.Minute)}
	return w
}

// dialRaw connects without TLS and returns the server's INFO.
func dialRaw(t *testing.T, address string) (net.Conn, *bufio.Reader, string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r := bufio.NewReader(conn)
	info, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return conn, r, info
}

// With TLS a user of stock nats.go is who it is, and large messages come through both ways.
func TestUserIsKnownUnderTLS(t *testing.T) {
	w := newSecureWorld(t)
	if _, err := w.service.Subscribe("nexus.v1.>", func(m *nats.Msg) {
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"User": {w.sender(m)}}, Data: m.Data})
	}); err != nil {
		t.Fatal(err)
	}
	flush(t, w.service)
	for _, user := range []string{"alice", "bob"} {
		nc := w.as(t, user)
		for _, size := range []int{1, 100 << 10, 6 << 20} {
			body := bytes.Repeat([]byte{'x'}, size)
			m, err := nc.RequestWithContext(ledgertest.Within(t), "nexus.v1.default."+user+".session.create", body)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Header.Get("User"); got != user || !bytes.Equal(m.Data, body) {
				t.Errorf("%d bytes of %s came back as %d of %s", size, user, len(m.Data), got)
			}
		}
		if state, err := nc.TLSConnectionState(); err != nil || state.Version != tls.VersionTLS13 {
			t.Errorf("TLS %x, %v", state.Version, err)
		}
	}
}

// A client that goes on in the clear is told that TLS is required, and nothing else.
func TestPlainTextIsRefusedWhereTLSIs(t *testing.T) {
	w := newSecureWorld(t)
	for _, sent := range []string{"CONNECT {\"verbose\":false}\r\nPING\r\n", "GET / HTTP/1.1\r\n\r\n", "CONNECT {}\r\n" + strings.Repeat("x", 32<<10)} {
		conn, r, info := dialRaw(t, w.address(t))
		if !strings.Contains(info, `"tls_required":true`) || !strings.Contains(info, `"nonce":"`) {
			t.Errorf("INFO is %s", info)
		}
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		if said, err := io.ReadAll(r); err != nil || string(said) != embed.TLSRequired {
			t.Errorf("it said %q, %v; want %q", said, err, embed.TLSRequired)
		}
	}
	w.as(t, "alice")
}

// Nothing but the server's INFO is on the wire in the clear: no key, no signature, no subject.
func TestNothingButInfoIsInTheClear(t *testing.T) {
	w := newSecureWorld(t)
	w.echo(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var sent, said bytes.Buffer
	var copies sync.WaitGroup
	copies.Go(func() {
		client, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer client.Close()
		server, err := net.Dial("tcp", w.address(t))
		if err != nil {
			t.Error(err)
			return
		}
		copies.Go(func() {
			defer client.Close()
			_, _ = io.Copy(io.MultiWriter(client, &said), server)
		})
		_, _ = io.Copy(io.MultiWriter(server, &sent), client)
		_ = server.Close()
	})
	o, err := nats.NkeyOptionFromSeed(w.seeds["alice"])
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect("nats://"+l.Addr().String(), append(w.options, o, nats.NoReconnect())...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.RequestWithContext(ledgertest.Within(t), "nexus.v1.default.alice.session.create", nil); err != nil {
		t.Fatal(err)
	}
	nc.Close()
	_ = l.Close()
	copies.Wait()
	info, rest, ok := bytes.Cut(said.Bytes(), []byte("\r\n"))
	if !ok || !bytes.HasPrefix(info, []byte("INFO {")) {
		t.Fatalf("it said %q first", info)
	}
	for name, b := range map[string][]byte{"the client": sent.Bytes(), "the server": rest} {
		for at := 0; at < len(b); at += 5 + int(b[at+3])<<8 + int(b[at+4]) {
			if len(b) < at+5 || b[at] < 20 || b[at] > 23 || b[at+1] != 3 {
				t.Fatalf("%s: byte %d of %d begins no record of TLS", name, at, len(b))
			}
		}
		if bytes.Contains(b, []byte("CONNECT")) || bytes.Contains(b, []byte("session.create")) {
			t.Errorf("%s spoke in the clear", name)
		}
	}
}

// Clients that begin a handshake and stop keep nobody out, however many they are.
func TestSlowHandshakesKeepNobodyOut(t *testing.T) {
	w := newSecureWorld(t)
	var first net.Conn
	for i := range embed.MaxHandshakes + 20 {
		conn, _, _ := dialRaw(t, w.address(t))
		if i == 0 {
			first = conn
		}
		if i%2 == 0 { // the beginning of a record
			_, _ = conn.Write([]byte{0x16, 3, 1})
		}
	}
	w.as(t, "alice")
	if _, err := first.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("the oldest handshake goes on: %v", err)
	}
}

// With TLS, too, a neighbour's request does not wait behind all that a flooding client has sent,
// and what is not seen by the service stays with the client.
func TestANeighbourPassesAFloodUnderTLS(t *testing.T) {
	w := newSecureWorld(t)
	asked := make(chan struct{})
	var once sync.Once
	w.Pace(func(func()) { once.Do(func() { close(asked) }) }) // the service sees nothing
	var seen atomic.Int64
	if _, err := w.service.Subscribe("nexus.v1.default.alice.>", func(m *nats.Msg) { seen.Add(int64(len(m.Data))) }); err != nil {
		t.Fatal(err)
	}
	if _, err := w.service.Subscribe("nexus.v1.default.bob.>", func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil {
		t.Fatal(err)
	}
	flush(t, w.service)
	flooder, neighbour := w.as(t, "alice"), w.as(t, "bob")
	const messages, size = 8 << 10, 1 << 10
	var flooding sync.WaitGroup
	flooding.Go(func() {
		for range messages {
			if flooder.Publish("nexus.v1.default.alice.turn.append.X", make([]byte, size)) != nil {
				return
			}
		}
		_ = flooder.Flush()
	})
	<-asked
	for range 3 {
		if _, err := neighbour.RequestWithContext(ledgertest.Within(t), "nexus.v1.default.bob.session.create", nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := seen.Load(); n > messages*size/2 {
		t.Errorf("%d of %d bytes of the flood have passed before the neighbour's requests", n, messages*size)
	}
	w.Pace(nil)
	flooding.Wait()
	if err := flooder.FlushWithContext(ledgertest.Within(t)); err != nil {
		t.Error(err)
	}
}
