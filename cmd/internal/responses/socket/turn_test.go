package socket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// made is what the fake core of a test was asked, and says.
type made struct {
	turns []Turn[string]
	err   error
	sent  bool
}

func (m *made) create(_ context.Context, t Turn[string], send func([]byte) error) (string, string, bool, error) {
	m.turns = append(m.turns, t)
	if m.err != nil {
		return "", "", m.sent, m.err
	}
	id := fmt.Sprintf("resp_%d", len(m.turns))
	return id, "state of " + id, true, send([]byte("completed"))
}

// asked sends a message to a connection and returns what comes back: the codes of errors.
func asked(t *testing.T, h Handler, message string) (out []string) {
	t.Helper()
	h(t.Context(), []byte(message), func(event []byte) error {
		var e struct {
			Type   string
			Status int
			Error  struct {
				Type, Code, Message string
				Param               *string
			}
		}
		switch err := json.Unmarshal(event, &e, json.MatchCaseInsensitiveNames(true)); {
		case err != nil:
			out = append(out, string(event))
		case e.Type != "error" || e.Status < 400 || e.Error.Type == "" || e.Error.Message == "":
			t.Errorf("event %s is no whole error", event)
		default:
			out = append(out, fmt.Sprint(e.Status, " ", e.Error.Code))
		}
		return nil
	})
	return out
}

func newTurns(m *made) Handler {
	return Turns(m.create, func(error) *Failure {
		return &Failure{Status: 500, Type: "server_error", Code: "internal_error", Message: "internal"}
	})
}

func expect(t *testing.T, got []string, want string) {
	t.Helper()
	if strings.Join(got, ", ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

const start2 = `{"type":"response.create","model":"m","store":false`

// A response that is not stored is continued on its connection, and on no other one.
func TestUnstoredResponseIsContinuedOnItsConnectionOnly(t *testing.T) {
	m := new(made)
	h := newTurns(m)
	expect(t, asked(t, h, start2+`,"input":"a"}`), "completed")
	expect(t, asked(t, h, start2+`,"input":"b","previous_response_id":"resp_1"}`), "completed")
	if p := m.turns[1].Prior; p == nil || *p != "state of resp_1" {
		t.Errorf("the second turn continues %v", p)
	}
	// Only the latest is remembered.
	expect(t, asked(t, h, start2+`,"input":"c","previous_response_id":"resp_1"}`), "400 previous_response_not_found")
	expect(t, asked(t, h, start2+`,"input":"d","previous_response_id":"resp_2"}`), "completed")
	other := newTurns(m)
	expect(t, asked(t, other, start2+`,"input":"e","previous_response_id":"resp_3"}`), "400 previous_response_not_found")
	expect(t, asked(t, other, start2+`,"input":"f"}`), "completed")
	if len(m.turns) != 4 {
		t.Errorf("%d turns were made, want 4: a refusal makes none", len(m.turns))
	}
}

// A stored response may come from the ledger: the core decides.
func TestStoredResponseIsTheCoresBusiness(t *testing.T) {
	m := new(made)
	expect(t, asked(t, newTurns(m), `{"type":"response.create","model":"m","previous_response_id":"resp_old","input":"a"}`), "completed")
	if got := m.turns[0]; got.Previous != "resp_old" || got.Prior != nil || !got.Store {
		t.Errorf("%+v", got)
	}
}

// A continuation that fails forgets the response that it continued, however it fails.
func TestFailedContinuationForgets(t *testing.T) {
	failure := &Failure{Status: 400, Type: "invalid_request_error", Code: "invalid_value", Message: "no such call"}
	for name, tc := range map[string]struct {
		err           error
		sent          bool
		message, want string
	}{
		"refused":                {failure, false, `,"input":"x"}`, "400 invalid_value"},
		"failed in its stream":   {failure, true, `,"input":"x"}`, ""},
		"an internal error":      {errors.New("the disk"), false, `,"input":"x"}`, "500 internal_error"},
		"refused by the socket":  {nil, false, `,"input":"x","background":true}`, "400 invalid_value"},
		"another type of member": {nil, false, `,"generate":1}`, "400 invalid_type"},
	} {
		m := new(made)
		h := newTurns(m)
		expect(t, asked(t, h, start2+`,"input":"a"}`), "completed")
		m.err, m.sent = tc.err, tc.sent
		expect(t, asked(t, h, start2+`,"previous_response_id":"resp_1"`+tc.message), tc.want)
		m.err = nil
		expect(t, asked(t, h, start2+`,"previous_response_id":"resp_1","input":"y"}`), "400 previous_response_not_found")
		expect(t, asked(t, h, start2+`,"input":"z"}`), "completed")
		if t.Failed() {
			t.Fatal(name)
		}
	}
	// A turn that continues nothing forgets nothing.
	m := new(made)
	h := newTurns(m)
	expect(t, asked(t, h, start2+`,"input":"a"}`), "completed")
	m.err = failure
	expect(t, asked(t, h, start2+`,"input":"b"}`), "400 invalid_value")
	m.err = nil
	expect(t, asked(t, h, start2+`,"previous_response_id":"resp_1","input":"c"}`), "completed")
}

// What belongs to HTTP is taken out, as clients send it all the same, and a warm-up is marked.
func TestMembersOfTheTransportAreTakenOut(t *testing.T) {
	m := new(made)
	h := newTurns(m)
	expect(t, asked(t, h, start2+`,"stream":true,"stream_options":{"include_obfuscation":false},"background":false,"generate":false,"input":[],"other":{"b":1,"a":[1.50]}}`), "completed")
	got := m.turns[0]
	if want := `{"input":[],"model":"m","other":{"b":1,"a":[1.50]},"store":false}`; string(got.Body) != want || !got.WarmUp || got.Store || got.Prior != nil {
		t.Errorf("%s, %+v, want %s", got.Body, got, want)
	}
	expect(t, asked(t, h, start2+`,"previous_response_id":null,"generate":null,"input":"x"}`), "completed")
	if got := m.turns[1]; got.Previous != "" || got.WarmUp {
		t.Errorf("%+v", got)
	}
}

func TestMessagesThatAreNoRequests(t *testing.T) {
	m := new(made)
	h := newTurns(m)
	for message, want := range map[string]string{
		``:                             "400 invalid_json",
		`[]`:                           "400 invalid_json",
		`null`:                         "400 invalid_json",
		`{"type":"a","type":"b"}`:      "400 invalid_json",
		"{\"type\":\"\xff\"}":          "400 invalid_json",
		`{"model":"m"}`:                "400 invalid_value",
		`{"type":"response.cancel"}`:   "400 invalid_value",
		`{"type":["response.create"]}`: "400 invalid_value",
		`{"type":"response.create","store":"false"}`: "400 invalid_type",
		strings.Repeat(`{"a":`, 100_000):             "400 invalid_json",
		`{"type":"response.create","store":false,"previous_response_id":"` + strings.Repeat("x", 1_000_000) + `"}`: "400 previous_response_not_found",
	} {
		expect(t, asked(t, h, message), want)
	}
	if len(m.turns) > 0 {
		t.Errorf("%d turns were made", len(m.turns))
	}
	expect(t, asked(t, h, start2+`,"input":"still here"}`), "completed")
}
