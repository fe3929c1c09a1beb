package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/provider/providertest"
	"nexus/cmd/nexusd/internal/faulttest"
	"nexus/turns"
)

var httpConnections = flag.Int("http-connections", 1000, "how many connections TestConnectionsWithoutATokenKeepNobodyOut opens; docs/TESTING.md runs 10000")

// TestConnectionsWithoutATokenKeepNobodyOut opens connections that say nothing, that begin a
// header, and that begin a body. nexusd has a bounded number of files whatever they do, and
// a client with a token is answered at its first try, each time.
func TestConnectionsWithoutATokenKeepNobodyOut(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it counts the files of a process in /proc")
	}
	secret, row, err := config.NewToken("ci", "", "", "write")
	if err != nil {
		t.Fatal(err)
	}
	model, config := providertest.Start(t, nil), filepath.Join(t.TempDir(), "nexus.toml")
	text := fmt.Sprintf("%s[[token]]\nname = %q\nhash = %q\ntenant = %q\nagent = %q\nscope = %q\n", model.Row("m", providertest.Chat, "m"), row.Name, row.Hash, row.Tenant, row.Agent, row.Scope)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := faulttest.StartNexusd(t.Context(), os.Stderr, faulttest.Build(t, "."), "--config", config, "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-level", "error", "--max-store", "2000000000", "--search", "off")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Kill()
	address := strings.TrimPrefix(d.HTTP, "http://")
	before, most := filesOf(t, d), 0
	begun := begin(t, address, secret)
	for i := range *httpConnections {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		// What it says may find the connection closed already.
		_, _ = io.WriteString(c, []string{"", "POST /v1/responses HT", "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"}[i%3])
		if i%100 != 0 {
			continue
		}
		most = max(most, filesOf(t, d))
		end(t, begin(t, address, secret), fmt.Sprintf("exactly: %d", i))
	}
	end(t, begun, "exactly: the first")
	if most > before+256+64 {
		t.Errorf("%d files, %d before", most, before)
	}
	t.Logf("%d connections: at most %d files, %d before; memory %s", *httpConnections, most, before, (&floodTarget{cmd: d.Cmd}).status(t, "VmHWM"))
}

const connectionsBody = 200 // bytes of a request's body

// begin sends a request with a token but for its body.
func begin(t *testing.T, address, secret string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err == nil {
		_, err = fmt.Fprintf(c, "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", secret, connectionsBody)
	}
	if err != nil {
		t.Fatal(err)
	}
	// The reply says that the server has read the header, and with it the token.
	line, err := bufio.NewReaderSize(c, 16).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
		t.Fatalf("%q, %v", line, err)
	}
	return c
}

// end sends the body of a request, and reads the answer.
func end(t *testing.T, c net.Conn, input string) {
	t.Helper()
	defer c.Close()
	if _, err := fmt.Fprintf(c, "%-*s", connectionsBody, fmt.Sprintf(`{"model":"m","store":false,"input":%q}`, input)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	if b, err := r.Peek(2); err == nil && string(b) == "\r\n" { // the end of what begin read
		_, _ = r.Discard(2)
	}
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	var out turns.Raw
	if err != nil || res.StatusCode != http.StatusOK || turns.DecodeJSON(b, &out) != nil || !strings.Contains(string(b), strings.TrimPrefix(input, "exactly: ")) {
		t.Fatalf("%s: %.300s, %v", res.Status, b, err)
	}
}

// filesOf returns how many files a process has open.
func filesOf(t *testing.T, d *faulttest.Nexusd) int {
	t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
