package daemon

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"nexus/ledger/api"
	"nexus/turns"
)

// Two daemons on one external server, each with projections of its own: the
// service spreads requests over both, and it makes no difference which one
// answers. A retry through the other stores nothing twice.
func TestTwoDaemonsOnAnExternalServer(t *testing.T) {
	s := natsServer(t, nil)
	for i := range 2 {
		d, err := Open(t.Context(), Config{NATS: s.ClientURL(), Replicas: 1, Create: i == 0, Data: t.TempDir(), HTTP: "off"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), untilTheTestEnds(t))
			defer cancel()
			if err := d.Close(ctx); err != nil {
				t.Error(err)
			}
		}()
	}
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := api.NewClient(nc, "default", "main")
	ctx := t.Context()
	sess, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		m := turns.TextMessage(turns.Assistant, fmt.Sprint("answer ", i))
		r := api.AppendTurn{ID: api.NewID(), Messages: []turns.Message{turns.TextMessage(turns.User, fmt.Sprint("question ", i))}, Response: &m}
		first, err := c.Append(ctx, sess.ID, r)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // by chance on one daemon or the other
			again, err := c.Append(ctx, sess.ID, r)
			if err != nil || again.Hash != first.Hash || !again.Duplicate {
				t.Fatalf("retry: %+v, %v; first %+v", again, err, first)
			}
		}
		if got, err := c.Session(ctx, sess.ID); err != nil || got.Depth != uint64(i+1) {
			t.Fatalf("after turn %d: depth %d, %v", i, got.Depth, err)
		}
	}
	v, err := c.As(api.Operator).Verify(ctx)
	if err != nil || !v.OK || v.Turns != 60 {
		t.Errorf("verify: %+v, %v", v, err)
	}
}
