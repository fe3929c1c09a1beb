package main

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// A password or token in --nats is in neither the ready line nor the log.
func TestTheReadyLineShowsNoPassword(t *testing.T) {
	const secret = "s3cr3t-w0rd"
	for name, o := range map[string]server.Options{
		"nats://ledger:" + secret + "@": {Username: "ledger", Password: secret},
		"nats://" + secret + "@":        {Authorization: secret},
	} {
		s := startServer(t, o)
		line, log, code := startAndStop(t, "--nats", name+s.Addr().String(), "--replicas", "1", "--create", "--data", t.TempDir(), "--log-level", "debug")
		if code != 0 {
			t.Fatalf("exit status %d: %s", code, log)
		}
		if want := `"nats_url":"nats://` + s.Addr().String() + `"`; !strings.Contains(line, want) {
			t.Errorf("%s is without %s", line, want)
		}
		if strings.Contains(line+log, secret) {
			t.Errorf("the password shows:\n%s%s", line, log)
		}
	}
}

func TestATakenHTTPPortIsAnExitStatus(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var out, log bytes.Buffer
	code := run(t.Context(), []string{"--listen", "127.0.0.1:0", "--http", l.Addr().String(), "--data", t.TempDir(), "--max-store", "1000000000"}, nil, &out, &log)
	if code == 0 || out.Len() > 0 || !strings.Contains(log.String(), "nexusd: error: http: listen tcp "+l.Addr().String()) {
		t.Errorf("exit status %d, ready line %q, log:\n%s", code, out.String(), log.String())
	}
}
