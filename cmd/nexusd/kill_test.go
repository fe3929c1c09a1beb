package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/cmd/nexusd/internal/faulttest"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

var kills = flag.Int("kills", 3, "how many times TestKill9 kills nexusd; docs/TESTING.md runs 200")

// acked holds the turns that were acknowledged: ids by session, in order, and hashes.
type acked struct {
	mu       sync.Mutex
	turns    map[turns.ID][]turns.ID
	hash     map[turns.ID]turns.Hash
	redacted map[turns.ID]bool // turns; false: there is no answer yet
	down     bool              // the power is being cut: what arrives now reaches nobody
}

func newAcked() *acked {
	return &acked{turns: make(map[turns.ID][]turns.ID), hash: make(map[turns.ID]turns.Hash), redacted: make(map[turns.ID]bool)}
}

// TestKill9 kills nexusd with SIGKILL, again and again, while writers append and
// compact, and one of them redacts. After each restart they go on, retrying with the same ids
// what was not answered. At the end every acknowledged turn is there, once, with
// the hash that was acknowledged, what was redacted is, and nothing else, and the ledger verifies.
func TestKill9(t *testing.T) {
	bin := faulttest.Build(t, ".")
	data := t.TempDir()
	a := newAcked()
	const writers = 8
	pending := make([]*write, writers)
	for i := range pending {
		pending[i] = &write{session: api.NewID(), redacts: i == 0}
	}
	seed := rand.Uint64()
	t.Logf("seed %d, %d kills", seed, *kills)
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range *kills {
		cmd, url := launch(t, bin, data)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, w := range pending {
			wg.Go(func() { w.run(ctx, t, url, data, a) })
		}
		<-time.After(time.Duration(20+rng.IntN(400)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		cancel()
		wg.Wait()
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	checkAcked(t, bin, data, a)
}

// An empty ledger is sound: a new one, after a kill, and after a stop.
func TestAnEmptyLedgerIsSound(t *testing.T) {
	bin, data := faulttest.Build(t, "."), t.TempDir()
	for _, when := range []string{"new", "killed", "stopped"} {
		cmd, url := launch(t, bin, data)
		nc, err := client.Dial(url, filepath.Join(data, "users", "operator.nk"))
		if err != nil {
			t.Fatal(err)
		}
		v, err := client.New(nc, "default", api.Operator).Verify(t.Context())
		if err != nil || !v.OK || v.Events != 0 || v.Count != 0 {
			t.Errorf("%s: %+v, %v", when, v, err)
		}
		nc.Close()
		signal := os.Kill
		if when == "killed" {
			signal = os.Interrupt
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
}

// launch starts nexusd and waits for its ready line.
func launch(t *testing.T, bin, data string, args ...string) (*exec.Cmd, string) {
	t.Helper()
	args = append([]string{"--data", data, "--listen", "127.0.0.1:0", "--http", "off", "--log-level", "error", "--max-store", "2000000000"}, args...)
	d, err := faulttest.StartNexusd(t.Context(), os.Stderr, bin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return d.Cmd, d.URL
}

// write is one writer's session, and its append that has no answer yet.
type write struct {
	session turns.ID
	open    bool
	n       int
	id      turns.ID // zero: none outstanding
	redacts bool
	redact  turns.ID // a turn whose redaction has no answer yet
}

func (w *write) request() api.AppendTurn {
	m := turns.TextMessage(turns.Assistant, fmt.Sprintf("answer %d of %s", w.n, w.session))
	return api.AppendTurn{ID: w.id, Messages: []turns.Message{turns.TextMessage(turns.User, fmt.Sprint("question ", w.n))}, Response: &m}
}

func (w *write) run(ctx context.Context, t *testing.T, url, data string, a *acked) {
	nc, err := client.Dial(url, filepath.Join(data, "users", "agent.nk"), nats.MaxReconnects(0))
	if err != nil {
		return // killed already
	}
	defer nc.Close()
	c := client.New(nc, "default", "main")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nc.SetClosedHandler(func(*nats.Conn) { cancel() })
	if !w.open {
		r := api.CreateSession{ID: w.session}
		r.Limits = &turns.Limits{ContextWindow: 4000}
		if _, err := c.Create(ctx, r); err != nil {
			return
		}
		w.open = true
	}
	var op *client.Client
	if w.redacts {
		asOperator, err := client.Dial(url, filepath.Join(data, "users", "operator.nk"), nats.MaxReconnects(0))
		if err != nil {
			return
		}
		defer asOperator.Close()
		op = client.New(asOperator, "default", api.Operator)
	}
	for ctx.Err() == nil {
		if w.id.IsZero() {
			w.n++
			w.id = api.NewID()
		}
		ack, err := c.Append(ctx, w.session, w.request())
		if err != nil {
			if e := (*api.Error)(nil); errors.As(err, &e) && e.Code != api.Indeterminate && e.Code != api.Unavailable {
				t.Errorf("append %d to %s: %v", w.n, w.session, err)
			}
			return
		}
		a.mu.Lock()
		if a.down {
			a.mu.Unlock()
			return
		}
		a.turns[w.session] = append(a.turns[w.session], ack.ID)
		a.hash[ack.ID] = ack.Hash
		a.mu.Unlock()
		w.id = turns.ID{}
		if w.n%25 == 0 {
			_, _ = c.Compact(ctx, w.session, api.RunCompaction{})
		}
		if w.redacts && (w.n%10 == 0 || !w.redact.IsZero()) && !w.redactOne(ctx, t, op, a) {
			return
		}
	}
}

// redactOne redacts a turn of the writer's, and says whether there was an answer.
func (w *write) redactOne(ctx context.Context, t *testing.T, op *client.Client, a *acked) bool {
	a.mu.Lock()
	ids := a.turns[w.session]
	if w.redact.IsZero() {
		w.redact = ids[rand.IntN(len(ids))]
	}
	if !a.redacted[w.redact] {
		a.redacted[w.redact] = false
	}
	a.mu.Unlock()
	_, err := op.Redact(ctx, w.session, api.RedactTurn{Turn: w.redact})
	if err != nil {
		if e := (*api.Error)(nil); errors.As(err, &e) && e.Code != api.Indeterminate && e.Code != api.Unavailable {
			t.Errorf("redact %s of %s: %v", w.redact, w.session, err)
		}
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down {
		return false
	}
	a.redacted[w.redact] = true
	w.redact = turns.ID{}
	return true
}

// asOperator starts nexusd and returns a client of the operator. stop kills nexusd.
func asOperator(t *testing.T, bin, data string) (c *client.Client, stop func()) {
	t.Helper()
	cmd, url := launch(t, bin, data)
	kill := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	nc, err := client.Dial(url, filepath.Join(data, "users", "operator.nk"))
	if err != nil {
		kill()
		t.Fatal(err)
	}
	return client.New(nc, "default", api.Operator), func() { nc.Close(); kill() }
}

func checkAcked(t *testing.T, bin, data string, a *acked) {
	t.Helper()
	checkAckedBut(t, bin, data, a, func(api.Problem) bool { return false })
}

// checkAckedBut is checkAcked of a folder in which the verification may find some problems.
func checkAckedBut(t *testing.T, bin, data string, a *acked, may func(api.Problem) bool) {
	t.Helper()
	c, stop := asOperator(t, bin, data)
	defer stop()
	total, redacted := 0, 0
	for s, ids := range a.turns {
		var got []turns.ID
		for x, err := range c.Turns(t.Context(), s, api.ListTurns{}) {
			if err != nil {
				t.Fatal(err)
			}
			if x.Type != "normal" {
				continue
			}
			if h, ok := a.hash[x.ID]; ok && h != x.Hash {
				t.Errorf("turn %s was acknowledged with %v and has %v", x.ID, h, x.Hash)
			}
			switch done, asked := a.redacted[x.ID]; {
			case done && x.Redacted == nil:
				t.Errorf("turn %s was redacted, and is not", x.ID)
			case !asked && x.Redacted != nil:
				t.Errorf("turn %s is redacted, which nobody asked for: %v", x.ID, x.Redacted)
			}
			if x.Redacted != nil {
				redacted++
			}
			got = append(got, x.ID)
		}
		total += len(ids)
		// One more may be stored than was acknowledged: the last, unanswered one.
		if len(got) < len(ids) || len(got) > len(ids)+1 {
			t.Errorf("session %s: %d turns acknowledged, %d stored", s, len(ids), len(got))
			continue
		}
		for i := range ids {
			if got[i] != ids[i] {
				t.Errorf("session %s: turn %d is %s, acknowledged was %s", s, i, got[i], ids[i])
				break
			}
		}
	}
	v, err := c.Verify(t.Context())
	if err != nil || !v.OK && slices.ContainsFunc(v.Problems, func(p api.Problem) bool { return !may(p) }) {
		t.Errorf("verify: %+v, %v", v, err)
	}
	t.Logf("%d acknowledged turns in %d sessions, none lost, none twice, %d redacted; verified %+v", total, len(a.turns), redacted, v)
}
