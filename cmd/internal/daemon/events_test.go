package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Two daemons on one JetStream, which seal nothing, append to one channel. Each event is
// stored once, a body in a blob too, and each has one notification on the channel's own
// subject, from whose position a list goes on.
func TestTwoDaemonsOnOneStreamAppendToOneChannel(t *testing.T) {
	s := natsServer(t, nil)
	for i := range 2 {
		d := must[*Daemon](t)(Open(t.Context(), config.Config{Plaintext: true, NATS: s.ClientURL(), Replicas: 1, Create: i == 0, Data: t.TempDir(), HTTP: "off"}))
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), untilTheTestEnds(t))
			defer cancel()
			if err := d.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	nc := must[*nats.Conn](t)(nats.Connect(s.ClientURL()))
	t.Cleanup(nc.Close)
	c, ctx := client.New(nc, "default", "main"), t.Context()
	first := must[*api.AppendedEvent](t)(c.AppendEvent(ctx, api.AppendEvent{Channel: "mail", Kind: "n", Body: turns.Raw(`"` + string(make600k()) + `"`)}))
	hints := make(chan *nats.Msg, 64)
	sub := must[*nats.Subscription](t)(nc.ChanSubscribe(c.NotifyChannelSubject(first.ChannelID), hints))
	defer sub.Unsubscribe()
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	const writers, each = 4, 6
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if _, err := c.AppendEvent(ctx, api.AppendEvent{Channel: "mail", Kind: "n", Body: turns.Raw(fmt.Sprintf(`[%d,%d]`, w, i))}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	announced := map[turns.ID]bool{}
	for range writers * each {
		var n api.Notification
		if err := turns.DecodeJSON((<-hints).Data, &n); err != nil {
			t.Fatal(err)
		}
		if n.Kind != "event.appended" || n.Channel != "mail" || announced[n.Event] {
			t.Errorf("hint %+v", n)
		}
		announced[n.Event] = true
		got, err := c.Event(ctx, api.GetEvent{Channel: "mail", ID: n.Event, Read: api.Read{MinPosition: api.Position(n.Position), StaleOK: true}})
		if err != nil || got.Position != n.Position {
			t.Errorf("at the position of the hint: %+v, %v", got, err)
		}
	}
	next := uint64(0)
	for ev, err := range c.Events(ctx, api.ListEvents{Channel: "mail", Page: api.Page{Limit: 7}}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Index != next || next > 0 && !announced[ev.ID] {
			t.Errorf("event %d is %+v", next, ev)
		}
		next++
	}
	if next != writers*each+1 {
		t.Errorf("the channel has %d events", next)
	}
	v := must[*api.Verified](t)(client.New(nc, "default", api.Operator).Verify(ctx))
	if !v.OK || v.External != next || v.Blobs != 1 {
		t.Errorf("verified: %+v", v)
	}
}

// make600k is a text that is larger than an event holds.
func make600k() []byte {
	b := make([]byte, 600<<10)
	for i := range b {
		b[i] = 'a' + byte(i*7%26)
	}
	return b
}

// Channels come back after a restart, and from the log alone when the projections are gone.
func TestChannelsSurviveTheLossOfTheProjections(t *testing.T) {
	dir := t.TempDir()
	var want []api.Event
	for start := range 3 {
		if start == 2 {
			if err := os.RemoveAll(filepath.Join(dir, "projections")); err != nil {
				t.Fatal(err)
			}
		}
		d := must[*Daemon](t)(Open(t.Context(), config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off"}))
		nc := must[*nats.Conn](t)(client.Dial(d.ClientURL(), d.Credentials().Operator))
		c := client.New(nc, "default", "main")
		if start == 0 {
			for i := range 3 {
				must[*api.AppendedEvent](t)(c.AppendEvent(t.Context(), api.AppendEvent{Channel: "mail", Kind: "n", Body: turns.Raw(fmt.Sprint(i))}))
			}
		}
		var got []api.Event
		for ev, err := range c.Events(t.Context(), api.ListEvents{Channel: "mail", Raw: true}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ev)
		}
		if start == 0 {
			want = got
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || len(got) != 3 {
			t.Errorf("start %d: %d events, other than before", start, len(got))
		}
		v, err := client.New(nc, "default", api.Operator).Verify(t.Context())
		if err != nil || !v.OK {
			t.Errorf("start %d: verify: %+v, %v", start, v, err)
		}
		nc.Close()
		ctx, cancel := context.WithTimeout(context.Background(), untilTheTestEnds(t))
		err = d.Close(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
}
