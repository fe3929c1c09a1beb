package jetstream

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
	"nexus/ledger/ledgertest"
)

// account is where a cluster of the tests keeps its streams.
const account = server.DEFAULT_GLOBAL_ACCOUNT

// cluster is three servers in this process.
type cluster struct {
	servers []*server.Server
	fatal   atomic.Bool // a server could not start
}

// newCluster starts a cluster and waits until it has a leader, as long as the
// test may run. A test and its subtests share one: an election takes seconds on a
// busy machine.
func newCluster(t testing.TB) *cluster {
	t.Helper()
	ctx := ledgertest.Within(t)
	for {
		c := startCluster(t)
		for !c.fatal.Load() {
			if c.ready() {
				t.Cleanup(c.stop)
				return c
			}
			select {
			case <-ctx.Done():
				c.stop()
				t.Fatal("the cluster has no leader, and the test's time is up")
			case <-time.After(10 * time.Millisecond):
			}
		}
		c.stop() // another process has taken a port: with others, again
	}
}

// startCluster starts three servers on ports that were free just before.
func startCluster(t testing.TB) *cluster {
	t.Helper()
	c, dir := new(cluster), t.TempDir()
	var routes []*url.URL
	var ports []int
	var held []net.Listener // until all are known: three different ones
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: l.Addr().String()})
	}
	for _, l := range held {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
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
		s.SetLoggerV2(fatalLog{fatal: &c.fatal}, false, false, false)
		s.Start()
		c.servers = append(c.servers, s)
	}
	return c
}

// fatalLog notes that a server gave up its start; it goes on without what failed.
type fatalLog struct {
	fatal *atomic.Bool
}

func (l fatalLog) Fatalf(string, ...any) { l.fatal.Store(true) }
func (fatalLog) Errorf(string, ...any)   {}
func (fatalLog) Warnf(string, ...any)    {}
func (fatalLog) Noticef(string, ...any)  {}
func (fatalLog) Debugf(string, ...any)   {}
func (fatalLog) Tracef(string, ...any)   {}

