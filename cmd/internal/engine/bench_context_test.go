package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/engine/content"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// BenchmarkContextWarm is context.get of 200 turns, of which none is new.
func BenchmarkContextWarm(b *testing.B) {
	e := benchEngine(b, newWorld())
	s := contextSession(b, e)
	b.ReportAllocs()
	for b.Loop() {
		c, err := e.Contexts.Context(b.Context(), alice, s, api.GetContext{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.AppendJSON(nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkContextHave is context.get of 200 turns by a caller that has 199 of them.
func BenchmarkContextHave(b *testing.B) {
	e := benchEngine(b, newWorld())
	s := contextSession(b, e)
	had, err := e.Contexts.Context(b.Context(), alice, s, api.GetContext{})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := e.Sessions.Append(b.Context(), alice, s, say("one more", "yes"), nil); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		c, err := e.Contexts.Context(b.Context(), alice, s, api.GetContext{Have: &api.Have{Fingerprint: had.Fingerprint, Preamble: had.PreambleDigest}})
		if err != nil || c.Keep != len(had.Messages) {
			b.Fatal(c.Keep, err)
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
	s, err := e.Sessions.Create(b.Context(), alice, r, nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 200 {
		text := strings.Repeat(fmt.Sprintf("turn %d says \"this\" and that,\n", i), 34)
		if _, err := e.Sessions.Append(b.Context(), alice, s.ID, say(text, text), nil); err != nil {
			b.Fatal(err)
		}
	}
	return s.ID
}

// BenchmarkContextCold is context.get of 200 turns by an engine that holds nothing, beside
// the least that gives the same messages: a scan of the turns' rows, unsealing,
// decompression, decoding, and one encoding as JSON. The two take turns; both are in the
// processor's caches. It reports how many times the median of the one is that of the other.
//
//	go test ./cmd/internal/engine -run '^$' -bench ContextCold -benchtime 200x
func BenchmarkContextCold(b *testing.B) {
	w := newWorld()
	e := benchEngine(b, w)
	store := e.Reader.Projections
	id := contextSession(b, e)
	s, err := store.Session(id)
	if err != nil {
		b.Fatal(err)
	}
	head, err := store.Turn(s.Head)
	if err != nil {
		b.Fatal(err)
	}
	least := func() (n int) {
		for payload, err := range store.Range(lineage.Range{Session: id, Segment: head.Segment, Lo: 1, Hi: head.Depth}) {
			var ev *turns.Event
			body := new(turns.TurnBody)
			if err == nil {
				ev, err = turns.Decode(payload)
			}
			if err == nil {
				err = content.OpenBody(w.Keys, ev, body)
			}
			var out []byte
			if err == nil {
				out, err = turns.EncodeJSON(append(body.Messages, *body.Response))
			}
			if err != nil {
				b.Fatal(err)
			}
			n += len(out)
		}
		return n
	}
	cold := func() (n int) {
		c, err := newEngine(w, store).Contexts.Context(b.Context(), alice, id, api.GetContext{})
		var out []byte
		if err == nil {
			out, err = c.AppendJSON(nil)
		}
		if err != nil {
			b.Fatal(err)
		}
		return len(out)
	}
	if a, z := least(), cold(); a*10 < z*9 || z*10 < a*9 {
		b.Fatalf("a scan gives %d bytes, a context %d", a, z)
	}
	var took [2][]time.Duration
	for b.Loop() {
		for i, f := range []func() int{least, cold} {
			began := time.Now()
			f()
			took[i] = append(took[i], time.Since(began))
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	m := len(took[0]) / 2
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(took[0][m].Microseconds()), "scan-µs")
	b.ReportMetric(float64(took[1][m].Microseconds()), "context-µs")
	b.ReportMetric(float64(took[1][m])/float64(took[0][m]), "ratio")
}
