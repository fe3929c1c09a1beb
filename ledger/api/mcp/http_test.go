package mcp

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

// handlerOf serves tools whose calls do what client does.
func handlerOf(t *testing.T, c Config, client func(context.Context) (*client.Client, error)) *httptest.Server {
	t.Helper()
	tools, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(tools.Handler(func(r *http.Request) (Caller, bool) {
		return Caller{Tenant: "default", Agent: "main", Client: client}, r.Header.Get("X-Nobody") == ""
	}))
	t.Cleanup(s.Close)
	return s
}

func callStatus(ctx context.Context, url string, header ...string) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"status"}}`))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range header {
		r.Header.Set(h, "1")
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	return a.StatusCode, string(b), err
}

// A call whose client is gone ends, though it could take an hour.
func TestACallEndsWithItsClient(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	s := handlerOf(t, Config{Timeout: time.Hour}, func(ctx context.Context) (*client.Client, error) {
		close(begun)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	if _, _, err := callStatus(ctx, s.URL); err == nil {
		t.Error("a cancelled request was answered")
	}
	<-ended
}

// Calls over the bound wait, and are refused as busy if no place becomes free.
func TestCallsOverTheBoundAreBusy(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	s := handlerOf(t, Config{Timeout: 50 * time.Millisecond, Calls: 1}, func(context.Context) (*client.Client, error) {
		close(begun)
		<-release
		return nil, api.Errorf(api.Unavailable, nil, "no server")
	})
	first := make(chan string)
	go func() {
		_, body, _ := callStatus(t.Context(), s.URL)
		first <- body
	}()
	<-begun
	if _, body, err := callStatus(t.Context(), s.URL); err != nil || !strings.Contains(body, "busy: ") {
		t.Errorf("%v %s", err, body)
	}
	close(release)
	if body := <-first; !strings.Contains(body, "unavailable: no server") {
		t.Errorf("the first: %s", body)
	}
}

// A defect ends one call: its error and the log have an id, and no content.
func TestADefectEndsOneCallAndTellsNothing(t *testing.T) {
	log := new(bytes.Buffer)
	s := handlerOf(t, Config{Logger: slog.New(slog.NewTextHandler(log, nil))}, func(context.Context) (*client.Client, error) { panic("zebra") })
	for range 2 {
		log.Reset()
		code, body, err := callStatus(t.Context(), s.URL)
		_, id, _ := strings.Cut(body, "under the id ")
		if err != nil || code != 200 || len(id) < 26 || !strings.Contains(log.String(), id[:26]) {
			t.Fatalf("%v, %d %s\n%s", err, code, body, log)
		}
		if strings.Contains(body, "zebra") || strings.Contains(log.String(), "zebra") {
			t.Errorf("the panic's text: %s\n%s", body, log)
		}
	}
}

func TestNobodyCallsNoTool(t *testing.T) {
	s := handlerOf(t, Config{}, nil)
	if code, body, err := callStatus(t.Context(), s.URL, "X-Nobody"); code != 403 || err != nil {
		t.Errorf("%v, %d %s", err, code, body)
	}
}

// A thousand clients that say hello and never good-bye leave nothing behind.
func TestClientsThatNeverEndLeaveNothingBehind(t *testing.T) {
	tools, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	h := tools.Handler(func(*http.Request) (Caller, bool) { return Caller{Agent: "main"}, true })
	for i := range 1000 {
		r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != 200 || !strings.Contains(w.Body.String(), `"name":"nexus"`) || w.Header().Get("Mcp-Session-Id") != "" {
			t.Fatalf("client %d: %d %s", i, w.Code, w.Body)
		}
	}
	for s := range tools.full.Sessions() {
		t.Fatalf("session %q is still there", s.ID())
	}
}
