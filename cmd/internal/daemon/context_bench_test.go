package daemon

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// BenchmarkContexts measures context.get of 200 turns over NATS, with an append before
// each, against a plain reply of the same bytes over the same connections. The two take
// turns, so that a noisy machine is as noisy for both. It reports the ratios of the
// median times, and of the time of processors: of a context with a new turn, of the same
// one again, of one that a client decodes, and of one by a client that has the one before.
// That one is compared with the decoded one, and with a plain reply of its own bytes, too.
//
//	go test ./cmd/internal/daemon -run '^$' -bench Contexts -benchtime 300x
func BenchmarkContexts(b *testing.B) {
	for _, format := range []string{"otel", "openai", "anthropic", "gemini"} {
		b.Run(format, func(b *testing.B) { benchmarkContexts(b, format) })
	}
}

func benchmarkContexts(b *testing.B, format string) {
	d, err := Open(b.Context(), config.Config{Data: b.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 4 << 30})
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
	c := client.New(nc, "default", "main")
	var id turns.ID
	n := 0
	add := func() {
		if _, err := c.Append(b.Context(), id, agentTurn(n)); err != nil {
			b.Fatal(err)
		}
		n++
	}
	create := func() {
		s, err := c.Create(b.Context(), api.CreateSession{SessionSettings: api.SessionSettings{
			Limits: &turns.Limits{ContextWindow: 1 << 30}, Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"max_messages":0,"cost":{"patience":0}}`)},
		}})
		if err != nil {
			b.Fatal(err)
		}
		for id, n = s.ID, 0; n < 200; {
			add()
		}
	}
	request := []byte(`{"format":"` + format + `"}`)
	ask := func(subject string) *nats.Msg {
		m, err := nc.Request(subject, request, time.Minute)
		if err != nil || m.Header.Get("Nats-Service-Error-Code") != "" {
			b.Fatal(err, m)
		}
		return m
	}
	get := func() *nats.Msg { return ask("nexus.v1.default.main.context.get." + id.String()) }
	create()
	same := get().Data
	short := make([]byte, 3000)
	for subject, reply := range map[string]*[]byte{"_PLAIN": &same, "_SHORT": &short} {
		if _, err := plain.Subscribe(subject, func(m *nats.Msg) {
			if err := m.Respond(*reply); err != nil {
				b.Error(err)
			}
		}); err != nil {
			b.Fatal(err)
		}
	}
	if err := plain.Flush(); err != nil {
		b.Fatal(err)
	}
	var bytes, again, decoded, beside, have, least costs
	var reader *client.ContextReader
	timed := func(to *costs, f func()) {
		cpu, began := processTime(b), time.Now()
		f()
		to.took, to.cpu = append(to.took, float64(time.Since(began))), to.cpu+processTime(b)-cpu
	}
	size, smallest := len(same), len(same)
	for b.Loop() {
		if n >= 220 { // still about 200 turns, and one page
			create()
			get()
			reader = nil
		}
		if reader == nil {
			reader = client.NewContextReader(c, id)
			if _, err := reader.Context(b.Context(), api.GetContext{Format: format}); err != nil {
				b.Fatal(err)
			}
		}
		add()
		timed(&bytes, func() { same = get().Data })
		smallest = min(smallest, len(same))
		timed(&beside, func() { ask("_PLAIN") })
		timed(&again, func() { get() })
		add()
		timed(&decoded, func() {
			if _, err := c.Context(b.Context(), id, api.GetContext{Format: format}); err != nil {
				b.Fatal(err)
			}
		})
		add()
		timed(&have, func() {
			if got, err := reader.Context(b.Context(), api.GetContext{Format: format}); err != nil || got.Keep == 0 {
				b.Fatal(err, got)
			}
		})
		timed(&least, func() { ask("_SHORT") })
	}
	if smallest < size {
		b.Fatalf("a context of %d bytes after one of %d: it was compacted", smallest, size)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(size), "first-bytes")
	b.ReportMetric(median(beside.took)/1e3, "plain-µs")
	b.ReportMetric(median(bytes.took)/1e3, "context-µs")
	b.ReportMetric(median(have.took)/1e3, "have-µs")
	b.ReportMetric(median(least.took)/1e3, "short-µs")
	b.ReportMetric(median(have.took)/median(decoded.took), "have-of-decoded")
	b.ReportMetric(float64(have.cpu)/float64(decoded.cpu), "have-of-decoded-cpu")
	for name, x := range map[string]costs{"new": bytes, "again": again, "decoded": decoded} {
		b.ReportMetric(median(x.took)/median(beside.took), name+"-ratio")
		b.ReportMetric(float64(x.cpu)/float64(beside.cpu), name+"-cpu-ratio")
	}
}

// costs is the times that operations took, and the time of processors that all of them
// together took in this process.
type costs struct {
	took []float64
	cpu  time.Duration
}

// processTime returns the time of processors that this process has taken.
func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
