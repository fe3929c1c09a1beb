package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/nexusd/internal/faulttest"
	"nexus/ledger/api/client"
)

// untilTheTestEnds returns the time that the test has left, less what a report takes.
func untilTheTestEnds(t *testing.T) time.Duration {
	if end, ok := t.Deadline(); ok {
		return time.Until(end) - 5*time.Second
	}
	return time.Hour
}

func TestMain(m *testing.M) { faulttest.Main(m) }

// finish runs a command to its end. The test ends if the command fails.
func finish(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
}

// startServer starts a NATS server with JetStream on a free port. The cleanup of the
// test stops it.
func startServer(t *testing.T, o server.Options) *server.Server {
	t.Helper()
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
	return s
}

// startDaemon starts a daemon in this process, with a client of agent main. Without a
// server in c, the daemon embeds one on a free port. Without a data folder, it gets an
// empty one. The cleanup of the test closes both.
func startDaemon(t *testing.T, c config.Config) (*daemon.Daemon, *client.Client) {
	t.Helper()
	if c.Data == "" {
		c.Data = t.TempDir()
	}
	if c.NATS == "" {
		c.Listen, c.MaxStore = "127.0.0.1:0", 1<<30
	}
	if c.HTTP == "" {
		c.HTTP = "off"
	}
	d, err := daemon.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), untilTheTestEnds(t))
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	nc, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return d, client.New(nc, "default", "main")
}

// startAndStop runs nexusd in this process, stops it when it has printed its ready
// line or has ended, and returns how it ended.
func startAndStop(t *testing.T, args ...string) (ready, stderr string, code int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w := io.Pipe()
	var log bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		code := run(ctx, append(args, "--http", "off"), nil, w, &log)
		_ = w.Close() // closing a pipe never fails
		ended <- code
	}()
	ready, err := bufio.NewReader(r).ReadString('\n')
	if err != nil && err != io.EOF {
		t.Error(err)
	}
	stop()
	code = <-ended
	return ready, log.String(), code
}

// patience bounds each wait for what must happen.
const patience = 2 * time.Minute

// until waits for a condition that the other goroutines bring about.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); <-time.After(5 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}
