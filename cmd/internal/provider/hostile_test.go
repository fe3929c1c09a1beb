package provider_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"nexus/cmd/internal/provider"
	"nexus/turns"
)

// hostile asks a server that answers with h, with the key, and returns the error and how
// often the server was asked.
func hostile(t *testing.T, kind string, l provider.Limits, h http.HandlerFunc) (*provider.Error, int32) {
	t.Helper()
	var calls atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		h(w, r)
	}))
	defer s.Close()
	set, err := provider.New([]provider.Row{{Name: "row", Kind: kind, URL: s.URL + "/v1", KeyEnv: "KEY", Models: []any{"*"}}}, provider.Options{Limits: l, Getenv: func(string) string { return key }})
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := set.For("m")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Generate(t.Context(), &provider.Request{Model: "m", Messages: []turns.Message{turns.TextMessage(turns.User, "x")}}, func(provider.Event) error { return nil })
	e := (*provider.Error)(nil)
	if !errors.As(err, &e) {
		t.Fatalf("%v is no error of a provider", err)
	}
	if strings.Contains(fmt.Sprintf("%+v", *e), key[5:16]) || len(e.Message) > 1100 {
		t.Errorf("the error holds the key, or is long: %+v", *e)
	}
	return e, calls.Load()
}

// A redirect is followed nowhere: the key and the content are for the configured server only.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	eachKind(t, func(t *testing.T, kind string) {
		for _, status := range []int{301, 302, 303, 307, 308} {
			for _, to := range []string{other.URL + "/?k=" + key, "file:///etc/passwd", "/v1/again", "gopher://x", "::bad"} {
				e, calls := hostile(t, kind, provider.Limits{Retries: -1}, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Location", to)
					w.WriteHeader(status)
				})
				if calls != 1 || e.Code == "" {
					t.Errorf("%d to %s: %d calls, %+v", status, to, calls, e)
				}
			}
		}
	})
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("another server was asked %d times", n)
	}
}

// Replies that are no stream of a model are typed errors, after bounded bytes, whatever they hold.
func TestRepliesThatAreNoStreamsAreRefused(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := io.CopyN(z, zeros{}, 64<<20); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	stream := func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream") }
	for name, tc := range map[string]struct {
		code string
		lost bool
		h    http.HandlerFunc
	}{
		"a page": {"invalid_answer", true, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<html>Please log in, "+key+"</html>")
		}},
		"an answer that is no stream": {"invalid_answer", true, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `{"id":"x"}`)
		}},
		"an object that is no answer": {"invalid_answer", true, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"id":"x"}`)
		}},
		"an object without an end": {"invalid_answer", true, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for r.Context().Err() == nil {
				if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<16)); err != nil {
					return
				}
			}
		}},
		"nothing": {"lost", true, func(w http.ResponseWriter, _ *http.Request) { stream(w) }},
		"a line without an end": {"invalid_answer", true, func(w http.ResponseWriter, r *http.Request) {
			stream(w)
			for r.Context().Err() == nil {
				if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<16)); err != nil {
					return
				}
			}
		}},
		"comments without an end": {"invalid_answer", true, func(w http.ResponseWriter, r *http.Request) {
			stream(w)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat(": \n \n\n", 1000)); err != nil {
					return
				}
			}
		}},
		"a bomb": {"invalid_answer", true, func(w http.ResponseWriter, _ *http.Request) {
			stream(w)
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		}},
		"a bomb in an error": {"provider_denied", false, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write(bomb.Bytes())
		}},
		"headers without an end": {"lost", true, func(w http.ResponseWriter, _ *http.Request) {
			for i := range 3000 {
				w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 100))
			}
		}},
		"the key in an error": {"provider_denied", false, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			for k := range r.Header {
				fmt.Fprintf(w, "%s: %s\n", k, r.Header.Get(k))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e, calls := hostile(t, "openai-chat", provider.Limits{Retries: -1, Event: 1 << 20, Answer: 4 << 20}, tc.h)
			if e.Code != tc.code || e.Lost != tc.lost || calls != 1 {
				t.Errorf("%d calls, %+v", calls, e)
			}
		})
	}
}

// zeros is an endless file of zeros.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
