package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// An agent is notified that a flush is due, begins it, and ends it after a restart
// of the daemon; the compaction names it.
func TestAFlushSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	ctx := t.Context()
	model := "large-1"
	r := api.CreateSession{}
	r.Policy, r.Model, r.Limits = &api.Policy{Name: "spec-008"}, &model, &turns.Limits{ContextWindow: 16_000, MaxOutputTokens: 1_000, SafetyMargin: 200}
	s, err := c.Create(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	notified := make(chan *nats.Msg, 100)
	sub, err := c.Conn().ChanSubscribe(c.NotifySubject(s.ID, "flush.requested"), notified)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	text := strings.Repeat("some words ", 300)
	grow := func(c *client.Client) *api.Appended {
		t.Helper()
		m := turns.TextMessage(turns.Assistant, text)
		a, err := c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "go on")}, Response: &m})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	var last *api.Appended
	for last = grow(c); !last.Flush.Due; last = grow(c) {
	}
	select {
	case m := <-notified:
		if !strings.Contains(string(m.Data), `"cycle":1`) || !strings.Contains(string(m.Data), last.Position) {
			t.Errorf("notified: %s", m.Data)
		}
	case <-time.After(untilTheTestEnds(t)):
		t.Error("no notification")
	}
	b, err := c.BeginFlush(ctx, s.ID, api.BeginFlush{Cycle: last.Flush.Cycle})
	if err != nil || b.Model != model || b.SilentToken != "SILENT" || !strings.Contains(b.Prompt, "save_memory") {
		t.Fatalf("%+v, %v", b, err)
	}
	c.Conn().Close()
	if err := d.Close(ctx); err != nil {
		t.Fatal(err)
	}
	_, c = start(t, dir)
	if a := grow(c); a.Flush != (api.FlushState{Cycle: 1}) {
		t.Errorf("under way: %+v", a.Flush)
	}
	done, err := c.DoneFlush(ctx, s.ID, api.DoneFlush{Cycle: 1, Response: " SILENT", Saved: 2})
	if err != nil || done.State != "silent" {
		t.Fatalf("%+v, %v", done, err)
	}
	for range 20 {
		grow(c)
		cx, err := c.Context(ctx, s.ID, api.GetContext{})
		if err != nil {
			t.Fatal(err)
		}
		if cx.Compacted == nil {
			continue
		}
		k, err := c.Turn(ctx, s.ID, *cx.Compacted)
		if err != nil || k.Compaction.Flush != "silent" || cx.Flush.Cycle != 2 {
			t.Errorf("flush %q, %+v, %v", k.Compaction.Flush, cx.Flush, err)
		}
		return
	}
	t.Error("never compacted")
}
