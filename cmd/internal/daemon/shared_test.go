package daemon

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/turns"
)

// Other agents of the account speak the agent protocol of NATS, which reserves
// the prefix agents.: the ledger stores nothing of theirs and goes on.
func TestMessagesOfTheAgentProtocolStayOutOfTheLedger(t *testing.T) {
	s := natsServer(t, nil)
	d, c := startWith(t, config.Config{Plaintext: true, NATS: s.ClientURL(), Replicas: 1, Create: true, Data: t.TempDir(), HTTP: "off"})
	ctx := t.Context()
	sess, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"agents.prompt.coder.alice.main", "agents.hb.coder.alice.main", "agents.status.coder.alice.main", "agents.00.default.s.X", "blobs.x", "nexus.v1.default.main.notify.X.turn.appended"} {
		if m, err := c.Conn().Request(subject, []byte(`{"prompt":"hello"}`), untilTheTestEnds(t)); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("%s: %v, %+v; want no responders", subject, err, m)
		}
	}
	m := turns.TextMessage(turns.Assistant, "here")
	if _, err := c.Append(ctx, sess.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "hello")}, Response: &m}); err != nil {
		t.Fatal(err)
	}
	st, err := d.storage.Log.State(ctx)
	if err != nil || st.Last != 3 {
		t.Errorf("the log holds %d records, %v; want a policy, the session and its turn", st.Last, err)
	}
	select {
	case err := <-d.Failed():
		t.Errorf("the daemon ended: %v", err)
	default:
	}
}
