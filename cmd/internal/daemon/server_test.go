package daemon

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// natsServer returns an external server with JetStream; change adds to its options.
func natsServer(t *testing.T, change func(*server.Options)) *server.Server {
	t.Helper()
	o := &server.Options{ServerName: "x", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: t.TempDir(), SyncAlways: true, JetStreamMaxStore: 1 << 30, JetStreamMaxMemory: 1 << 26}
	if change != nil {
		change(o)
	}
	s, err := server.NewServer(o)
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

// untilTheTestEnds returns the time that the test has left, less what a report takes.
func untilTheTestEnds(t testing.TB) time.Duration {
	if tt, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := tt.Deadline(); ok {
			return time.Until(end) - 5*time.Second
		}
	}
	return time.Hour
}
