package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
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

func opened(t testing.TB, nc *nats.Conn, replicas int) *Log {
	t.Helper()
	j, err := js.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx := ledgertest.Within(t)
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

func TestR1IsALog(t *testing.T) {
	ledgertest.TestLog(t, func(t *testing.T) ledger.Log { return single(t) })
}

func TestR1ResolvesFaults(t *testing.T) {
	ledgertest.TestFaults(t, tries, func(t *testing.T, f *ledgertest.Faults) ledger.Log { return faulty(single(t), f) })
}

func TestR1KeepsBlobs(t *testing.T) {
	ledgertest.TestBlobs(t, func(t *testing.T) ledger.Blobs { return single(t).Blobs() })
}

// Appends to different chains run at once: none waits for the answer of another. On a
// cluster, where an answer takes a round trip, everything else would be some writers of one.
func TestAppendsOfDifferentChainsRunAtOnce(t *testing.T) {
	const writers = 64
	ctx, l := ledgertest.Within(t), single(t)
	send, all := l.send, make(chan struct{})
	var sent atomic.Int64
	l.send = func(ctx context.Context, subject string, expect uint64, payload []byte, hash string) (uint64, error) {
		if sent.Add(1) == writers {
			close(all)
		}
		select { // each waits until all are here
		case <-all:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		return send(ctx, subject, expect, payload, hash)
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			if _, err := l.Append(ctx, fmt.Sprint("nexus.log.00.t.s.W", w), 0, []byte{byte(w)}); err != nil {
				t.Errorf("writer %d: %v", w, err)
			}
		})
	}
	wg.Wait()
}
