package jetstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/ledgertest"
)

// single is a fresh R1 ledger on an embedded server, with every ack after an fsync.
func single(t *testing.T) *Log {
	t.Helper()
	s, err := embed.Start(embed.Config{DataDir: t.TempDir(), MaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := s.LedgerConn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nc.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return opened(t, nc, 1)
}

func opened(t *testing.T, nc *nats.Conn, replicas int) *Log {
	t.Helper()
	j, err := js.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		l, err := Open(ctx, j, Config{Replicas: replicas, Create: true, Ledger: uuid.NewString()})
		if err == nil {
			return l
		}
		// A cluster that has just elected its leader may not have seen all peers.
		if !errors.Is(err, ledger.ErrUnavailable) || ctx.Err() != nil {
			t.Fatal(err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// cluster is a fresh R3 cluster in this process.
type cluster struct {
	servers []*server.Server
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := new(cluster)
	dir := t.TempDir()
	var routes []*url.URL
	var ports []int
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		ports = append(ports, port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	for i := range 3 {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: filepath.Join(dir, fmt.Sprint(i)), SyncAlways: true, JetStreamMaxStore: 1 << 30, JetStreamMaxMemory: 1 << 26,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: ports[i]}, Routes: routes,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		c.servers = append(c.servers, s)
	}
	t.Cleanup(func() {
		for _, s := range c.servers {
			s.Shutdown()
		}
		for _, s := range c.servers {
			s.WaitForShutdown()
		}
	})
	deadline := time.Now().Add(20 * time.Second)
	for !c.ready() {
		if time.Now().After(deadline) {
			t.Fatal("the cluster has no leader after 20 s")
		}
		<-time.After(20 * time.Millisecond)
	}
	return c
}

func (c *cluster) ready() bool {
	leader := false
	for _, s := range c.servers {
		leader = leader || s.JetStreamIsLeader()
		if !s.JetStreamIsCurrent() || s.NumRoutes() == 0 {
			return false
		}
	}
	return leader
}

func (c *cluster) log(t *testing.T, node int) *Log {
	t.Helper()
	nc, err := nats.Connect(c.servers[node].ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return opened(t, nc, 3)
}

// faulty puts a script of faults between the log and the server.
func faulty(l *Log, f *ledgertest.Faults) ledger.Log {
	send := l.send
	l.send = func(ctx context.Context, subject string, expect uint64, payload []byte, hash string) (uint64, error) {
		return ledgertest.Inject(ctx, f, nats.ErrTimeout, func(ctx context.Context) (uint64, error) {
			return send(ctx, subject, expect, payload, hash)
		})
	}
	return l
}

func TestR1(t *testing.T) {
	ledgertest.TestLog(t, func(t *testing.T) ledger.Log { return single(t) })
}

func TestR1Faults(t *testing.T) {
	ledgertest.TestFaults(t, tries, func(t *testing.T, f *ledgertest.Faults) ledger.Log { return faulty(single(t), f) })
}

func TestR1Blobs(t *testing.T) {
	ledgertest.TestBlobs(t, func(t *testing.T) ledger.Blobs { return single(t).Blobs() })
}

func TestR3(t *testing.T) {
	ledgertest.TestLog(t, func(t *testing.T) ledger.Log { return newCluster(t).log(t, 0) })
}

func TestR3Faults(t *testing.T) {
	ledgertest.TestFaults(t, tries, func(t *testing.T, f *ledgertest.Faults) ledger.Log { return faulty(newCluster(t).log(t, 0), f) })
}
