package daemon

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/ledger/api"
	"nexus/turns"
)

// BenchmarkContexts measures context.get of 200 turns over NATS, with an append before
// each, against a plain reply of the same bytes over the same connections. The two take
// turns, so that a noisy machine is as noisy for both. It reports the median times and
// their ratios: of a client that takes the bytes of the reply, and of one that decodes
// them.
//
//	go test ./cmd/nexusd/daemon -run '^$' -bench Contexts -benchtime 300x
func BenchmarkContexts(b *testing.B) {
	for _, format := range []string{"otel", "openai", "anthropic", "gemini"} {
		b.Run(format, func(b *testing.B) { benchmarkContexts(b, format) })
	}
}

func benchmarkContexts(b *testing.B, format string) {
	d, err := Open(b.Context(), Config{Data: b.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 4 << 30})
	if err != nil {
		b.Fatal(err)
	}
	connect := func() *nats.Conn {
		nc, err := d.Connect()
		if err != nil {
			b.Fatal(err)
		}
		return nc
	}
	nc, plain := connect(), connect()
	defer func() {
		nc.Close()
		plain.Close()
		if err := d.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	c := api.NewClient(nc, "default", "main")
	s, err := c.Create(b.Context(), api.CreateSession{SessionSettings: api.SessionSettings{
		Limits: &turns.Limits{ContextWindow: 1 << 30}, Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"max_messages":0}`)},
	}})
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	add := func() {
		if _, err := c.Append(b.Context(), s.ID, agentTurn(n)); err != nil {
			b.Fatal(err)
		}
		n++
	}
	for range 200 {
		add()
	}
	subject, request := fmt.Sprintf("nexus.v1.default.main.context.get.%s", s.ID), []byte(`{"format":"`+format+`"}`)
	ask := func(subject string) *nats.Msg {
		m, err := nc.Request(subject, request, time.Minute)
		if err != nil || m.Header.Get("Nats-Service-Error-Code") != "" {
			b.Fatal(err, m)
		}
		return m
	}
	same := ask(subject).Data
	if _, err := plain.Subscribe("_PLAIN", func(m *nats.Msg) {
		if err := m.Respond(same); err != nil {
			b.Error(err)
		}
	}); err != nil {
		b.Fatal(err)
	}
	if err := plain.Flush(); err != nil {
		b.Fatal(err)
	}
	var bytes, decoded, beside []float64
	timed := func(to *[]float64, f func()) {
		began := time.Now()
		f()
		*to = append(*to, float64(time.Since(began)))
	}
	size := len(same)
	for b.Loop() {
		add()
		timed(&bytes, func() { same = ask(subject).Data })
		timed(&beside, func() { ask("_PLAIN") })
		add()
		timed(&decoded, func() {
			if _, err := c.Context(b.Context(), s.ID, api.GetContext{Format: format}); err != nil {
				b.Fatal(err)
			}
		})
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(size), "first-bytes")
	b.ReportMetric(median(beside)/1e3, "plain-µs")
	b.ReportMetric(median(bytes)/1e3, "context-µs")
	b.ReportMetric(median(bytes)/median(beside), "ratio")
	b.ReportMetric(median(decoded)/median(beside), "decoded-ratio")
}

// agentTurn returns turn n of an agent that works in a loop: about 2 KiB of text, tool
// calls and their results.
func agentTurn(n int) api.AppendTurn {
	words := strings.Repeat(fmt.Sprintf("turn %d says \"this\" and that,\n", n), 34)
	call := fmt.Sprintf("call_%d", n/2)
	if n%2 == 0 {
		return api.AppendTurn{
			Messages: []turns.Message{turns.TextMessage(turns.User, words)},
			Response: &turns.Message{Role: turns.Assistant, Parts: []turns.Part{
				turns.TextPart(words), {Type: turns.ToolCall, ID: call, Name: "read_file", Arguments: turns.Raw(`{"path":"src/main.go","offset":120}`)},
			}},
		}
	}
	answer := turns.TextMessage(turns.Assistant, words)
	return api.AppendTurn{
		Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: call, Response: turns.RawText(words)}}}},
		Response: &answer,
	}
}
