package responses_test

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/klauspost/compress/zstd"
)

// alive checks that a neighbour of a hostile request is answered.
func (r *rig) alive() {
	r.t.Helper()
	if got := textIn(r.ok("POST", "/v1/responses", `{"model":"m","store":false,"input":"exactly: alive"}`)); got != "alive" {
		r.t.Errorf("a neighbour is answered %q", got)
	}
}

// Bodies that are no requests get typed refusals on every path, none is an internal error,
// and a neighbour is answered.
func TestHostileBodiesAreRefusedInType(t *testing.T) {
	r := newRig(t)
	deep := strings.Repeat(`[`, 64) + strings.Repeat(`]`, 64)
	for name, body := range map[string]string{
		"nothing": ` `, "cut": `{"model":"m","input":`, "an array": `[]`, "null": `null`, "twice": `{"model":"m","model":"m","input":"x"}`,
		"invalid UTF-8": "{\"model\":\"m\",\"input\":\"\xff\xfe\"}", "half a surrogate": `{"model":"m","input":"\ud800"}`, "a NUL": "{\"model\":\"m\",\"input\":\"\x00\"}",
		"NaN": `{"model":"m","input":"x","temperature":NaN}`, "infinite": `{"model":"m","input":"x","temperature":1e999}`, "a huge number": `{"model":"m","input":"x","max_output_tokens":` + strings.Repeat("9", 400) + `}`,
		"negative": `{"model":"m","input":"x","max_output_tokens":-1}`, "64 levels": `{"model":"m","input":` + deep + `}`, "100,000 levels": `{"model":"m","input":` + strings.Repeat("[", 100_000),
		"64 levels in a tool": `{"model":"m","input":"x","tools":[` + deep + `]}`, "items of null": `{"model":"m","input":[` + strings.Repeat("null,", 99_999) + `null]}`,
		"an id of megabytes": `{"model":"m","input":"x","previous_response_id":"` + strings.Repeat("r", 1<<20) + `"}`, "a role of its own": `{"model":"m","input":[{"role":"root","content":"x"}]}`,
		"an item of another server": `{"model":"m","input":[{"type":"item_reference","id":"msg_x"}]}`, "behind the end": `{"model":"m","input":"x"}{}`,
	} {
		for _, path := range []string{"/v1/responses", "/v1/responses/compact", "/v1/responses/input_tokens", "/v1/conversations"} {
			status, out := r.call("POST", path, body)
			e, _ := out["error"].(map[string]any)
			known := path == "/v1/conversations" || path == "/v1/responses/compact" // which ignore members that they do not have
			if status != http.StatusBadRequest && status != http.StatusRequestEntityTooLarge && !(known && status == http.StatusOK) || status != http.StatusOK && (e["type"] == nil || e["message"] == nil) {
				t.Errorf("%s to %s: %d %.300v", name, path, status, out)
			}
			if message, _ := e["message"].(string); len(message) > 1000 {
				t.Errorf("%s to %s: a message of %d bytes", name, path, len(message))
			}
		}
	}
	r.alive()
}

