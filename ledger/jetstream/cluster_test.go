package jetstream

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"nexus/ledger"
	"nexus/ledger/ledgertest"
)

// TestR3Blobs is the suite of blobs on three servers.
func TestR3Blobs(t *testing.T) {
	ledgertest.TestBlobs(t, func(t *testing.T) ledger.Blobs { return newCluster(t).log(t, 0).Blobs() })
}

// account is where a cluster of the tests keeps its streams.
const account = server.DEFAULT_GLOBAL_ACCOUNT

// stepDown makes the leader of the ledger's stream give way; false if there
// was none.
func (c *cluster) stepDown(t *testing.T) bool {
	for _, s := range c.servers {
		if s.JetStreamIsStreamLeader(account, StreamName) {
			if err := s.JetStreamStepdownStream(account, StreamName); err != nil {
				t.Logf("step down: %v", err) // it has lost the lead meanwhile
				return false
			}
			return true
		}
	}
	return false
}

// TestR3StepDown races appends from three daemons while leaders change.
func TestR3StepDown(t *testing.T) {
	c, ctx := newCluster(t), within(t)
	logs := []ledger.Log{c.log(t, 0), c.log(t, 1), c.log(t, 2)}
	changes := 0
	const rounds = 12
	tail := ledgertest.Race(t, ctx, logs, subjectA, rounds, 9, func(round int) {
		if round%2 == 1 && c.stepDown(t) {
			changes++
		}
	})
	if changes == 0 {
		t.Error("no leader stepped down: the test shows nothing")
	}
	t.Logf("%d changes of leader, tail at %d", changes, tail)
	all := ledgertest.CheckLog(t, logs[0])
	if len(all) != rounds {
		t.Errorf("%d records, want one a round, %d", len(all), rounds)
	}
}

// TestR3NodeLost goes on with two of three servers, and not with one.
func TestR3NodeLost(t *testing.T) {
	c, ctx := newCluster(t), within(t)
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

// TestTwoLogs lets a second daemon lag behind the first.
func TestTwoLogs(t *testing.T) {
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
			ctx := within(t)
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

// TestR3Reconnect follows the log while the server it is connected to goes.
func TestR3Reconnect(t *testing.T) {
	c, ctx := newCluster(t), within(t)
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
