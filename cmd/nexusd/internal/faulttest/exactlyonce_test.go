package faulttest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

var exactlyOnce = flag.Int("exactly-once", 0, "how many turns TestExactlyOnceR1 and TestExactlyOnceR3 append; 0: 500, and no R3")

// TestExactlyOnceR1 and TestExactlyOnceR3 append turns through a proxy that loses replies, while
// daemons (and on R3 the servers) are killed. Each writer sends a turn again under the same id
// until it has an answer. In the end each id is stored once, in the order of the acks, with the
// hash of its ack, and nothing else is stored.
//
// They can't see a reply that is lost between the server and the daemon, and no request is lost
// on its way in: what was not sent was not stored.
func TestExactlyOnceR1(t *testing.T) {
	n := *exactlyOnce
	if n == 0 {
		n = 500
	}
	bin, log, data := nexusdBinary(t), newLog(t), t.TempDir()
	proxy := newLossyProxy(t, 0.02, 0.002)
	var d *Nexusd
	start := func() {
		var err error
		if d, err = StartNexusd(t.Context(), log, bin, "--data", data, "--listen", "127.0.0.1:0", "--http", "off", "--log-level", "error", "--max-store", "8000000000"); err != nil {
			t.Fatal(err)
		}
		proxy.lead(strings.TrimPrefix(d.URL, "nats://"))
	}
	start()
	t.Cleanup(func() { d.Kill() })
	kills := max(1, n/4000)
	w := newWriters(proxy, n, d.Agent)
	w.run(t, kills, func(int) {
		d.Kill()
		start()
	})
	w.check(t, d.URL, d.Agent, d.Operator)
	t.Logf("R1: %d appends; %s; %d kills of nexusd", n, w.summary(), kills)
}

func TestExactlyOnceR3(t *testing.T) {
	if *exactlyOnce == 0 {
		t.Skip("set -exactly-once; docs/TESTING.md has the command and the last figures")
	}
	n := *exactlyOnce
	c, log, data := newCluster(t, 3), newLog(t), t.TempDir()
	d := c.daemon(t, log, data)
	t.Cleanup(func() { d.Kill() })
	proxy := newLossyProxy(t, 0.02, 0.002)
	proxy.lead(strings.TrimPrefix(c.urls[0], "nats://"))
	kills := max(1, n/2000)
	w := newWriters(proxy, n, "")
	w.run(t, kills, func(i int) {
		if i%4 == 0 {
			d.Kill()
			d = c.daemon(t, log, data)
			return
		}
		server := i % len(c.servers)
		proxy.lead(strings.TrimPrefix(c.urls[(server+1)%len(c.servers)], "nats://"))
		c.servers[server].Kill()
		c.start(t, server)
	})
	w.check(t, c.url(), "", "")
	t.Logf("R3: %d appends; %s; %d kills of nexusd and servers", n, w.summary(), kills)
}

// writers append to a session each, one turn after the other.
type writers struct {
	proxy       *lossyProxy
	credentials string
	n           int
	sessions    []turns.ID
	acks        [][]api.Appended // by session, in the order of the answers
	answered    atomic.Int64
	duplicates  atomic.Int64 // answers that say that an earlier try had stored the turn
	calls       atomic.Int64
}

const connections, perConnection = 16, 4

func newWriters(p *lossyProxy, n int, credentials string) *writers {
	w := &writers{proxy: p, credentials: credentials, n: n, acks: make([][]api.Appended, connections*perConnection)}
	for range w.acks {
		w.sessions = append(w.sessions, api.NewID())
	}
	return w
}

// callTime is how long a call takes at most; the client tries several times within it.
const callTime = 1500 * time.Millisecond

// answer calls f, with the same id in it, until there is an answer. Only an answer that leaves
// the outcome open, or says that nothing was done, is followed by another call.
func answer[T any](ctx context.Context, calls *atomic.Int64, f func(context.Context) (T, error)) (T, error) {
	for {
		calls.Add(1)
		try, cancel := context.WithTimeout(ctx, callTime)
		v, err := f(try)
		cancel()
		var e *api.Error
		if err == nil || ctx.Err() != nil || !errors.As(err, &e) || e.Code != api.Indeterminate && e.Code != api.Unavailable && e.Code != api.Busy {
			return v, err
		}
	}
}

