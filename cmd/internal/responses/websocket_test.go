package responses_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// Two responses that are not stored, one on the other, on one connection: the model gets
// what was said before, and the ledger nothing.
func TestWebSocketContinuesWithoutStoring(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	events := r.turn(c, `,"store":false,"input":"The word is cobalt, exactly: fine"`)
	first, _ := last(events)
	if textIn(first) != "fine" || first["store"] != false || len(events) < 8 {
		t.Fatalf("%v", events)
	}
	for n, e := range events {
		if e["sequence_number"] != float64(n) {
			t.Errorf("event %d is %v", n, e)
		}
	}
	id := first["id"].(string)
	second, _ := last(r.turn(c, `,"store":false,"input":"and?","previous_response_id":"`+id+`"`))
	if textIn(second) != "3 messages" || second["previous_response_id"] != id {
		t.Errorf("%v", second)
	}
	if got := strings.Join(r.model.texts(-1), "|"); got != "user: The word is cobalt, exactly: fine|assistant: fine|user: and?" {
		t.Errorf("the model got %q", got)
	}
	// Neither HTTP nor another connection knows it.
	r.refused(http.StatusNotFound, "response_not_found", "GET", "/v1/responses/"+id, "")
	r.refused(http.StatusBadRequest, "previous_response_not_found", "POST", "/v1/responses", `{"model":"m","input":"x","previous_response_id":"`+id+`"}`)
	other := r.dial()
	if _, code := last(r.turn(other, `,"store":false,"input":"x","previous_response_id":"`+id+`"`)); code != "previous_response_not_found" {
		t.Errorf("another connection: %q", code)
	}
	if response, _ := last(r.turn(other, `,"store":false,"input":"exactly: here"`)); textIn(response) != "here" {
		t.Errorf("the connection behind an error: %v", response)
	}
	for s, err := range r.ledger.Sessions(t.Context()) {
		t.Errorf("session %v, %v", s.ID, err)
	}
}

// A stored response goes on over both transports.
func TestWebSocketGoesOnWithStoredResponses(t *testing.T) {
	r := newRig(t)
	http1 := r.ok("POST", "/v1/responses", `{"model":"m","input":"exactly: one"}`)
	c := r.dial()
	two, _ := last(r.turn(c, `,"input":"exactly: two","previous_response_id":"`+http1["id"].(string)+`"`))
	if textIn(two) != "two" {
		t.Fatalf("%v", two)
	}
	three := r.ok("POST", "/v1/responses", `{"model":"m","input":"how many?","previous_response_id":"`+two["id"].(string)+`"}`)
	if textIn(three) != "5 messages" {
		t.Errorf("%v", three)
	}
	// The latest one of the connection is known there, whatever store says.
	four, code := last(r.turn(c, `,"store":false,"input":"how many?","previous_response_id":"`+two["id"].(string)+`"`))
	if textIn(four) != "5 messages" {
		t.Errorf("%v %s", four, code)
	}
}

// A continuation that fails is evicted; a stored one is still in the ledger.
func TestWebSocketEvictsWhatFailed(t *testing.T) {
	r := newRig(t)
	for _, failing := range []string{`,"input":[{"type":"function_call_output","call_id":"call_missing","output":"x"}]`, `,"input":"fail"`, `,"input":3`, `,"temperature":9`} {
		c := r.dial()
		first, _ := last(r.turn(c, `,"store":false,"input":"exactly: a"`))
		id := `,"store":false,"previous_response_id":"` + first["id"].(string) + `"`
		if response, code := last(r.turn(c, id+failing)); code == "" && response["status"] != "failed" {
			t.Errorf("%s: %v", failing, response)
		}
		if _, code := last(r.turn(c, id+`,"input":"exactly: b"`)); code != "previous_response_not_found" {
			t.Errorf("behind %s: %q", failing, code)
		}
	}
}

// A warm-up asks no model; what it said comes before what continues it, stored or not.
func TestWebSocketWarmUp(t *testing.T) {
	r := newRig(t)
	for _, store := range []string{"false", "true"} {
		c := r.dial()
		calls := r.model.calls()
		events := r.turn(c, `,"store":`+store+`,"stream":true,"generate":false,"input":"prepare"`)
		warm, _ := last(events)
		if len(events) != 3 || warm["status"] != "completed" || len(warm["output"].([]any)) != 0 || r.model.calls() != calls {
			t.Fatalf("%v", events)
		}
		response, code := last(r.turn(c, `,"store":`+store+`,"input":"go","previous_response_id":"`+warm["id"].(string)+`"`))
		if textIn(response) != "2 messages" {
			t.Errorf("store %s: %v %s", store, response, code)
		}
		if got := strings.Join(r.model.texts(-1), "|"); got != "user: prepare|user: go" {
			t.Errorf("the model got %q", got)
		}
	}
	c := r.dial()
	if _, code := last(r.turn(c, `,"generate":false,"input":"x","model":"m"`)); code != "invalid_json" { // model twice
		t.Errorf("%q", code)
	}
}

// A connection that closes cancels what is not stored; what is stored is generated on.
func TestWebSocketThatClosesLeavesStoredResponses(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(`{"type":"response.create","model":"m","input":"wait, exactly: done"}`)); err != nil {
		t.Fatal(err)
	}
	_, b, err := c.Read(t.Context()) // response.created
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), `"id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	_ = c.CloseNow()
	close(r.model.hold)
	for {
		got := r.ok("GET", "/v1/responses/"+id, "")
		if got["status"] == "completed" {
			if textIn(got) != "done" {
				t.Errorf("%v", got)
			}
			return
		}
		if got["status"] != "in_progress" {
			t.Fatalf("%v", got)
		}
	}
}

// Who may not write gets no connection, and a plain GET says what it lacks.
func TestWebSocketNeedsItsScopeAndUpgrade(t *testing.T) {
	r := newRig(t)
	r.refused(http.StatusMethodNotAllowed, "method_not_allowed", "GET", "/v1/responses", "")
	for name, h := range map[string]http.Header{"reader": {"X-Agent": {"reader"}}, "another site": {"Origin": {"https://evil.example"}}} {
		_, res, err := websocket.Dial(t.Context(), r.URL+"/v1/responses", &websocket.DialOptions{HTTPHeader: h})
		if err == nil || res == nil || res.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %v %v", name, res, err)
		}
	}
	if res := r.dial("X-Nexus-Session", "my-session"); res == nil {
		t.Fatal()
	}
}

// The header x-nexus-session of the upgrade holds for each turn.
func TestWebSocketTurnsGoToTheNamedSession(t *testing.T) {
	r := newRig(t)
	c := r.dial("X-Nexus-Session", "mine")
	for range 2 {
		last(r.turn(c, `,"input":"hello"`))
	}
	s, err := r.ledger.Resolve(t.Context(), "mine")
	if err != nil || s.Turns != 4 && s.Turns != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	if got := r.model.texts(-1); len(got) != 3 || !slices.Contains(got, "assistant: 1 messages") {
		t.Errorf("%q", got)
	}
}
