package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// untilTheTestEnds is the time left to the test, less what a report takes.
func untilTheTestEnds(t *testing.T) time.Duration {
	if end, ok := t.Deadline(); ok {
		return time.Until(end) - 5*time.Second
	}
	return time.Hour
}

// A password or token in --nats is in neither the ready line nor the log.
func TestTheReadyLineShowsNoPassword(t *testing.T) {
	const secret = "s3cr3t-w0rd"
	for name, o := range map[string]server.Options{
		"nats://ledger:" + secret + "@": {Username: "ledger", Password: secret},
		"nats://" + secret + "@":        {Authorization: secret},
	} {
		o.Host, o.Port, o.NoSigs, o.NoLog, o.JetStream, o.StoreDir = "127.0.0.1", server.RANDOM_PORT, true, true, true, t.TempDir()
		s, err := server.NewServer(&o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		if !s.ReadyForConnections(untilTheTestEnds(t)) {
			t.Fatal("the server is not ready")
		}
		ctx, cancel := context.WithCancel(t.Context())
		out, in := io.Pipe()
		var log bytes.Buffer
		code := make(chan int, 1)
		go func() {
			code <- run(ctx, []string{"--nats", name + s.Addr().String(), "--replicas", "1", "--create", "--http", "off", "--data", t.TempDir(), "--log-level", "debug"}, nil, in, &log)
			in.Close()
		}()
		line, err := bufio.NewReader(out).ReadString('\n')
		cancel()
		if got := <-code; got != 0 || err != nil {
			t.Fatalf("exit status %d, %v: %s", got, err, log.String())
		}
		if want := `"nats_url":"nats://` + s.Addr().String() + `"`; !strings.Contains(line, want) {
			t.Errorf("%s is without %s", line, want)
		}
		if strings.Contains(line+log.String(), secret) {
			t.Errorf("the password shows:\n%s%s", line, log.String())
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
