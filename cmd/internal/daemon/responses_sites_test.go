package daemon

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Every path of /v1, and the upgrade to a WebSocket, is for this host's names and for no page
// of another site. Headers that frame or name a request in two ways get no handler.
func TestEveryPathOfV1RefusesOtherSitesAndSmugglers(t *testing.T) {
	model := new(scripted)
	d, client := startWith(t, responsesConfig(t.TempDir(), model))
	address := strings.TrimPrefix(d.HTTPURL(), "http://")
	say := func(first, head, body string) (int, string) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil { // in place of a test that hangs
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, first+" HTTP/1.1\r\n"+head+"\r\n"+body); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0, ""
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(io.LimitReader(res.Body, 1<<16)) // a connection that ends early is no matter here
		return res.StatusCode, string(b)
	}
	own := "Host: " + address + "\r\n"
	upgrade := "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
	body := `{"model":"m","input":"x"}`
	length := fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	for _, path := range []string{
		"GET /v1/models", "GET /v1/models/m", "GET /v1/nothing", "GET /v1/responses", "GET /v1/responses/x", "GET /v1/responses/x/input_items", "DELETE /v1/responses/x", "POST /v1/responses", "POST /v1/responses/x/cancel",
		"POST /v1/responses/compact", "POST /v1/responses/input_tokens", "POST /v1/conversations", "GET /v1/conversations/x", "POST /v1/conversations/x", "DELETE /v1/conversations/x", "GET /v1/conversations/x/items",
		"POST /v1/conversations/x/items", "GET /v1/conversations/x/items/y", "DELETE /v1/conversations/x/items/y", "upgrade",
	} {
		more, text := "", ""
		if strings.HasPrefix(path, "POST") {
			more, text = length, body
		}
		changes := !strings.HasPrefix(path, "GET")
		first := path
		if path == "upgrade" {
			first, more = "GET /v1/responses", upgrade
		}
		for name, tc := range map[string]struct {
			head string
			want int // 0: this path may be answered
		}{
			"another host":         {"Host: evil.example\r\n", 421},
			"no host":              {"", 400},
			"two hosts":            {own + "Host: evil.example\r\n", 400},
			"a host with a path":   {"Host: " + address + "/x\r\n", 400},
			"a name that ends so":  {"Host: evil.localhost\r\n", 421},
			"another origin":       {own + "Origin: https://evil.example\r\n", 403},
			"no origin":            {own + "Origin: null\r\n", 403},
			"a page's own request": {own + "Sec-Fetch-Site: cross-site\r\nOrigin: https://evil.example\r\n", 403},
		} {
			if tc.want == http.StatusForbidden && !changes {
				continue // a browser shows no page the answer of another site's GET
			}
			if got, reply := say(first, tc.head+more, text); got != tc.want {
				t.Errorf("%s, %s: %d %.200s, want %d", path, name, got, reply, tc.want)
			}
		}
	}
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	typed := own + "Content-Type: application/json\r\n"
	for name, tc := range map[string]struct {
		head, body string
	}{
		"a length and chunks":     {typed + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", chunked},
		"two lengths":             {typed + "Content-Length: 25\r\nContent-Length: 5\r\n", body},
		"a list of lengths":       {typed + "Content-Length: 25, 5\r\n", body},
		"a length with a sign":    {typed + "Content-Length: +25\r\n", body},
		"two codings":             {typed + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunked},
		"a coding of its own":     {typed + "Transfer-Encoding: gzip, chunked\r\n", chunked},
		"a folded header":         {typed + "X-Nexus-Token: a\r\n b\r\nTransfer-Encoding\r\n : chunked\r\n", chunked},
		"a space before a colon":  {typed + "Transfer-Encoding : chunked\r\n", chunked},
		"a vertical tab":          {typed + "Transfer-Encoding: \x0bchunked\r\n", chunked},
		"a NUL in a value":        {typed + "X-A: a\x00b\r\nContent-Length: 25\r\n", body},
		"a chunk with a bad size": {typed + "Transfer-Encoding: chunked\r\n", "-1\r\n" + body},
		"a chunk of 2^64":         {typed + "Transfer-Encoding: chunked\r\n", "10000000000000000\r\n" + body},
	} {
		// What a smuggler hides behind the body is a request to what nobody has.
		hidden := "GET /v1/hidden HTTP/1.1\r\n" + own + "\r\n"
		got, reply := say("POST /v1/responses", tc.head, tc.body+hidden)
		if name == "a length and chunks" {
			// RFC 9112, 6.3: the chunks count, and the length does not.
			if got != http.StatusOK && got != http.StatusBadRequest {
				t.Errorf("%s: %d %.200s", name, got, reply)
			}
			continue
		}
		if got != http.StatusBadRequest && got != http.StatusNotImplemented {
			t.Errorf("%s: %d %.200s", name, got, reply)
		}
	}
	if n := model.count(); n > 1 {
		t.Errorf("the model was asked %d times", n)
	}
	sessions := 0
	for range client.Sessions(t.Context()) {
		sessions++
	}
	if sessions > 1 {
		t.Errorf("%d sessions", sessions)
	}
}
