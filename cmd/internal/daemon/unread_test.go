package daemon

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// A client that asks for many large contexts and reads none holds a bounded part of the
// daemon's memory, and its neighbour is served. What was refused is busy.
func TestAClientThatReadsNothingHoldsLittle(t *testing.T) {
	const requests, text, bound = 60, 2 << 20, 64 << 20
	d, c := startWith(t, config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30})
	large := func(c *client.Client) turns.ID {
		s, err := c.Create(t.Context(), api.CreateSession{SessionSettings: api.SessionSettings{Limits: &turns.Limits{ContextWindow: 8_000_000}}})
		if err != nil {
			t.Fatal(err)
		}
		m := turns.TextMessage(turns.User, strings.Repeat("text ", text/5+1))
		if _, err := c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{m}}); err != nil {
			t.Fatal(err)
		}
		return s.ID
	}
	neighbour := client.New(c.Conn(), "default", "neighbour")
	session, theirs := large(c), large(neighbour)
	stalled := &stalls{read: make(chan struct{})}
	close(stalled.read)
	nc, err := d.Connect(nats.SetCustomDialer(stalled), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	answers, err := nc.SubscribeSync("_INBOX.1")
	if err == nil {
		err = answers.SetPendingLimits(-1, -1)
	}
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	stalled.stop()
	for range requests {
		if err := nc.PublishRequest("nexus.v1.default.main.context.get."+session.String(), "_INBOX.1", []byte(`{"inline":true}`)); err != nil {
			t.Fatal(err)
		}
	}
	most := int64(0)
	for range requests { // agents take turns, so then the requests have been answered
		if _, err := neighbour.Context(t.Context(), theirs, api.GetContext{Inline: true}); err != nil {
			t.Fatalf("the neighbour: %v", err)
		}
		for _, n := range d.server.Unread() {
			most = max(most, n)
		}
	}
	t.Logf("at most %d MiB were unread", most>>20)
	if most < bound/2 || most > bound+text {
		t.Errorf("at most %d bytes were unread, want the bound of %d", most, bound)
	}

	stalled.goOn()
	served, busy := 0, 0
	for served+busy < requests {
		m, err := answers.NextMsg(untilTheTestEnds(t))
		if err != nil {
			t.Fatalf("after %d contexts and %d refusals: %v", served, busy, err)
		}
		switch code := m.Header.Get("Nats-Service-Error-Code"); {
		case code == "" && len(m.Data) > text:
			served++
		case code == string(api.Busy) && strings.Contains(string(m.Data), "retry_after_ms"):
			busy++
		default:
			t.Fatalf("an answer of %d bytes: %.200q", len(m.Data), m.Data)
		}
	}
	if busy == 0 || served < bound/2/text {
		t.Errorf("%d contexts and %d refusals", served, busy)
	}
	// It has read everything, and is served as before, however much it reads.
	for range requests / 2 {
		if _, err := c.Context(t.Context(), session, api.GetContext{Inline: true}); err != nil {
			t.Fatalf("a client that reads: %v", err)
		}
	}
}

// stalls dials connections that read only while read is closed.
type stalls struct {
	mu   sync.Mutex
	read chan struct{}
}

func (s *stalls) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return stalledConn{conn, s}, err
}

func (s *stalls) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = make(chan struct{})
}

func (s *stalls) goOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.read)
}

type stalledConn struct {
	net.Conn
	by *stalls
}

func (c stalledConn) Read(b []byte) (int, error) {
	c.by.mu.Lock()
	read := c.by.read
	c.by.mu.Unlock()
	<-read
	return c.Conn.Read(b)
}
