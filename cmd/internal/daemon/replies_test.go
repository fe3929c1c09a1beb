package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

// A client may publish to its own agent's subjects only, and it can name any
// reply subject: the daemon, which may publish to all of them, does not do it
// for the client. Not as the operator, not as a notification, not to the stream.
// On the embedded server a reply never leaves the account of its user.
func TestRepliesGoToInboxesOnly(t *testing.T) {
	_, c := startWith(t, config.Config{Plaintext: true, NATS: natsServer(t, nil).ClientURL(), Replicas: 1, Create: true, Data: t.TempDir(), HTTP: "off"})
	nc := c.Conn()
	seen := make(chan *nats.Msg, 1000)
	forged := []string{"nexus.v1.default._.audit.verify", "nexus.v1.default.alice.notify.X.turn.appended", "nexus.log.00.default.s.X", "$JS.API.STREAM.DELETE.X", "else"}
	for _, subject := range forged {
		if _, err := nc.ChanSubscribe(subject, seen); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		for _, subject := range forged {
			if err := nc.PublishRequest("nexus.v1.default.bob.session.list", subject, []byte(`{}`)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// What was sent after them is answered after them.
	for range 20 {
		if _, err := nc.Request("nexus.v1.default.bob.session.list", []byte(`{}`), untilTheTestEnds(t)); err != nil {
			t.Fatal(err)
		}
	}
	for len(seen) > 0 {
		m := <-seen
		t.Errorf("the daemon published to %s: %.200s", m.Subject, m.Data)
	}
	own, err := nats.Connect(nc.ConnectedUrl(), nats.CustomInboxPrefix("_INBOX_bob"))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if _, err := own.Request("nexus.v1.default.bob.session.list", []byte(`{}`), untilTheTestEnds(t)); err != nil {
		t.Errorf("an inbox with a prefix of its own: %v", err)
	}
}

// An error that quotes a request is clipped: it is answered however long the
// request's words are.
func TestAnErrorClipsLongWords(t *testing.T) {
	for name, max := range map[string]int32{"8 MiB": 0, "64 KiB": 64 << 10} {
		t.Run(name, func(t *testing.T) {
			var c *client.Client
			if max == 0 {
				_, c = startWith(t, config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30})
			} else {
				c = smallServer(t)
			}
			long := strings.Repeat("é\x7f", int(c.Conn().MaxPayload()/8))
			for field, b := range map[string]string{
				"a value":          `{"kind":"` + long + `"}`,
				"an unknown field": `{"` + long + `":1}`,
				"a pointer":        `{"meta":{"` + long + `":{"a":1,"a":2}}}`,
				"a word":           `{"` + strings.Repeat("x", int(c.Conn().MaxPayload()/2)) + `":1}`,
			} {
				r, err := c.Conn().Request("nexus.v1.default.main.session.create", []byte(b), untilTheTestEnds(t))
				if err != nil {
					t.Errorf("%s: no answer: %v", field, err)
					continue
				}
				if code := r.Header.Get("Nats-Service-Error-Code"); code != string(api.Malformed) {
					t.Errorf("%s: code %q", field, code)
				}
				if n := len(r.Data) + len(r.Header.Get("Nats-Service-Error")); n > 4<<10 {
					t.Errorf("%s: an error of %d bytes", field, n)
				}
			}
		})
	}
}

// What one connection sends to one session without waiting is stored in the
// order in which it was sent.
func TestPipelinedAppendsKeepTheirOrder(t *testing.T) {
	_, c := startWith(t, config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30})
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	acks, err := c.Conn().SubscribeSync(nats.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	const n = 200
	for i := range n {
		b := fmt.Sprintf(`{"messages":[{"role":"user","parts":[{"type":"text","content":"%03d"}]}]}`, i)
		if err := c.Conn().PublishRequest("nexus.v1.default.main.turn.append."+s.ID.String(), acks.Subject, []byte(b)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		m, err := acks.NextMsg(untilTheTestEnds(t))
		if err != nil {
			t.Fatal(err)
		}
		if code := m.Header.Get("Nats-Service-Error-Code"); code != "" {
			t.Errorf("append %d: %s", i, m.Data)
		}
	}
	var got []string
	for x, err := range c.Turns(t.Context(), s.ID, api.ListTurns{Full: true}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, x.Messages[0].Parts[0].Content)
	}
	if len(got) != n || !slices.IsSorted(got) {
		t.Errorf("%d turns of %d, not in the order in which they were sent: %v", len(got), n, got)
	}
}
