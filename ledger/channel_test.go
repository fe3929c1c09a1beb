package ledger_test

import (
	"errors"
	"strings"
	"testing"

	"nexus/ledger"
	"nexus/turns"
)

// A channel is one agent's, its events follow each other, and each id is on it once.
func TestAdmitOfAChannel(t *testing.T) {
	chain := turns.Chain{Entity: turns.ChannelEntity, ID: "x"}
	event := func(id byte, index uint64, prev byte) *turns.Event {
		e := &turns.Event{Kind: turns.KindReceived, ID: turns.ID{id}, Chain: chain, Index: index, Agent: "a", Body: []byte("sealed"), Commitment: turns.Hash{1}, Recorded: int64(id)}
		if prev != 0 {
			e.Prev = turns.Hash{prev}
		}
		return e
	}
	change := func(e *turns.Event, f func(*turns.Event)) *turns.Event { f(e); return e }
	h := newHistory()
	for seq, e := range []*turns.Event{1: event(1, 0, 0), 2: event(2, 1, 1)} {
		if seq == 0 {
			continue
		}
		a, err := h.admit("t", "x", uint64(seq), e)
		want := ledger.Channel{Agent: "a", Count: uint64(seq), Tail: ledger.Tail{Seq: uint64(seq), Index: uint64(seq) - 1, Hash: turns.Hash{byte(seq)}}, Updated: int64(seq)}
		if err != nil || a.Channel != want {
			t.Fatalf("event %d: %+v, %v; want %+v", seq, a.Channel, err, want)
		}
	}
	for name, tc := range map[string]struct {
		event *turns.Event
		key   string
		is    error
		why   string
	}{
		"another agent's":           {change(event(3, 2, 2), func(e *turns.Event) { e.Agent = "b" }), "x", ledger.ErrCorrupt, "of agent b on a channel of agent a"},
		"an id that is there":       {event(1, 2, 2), "x", ledger.ErrCorrupt, "two events with the id"},
		"a gap":                     {event(3, 3, 2), "x", ledger.ErrCorrupt, "index 3"},
		"another predecessor":       {event(3, 2, 1), "x", ledger.ErrCorrupt, "follows"},
		"an event of another chain": {change(event(3, 2, 2), func(e *turns.Event) { e.Kind = turns.KindMoved }), "x", ledger.ErrUnsupported, "on a channel's chain"},
		"another shard":             {event(3, 2, 2), "y", ledger.ErrCorrupt, "is on subject"},
		"no body":                   {change(event(3, 2, 2), func(e *turns.Event) { e.Body = nil }), "x", ledger.ErrCorrupt, "no body"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ledger.Admit(h, ledger.Subject("t", tc.key, chain), 9, turns.Hash{9}, tc.event); !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.why) {
				t.Errorf("%v, want %v that says %q", err, tc.is, tc.why)
			}
		})
	}
	if a, err := h.admit("u", "x", 3, event(1, 0, 0)); err != nil || a.Channel.Count != 1 {
		t.Errorf("a channel of another tenant: %+v, %v", a.Channel, err)
	}
}
