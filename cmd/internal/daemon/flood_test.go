package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/daemon/config"
)

// Many large requests at once are served or refused as busy: the server does not cut
// the daemon's own connection, which would leave everybody without an answer.
func TestAFloodOfLargeRequestsIsAnswered(t *testing.T) {
	t.Run("without TLS", func(t *testing.T) { floodLarge(t, config.Config{}, 40) })
	t.Run("with TLS", func(t *testing.T) {
		cert, key := certificate(t)
		floodLarge(t, config.Config{TLSCert: cert, TLSKey: key}, 16, nats.RootCAs(cert), nats.Timeout(untilTheTestEnds(t)))
	})
}

func floodLarge(t *testing.T, c config.Config, requests int, opts ...nats.Option) {
	c.Data, c.Listen, c.HTTP = t.TempDir(), "127.0.0.1:0", "off"
	d, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close(t.Context())
	const connections = 6
	conns := make([]*nats.Conn, connections)
	for i := range conns {
		if conns[i], err = d.Connect(opts...); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
	}
	body := fmt.Appendf(nil, `{"meta":{"x":%q}}`, bytes.Repeat([]byte("x"), 3<<20)) // refused after it was read
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() {
			r, err := conns[i%connections].Request(fmt.Sprintf("nexus.v1.default.agent-%d.session.create", i), body, time.Minute)
			if err != nil {
				t.Errorf("request %d: %v", i, err)
			} else if len(r.Data) == 0 {
				t.Errorf("request %d: %v", i, errors.New("an empty answer"))
			}
		})
	}
	all.Wait()
}
