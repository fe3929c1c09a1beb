package responses_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
	"nexus/turns"
)

// inForce are the instructions, the tools and the model that a session has.
func (r *rig) inForce(session turns.ID) (system []string, tools int, model string) {
	r.t.Helper()
	cx := must(r.ledger.Context(r.t.Context(), session, api.GetContext{}))(r.t)
	var sections []turns.Section
	if cx.System.Kind() == '[' {
		if err := json.Unmarshal(cx.System, &sections); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, s := range sections {
		system = append(system, s.Content)
	}
	return system, len(cx.Tools), must(r.ledger.Session(r.t.Context(), session))(r.t).Model
}

func sessionIn(t *testing.T, response map[string]any) turns.ID {
	t.Helper()
	return must(turns.ParseID(response["nexus"].(map[string]any)["session"].(string)))(t)
}

// The instructions and tools of a request are those that its model gets and its session has,
// whoever changed the session's since the last request: equal requests of one server are no
// sign that nothing changed.
func TestInstructionsHoldWhoeverChangedTheSession(t *testing.T) {
	const own = `"instructions":"one","tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}}}]`
	other := "m-other"
	changes := map[string]api.SessionSettings{
		"the instructions": {System: &api.System{{Content: "x"}}},
		"a named section":  {System: &api.System{{Content: "one"}, {Name: "extra", Content: "x"}}},
		"all of them gone": {System: &api.System{}},
		"the tools":        {Tools: &[]turns.Raw{}},
		"the model":        {Model: &other},
	}
	for name, tc := range map[string]struct {
		body    func(previous string) string
		headers []string
	}{
		"a chain":                 {body: func(p string) string { return `,"truncation":"auto"` + p }},
		"a chain, disabled":       {body: func(p string) string { return p }},
		"a named session":         {body: func(string) string { return `,"truncation":"auto"` }, headers: []string{"X-Nexus-Session", "desk"}},
		"a named session of none": {body: func(string) string { return `,"store":false` }, headers: []string{"X-Nexus-Session", "desk"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			previous := ""
			ask := func() map[string]any {
				out := r.ok("POST", "/v1/responses", `{"model":"m","input":"hello",`+own+tc.body(previous)+`}`, tc.headers...)
				if strings.HasPrefix(name, "a chain") {
					previous = `,"previous_response_id":"` + out["id"].(string) + `"`
				}
				return out
			}
			session := sessionIn(t, ask())
			for what, change := range changes {
				must(r.ledger.Set(t.Context(), session, api.SetSession{SessionSettings: change}))(t)
				if got := sessionIn(t, ask()); got != session {
					t.Fatalf("%s: another session", what)
				}
				asked := r.model.asked[len(r.model.asked)-1]
				if !slices.Equal(asked.System, []string{"one"}) || len(asked.Tools) != 1 {
					t.Errorf("%s: the model had the instructions %q and %d tools", what, asked.System, len(asked.Tools))
				}
				if system, tools, model := r.inForce(session); !slices.Equal(system, []string{"one"}) || tools != 1 || model != "m" {
					t.Errorf("%s: the session has the instructions %q, %d tools, the model %s", what, system, tools, model)
				}
			}
		})
	}
}

// Settings that are in force are not stored again: of two equal requests the second stores
// its two turns, and nothing else.
func TestSettingsInForceAreNotStoredAgain(t *testing.T) {
	r := newRig(t)
	const body = `{"model":"m","input":"hello","instructions":"one","tools":[{"type":"function","name":"f","parameters":{"b":1,"a":1.0e0}}],"truncation":"auto"}`
	position := func() (seq uint64) {
		s := must(r.ledger.Session(t.Context(), r.desk().ID))(t)
		if _, err := fmt.Sscanf(s.Position, "p%d", &seq); err != nil {
			t.Fatalf("%q: %v", s.Position, err)
		}
		return seq
	}
	r.ok("POST", "/v1/responses", body, "X-Nexus-Session", "desk")
	before := position()
	r.ok("POST", "/v1/responses", body, "X-Nexus-Session", "desk")
	if n := position() - before; n != 2 {
		t.Errorf("%d events were stored, want 2", n)
	}
}

// A session that the request names keeps the instructions that somebody gave it, where the
// request has none; a chain has those of each request only.
func TestARequestWithoutInstructions(t *testing.T) {
	r := newRig(t)
	session := sessionIn(t, r.ok("POST", "/v1/responses", `{"model":"m","input":"hello","truncation":"auto"}`, "X-Nexus-Session", "desk"))
	must(r.ledger.Set(t.Context(), session, api.SetSession{SessionSettings: api.SessionSettings{System: &api.System{{Content: "kept"}}}}))(t)
	id := r.ok("POST", "/v1/responses", `{"model":"m","input":"hello","truncation":"auto"}`, "X-Nexus-Session", "desk")["id"].(string)
	if got := r.model.asked[len(r.model.asked)-1].System; !slices.Equal(got, []string{"kept"}) {
		t.Errorf("the model had the instructions %q", got)
	}
	r.ok("POST", "/v1/responses", `{"model":"m","input":"hello","truncation":"auto","previous_response_id":"`+id+`"}`)
	if got := r.model.asked[len(r.model.asked)-1].System; len(got) != 0 {
		t.Errorf("the model had the instructions %q", got)
	}
	if system, _, _ := r.inForce(session); len(system) != 0 {
		t.Errorf("the session has the instructions %q", system)
	}
}

// A retry after a kill between the turn of a request and its settings sets them.
func TestARetrySetsWhatACrashLeftOut(t *testing.T) {
	for _, member := range []string{`"truncation":"auto"`, `"truncation":"disabled"`} {
		r := newRig(t)
		first := r.ok("POST", "/v1/responses", `{"model":"m","input":"hello","instructions":"one",`+member+`}`)
		session := sessionIn(t, first)
		r.model.started = make(chan struct{})
		body := `{"model":"m","input":"wait","instructions":"two","previous_response_id":"` + first["id"].(string) + `",` + member + `}`
		ctx, leave := context.WithCancel(t.Context()) // else its client library asks again after the crash
		left := make(chan struct{})
		go func() {
			defer close(left)
			q, _ := http.NewRequestWithContext(ctx, "POST", r.URL+"/v1/responses", strings.NewReader(body))
			q.Header.Set("Content-Type", "application/json")
			q.Header.Set("Idempotency-Key", "k")
			if res, err := http.DefaultClient.Do(q); err == nil {
				_ = res.Body.Close()
			}
		}()
		<-r.model.started
		leave()
		<-left
		r.crash()
		// As if the kill had come before the settings.
		must(r.ledger.Set(t.Context(), session, api.SetSession{SessionSettings: api.SessionSettings{System: &api.System{{Content: "one"}}}}))(t)
		files := must(filepath.Glob(filepath.Join(r.config.Spool, "resp_*")))(t)
		for _, f := range files {
			if err := os.Remove(f); err != nil {
				t.Fatal(err)
			}
		}
		close(r.model.hold)
		r.model.started = nil
		r.ok("POST", "/v1/responses", body, "Idempotency-Key", "k")
		if got := r.model.asked[len(r.model.asked)-1].System; !slices.Equal(got, []string{"two"}) {
			t.Errorf("%s: the model had the instructions %q", member, got)
		}
		if system, _, _ := r.inForce(session); !slices.Equal(system, []string{"two"}) {
			t.Errorf("%s: the session has the instructions %q", member, system)
		}
	}
}
