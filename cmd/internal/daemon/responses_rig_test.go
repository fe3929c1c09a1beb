package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/provider"
	"nexus/turns"
)

// scripted is a model that answers with what it was asked last. Where a step is a channel,
// it waits for it after the first half of its answer.
type scripted struct {
	mu    sync.Mutex
	asked []*provider.Request
	step  chan bool // nil: it does not wait
	begun chan bool // nil: nobody is told that it waits
	call  *turns.Part
	fail  error
	quiet bool // it does not count tokens
}

func (s *scripted) count() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.asked) }

func (s *scripted) last() *provider.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[len(s.asked)-1]
}

func lastText(r *provider.Request) string {
	m := r.Messages[len(r.Messages)-1]
	if p := m.Parts[len(m.Parts)-1]; p.Type == turns.Text {
		return p.Content
	}
	return string(m.Parts[0].Response)
}

func (s *scripted) Generate(ctx context.Context, r *provider.Request, emit func(provider.Event) error) (*provider.Answer, error) {
	s.mu.Lock()
	s.asked = append(s.asked, r)
	n, step, begun, call, fail := len(s.asked), s.step, s.begun, s.call, s.fail
	s.mu.Unlock()
	if fail != nil {
		return nil, fail
	}
	if call != nil {
		p := *call
		for _, e := range []provider.Event{{Kind: provider.Begin, Type: turns.ToolCall, ID: p.ID, Name: p.Name}, {Kind: provider.Delta, Text: string(p.Arguments)}, {Kind: provider.End, Part: &p}} {
			if err := emit(e); err != nil {
				return nil, err
			}
		}
		return &provider.Answer{Message: turns.Message{Role: turns.Assistant, Parts: []turns.Part{p}, FinishReason: "tool_call"}, Usage: &turns.Usage{InputTokens: 5, OutputTokens: 2}}, nil
	}
	text := fmt.Sprintf("answer %d to %s, é and on", n, lastText(r))
	part := turns.TextPart(text)
	if err := emit(provider.Event{Kind: provider.Begin, Type: turns.Text}); err != nil {
		return nil, err
	}
	pieces := strings.SplitAfter(text, " ")
	for i, piece := range pieces {
		if i == len(pieces)/2 && step != nil {
			if begun != nil {
				begun <- true
			}
			select {
			case <-step:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if err := emit(provider.Event{Kind: provider.Delta, Text: piece}); err != nil {
			return nil, err
		}
	}
	if err := emit(provider.Event{Kind: provider.End, Part: &part}); err != nil {
		return nil, err
	}
	if s.quiet {
		return &provider.Answer{Message: turns.Message{Role: turns.Assistant, Parts: []turns.Part{part}, FinishReason: "stop"}}, nil
	}
	return &provider.Answer{Message: turns.Message{Role: turns.Assistant, Parts: []turns.Part{part}, FinishReason: "stop"}, Usage: &turns.Usage{InputTokens: 7, OutputTokens: 3}, Details: turns.UsageDetails{Reasoning: 1}}, nil
}

func responsesConfig(dir string, s *scripted, rows ...config.TokenRow) config.Config {
	return config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", MaxStore: 1 << 30, Token: rows,
		Provider: func(m string) (provider.Client, string, error) {
			if !strings.HasPrefix(m, "m") {
				return nil, "", errors.New("no provider has the model")
			}
			return s, "upstream-" + m, nil
		}, ProviderModels: func() []string { return []string{"m"} }}
}

// object is a JSON object as a client reads it.
type object map[string]any

func (o object) at(path string) any {
	var v any = map[string]any(o)
	for name := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

func (o object) id() string { s, _ := o["id"].(string); return s }

// send sends a request to the door, and returns the answer.
func send(t *testing.T, method, url, body string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// readAnswer sends a request, and returns the answer and its whole body.
func readAnswer(t *testing.T, method, url, body string, header ...string) (*http.Response, []byte) {
	t.Helper()
	a := send(t, method, url, body, header...)
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

// ask sends a request that is not streamed.
func ask(t *testing.T, method, url, body string, header ...string) (int, object) {
	t.Helper()
	a, b := readAnswer(t, method, url, body, header...)
	var o object
	if err := json.Unmarshal(b, &o); err != nil {
		t.Fatalf("%s %s: %s: %v: %.300s", method, url, a.Status, err, b)
	}
	return a.StatusCode, o
}

// mustAsk is ask of what succeeds.
func mustAsk(t *testing.T, method, url, body string, header ...string) object {
	t.Helper()
	code, o := ask(t, method, url, body, header...)
	if code != http.StatusOK {
		t.Fatalf("%s %.300s: %d %v", method, body, code, o)
	}
	return o
}

// events reads a stream to its end, or to most events, and reports whether it ended in [DONE].
func events(t *testing.T, body io.Reader, most int) (out []object, done bool) {
	t.Helper()
	r := bufio.NewScanner(body)
	r.Buffer(nil, 1<<20)
	kind := ""
	for len(out) < most && r.Scan() {
		line := r.Text()
		if k, ok := strings.CutPrefix(line, "event: "); ok {
			kind = k
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			return out, true
		}
		var o object
		if err := json.Unmarshal([]byte(data), &o); err != nil || o["type"] != kind {
			t.Fatalf("event %q: %v: %.300s", kind, err, data)
		}
		out = append(out, o)
	}
	return out, false
}

func streamed(t *testing.T, method, url, body string, header ...string) []object {
	t.Helper()
	a := send(t, method, url, body, header...)
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(a.Body)
		t.Fatalf("%s: %s", a.Status, b)
	}
	out, done := events(t, a.Body, 1<<20)
	if !done {
		t.Fatalf("the stream has no end after %d events", len(out))
	}
	for i, e := range out {
		if e["sequence_number"] != float64(i) && !strings.Contains(url, "starting_after") {
			t.Fatalf("event %d has the number %v", i, e["sequence_number"])
		}
	}
	return out
}

func request(input string, more ...string) string {
	extra := strings.Join(append([]string{""}, more...), ",")
	return fmt.Sprintf(`{"model":"m1","input":%q%s}`, input, extra)
}

func previous(id string) string { return fmt.Sprintf(`"previous_response_id":%q`, id) }

func outputOf(o object) string { s, _ := o.at("output.0.content.0.text").(string); return s }

func sameJSON(t *testing.T, what string, got, want any) {
	t.Helper()
	g, _ := json.Marshal(got, json.Deterministic(true))
	w, _ := json.Marshal(want, json.Deterministic(true))
	if string(g) != string(w) {
		t.Errorf("%s:\n%s\nwant\n%s", what, g, w)
	}
}

func closeDaemon(t *testing.T, d *Daemon) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), untilTheTestEnds(t))
	defer cancel()
	if err := d.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}
