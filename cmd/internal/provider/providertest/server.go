package providertest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The kinds, as a [[provider]] row names them.
const (
	Chat      = "openai-chat"
	Responses = "openai-responses"
	Messages  = "anthropic"
)

// Kinds lists them.
func Kinds() []string { return []string{Chat, Responses, Messages} }

// maxBody bounds a request.
const maxBody = 64 << 20

// Server is a provider. It is safe for concurrent use.
type Server struct {
	URL    string // of what Start began; without a path
	script func(Call) Answer

	mu      sync.Mutex
	changed chan struct{} // closed and made again with each change
	calls   []Call
	gone    []int // numbers of calls whose client went away
	refused []error
	gates   []*Gate
}

// New returns a server that is not listening: it is a handler. A nil script is [Auto].
func New(script func(Call) Answer) *Server {
	if script == nil {
		script = Auto
	}
	return &Server{script: script, changed: make(chan struct{})}
}

// Start runs a server until t ends.
func Start(t testing.TB, script func(Call) Answer) *Server {
	s := New(script)
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		s.mu.Lock()
		for _, g := range s.gates {
			g.Open()
		}
		s.mu.Unlock()
		h.CloseClientConnections()
		h.Close()
	})
	s.URL = h.URL
	return s
}

// Row returns a [[provider]] row of a configuration for models that match the patterns.
func (s *Server) Row(name, kind string, models ...string) string {
	var quoted []string
	for _, m := range models {
		quoted = append(quoted, fmt.Sprintf("%q", m))
	}
	return fmt.Sprintf("[[provider]]\nname = %q\nkind = %q\nurl = %q\nmodels = [%s]\n", name, kind, s.URL+"/v1", strings.Join(quoted, ", "))
}

// Calls returns what came so far, in order.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Count returns how many calls have a prompt that contains text.
func (s *Server) Count(text string) (n int) {
	for _, c := range s.Calls() {
		if strings.Contains(c.Prompt, text) {
			n++
		}
	}
	return n
}

// Gone returns the numbers of the calls whose client went away before the end.
func (s *Server) Gone() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.gone)
}

// Refused returns why requests were refused that a real server refuses, too.
func (s *Server) Refused() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refused)
}

// Wait blocks until ok holds, which may call the methods of s. It fails t at its deadline.
func (s *Server) Wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatalf("the test ends before %s", what)
		}
	}
}

// change runs f, and wakes who waits.
func (s *Server) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Gate holds streams back.
type Gate struct {
	text  string
	steps chan struct{}
	open  chan struct{}
	once  sync.Once
}

// Hold makes every later call whose prompt contains text wait before each piece of its
// answer, until the gate lets it go.
func (s *Server) Hold(text string) *Gate {
	g := &Gate{text: text, steps: make(chan struct{}), open: make(chan struct{})}
	s.change(func() { s.gates = append(s.gates, g) })
	return g
}

// Step lets n pieces through, of whichever calls wait. It returns when the last is about to
// be written.
func (g *Gate) Step(n int) {
	for range n {
		select {
		case g.steps <- struct{}{}:
		case <-g.open:
			return
		}
	}
}

// Open lets everything through, now and later.
func (g *Gate) Open() { g.once.Do(func() { close(g.open) }) }

// ServeHTTP answers a call. The kind is known by the path: whatever comes before
// /chat/completions, /responses or /messages is ignored.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d := dialectOf(r.URL.Path)
	if r.Method != http.MethodPost || d == nil {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return
	}
	c, err := readCall(d, r, body)
	s.change(func() {
		c.Number, c.Attempt = len(s.calls)+1, 1
		for _, before := range s.calls {
			if before.Prompt == c.Prompt {
				c.Attempt++
			}
		}
		s.calls = append(s.calls, c)
		if err != nil {
			s.refused = append(s.refused, fmt.Errorf("call %d, %s: %w", c.Number, c.Kind, err))
		}
	})
	if err != nil {
		d.fail(w, Failure{Status: http.StatusBadRequest, Code: "invalid_request_error", Message: err.Error()})
		return
	}
	a := s.script(c)
	for i := range a.Calls {
		if a.Calls[i].ID == "" {
			a.Calls[i].ID = fmt.Sprintf("call_%d_%d", c.Number, i)
		}
	}
	if f := a.Failure; f != nil && f.Late == 0 {
		d.fail(w, *f)
		return
	}
	s.answer(w, r, d, c, a)
}

