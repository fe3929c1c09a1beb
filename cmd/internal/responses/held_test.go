package responses_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nexus/cmd/internal/responses"
	"nexus/cmd/internal/web"
	"nexus/ledger/api"
	"nexus/turns"
)

// desk is the session of the label desk.
func (r *rig) desk() *api.Session {
	r.t.Helper()
	return must(r.ledger.Resolve(r.t.Context(), "desk"))(r.t)
}

// isHead checks that the head of the session is what it was.
func (r *rig) isHead(want *turns.ID) {
	r.t.Helper()
	if got := r.desk().Head; got == nil || *got != *want {
		r.t.Errorf("the head is %v, want %v", got, want)
	}
}

// A history that the ledger refuses leaves the head where it was.
func TestARefusedHistoryLeavesTheHead(t *testing.T) {
	r := newRig(t)
	k := newKeeper(r, "X-Nexus-Session", "desk", "X-Nexus-Input", "whole")
	k.send(message("user", "one"))
	head := r.desk().Head
	const nobodys = `{"model":"m","store":false,"input":[{"type":"function_call_output","call_id":"call_9","output":"done"}]}`
	if status, out := r.call("POST", "/v1/responses", nobodys, k.headers...); status != http.StatusBadRequest {
		t.Errorf("%d %v", status, out)
	}
	r.isHead(head)
	r.refused(http.StatusBadRequest, "invalid_value", "POST", "/v1/responses", `{"model":"m","store":false,"input":[]}`, k.headers...)
	r.isHead(head)
}

// A session whose answer was lost in a crash is answered again by the daemon that follows.
func TestACrashHoldsNoSessionUp(t *testing.T) {
	for _, store := range []bool{true, false} {
		t.Run(fmt.Sprint("store ", store), func(t *testing.T) {
			r := newRig(t)
			k := newKeeper(r, "X-Nexus-Session", "desk", "X-Nexus-Input", "whole")
			k.send(message("user", "one"))
			started := make(chan struct{})
			r.model.started = started
			go func() {
				q, _ := http.NewRequest("POST", r.URL+"/v1/responses", strings.NewReader(fmt.Sprintf(`{"model":"m","store":%v,"input":"wait"}`, store)))
				q.Header.Set("Content-Type", "application/json")
				q.Header.Set("X-Nexus-Session", "desk")
				q.Header.Set("X-Nexus-Input", "whole")
				if res, err := http.DefaultClient.Do(q); err == nil {
					_ = res.Body.Close()
				}
			}()
			<-started
			r.crash()
			if n := k.news(k.send(message("user", "two"))); n != 1 {
				t.Errorf("%d parts were stored of 1", n)
			}
			if want := k.texts()[:len(k.texts())-1]; !slices.Equal(r.model.texts(-1), want) {
				t.Errorf("the model read %q, want %q", r.model.texts(-1), want)
			}
		})
	}
}

// A kill between the turn of a request and its file holds the session up neither. Only for
// another daemon, which may be at work, a session waits.
func TestACrashBeforeTheFileHoldsNoSessionUp(t *testing.T) {
	for name, tc := range map[string]struct {
		file string // beside those of the responses, that is gone too
		want int
	}{"the same daemon": {"none", http.StatusOK}, "another daemon": {"door", http.StatusConflict}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.ok("POST", "/v1/responses", `{"model":"m","input":"wait","background":true}`, "X-Nexus-Session", "desk")
			r.crash()
			files, err := filepath.Glob(filepath.Join(r.config.Spool, "*.spool"))
			if err != nil || len(files) != 1 {
				t.Fatalf("%v, %v", files, err)
			}
			for _, f := range append(files, filepath.Join(r.config.Spool, tc.file)) {
				_ = os.Remove(f)
			}
			r.crash()
			if status, out := r.call("POST", "/v1/responses", `{"model":"m","input":"two"}`, "X-Nexus-Session", "desk"); status != tc.want {
				t.Errorf("%d %v", status, out)
			}
		})
	}
}

// A request whose settings are refused holds its session up for nobody.
func TestRefusedSettingsHoldNoSessionUp(t *testing.T) {
	r := newRig(t)
	k := newKeeper(r, "X-Nexus-Session", "desk", "X-Nexus-Input", "whole")
	k.send(message("user", "one"))
	head := r.desk().Head
	body := `{"model":"m","store":false,"input":"other","instructions":"` + strings.Repeat("x", 5<<20) + `"}`
	if status, out := r.call("POST", "/v1/responses", body, k.headers...); status == http.StatusOK {
		t.Fatalf("%.300v", out)
	}
	r.isHead(head)
	if n := k.news(k.send(message("user", "two"))); n != 1 {
		t.Errorf("%d parts were stored of 1", n)
	}
}

