package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// BenchmarkContextWarm is context.get of 200 turns, of which none is new.
func BenchmarkContextWarm(b *testing.B) {
	e := benchEngine(b, newWorld())
	s := contextSession(b, e)
	b.ReportAllocs()
	for b.Loop() {
		c, err := e.Context(b.Context(), alice, s, api.GetContext{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.AppendJSON(nil); err != nil {
			b.Fatal(err)
		}
	}
}

// contextSession stores a session of 200 turns of 2 KiB.
func contextSession(b *testing.B, e *Engine) turns.ID {
	var r api.CreateSession
	r.Limits = &turns.Limits{ContextWindow: 1 << 30}
	r.Policy = &api.Policy{Name: "balanced", Set: turns.Raw(`{"max_messages":0,"cost":{"patience":0}}`)}
	s, err := e.Create(b.Context(), alice, r, nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 200 {
		text := strings.Repeat(fmt.Sprintf("turn %d says \"this\" and that,\n", i), 34)
		if _, err := e.Append(b.Context(), alice, s.ID, say(text, text), nil); err != nil {
			b.Fatal(err)
		}
	}
	return s.ID
}