// run appends all turns. It calls fault so many times, evenly over the appends.
func (w *writers) run(t *testing.T, faults int, fault func(i int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	for i := range connections {
		nc, err := client.Dial(w.proxy.url(), w.credentials, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0),
			nats.IgnoreDiscoveredServers(), nats.RetryOnFailedConnect(true), nats.Timeout(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		c := client.New(nc, "default", "main")
		for j := range perConnection {
			group.Go(func() { w.write(ctx, t, c, i*perConnection+j) })
		}
	}
	ended := make(chan struct{})
	go func() { group.Wait(); close(ended) }()
	for i := range faults {
		for w.answered.Load() < int64((i+1)*w.n/(faults+1)) && !t.Failed() {
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
			}
		}
		fault(i)
	}
	<-ended
}

func (w *writers) write(ctx context.Context, t *testing.T, c *client.Client, i int) {
	session := w.sessions[i]
	if _, err := answer(ctx, &w.calls, func(ctx context.Context) (*api.Session, error) {
		return c.Create(ctx, api.CreateSession{ID: session})
	}); err != nil {
		t.Errorf("create %s: %v", session, err)
		return
	}
	for n := i; n < w.n; n += len(w.sessions) {
		r := api.AppendTurn{ID: api.NewID(), Messages: []turns.Message{turns.TextMessage(turns.User, fmt.Sprint("question ", n))}}
		a, err := answer(ctx, &w.calls, func(ctx context.Context) (*api.Appended, error) { return c.Append(ctx, session, r) })
		if err != nil || a.ID != r.ID {
			t.Errorf("append %s to %s: %+v, %v", r.ID, session, a, err)
			return
		}
		if a.Duplicate {
			w.duplicates.Add(1)
		}
		w.acks[i] = append(w.acks[i], *a)
		w.answered.Add(1)
	}
}

// check reads everything, on connections that lose nothing.
func (w *writers) check(t *testing.T, url, agent, operator string) {
	t.Helper()
	if t.Failed() {
		return
	}
	nc, err := client.Dial(url, agent)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := client.New(nc, "default", "main").Within(startTime)
	stored := 0
	for i, session := range w.sessions {
		at := 0
		for x, err := range c.Turns(t.Context(), session, api.ListTurns{}) {
			if err != nil {
				t.Fatal(err)
			}
			if at >= len(w.acks[i]) || x.ID != w.acks[i][at].ID || x.Hash != w.acks[i][at].Hash {
				t.Fatalf("session %s: turn %d is %s with %v; acknowledged were %d turns: %+v", session, at, x.ID, x.Hash, len(w.acks[i]), w.acks[i][min(at, len(w.acks[i])-1)])
			}
			at++
		}
		if at != len(w.acks[i]) {
			t.Errorf("session %s: %d turns acknowledged, %d stored", session, len(w.acks[i]), at)
		}
		stored += at
	}
	if stored != w.n {
		t.Errorf("%d turns are stored, want %d", stored, w.n)
	}
	all, err := client.Dial(url, operator)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	v, err := client.New(all, "default", api.Operator).Verify(t.Context())
	if err != nil || !v.OK || v.Turns != uint64(w.n) {
		t.Errorf("verify: %+v, %v; want %d turns", v, err, w.n)
	}
	if w.duplicates.Load() == 0 {
		t.Error("no try was answered as a duplicate: no lost reply was one of an append that was stored, and the run shows nothing")
	}
}

func (w *writers) summary() string {
	return fmt.Sprintf("%d replies left out, %d connections cut, %d answers to a turn that an earlier try had stored", w.proxy.leftOut.Load(), w.proxy.cuts.Load(), w.duplicates.Load())
}