// answer writes a to the client, as a stream or whole. Both wait at the gates, piece by
// piece.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, d dialect, c Call, a Answer) {
	st := &stream{w: w, call: c, answer: a, pieces: a.pieces()}
	if c.Stream {
		w.Header().Set("Content-Type", "text/event-stream")
		d.begin(st)
	}
	for i, p := range st.pieces {
		if !s.pass(r, c) {
			return
		}
		switch i + 1 {
		case a.Cut:
			panic(http.ErrAbortHandler) // the connection breaks
		case a.Garble:
			_, _ = io.WriteString(w, "data: {\"broken\n\n")
		}
		if f := a.Failure; f != nil && f.Late == i+1 {
			if !c.Stream {
				d.fail(w, *f)
				return
			}
			d.failLate(st, *f)
			return
		}
		if c.Stream {
			d.piece(st, p)
		}
	}
	if c.Stream {
		d.end(st)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(encode(d.whole(st)))
}

// pass waits at the gates of c; false: the client went away.
func (s *Server) pass(r *http.Request, c Call) bool {
	s.mu.Lock()
	gates := slices.Clone(s.gates)
	s.mu.Unlock()
	for _, g := range gates {
		if !strings.Contains(c.Prompt, g.text) {
			continue
		}
		select {
		case <-g.steps:
		case <-g.open:
		case <-r.Context().Done():
		}
	}
	if r.Context().Err() == nil {
		return true
	}
	s.change(func() { s.gone = append(s.gone, c.Number) })
	return false
}

// stream is the answer to one call while it is written.
type stream struct {
	w        http.ResponseWriter
	call     Call
	answer   Answer
	pieces   []piece
	sequence int
}

// event writes one event of a stream. An empty name leaves the event: line out.
func (st *stream) event(name string, data any) {
	var b []byte
	if name != "" {
		b = fmt.Appendf(b, "event: %s\n", name)
	}
	b = append(append(append(b, "data: "...), encode(data)...), "\n\n"...)
	st.raw(b)
}

func (st *stream) raw(b []byte) {
	_, _ = st.w.Write(b)
	_ = http.NewResponseController(st.w).Flush()
}

// part returns the text of the pieces of a part.
func (st *stream) part(index int) string {
	var text strings.Builder
	for _, p := range st.pieces {
		if p.index == index {
			text.WriteString(p.text)
		}
	}
	return text.String()
}

// id returns the answer's id with a prefix.
func (st *stream) id(prefix string) string { return fmt.Sprintf("%s%d", prefix, st.call.Number) }

// callIndex returns which call of the answer a piece belongs to.
func (st *stream) callIndex(p piece) int {
	return slices.IndexFunc(st.answer.Calls, func(c ToolCall) bool { return c.ID == p.call.ID })
}

// A dialect is what one kind of provider says.
type dialect interface {
	kind() string
	read(c *Call, body map[string]jsontext.Value) error
	fail(w http.ResponseWriter, f Failure)
	begin(st *stream)
	piece(st *stream, p piece)
	failLate(st *stream, f Failure)
	end(st *stream)
	whole(st *stream) any
}

func dialectOf(path string) dialect {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return chat{}
	case strings.HasSuffix(path, "/responses"):
		return responses{}
	case strings.HasSuffix(path, "/messages"):
		return messages{}
	}
	return nil
}

// readCall reads a request. The call is filled as far as it can be read.
func readCall(d dialect, r *http.Request, body []byte) (c Call, err error) {
	c = Call{Kind: d.kind(), Path: r.URL.Path, Header: r.Header.Clone(), Body: body, Choice: "auto"}
	for _, name := range []string{"Authorization", "X-Api-Key"} {
		if v := r.Header.Get(name); v != "" {
			c.Key = strings.TrimPrefix(v, "Bearer ")
		}
		delete(c.Header, name)
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(body, &members); err != nil {
		return c, fmt.Errorf("the body is not a JSON object: %w", err)
	}
	if err := decode(members["model"], &c.Model); err != nil || c.Model == "" {
		return c, errors.New("model: field required")
	}
	if v, ok := members["stream"]; ok {
		if err := decode(v, &c.Stream); err != nil {
			return c, fmt.Errorf("stream: %w", err)
		}
	}
	return c, d.read(&c, members)
}

func decode(v jsontext.Value, to any) error {
	if v == nil {
		return errors.New("field required")
	}
	return json.Unmarshal(v, to)
}

// encode returns v as JSON, the same each time.
func encode(v any) []byte {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err) // a script's value that is no JSON
	}
	return b
}
