package responses_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// While a model thinks, a stream has a comment each 15 seconds, and so has one that somebody
// follows by GET. Behind the end there is nothing, and no timer stays.
func TestAQuietStreamHasSignsOfLife(t *testing.T) {
	for name, open := range map[string]func(r *rig) *http.Response{
		"POST": func(r *rig) *http.Response {
			return r.send("POST", "/v1/responses", `{"model":"m","input":"wait, then say exactly: done","stream":true}`)
		},
		"GET": func(r *rig) *http.Response {
			id := r.ok("POST", "/v1/responses", `{"model":"m","input":"wait, then say exactly: done","background":true}`)["id"].(string)
			return r.send("GET", "/v1/responses/"+id+"?stream=true", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var timers atomic.Int64
			tick := make(chan time.Time)
			r.config.After = func(d time.Duration) (<-chan time.Time, func() bool) {
				if d != 15*time.Second {
					t.Errorf("a timer of %s", d)
				}
				timers.Add(1)
				return tick, func() bool { timers.Add(-1); return true }
			}
			r.crash() // the next server has it
			res := open(r)
			defer res.Body.Close()
			in := bufio.NewReader(res.Body)
			id := ""
			line := func() string {
				s, err := in.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				if i := strings.Index(s, `"resp_`); i >= 0 && id == "" {
					id = s[i+1 : i+1+strings.IndexByte(s[i+1:], '"')]
				}
				return s
			}
			for line() != "event: response.in_progress\n" {
			}
			line() // its data
			line()
			for range 3 {
				tick <- time.Time{}
				if a, b := line(), line(); a != ": keep-alive\n" || b != "\n" {
					t.Fatalf("%q %q", a, b)
				}
			}
			close(r.model.hold)
			rest, err := io.ReadAll(in)
			if err != nil || !strings.HasSuffix(string(rest), "}\n\ndata: [DONE]\n\n") || !strings.Contains(string(rest), "event: response.completed") || strings.Contains(string(rest), "keep-alive") {
				t.Errorf("%v: %q", err, rest)
			}
			select {
			case tick <- time.Time{}:
				t.Error("somebody waits for a timer behind the end")
			default:
			}
			if again := r.stream("GET", "/v1/responses/"+id+"?stream=true", ""); len(again) < 5 || timers.Load() != 0 {
				t.Errorf("%d events, %d timers stay", len(again), timers.Load())
			}
		})
	}
}
