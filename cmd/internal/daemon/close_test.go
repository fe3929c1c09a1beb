package daemon

import (
	"errors"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream"
	"nexus/ledger/ledgertest"
	"nexus/turns"
)

// A program that opens and closes daemons one after the other, as tests and the quickstart
// do, keeps nothing of them. The NATS server has timers of up to 31 minutes that outlive
// its shutdown; they hold the server's own structures, and none of the daemon's.
//
// The test can't see memory outside of Go's heap.
func TestAClosedDaemonLeavesNothing(t *testing.T) {
	const rounds, turnsEach, size = 5, 2, 1 << 20
	// run opens a daemon, stores and reads turns, and closes it. Then it damages the log, and a
	// start is refused.
	run := func() weak.Pointer[Daemon] {
		dir := t.TempDir()
		c := config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", MaxStore: 1 << 30}
		d := must[*Daemon](t)(Open(t.Context(), c))
		nc := must[*nats.Conn](t)(d.Connect())
		client := client.New(nc, "default", "main")
		s := must[*api.Session](t)(client.Create(t.Context(), api.CreateSession{}))
		for range turnsEach {
			m := turns.TextMessage(turns.User, strings.Repeat("x", size))
			must[*api.Appended](t)(client.Append(t.Context(), s.ID, api.AppendTurn{ID: api.NewID(), Messages: []turns.Message{m}}))
		}
		must[*api.Context](t)(client.Context(t.Context(), s.ID, api.GetContext{}))
		web := http.Transport{DisableKeepAlives: true}
		reply := must[*http.Response](t)(web.RoundTrip(must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, d.HTTPURL()+"/healthz", nil))))
		_ = reply.Body.Close()
		nc.Close()
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		change(t, largest(t, dir, jetstream.StreamName), func(b []byte) []byte { return b[:len(b)/2] })
		if _, err := Open(t.Context(), c); !errors.Is(err, ledger.ErrCorrupt) {
			t.Fatalf("a start on half of a log: %v, want that it is corrupt", err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		return weak.Make(d)
	}
	run() // what a process makes once
	before := used(t)
	daemons := make([]weak.Pointer[Daemon], rounds)
	for i := range daemons {
		daemons[i] = run()
	}
	ctx := ledgertest.Within(t)
	for {
		after, alive := used(t), 0
		for _, d := range daemons {
			if d.Value() != nil {
				alive++
			}
		}
		if alive == 0 && after.goroutines <= before.goroutines && after.files <= before.files && after.heap < before.heap+rounds*size {
			t.Logf("before %+v, after %d daemons %+v", before, rounds, after)
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%d of %d closed daemons are in memory; before %+v, after %+v", alive, rounds, before, after)
		}
		runtime.Gosched()
	}
}

// usage is what a process has.
type usage struct {
	goroutines, files int
	heap              uint64 // bytes that are live
}

// used collects garbage, also that of pools, and returns what the process has.
func used(t *testing.T) usage {
	t.Helper()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{runtime.NumGoroutine(), len(must[[]os.DirEntry](t)(os.ReadDir("/dev/fd"))), m.HeapAlloc}
}