// Many items are served; a body that grows when it is decompressed is not.
func TestLargeBodiesAreBounded(t *testing.T) {
	r := newRig(t)
	many := `{"model":"m","store":false,"input":[` + strings.Repeat(`{"role":"user","content":"x"},`, 9_999) + `{"role":"user","content":"exactly: read"}]}`
	if status, out := r.call("POST", "/v1/responses", many); status != http.StatusOK && status != http.StatusBadRequest {
		t.Errorf("10,000 items: %d %.300v", status, out)
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := z.EncodeAll([]byte(`{"model":"m","input":"`+strings.Repeat("x", 64<<20)+`"}`), nil)
	if len(bomb) > 1<<20 {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	r.refused(http.StatusRequestEntityTooLarge, "request_too_large", "POST", "/v1/responses", string(bomb), "Content-Encoding", "zstd")
	r.refused(http.StatusUnsupportedMediaType, "unsupported_encoding", "POST", "/v1/responses", "x", "Content-Encoding", "gzip")
	r.refused(http.StatusBadRequest, "invalid_body", "POST", "/v1/responses", "no zstd", "Content-Encoding", "zstd")
	r.alive()
}

// A page of another site and a name that is not this host's get nothing; headers that frame
// a body in two ways are refused before any handler, so nothing can hide behind one.
func TestRequestsOfOtherSitesAndSmugglersAreRefused(t *testing.T) {
	r := newRig(t)
	address := strings.TrimPrefix(r.URL, "http://")
	body := `{"model":"m","input":"x"}`
	length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	for name, tc := range map[string]struct {
		head string
		want int
	}{
		"another origin":           {"Host: " + address + "\r\nOrigin: https://evil.example\r\n" + length, http.StatusForbidden},
		"a cross-site fetch":       {"Host: " + address + "\r\nSec-Fetch-Site: cross-site\r\n" + length, http.StatusForbidden},
		"another host":             {"Host: evil.example\r\n" + length, http.StatusMisdirectedRequest},
		"two lengths":              {"Host: " + address + "\r\n" + length + "Content-Length: 3\r\n", http.StatusBadRequest},
		"an unknown coding":        {"Host: " + address + "\r\nTransfer-Encoding: xchunked\r\n" + length, http.StatusNotImplemented},
		"a space before the colon": {"Host: " + address + "\r\nContent-Length : 3\r\n", http.StatusBadRequest},
		"two hosts":                {"Host: " + address + "\r\nHost: evil.example\r\n" + length, http.StatusBadRequest},
	} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "POST /v1/responses HTTP/1.1\r\n"+tc.head+"Content-Type: application/json\r\n\r\n"+body); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		res.Body.Close()
		if res.StatusCode != tc.want {
			t.Errorf("%s: %s, want %d", name, res.Status, tc.want)
		}
	}
	if n := r.model.calls(); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
	r.alive()
}

// A number behind all events is a valid one: the stream has what comes, which is nothing, and
// the response goes on.
func TestStreamAfterTheLargestNumberLeavesTheResponseAlone(t *testing.T) {
	r := newRig(t)
	id, _ := r.ok("POST", "/v1/responses", `{"model":"m","input":"wait, then say exactly: done","background":true}`)["id"].(string)
	res, err := http.Get(r.URL + "/v1/responses/" + id + "?stream=true&starting_after=" + strconv.Itoa(math.MaxInt))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	close(r.model.hold)
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != "data: [DONE]\n\n" {
		t.Fatalf("%q, %v", b, err)
	}
	if got := r.ok("GET", "/v1/responses/"+id, ""); got["status"] != "completed" || textIn(got) != "done" {
		t.Errorf("%v", got)
	}
}

// What a refusal quotes may be cut within a character, or be no UTF-8 in a path or a header.
// It stays a typed refusal.
func TestRefusalsOfWhatIsNoUTF8HaveTheirType(t *testing.T) {
	r := newRig(t)
	cut := strings.Repeat("a", 99) + "é" // which the bound of a quotation halves
	id, _ := r.ok("POST", "/v1/responses", `{"model":"m","input":"x"}`)["id"].(string)
	conversation, _ := r.ok("POST", "/v1/conversations", `{}`)["id"].(string)
	r.refused(http.StatusBadRequest, "previous_response_not_found", "POST", "/v1/responses", `{"model":"m","input":"x","previous_response_id":"`+cut+`"}`)
	r.refused(http.StatusBadRequest, "unsupported_item", "POST", "/v1/responses", `{"model":"m","input":[{"type":"`+cut+`"}]}`)
	r.refused(http.StatusBadRequest, "invalid_value", "POST", "/v1/responses", `{"model":"m","input":"x"}`, "X-Nexus-Session", "\xff")
	for path, code := range map[string]string{
		"/v1/%ff": "unknown_url", "/v1/responses/%ff": "response_not_found", "/v1/models/%ff": "model_not_found",
		"/v1/conversations/%ff": "conversation_not_found", "/v1/conversations/" + conversation + "/items/%ff": "item_not_found",
	} {
		r.refused(http.StatusNotFound, code, "GET", path, "")
	}
	r.refused(http.StatusBadRequest, "invalid_value", "GET", "/v1/responses/"+id+"/input_items?after=%ff", "")
	r.refused(http.StatusBadRequest, "invalid_value", "GET", "/v1/conversations/"+conversation+"/items?after=%ff", "")
	r.alive()
}

