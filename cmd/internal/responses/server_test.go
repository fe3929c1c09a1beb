package responses

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"nexus/cmd/internal/provider"
	"nexus/cmd/internal/web"
	"nexus/ledger/api/client"
)

// A body that stops in the middle is refused in its time, though its connection stays open.
func TestABodyThatStopsIsRefused(t *testing.T) {
	d, err := New(Config{Spool: t.TempDir(), BodyProgress: time.Millisecond, Client: func(web.Caller) *client.Client { return nil },
		Provider: func(string) (provider.Client, string, error) { return nil, "", errors.New("none") }})
	if err != nil {
		t.Fatal(err)
	}
	guard := &web.Guard{Anyone: &web.Caller{Tenant: "default", Agent: "main", Scope: web.Write}}
	s := httptest.NewServer(guard.Handler(d.Handler()))
	defer s.Close()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{")
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusBadRequest || !a.Close {
		t.Errorf("%s, closed %v", a.Status, a.Close)
	}
}

// What has its time is a piece of 64 KiB: a client gains nothing by sending single bytes.
func TestBytesOfABodyThatDripGainNoTime(t *testing.T) {
	extended := 0
	body := &paced{r: iotest.OneByteReader(strings.NewReader(strings.Repeat(" ", 2*pieceBytes+1))), extend: func() { extended++ }}
	if n, err := io.Copy(io.Discard, body); err != nil || n != 2*pieceBytes+1 {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if extended != 3 {
		t.Errorf("the time was extended %d times, want 3", extended)
	}
}
