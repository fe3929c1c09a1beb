package responses_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/provider"
	"nexus/cmd/internal/responses"
	"nexus/ledger/api/client"

	"nexus/cmd/internal/web"

	"nexus/turns"
	"nexus/turns/seal"
)

// scripted is a model that repeats what follows "exactly: " in the last message, calls the
// tool that the text names behind "call: ", fails at "fail", and else counts the messages.
type scripted struct {
	mu      sync.Mutex
	asked   []*provider.Request
	hold    chan struct{} // what "wait" waits for
	sound   bool          // nothing fails any more
	started chan struct{} // closed when a call waits
	answers func(*provider.Answer)
}

func (s *scripted) Generate(ctx context.Context, r *provider.Request, emit func(provider.Event) error) (*provider.Answer, error) {
	s.mu.Lock()
	s.asked = append(s.asked, r)
	last := r.Messages[len(r.Messages)-1]
	said := last.Parts[len(last.Parts)-1].Content
	failing := strings.Contains(said, "fail") && !s.sound
	s.mu.Unlock()
	if strings.Contains(said, "wait") {
		if s.started != nil {
			close(s.started)
		}
		select {
		case <-s.hold:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if strings.Contains(said, "panic") {
		_ = emit(provider.Event{Kind: provider.Begin, Type: turns.Text})
		panic("a chunk that nobody expected")
	}
	if failing {
		return nil, &provider.Error{Status: 500, Code: "server_error", Message: "the model failed"}
	}
	part := turns.TextPart(fmt.Sprintf("%d messages", len(r.Messages)))
	finish := "stop"
	if _, text, ok := strings.Cut(said, "exactly: "); ok {
		part = turns.TextPart(text)
	}
	if _, name, ok := strings.Cut(said, "call: "); ok {
		part, finish = turns.Part{Type: turns.ToolCall, ID: "call_1", Name: name, Arguments: turns.Raw(`{}`)}, "tool_call"
	}
	events := []provider.Event{{Kind: provider.Begin, Type: part.Type, ID: part.ID, Name: part.Name}}
	if part.Type == turns.Text {
		for _, w := range strings.SplitAfter(part.Content, " ") {
			events = append(events, provider.Event{Kind: provider.Delta, Type: part.Type, Text: w})
		}
	}
	for _, e := range append(events, provider.Event{Kind: provider.End, Type: part.Type, Part: &part}) {
		if err := emit(e); err != nil {
			return nil, err
		}
	}
	a := &provider.Answer{Message: turns.Message{Role: turns.Assistant, Parts: []turns.Part{part}, FinishReason: finish}, Usage: &turns.Usage{InputTokens: 10, OutputTokens: 2}, Model: r.Model}
	if s.answers != nil {
		s.answers(a)
	}
	return a, nil
}

// texts returns what the model was given at its n-th call; -1 is the last.
func (s *scripted) texts(n int) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < 0 {
		n += len(s.asked)
	}
	for _, m := range s.asked[n].Messages {
		for _, p := range m.Parts {
			out = append(out, string(m.Role)+": "+p.Content)
		}
	}
	return out
}

func (s *scripted) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sound = true
}

func (s *scripted) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// rig is a server on a ledger of its own. Requests with x-agent act for that agent.
type rig struct {
	*httptest.Server
	t      testing.TB
	model  *scripted
	ledger *client.Client
	daemon *daemon.Daemon
	config responses.Config
	door   atomic.Pointer[responses.Server]
}

