package responses_test

import (
	"fmt"
	"net/http"
	"testing"

	"nexus/cmd/internal/provider"
	"nexus/ledger/api"
	"nexus/turns"
	"path/filepath"
)

// A request that names a session which takes no more turns is refused, and nothing is stored: no fork goes on in silence. What
// was stored before is answered, and a response of it can be continued.
func TestARequestThatNamesAClosedSessionIsRefused(t *testing.T) {
	r := newRig(t)
	const named = "X-Nexus-Session"
	first := r.ok("POST", "/v1/responses", `{"model":"m","input":"one"}`, named, "desk", "Idempotency-Key", "k")
	id := sessionIn(t, first)
	must(r.ledger.Reset(t.Context(), id, api.ResetSession{}))(t)
	next := must(r.ledger.Session(t.Context(), id))(t).Successor
	status, out := r.call("POST", "/v1/responses", `{"model":"m","input":"two"}`, named, id.String())
	said, _ := out["error"].(map[string]any)
	details, _ := said["details"].(map[string]any)
	if status != http.StatusConflict || said["code"] != "closed" || details["successor"] != next.String() {
		t.Errorf("%d %v, want 409 closed with the successor %s", status, out, next)
	}
	if got := sessionIn(t, r.ok("POST", "/v1/responses", `{"model":"m","input":"two"}`, named, "desk")); got != next {
		t.Errorf("the label leads to %s, want the successor %s", got, next)
	}
	must(r.ledger.Close(t.Context(), next, api.CloseSession{}))(t)
	r.refused(http.StatusConflict, "closed", "POST", "/v1/responses", `{"model":"m","input":"three"}`, named, next.String())
	sessions := 0
	for _, err := range r.ledger.Sessions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		sessions++
	}
	if sessions != 2 {
		t.Errorf("there are %d sessions, want 2", sessions)
	}
	if again := r.ok("POST", "/v1/responses", `{"model":"m","input":"one"}`, named, "desk", "Idempotency-Key", "k"); again["id"] != first["id"] {
		t.Errorf("a retry is %v, want %v", again["id"], first["id"])
	}
	on := r.ok("POST", "/v1/responses", fmt.Sprintf(`{"model":"m","input":"two","previous_response_id":%q}`, first["id"]))
	if forked, _ := on["nexus"].(map[string]any)["forked_from"].(map[string]any); forked["session"] != id.String() {
		t.Errorf("what follows the response is at %v, want a fork of %s", on["nexus"], id)
	}
}

// What is left of an erased session says so; what follows one of its responses finds none.
func TestAResponseOfAnErasedSessionIsGone(t *testing.T) {
	r := newRig(t)
	first := r.ok("POST", "/v1/responses", `{"model":"m","input":"one"}`, "X-Nexus-Session", "desk")
	id, path := sessionIn(t, first), "/v1/responses/"+first["id"].(string)
	must(r.ledger.As(api.Operator).Erase(t.Context(), id, api.EraseSession{}))(t)
	r.refused(http.StatusGone, "erased", "GET", path, "")
	r.refused(http.StatusGone, "erased", "GET", path+"/input_items", "")
	r.refused(http.StatusGone, "erased", "POST", "/v1/responses", `{"model":"m","input":"two"}`, "X-Nexus-Session", id.String())
	r.refused(http.StatusNotFound, "response_not_found", "GET", path, "", "X-Agent", "other")
	r.refused(http.StatusBadRequest, "previous_response_not_found", "POST", "/v1/responses", fmt.Sprintf(`{"model":"m","input":"two","previous_response_id":%q}`, first["id"]))
}

// An answer whose session was erased while the model wrote it is stored nowhere, and its events are in no file.
func TestAnAnswerToAnErasedSessionLeavesNoFile(t *testing.T) {
	r := newRig(t)
	id := sessionIn(t, r.ok("POST", "/v1/responses", `{"model":"m","input":"one"}`, "X-Nexus-Session", "desk"))
	r.model.answers = func(*provider.Answer) {
		must(r.ledger.As(api.Operator).Erase(t.Context(), id, api.EraseSession{}))(t)
	}
	status, out := r.call("POST", "/v1/responses", `{"model":"m","input":"two"}`, "X-Nexus-Session", "desk")
	if s := must(r.ledger.Session(t.Context(), id))(t); s.State != turns.Erased.String() {
		t.Fatalf("the session is %s: %d %v", s.State, status, out)
	}
	files, err := filepath.Glob(filepath.Join(r.config.Spool, "*.spool"))
	if err != nil || len(files) > 0 {
		t.Errorf("%v is left, %v: %d %v", files, err, status, out)
	}
}