// A schema or a tool may nest as deep as the decoder allows. What the response repeats of it
// stands deeper, and is refused before: nothing panics, and each refusal gives the place back
// that the agent has for responses under way.
func TestDeepSchemasAreRefusedBeforeTheyAreRepeated(t *testing.T) {
	r := newRig(t)
	nested := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
	for _, store := range []string{"true", "false"} {
		for _, n := range []int{100, 9_994, 9_995, 9_996, 9_997} {
			for _, member := range []string{
				`"text":{"format":{"type":"json_schema","name":"x","schema":` + nested(n) + `}}`,
				`"tools":[{"type":"function","name":"f","parameters":{"a":` + nested(n-1) + `}}]`,
			} {
				r.refused(http.StatusBadRequest, "invalid_json", "POST", "/v1/responses", `{"model":"m","input":"x","store":`+store+`,`+member+`}`)
			}
		}
	}
	for range 65 { // more than an agent has under way
		r.refused(http.StatusBadRequest, "invalid_json", "POST", "/v1/responses", `{"model":"m","input":"x","text":{"format":{"type":"json_schema","name":"x","schema":`+nested(9_996)+`}}}`)
	}
	r.ok("POST", "/v1/responses", `{"model":"m","input":"brackets in a text: `+strings.Repeat(`[\"`, 200)+`","store":false,"text":{"format":{"type":"json_schema","name":"x","schema":`+nested(60)+`}}}`)
	r.alive()
}

// A key stands for its response, also when the response before it was deleted since. A new
// request can't follow the deleted one, and another agent gets nothing by the same key.
func TestRetryOfAStoredRequestOutlivesThePreviousResponse(t *testing.T) {
	r := newRig(t)
	before, _ := r.ok("POST", "/v1/responses", `{"model":"m","input":"x"}`)["id"].(string)
	body := `{"model":"m","input":"exactly: y","previous_response_id":"` + before + `"}`
	stored := r.ok("POST", "/v1/responses", body, "Idempotency-Key", "k")
	calls := r.model.calls()
	r.ok("DELETE", "/v1/responses/"+before, "")
	if again := r.ok("POST", "/v1/responses", body, "Idempotency-Key", "k"); again["id"] != stored["id"] || textIn(again) != "y" {
		t.Errorf("%v, want %v", again, stored)
	}
	for range 2 { // a key that has no turn yet, and its retry
		r.refused(http.StatusBadRequest, "previous_response_not_found", "POST", "/v1/responses", body, "Idempotency-Key", "new")
	}
	r.refused(http.StatusBadRequest, "previous_response_not_found", "POST", "/v1/responses", body, "Idempotency-Key", "k", "X-Agent", "other")
	if n := r.model.calls(); n != calls {
		t.Errorf("the model was asked %d times, want %d", n, calls)
	}
}

// The requests of an agent that are read or under way take a part of the memory that there is.
// One more is refused until some ended, and another agent has its own part.
func TestRequestsTakeABoundedPartOfTheMemory(t *testing.T) {
	r := newRigOf(t, 64<<10)
	long := strings.Repeat("x", 20<<10)
	waits := `{"model":"m","background":true,"input":"wait, then say exactly: done","instructions":"` + long + `"}`
	id, _ := r.ok("POST", "/v1/responses", waits)["id"].(string)
	at := `{"model":"m","input":"exactly: y","instructions":"` + long + `"}`
	for _, path := range []string{"/v1/responses", "/v1/responses/input_tokens", "/v1/responses/compact"} {
		r.refused(http.StatusTooManyRequests, "rate_limit_exceeded", "POST", path, at)
	}
	c := r.dial()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(`{"type":"response.create",`+at[1:])); err != nil {
		t.Fatal(err)
	}
	if _, code := last(r.events(c)); code != "rate_limit_exceeded" {
		t.Errorf("over a WebSocket: %s", code)
	}
	if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
		t.Errorf("the connection ends with %v", err)
	}
	r.ok("POST", "/v1/responses", at, "X-Agent", "other")
	r.alive()
	close(r.model.hold)
	r.ok("GET", "/v1/responses/"+id+"?stream=false", "")
	res, err := http.Get(r.URL + "/v1/responses/" + id + "?stream=true") // until it ended
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	// The memory is given back behind the last event.
	for {
		status, out := r.call("POST", "/v1/responses", at)
		if status == http.StatusOK {
			break
		}
		if status != http.StatusTooManyRequests {
			t.Fatalf("%d %v", status, out)
		}
	}
	for {
		response, code := last(r.turn(r.dial(), `,"store":false,"input":"exactly: z","instructions":"`+long+`"`))
		if code == "rate_limit_exceeded" { // the request before has its answer, and not given its memory back yet
			continue
		}
		if code != "" || textIn(response) != "z" {
			t.Errorf("over a WebSocket: %s %v", code, response)
		}
		break
	}
}
