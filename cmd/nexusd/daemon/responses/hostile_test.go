package responses_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// alive checks that a neighbour of a hostile request is answered.
func (r *rig) alive() {
	r.t.Helper()
	if got := said(r.ok("POST", "/v1/responses", `{"model":"m","store":false,"input":"exactly: alive"}`)); got != "alive" {
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
