package embed

import (
	"errors"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Bare is a plain NATS server with JetStream, which does a fsync for each message: what
// a benchmark of the ledger is compared with.
type Bare struct{ srv *server.Server }

// StartBare starts one on a free loopback port, with its files in dir.
func StartBare(dir string) (*Bare, error) {
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: dir, SyncAlways: true, MaxPayload: MaxPayload, JetStreamMaxStore: 1 << 40, JetStreamMaxMemory: 64 << 20})
	if err != nil {
		return nil, err
	}
	srv.Start()
	if !srv.ReadyForConnections(time.Minute) {
		srv.Shutdown()
		return nil, errors.New("nats server: not ready after a minute")
	}
	return &Bare{srv}, nil
}

// URL is where clients connect.
func (b *Bare) URL() string { return b.srv.ClientURL() }

// Close stops the server and waits until its files are closed.
func (b *Bare) Close() {
	b.srv.Shutdown()
	b.srv.WaitForShutdown()
}