// crash ends the server as a kill of the process would, and opens the next one.
func (r *rig) crash() {
	r.t.Helper()
	if err := r.door.Load().Close(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	r.door.Store(must(responses.New(r.config))(r.t))
}

func newRig(t testing.TB) *rig { return newRigOf(t, 0) }

// newRigOf is newRig with a bound on the memory of requests.
func newRigOf(t testing.TB, memory int64) *rig {
	t.Helper()
	d, err := daemon.Open(t.Context(), config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, model: &scripted{hold: make(chan struct{})}, ledger: client.New(nc, "default", "main"), daemon: d}
	r.config = responses.Config{
		Provider: func(model string) (provider.Client, string, error) {
			if model != "m" {
				return nil, "", fmt.Errorf("no model %s", model)
			}
			return r.model, model, nil
		},
		Client: func(c web.Caller) *client.Client { return r.ledger.For(c.Tenant, c.Agent) },
		Key:    func() (seal.Key, error) { return sha256.Sum256([]byte("the ledger's")), nil },
		Spool:  t.TempDir(),
		Memory: memory,
	}
	r.door.Store(must(responses.New(r.config))(t))
	r.Server = httptest.NewServer(guarded(r.door.Load))
	t.Cleanup(func() {
		if err := r.door.Load().Close(context.Background()); err != nil {
			t.Error(err)
		}
		r.Close()
		nc.Close()
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// another is another server of the rig's ledger, with the same files.
func (r *rig) another(own *client.Client) *responses.Server {
	r.t.Helper()
	c := r.config
	c.Client = func(c web.Caller) *client.Client { return own.For(c.Tenant, c.Agent) }
	return must(responses.New(c))(r.t)
}

// guarded is the handler of a server, behind the guard of its listener.
func guarded(door func() *responses.Server) http.Handler {
	guard := func(agent string, scope web.Scope) http.Handler {
		return (&web.Guard{Anyone: &web.Caller{Tenant: "default", Agent: agent, Scope: scope}}).Handler(door().Handler())
	}
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch agent := q.Header.Get("X-Agent"); agent {
		case "":
			guard("main", web.Write).ServeHTTP(w, q)
		case "reader":
			guard("main", web.Read).ServeHTTP(w, q)
		default:
			guard(agent, web.Write).ServeHTTP(w, q)
		}
	})
}

// send sends a request. headers are names and values.
func (r *rig) send(method, path, body string, headers ...string) *http.Response {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), method, r.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

// call sends a request and returns the status and the reply.
func (r *rig) call(method, path, body string, headers ...string) (int, map[string]any) {
	r.t.Helper()
	res := r.send(method, path, body, headers...)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		r.t.Fatalf("%s %s: %s %.300s", method, path, res.Status, b)
	}
	return res.StatusCode, out
}

// ok is call of a request that succeeds.
func (r *rig) ok(method, path, body string, headers ...string) map[string]any {
	r.t.Helper()
	status, out := r.call(method, path, body, headers...)
	if status != http.StatusOK {
		r.t.Fatalf("%s %s %.200s: %d %v", method, path, body, status, out)
	}
	return out
}

// refused is call of a request that is refused with a status and a code. It returns the message.
func (r *rig) refused(status int, code, method, path, body string, headers ...string) string {
	r.t.Helper()
	got, out := r.call(method, path, body, headers...)
	e, _ := out["error"].(map[string]any)
	if got != status || e["code"] != code {
		r.t.Errorf("%s %s %.200s: %d %.500v, want %d %s", method, path, body, got, out, status, code)
	}
	message, _ := e["message"].(string)
	return message
}

// eventsOf is the events of a streamed request.
func (r *rig) eventsOf(body string, headers ...string) (events []map[string]any) {
	r.t.Helper()
	for _, data := range r.stream("POST", "/v1/responses", body, headers...) {
		var e map[string]any
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			r.t.Fatalf("%s: %v", data, err)
		}
		events = append(events, e)
	}
	return events
}

func (r *rig) dial(headers ...string) *websocket.Conn {
	r.t.Helper()
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	c, res, err := websocket.Dial(r.t.Context(), r.URL+"/v1/responses", &websocket.DialOptions{HTTPHeader: h})
	if err != nil {
		r.t.Fatalf("%v %v", res, err)
	}
	c.SetReadLimit(-1)
	r.t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

// turn sends a response.create and returns the events of its turn.
func (r *rig) turn(c *websocket.Conn, members string) (events []map[string]any) {
	r.t.Helper()
	if err := c.Write(r.t.Context(), websocket.MessageText, []byte(`{"type":"response.create","model":"m"`+members+`}`)); err != nil {
		r.t.Fatal(err)
	}
	return r.events(c)
}

// events reads the events of a turn.
func (r *rig) events(c *websocket.Conn) (events []map[string]any) {
	r.t.Helper()
	for {
		_, b, err := c.Read(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		var e map[string]any
		if err := json.Unmarshal(b, &e); err != nil {
			r.t.Fatalf("%s: %v", b, err)
		}
		events = append(events, e)
		switch e["type"] {
		case "response.completed", "response.incomplete", "response.failed":
			return events
		case "error":
			if e["status"] != nil { // else response.failed follows
				return events
			}
		}
	}
}

// last is the response of the last event, or its error's code.
func last(events []map[string]any) (response map[string]any, code string) {
	e := events[len(events)-1]
	response, _ = e["response"].(map[string]any)
	if f, ok := e["error"].(map[string]any); ok {
		code, _ = f["code"].(string)
	}
	return response, code
}

// textIn is the text of a response.
func textIn(response map[string]any) (text string) {
	items, _ := response["output"].([]any)
	for _, it := range items {
		content, _ := it.(map[string]any)["content"].([]any)
		for _, c := range content {
			s, _ := c.(map[string]any)["text"].(string)
			text += s
		}
	}
	return text
}