func (c *cluster) stop() {
	for _, s := range c.servers {
		s.Shutdown()
	}
	for _, s := range c.servers {
		s.WaitForShutdown()
	}
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

// log is the cluster's ledger, by a connection to a server.
func (c *cluster) log(t testing.TB, node int) *Log {
	t.Helper()
	return opened(t, c.connect(t, node), 3)
}

func (c *cluster) connect(t testing.TB, node int) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(c.servers[node].ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// empty is a new ledger on the cluster, in place of the one that it had.
func (c *cluster) empty(t testing.TB) *Log {
	t.Helper()
	nc, ctx := c.connect(t, 0), ledgertest.Within(t)
	j := stream(t, nc)
	for _, name := range []string{StreamName, BlobsName} {
		for err := errors.New("not yet"); err != nil && !errors.Is(err, js.ErrStreamNotFound); {
			if err = j.DeleteStream(ctx, name); ctx.Err() != nil {
				t.Fatal(err)
			}
		}
	}
	return opened(t, nc, 3)
}

// stepDown makes the leader of the ledger's stream give way, once there is one.
func (c *cluster) stepDown(t *testing.T) {
	for ctx := ledgertest.Within(t); ctx.Err() == nil; {
		for _, s := range c.servers {
			// An error: it has lost the lead meanwhile.
			if s.JetStreamIsStreamLeader(account, StreamName) && s.JetStreamStepdownStream(account, StreamName) == nil {
				return
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
	t.Error("the stream has no leader, and the test's time is up")
}

// R3: the suites on three servers.

func TestR3IsALog(t *testing.T) {
	c := newCluster(t)
	ledgertest.TestLog(t, func(t *testing.T) ledger.Log { return c.empty(t) })
}

func TestR3ResolvesFaults(t *testing.T) {
	c := newCluster(t)
	ledgertest.TestFaults(t, tries, func(t *testing.T, f *ledgertest.Faults) ledger.Log { return faulty(c.empty(t), f) })
}

func TestR3KeepsBlobs(t *testing.T) {
	c := newCluster(t)
	ledgertest.TestBlobs(t, func(t *testing.T) ledger.Blobs { return c.empty(t).Blobs() })
}

// TestR3AppendsHaveOneOutcomeWhileLeadersChange races appends from three daemons while leaders change.
func TestR3AppendsHaveOneOutcomeWhileLeadersChange(t *testing.T) {
	c, ctx := newCluster(t), ledgertest.Within(t)
	logs := []ledger.Log{c.log(t, 0), c.log(t, 1), c.log(t, 2)}
	const rounds = 12
	tail := ledgertest.Race(t, ctx, logs, subjectA, rounds, 9, func(round int) {
		if round%2 == 1 {
			c.stepDown(t)
		}
	})
	if all := ledgertest.CheckLog(t, logs[0]); len(all) != rounds || tail != rounds {
		t.Errorf("%d records, the tail at %d, want one a round, %d", len(all), tail, rounds)
	}
}

// TestR3AppendsNeedTwoOfThreeServers goes on with two of three servers, and not with one.
func TestR3AppendsNeedTwoOfThreeServers(t *testing.T) {
	c, ctx := newCluster(t), ledgertest.Within(t)
	log := c.log(t, 0)
	tail, err := log.Append(ctx, subjectA, 0, []byte("three"))
	if err != nil {
		t.Fatal(err)
	}
	c.servers[2].Shutdown()
	for {
		seq, err := log.Append(ctx, subjectA, tail, []byte("two"))
		if err == nil {
			tail = seq
			break
		}
		if errors.Is(err, ledger.ErrConflict) || ctx.Err() != nil {
			t.Fatalf("append on two servers: %v", err)
		}
	}
	if all := ledgertest.CheckLog(t, log); len(all) != 2 {
		t.Errorf("%d records, want 2", len(all))
	}
	c.servers[1].Shutdown()
	if _, err := log.Append(ctx, subjectA, tail, []byte("one")); !errors.Is(err, ledger.ErrIndeterminate) && !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("append without a quorum: %v; want indeterminate or unavailable", err)
	}
}

// TestASecondDaemonThatLagsGetsAConflict lets a second daemon lag behind the first.
func TestASecondDaemonThatLagsGetsAConflict(t *testing.T) {
	for _, c := range []struct {
		name string
		open func(t *testing.T) (a, b ledger.Log)
	}{
		{"R1", func(t *testing.T) (a, b ledger.Log) {
			nc := ledgerConn(t)
			return opened(t, nc, 1), opened(t, nc, 1)
		}},
		{"R3", func(t *testing.T) (a, b ledger.Log) {
			c := newCluster(t)
			return c.log(t, 0), c.log(t, 1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := ledgertest.Within(t)
			first, second := c.open(t)
			var tail uint64
			for i := range 10 {
				var err error
				if tail, err = first.Append(ctx, subjectA, tail, fmt.Append(nil, "first ", i)); err != nil {
					t.Fatal(err)
				}
			}
			// The second knows the tail of five records ago.
			_, err := second.Append(ctx, subjectA, 5, []byte("second"))
			var conflict *ledger.ConflictError
			if !errors.As(err, &conflict) || conflict.Got != 6 {
				t.Fatalf("append at an old tail: %v; want a conflict with 6", err)
			}
			// A repeat of the first's append by the second is resolved.
			if seq, err := second.Append(ctx, subjectA, 5, []byte("first 5")); seq != 6 || err != nil {
				t.Errorf("a repeat on another daemon: %d, %v; want 6", seq, err)
			}
			// It catches up by reading, and then its append goes through.
			var seen uint64
			for r, err := range second.Read(ctx, 6, false) {
				if err != nil {
					t.Fatal(err)
				}
				seen = r.Seq
			}
			if _, err := second.Append(ctx, subjectA, seen, []byte("second")); err != nil {
				t.Errorf("append at the tail: %v", err)
			}
			ledgertest.CheckLog(t, first)
			ledgertest.Race(t, ctx, []ledger.Log{first, second}, "nexus.log.00.t.s.B", 5, 8, nil)
			ledgertest.CheckLog(t, second)
		})
	}
}

// TestR3AReadGoesOnWhenItsServerIsLost follows the log while the server it is connected to goes.
func TestR3AReadGoesOnWhenItsServerIsLost(t *testing.T) {
	c, ctx := newCluster(t), ledgertest.Within(t)
	writer := c.log(t, 0)
	nc, err := nats.Connect(c.servers[2].ClientURL()+","+c.servers[0].ClientURL(), nats.DontRandomize(), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	reader := opened(t, nc, 3)
	append1 := func(tail uint64) uint64 {
		for {
			seq, err := writer.Append(ctx, subjectA, tail, fmt.Append(nil, "after ", tail))
			if err == nil {
				return seq
			}
			if errors.Is(err, ledger.ErrConflict) || ctx.Err() != nil {
				t.Fatal(err)
			}
		}
	}
	tail := append1(0)
	next := uint64(1)
	for r, err := range reader.Read(ctx, 1, true) {
		if err != nil || r.Seq != next {
			t.Fatalf("record %d, %v; want %d", r.Seq, err, next)
		}
		if next++; next == 6 {
			c.servers[2].Shutdown()
		}
		if next > 10 {
			return
		}
		tail = append1(tail)
	}
	t.Errorf("the read ended at %d", next)
}