// ask is a request that is given to a server without a network, so that its context is known.
func (r *rig) ask(ctx context.Context, d *responses.Server, body string) *httptest.ResponseRecorder {
	q := httptest.NewRequestWithContext(ctx, "POST", "/v1/responses", strings.NewReader(body))
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("X-Nexus-Session", "desk")
	q.Header.Set("X-Nexus-Input", "whole")
	q.Host = "localhost"
	w := httptest.NewRecorder()
	(&web.Guard{Anyone: &web.Caller{Tenant: "default", Agent: "main", Scope: web.Write}}).Handler(d.Handler()).ServeHTTP(w, q)
	return w
}

// between opens another server on the ledger, which calls hook between the move of the head
// and the append.
func (r *rig) between(hook func()) *responses.Server {
	r.t.Helper()
	c := r.config
	c.Spool = r.t.TempDir()
	var once atomic.Bool
	var at atomic.Pointer[turns.ID]
	at.Store(r.desk().Head)
	c.Now = func() time.Time {
		if head := r.desk().Head; (head == nil || *head != *at.Load()) && !once.Swap(true) {
			hook()
		}
		return time.Now()
	}
	d := must(responses.New(c))(r.t)
	r.t.Cleanup(func() { _ = d.Close(context.Background()) })
	return d
}

// A client that goes away while its request is stored leaves a session that goes on.
func TestAClientThatLeavesHoldsNoSessionUp(t *testing.T) {
	r := newRig(t)
	k := newKeeper(r, "X-Nexus-Session", "desk", "X-Nexus-Input", "whole")
	k.send(message("user", "one"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d := r.between(cancel)
	r.ask(ctx, d, `{"model":"m","store":false,"input":"other"}`)
	if ctx.Err() == nil {
		t.Fatal("the client did not go away")
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if head := r.desk().Head; head == nil {
		t.Error("the session has no head")
	}
	if n := k.news(k.send(message("user", "two"))); n != 1 {
		t.Errorf("%d parts were stored of 1", n)
	}
}

// Who begins anew in a session reads nothing of a turn that another daemon stored meanwhile.
func TestABeginningFollowsNobody(t *testing.T) {
	r := newRig(t)
	k := newKeeper(r, "X-Nexus-Session", "desk", "X-Nexus-Input", "whole")
	k.send(message("user", "one"))
	var other turns.ID
	d := r.between(func() {
		other = must(r.ledger.Append(t.Context(), r.desk().ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.User, Parts: []turns.Part{turns.TextPart("of another")}}}}))(t).ID
	})
	calls := r.model.calls()
	w := r.ask(t.Context(), d, `{"model":"m","store":false,"input":"anew"}`)
	if other.IsZero() {
		t.Fatalf("nobody came between: %d %s", w.Code, w.Body)
	}
	if r.model.calls() > calls && len(r.model.texts(-1)) != 1 {
		t.Errorf("the model read %q", r.model.texts(-1))
	}
	if w.Code != http.StatusConflict {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	r.isHead(&other)
}

// After the loss of a daemon's host, its session waits on another daemon for as long as a
// model may take, and no longer. The refusal says so, and a rewind frees the session at once.
func TestASessionOfALostHostIsFreed(t *testing.T) {
	for name, free := range map[string]func(r *rig, head turns.ID){
		"by a rewind": func(r *rig, head turns.ID) {
			must(r.ledger.Move(r.t.Context(), r.desk().ID, api.MoveSession{To: &head}))(r.t)
		},
		"by time": func(r *rig, _ turns.ID) {
			r.config.Now = func() time.Time { return time.Now().Add(61 * time.Minute) }
			r.crash()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.ok("POST", "/v1/responses", `{"model":"m","input":"one"}`, "X-Nexus-Session", "desk")
			head := *r.desk().Head
			r.ok("POST", "/v1/responses", `{"model":"m","input":"wait","background":true}`, "X-Nexus-Session", "desk")
			r.crash()
			for _, f := range must(filepath.Glob(filepath.Join(r.config.Spool, "*")))(t) { // of the host that is lost
				if err := os.Remove(f); err != nil {
					t.Fatal(err)
				}
			}
			r.crash()
			said := r.refused(http.StatusConflict, "conversation_locked", "POST", "/v1/responses", `{"model":"m","input":"two"}`, "X-Nexus-Session", "desk")
			if !strings.Contains(said, "another server") || !strings.Contains(said, "rewind") {
				t.Errorf("the refusal says %q", said)
			}
			free(r, head)
			r.ok("POST", "/v1/responses", `{"model":"m","input":"two"}`, "X-Nexus-Session", "desk")
		})
	}
}
