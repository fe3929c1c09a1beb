package responses_test

import (
	"net/http"
	"sync"
	"testing"
)

// Requests that come at once for one conversation are answered one after the other: who is
// refused is refused before a model is asked, and every answer is in the ledger.
func TestAConversationIsAnsweredOneAtATime(t *testing.T) {
	for name, target := range map[string]func(r *rig) (member string, headers []string){
		"a conversation": func(r *rig) (string, []string) {
			return `,"conversation":"` + r.ok("POST", "/v1/conversations", `{}`)["id"].(string) + `"`, nil
		},
		"a named session": func(*rig) (string, []string) { return "", []string{"X-Nexus-Session", "desk"} },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			member, headers := target(r)
			const many = 8
			var wg sync.WaitGroup
			var mu sync.Mutex
			answered := make(map[string]bool)
			for range many {
				wg.Go(func() {
					status, out := r.call("POST", "/v1/responses", `{"model":"m","input":"hello"`+member+`}`, headers...)
					mu.Lock()
					defer mu.Unlock()
					if status == http.StatusOK {
						answered[out["id"].(string)] = true
					} else if e, _ := out["error"].(map[string]any); status != http.StatusConflict || e["code"] != "conversation_locked" {
						t.Errorf("%d %v", status, out)
					}
				})
			}
			wg.Wait()
			if len(answered) == 0 || r.model.calls() != len(answered) {
				t.Errorf("%d answers, and the model was asked %d times", len(answered), r.model.calls())
			}
			for id := range answered {
				if got := r.ok("GET", "/v1/responses/"+id, ""); got["status"] != "completed" {
					t.Errorf("%v", got)
				}
			}
			// While one waits for its answer in the background, nothing passes it.
			waiting := r.ok("POST", "/v1/responses", `{"model":"m","input":"wait, exactly: late","background":true`+member+`}`, headers...)
			r.refused(http.StatusConflict, "conversation_locked", "POST", "/v1/responses", `{"model":"m","input":"hello"`+member+`}`, headers...)
			close(r.model.hold)
			for {
				got := r.ok("GET", "/v1/responses/"+waiting["id"].(string), "")
				if got["status"] == "completed" {
					if textIn(got) != "late" {
						t.Errorf("%v", got)
					}
					break
				}
				if got["status"] != "queued" && got["status"] != "in_progress" {
					t.Fatalf("%v", got)
				}
			}
			// One that failed holds nobody up.
			if status, out := r.call("POST", "/v1/responses", `{"model":"m","input":"fail"`+member+`}`, headers...); status == http.StatusOK {
				t.Errorf("%v", out)
			}
			r.ok("POST", "/v1/responses", `{"model":"m","input":"hello again"`+member+`}`, headers...)
		})
	}
}

// The instructions of a response are those of its own request, also where the one before
// failed with others.
func TestInstructionsOfAFailedResponseAreGone(t *testing.T) {
	r := newRig(t)
	first := r.ok("POST", "/v1/responses", `{"model":"m","input":"hello","instructions":"one","truncation":"auto"}`)["id"].(string)
	if status, out := r.call("POST", "/v1/responses", `{"model":"m","input":"fail","instructions":"two","truncation":"auto","previous_response_id":"`+first+`"}`); status == http.StatusOK {
		t.Fatalf("%v", out)
	}
	r.ok("POST", "/v1/responses", `{"model":"m","input":"and?","instructions":"one","truncation":"auto","previous_response_id":"`+first+`"}`)
	if got := r.model.asked[len(r.model.asked)-1].System; len(got) != 1 || got[0] != "one" {
		t.Errorf("the model had the instructions %q", got)
	}
}

// A key of a response that was deleted gives nothing of it back.
func TestAKeyOfADeletedResponseGivesNothing(t *testing.T) {
	r := newRig(t)
	const body = `{"model":"m","input":"exactly: secret"}`
	id := r.ok("POST", "/v1/responses", body, "Idempotency-Key", "k")["id"].(string)
	r.ok("DELETE", "/v1/responses/"+id, "")
	r.refused(http.StatusNotFound, "response_not_found", "POST", "/v1/responses", body, "Idempotency-Key", "k")
	if n := r.model.calls(); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// A compaction where nothing can be compacted leaves no open session behind.
func TestNothingToCompactLeavesNoOpenSession(t *testing.T) {
	r := newRig(t)
	id := r.ok("POST", "/v1/responses", `{"model":"m","input":"hello"}`)["id"].(string)
	count := func() (n int) {
		for s, err := range r.ledger.Sessions(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if s.State == "open" {
				n++
			}
		}
		return n
	}
	before := count()
	c := r.ok("POST", "/v1/responses/compact", `{"model":"m","previous_response_id":"`+id+`"}`)
	if after := count(); after != before {
		t.Errorf("%d sessions, before %d", after, before)
	}
	// The item stands for all there is.
	out := encode(t, c["output"])
	r.ok("POST", "/v1/responses", `{"model":"m","input":`+out[:len(out)-1]+`,{"role":"user","content":"and?"}]}`)
	if n := len(r.model.texts(-1)); n != 3 {
		t.Errorf("the model got %d messages: %q", n, r.model.texts(-1))
	}
}

// A panic in the reading of an answer ends that response: its turn is stepped back from, a
// neighbour is answered, and the agent has its place again.
func TestAPanicLeavesTheSessionAndItsNeighbours(t *testing.T) {
	r := newRig(t)
	first := r.ok("POST", "/v1/responses", `{"model":"m","input":"hello"}`, "X-Nexus-Session", "desk")
	head := r.desk().Head
	for range 65 { // more than an agent has under way
		status, out := r.call("POST", "/v1/responses", `{"model":"m","input":"panic"}`, "X-Nexus-Session", "desk")
		if e, _ := out["error"].(map[string]any); status != http.StatusInternalServerError || e["code"] != "internal_error" {
			t.Fatalf("%d %v", status, out)
		}
	}
	r.isHead(head)
	r.alive()
	next := r.ok("POST", "/v1/responses", `{"model":"m","input":"and?"}`, "X-Nexus-Session", "desk")
	if a, b := first["nexus"].(map[string]any), next["nexus"].(map[string]any); a["session"] != b["session"] || len(r.model.texts(-1)) != 3 {
		t.Errorf("%v after %v: the model read %q", b, a, r.model.texts(-1))
	}
	// In the background, and over a WebSocket.
	id := r.ok("POST", "/v1/responses", `{"model":"m","input":"panic","background":true}`)["id"].(string)
	for {
		got := r.ok("GET", "/v1/responses/"+id, "")
		if e, _ := got["error"].(map[string]any); got["status"] == "failed" && e["code"] == "internal_error" {
			break
		}
		if got["status"] != "queued" && got["status"] != "in_progress" {
			t.Fatalf("%v", got)
		}
	}
	c := r.dial()
	if response, _ := last(r.turn(c, `,"input":"panic"`)); response["status"] != "failed" {
		t.Errorf("%v", response)
	}
	if response, _ := last(r.turn(c, `,"input":"exactly: y"`)); textIn(response) != "y" {
		t.Errorf("%v", response)
	}
}
