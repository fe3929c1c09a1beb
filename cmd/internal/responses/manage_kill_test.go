package responses_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/responses"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// cutter is a connection of a server to the ledger that dies with the server before the request
// whose number left counts down to: what was sent before it arrives, that one does not.
type cutter struct {
	mu   sync.Mutex
	left int
	die  func()
}

func (c *cutter) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return &cutConn{conn, c}, err
}

type cutConn struct {
	net.Conn
	c *cutter
}

func (w *cutConn) Write(b []byte) (int, error) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.c.left -= bytes.Count(b, []byte("PUB nexus.v1.")); w.c.left <= 0 {
		w.c.die()
		return 0, io.ErrClosedPipe
	}
	return w.Conn.Write(b)
}

// killedBefore sends a request to a server of its own, which is killed before its n-th request
// to the ledger. It reports whether the server lived.
func (r *rig) killedBefore(n int, body, key string) (lived bool) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	killed := make(chan struct{})
	cut := &cutter{left: n, die: sync.OnceFunc(func() { close(killed) })}
	nc, err := r.daemon.Connect(nats.SetCustomDialer(cut), nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		r.t.Fatal(err)
	}
	door := r.another(client.New(nc, "default", "main"))
	server := httptest.NewServer(guarded(func() *responses.Server { return door }))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		q, err := http.NewRequestWithContext(ctx, "POST", server.URL+"/v1/responses", strings.NewReader(body))
		if err != nil {
			return
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Idempotency-Key", key)
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			return
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
	}()
	select {
	case <-killed:
	case <-ended:
		lived = true
	}
	gone, stop := context.WithCancel(context.Background())
	stop()
	_ = door.Close(gone) // so that it writes nothing of its end, as a killed one
	nc.Close()
	if !lived {
		cancel()
	}
	<-ended
	server.Close()
	if err := door.Close(context.Background()); err != nil {
		r.t.Error(err)
	}
	return lived
}

// lost is the compaction items of the responses whose answers were lost, as clients may have
// seen them.
func (r *rig) lost() (items []map[string]any) {
	r.t.Helper()
	files, err := os.ReadDir(r.config.Spool)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), ".spool")
		if !ok {
			continue
		}
		if item, _ := front(r.t, r.ok("GET", "/v1/responses/"+id, "")); item != nil {
			items = append(items, item)
		}
	}
	return items
}

// A server that is killed before any of its requests to the ledger leaves what a retry with the
// key goes on from: one compaction, one item, the same one that a client may have seen, and
// the whole input.
func TestKilledDoorCompactsOnce(t *testing.T) {
	for name, request := range map[string]func(r *rig) (body string, input int){
		"a chain": func(r *rig) (string, int) { return r.managedChain("exactly: two words") + `,"stream":true}`, 1 },
		"a list": func(r *rig) (string, int) {
			list := items(7)
			return encode(r.t, map[string]any{"model": "m", "input": list, "stream": true, "context_management": []any{map[string]any{"type": "compaction", "compact_threshold": 1500}}}), len(list)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			body, input := request(r)
			seen := 0
			for n := 1; ; n++ {
				key := fmt.Sprint("key ", n)
				lived := r.killedBefore(n, body, key)
				lost := r.lost()
				a := r.ok("POST", "/v1/responses", strings.Replace(body, `"stream":true`, `"stream":false`, 1), "Idempotency-Key", key)
				item, rest := front(t, a)
				if item == nil || len(rest) != 1 || a["status"] != "completed" {
					t.Fatalf("killed before request %d: %v", n, a)
				}
				for _, got := range lost {
					if seen++; !reflect.DeepEqual(got, item) {
						t.Errorf("killed before request %d: the client saw %v, the retry has %v", n, got, item)
					}
				}
				path := "/v1/responses/" + a["id"].(string)
				if got := r.ok("GET", path, ""); !reflect.DeepEqual(got, a) {
					t.Errorf("killed before request %d: %v\nGET %v", n, a, got)
				}
				if got := r.ok("GET", path+"/input_items?limit=100", "")["data"].([]any); len(got) != input {
					t.Errorf("killed before request %d: %d input items, want %d", n, len(got), input)
				}
				session, err := turns.ParseID(a["nexus"].(map[string]any)["session"].(string))
				if err != nil {
					t.Fatal(err)
				}
				made, stored := 0, make(map[string]bool)
				for turn, err := range r.ledger.Turns(t.Context(), session, api.ListTurns{Full: true}) {
					if err != nil {
						t.Fatal(err)
					}
					if turn.Type == "compaction" {
						made++
						continue
					}
					for _, m := range turn.Messages {
						if text := m.Parts[0].Content; stored[text] {
							t.Errorf("killed before request %d: %.100q is stored twice", n, text)
						} else {
							stored[text] = true
						}
					}
				}
				if made != 1 {
					t.Errorf("killed before request %d: %d compactions", n, made)
				}
				if lived {
					if n < 8 || seen == 0 {
						t.Errorf("%d requests, and the client saw the item %d times", n, seen)
					}
					break
				}
			}
		})
	}
}
