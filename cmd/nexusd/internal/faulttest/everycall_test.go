//go:build linux && amd64

package faulttest

import (
	"context"
	"debug/gosym"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

var everyCall = flag.Bool("every-call", false, "TestEveryCall kills nexusd at every call of every operation; without, at some calls of an append and of a fork")

// TestEveryCall kills nexusd before and after each system call by which an operation changes a
// file. First it sees which calls an operation makes, and what nexusd does beside it. Then it
// kills at each, starts again, and sends the same request with the same id: the operation is
// stored once, what was acknowledged is what is stored, and the ledger verifies.
//
// It can't see a loss of what was written and not synced: that is TestPowerCut's.
func TestEveryCall(t *testing.T) {
	bin := nexusdBinary(t)
	code, err := symbols(bin)
	if err != nil {
		t.Fatal(err)
	}
	e := &everyCallRun{t: t, bin: bin, data: t.TempDir(), code: code, log: newLog(t)}
	other := &everyCallRun{t: t, bin: bin, data: t.TempDir(), code: code, log: e.log} // where imports come from
	other.start()
	t.Cleanup(func() { other.d.Kill() })
	e.start()
	t.Cleanup(func() { e.d.Kill() })
	if x, err := trace(e.d.Cmd.Process.Pid, e.data, code, nil); errors.Is(err, syscall.EPERM) {
		t.Skip("no permission to trace a process")
	} else if err != nil {
		t.Fatal(err)
	} else {
		e.restart()
		<-x.ended
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	all := make(map[fileCall]bool)
	for _, o := range operations(e, other) {
		if !*everyCall && o.name != "append" && o.name != "second fork" {
			continue
		}
		t.Run(o.name, func(t *testing.T) {
			e.t = t
			// Runs without a kill at a call say which calls there are, and at most how many of a kind.
			most := make(map[fileCall]int)
			runs := 3
			if !*everyCall {
				runs = 1
			}
			for range runs {
				count := make(map[fileCall]int)
				for _, c := range e.attempt(o, nil).calls {
					count[c]++
				}
				for c, n := range count {
					most[c] = max(most[c], n)
				}
			}
			var goals []target
			for _, c := range slices.SortedFunc(maps.Keys(most), func(a, b fileCall) int { return strings.Compare(a.String(), b.String()) }) {
				for n := range min(most[c], nthLimit) {
					goals = append(goals, target{c, n + 1, false}, target{c, n + 1, true})
				}
			}
			tries, enough := 3, len(goals)
			if !*everyCall {
				rng.Shuffle(len(goals), func(i, j int) { goals[i], goals[j] = goals[j], goals[i] })
				// Some calls come once in a ledger's life, as those that make the index: they are
				// passed over until two others were killed at.
				tries, enough = 1, 2
			}
			hits, acknowledged, sites := 0, 0, make(map[fileCall]bool)
			var not []string
			for _, goal := range goals {
				if hits >= enough {
					break
				}
				for try := range tries {
					got := e.attempt(o, &goal)
					if got.hit {
						hits++
						sites[goal.call], all[goal.call] = true, true
						if got.acknowledged {
							acknowledged++
						}
						break
					}
					if try == tries-1 {
						not = append(not, goal.String())
					}
				}
				if t.Failed() {
					t.Fatalf("killed %s", goal)
				}
			}
			t.Logf("%s: %d kills at %d of %d call sites, %d of them after the acknowledgement", o.name, hits, len(sites), len(most), acknowledged)
			for _, s := range not {
				t.Logf("  not reached: %s", s)
			}
			if hits == 0 {
				t.Errorf("%s: nothing was killed", o.name)
			}
		})
	}
	t.Logf("%d different call sites", len(all))
	for _, c := range slices.Sorted(func(yield func(string) bool) {
		for c := range all {
			if !yield(c.String()) {
				return
			}
		}
	}) {
		t.Log("  ", c)
	}
}

// nthLimit is how many calls of one kind in one operation are killed at.
const nthLimit = 4

// afterwards is how long the calls count that nexusd makes after an acknowledgement: the mark is
// written each half second, and the projections follow.
const afterwards = 1200 * time.Millisecond

// testOperation is a request with an id, and what must hold when it was answered.
type testOperation struct {
	name string
	// prepare returns the request, which says what it got, and the check after the restart.
	prepare func(ctx context.Context, c *client.Client) (request func(context.Context, *client.Client) (string, error), check func(context.Context, *client.Client) error, err error)
}

type everyCallRun struct {
	t    *testing.T // the subtest that runs
	bin  string
	data string
	code *gosym.Table
	log  *lockedLog
	d    *Nexusd
}

func (e *everyCallRun) start() {
	e.t.Helper()
	cmd := exec.Command(e.bin, "--data", e.data, "--listen", "127.0.0.1:0", "--http", "off", "--log-level", "error", "--max-store", "2000000000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the tracer waits for this group
	d, err := StartCommand(e.t.Context(), e.log, cmd)
	if err != nil {
		e.t.Fatal(err)
	}
	e.d = d
}

func (e *everyCallRun) restart() { e.t.Helper(); e.d.Kill(); e.start() }

// connect returns a client whose calls end when the daemon is killed.
func (e *everyCallRun) connect(ctx context.Context) (context.Context, *client.Client, func()) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, startTime)
	nc, err := client.Dial(e.d.URL, e.d.Agent, nats.MaxReconnects(0), nats.ClosedHandler(func(*nats.Conn) { cancel() }))
	if err != nil {
		e.t.Fatal(err)
	}
	return ctx, client.New(nc, "default", "main"), func() { nc.Close(); cancel() }
}

type attempted struct {
	calls             []fileCall
	hit, acknowledged bool
}

// attempt does an operation, with a kill at goal, and checks it after a restart.
func (e *everyCallRun) attempt(o testOperation, goal *target) (out attempted) {
	t := e.t
	t.Helper()
	ctx, c, end := e.connect(t.Context())
	request, check, err := o.prepare(ctx, c)
	if err != nil {
		t.Fatalf("%s: prepare: %v", o.name, err)
	}
	x, err := trace(e.d.Cmd.Process.Pid, e.data, e.code, goal)
	if err != nil {
		t.Fatal(err)
	}
	before, err := request(ctx, c)
	if refused := (*api.Error)(nil); errors.As(err, &refused) && refused.Code != api.Indeterminate && refused.Code != api.Unavailable {
		t.Fatalf("%s: %v", o.name, err)
	}
	out.acknowledged = err == nil
	wait := time.NewTimer(afterwards)
	if err != nil { // it was killed, or will be in a moment
		wait.Reset(startTime)
	}
	select {
	case <-x.ended:
	case <-wait.C:
		if err != nil {
			t.Errorf("%s: %v, and nexusd was not killed", o.name, err)
		}
	}
	wait.Stop()
	end()
	e.d.Kill()
	<-x.ended
	out.calls, out.hit = x.recorded()
	if goal != nil && out.hit {
		fmt.Fprintf(e.log, "killed %s\n", goal)
	}
	e.start()
	ctx, c, end = e.connect(t.Context())
	defer end()
	var calls atomic.Int64
	again, err := answer(ctx, &calls, func(ctx context.Context) (string, error) { return request(ctx, c) })
	if err != nil {
		t.Errorf("%s: the same request after a restart: %v", o.name, err)
		return out
	}
	if out.acknowledged && again != before {
		t.Errorf("%s: acknowledged was %s, and after a restart %s", o.name, before, again)
	}
	if err := check(ctx, c); err != nil {
		t.Errorf("%s: after a restart: %v", o.name, err)
	}
	all, err := client.Dial(e.d.URL, e.d.Operator)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	if v, err := client.New(all, "default", api.Operator).Verify(ctx); err != nil || !v.OK || v.Duplicates > 0 {
		t.Errorf("%s: verify: %+v, %v", o.name, v, err)
	}
	return out
}

// hasTurns says that the normal turns of a session are these.
func hasTurns(ctx context.Context, c *client.Client, session turns.ID, want []turns.ID) error {
	var got []turns.ID
	for x, err := range c.Turns(ctx, session, api.ListTurns{}) {
		if err != nil {
			return err
		}
		if x.Type == "normal" {
			got = append(got, x.ID)
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("session %s has the turns %v, want %v", session, got, want)
	}
	return nil
}

type (
	requester = func(context.Context, *client.Client) (string, error)
	checker   = func(context.Context, *client.Client) error
)

// operator calls f with a client of the operator of e.
func (e *everyCallRun) operator(ctx context.Context, f func(*client.Client) (string, error)) (string, error) {
	nc, err := client.Dial(e.d.URL, e.d.Operator, nats.MaxReconnects(0))
	if err != nil {
		return "", fmt.Errorf("%w: %w", nats.ErrNoResponders, err)
	}
	defer nc.Close()
	return f(client.New(nc, "default", api.Operator))
}

// isDone returns an error unless a store is done.
func isDone(stores []api.ErasedStore, name string) error {
	for _, s := range stores {
		if s.Store == name && s.State == api.StoreDone {
			return nil
		}
	}
	return fmt.Errorf("%s is not done: %+v", name, stores)
}

func operations(e, other *everyCallRun) []testOperation {
	// redact takes a text out of a turn, and says that it is gone: which events it does is another matter the second time.
	redactOf := func(bytes int) func(context.Context, *client.Client) (requester, checker, error) {
		return func(ctx context.Context, c *client.Client) (requester, checker, error) {
			session, ids, err := newSession(ctx, c, 2)
			if err != nil {
				return nil, nil, err
			}
			secret := "secret of " + api.NewID().String()
			r := api.AppendTurn{ID: api.NewID(), Messages: []turns.Message{turns.TextMessage(turns.User, strings.Repeat("x", bytes)+secret), turns.TextMessage(turns.User, "it stays")}}
			if _, err := c.Append(ctx, session, r); err != nil {
				return nil, nil, err
			}
			redact := func(ctx context.Context) (string, error) {
				return e.operator(ctx, func(c *client.Client) (string, error) {
					got, err := c.Redact(ctx, session, api.RedactTurn{Text: secret})
					if err != nil {
						return "", err
					}
					return "redacted", isDone(got.Stores, "key")
				})
			}
			return func(ctx context.Context, _ *client.Client) (string, error) { return redact(ctx) },
				func(ctx context.Context, c *client.Client) error {
					got, err := c.Turn(ctx, session, r.ID)
					if err != nil {
						return err
					}
					text := got.Messages[0].Parts[0]
					if text.Ref != nil {
						content, err := c.Content(ctx, session, text.Ref)
						if err != nil {
							return err
						}
						text.Content = string(content)
					}
					if text.Content != strings.Repeat("x", bytes)+"[redacted]" || got.Messages[1].Parts[0].Content != "it stays" {
						return fmt.Errorf("turn %s is %.200v", r.ID, got.Messages)
					}
					return hasTurns(ctx, c, session, append(ids, r.ID))
				}, nil
		}
	}
	appendOf := func(bytes int) func(context.Context, *client.Client) (requester, checker, error) {
		return func(ctx context.Context, c *client.Client) (requester, checker, error) {
			session, ids, err := newSession(ctx, c, 2)
			r := api.AppendTurn{ID: api.NewID()}
			r.Messages = text(r.ID, bytes)
			return func(ctx context.Context, c *client.Client) (string, error) {
				a, err := c.Append(ctx, session, r)
				if err != nil {
					return "", err
				}
				return fmt.Sprint(a.ID, a.Depth, a.Hash, a.Position), nil
			}, func(ctx context.Context, c *client.Client) error { return hasTurns(ctx, c, session, append(ids, r.ID)) }, err
		}
	}
	eventOf := func(bytes int) func(context.Context, *client.Client) (requester, checker, error) {
		return func(context.Context, *client.Client) (requester, checker, error) {
			r := api.AppendEvent{ID: api.NewID(), Channel: "channel " + api.NewID().String(), Kind: "test", Body: turns.Raw(`"` + strings.Repeat("x", bytes) + `"`)}
			return func(ctx context.Context, c *client.Client) (string, error) {
					a, err := c.AppendEvent(ctx, r)
					if err != nil {
						return "", err
					}
					return fmt.Sprint(a.ID, a.Index, a.Hash, a.Position), nil
				}, func(ctx context.Context, c *client.Client) error {
					got, err := c.Event(ctx, api.GetEvent{Channel: r.Channel, ID: r.ID})
					if err == nil && (got.Index != 0 || string(got.Body) != string(r.Body)) {
						err = fmt.Errorf("event %s is %d with a body of %d bytes", r.ID, got.Index, len(got.Body))
					}
					return err
				}, nil
		}
	}
	// forkOf makes a fork of a session with a large preamble that has been forked so often: the second one writes a blob that
	// it names in the preamble's place, and the third one names it too. A restart forgets which blob that is.
	forkOf := func(before int) func(context.Context, *client.Client) (requester, checker, error) {
		return func(ctx context.Context, c *client.Client) (requester, checker, error) {
			r := api.CreateSession{ID: api.NewID()}
			r.System = &api.System{{Name: "rules", Content: noise(r.ID, 40<<10)}}
			r.Tools = &[]turns.Raw{turns.Raw(`{"name":"t","description":"` + noise(r.ID, 9<<10) + `"}`)}
			if _, err := c.Create(ctx, r); err != nil {
				return nil, nil, err
			}
			at := api.NewID()
			if _, err := c.Append(ctx, r.ID, api.AppendTurn{ID: at, Messages: text(at, 600)}); err != nil {
				return nil, nil, err
			}
			want, err := shownBy(ctx, c, r.ID)
			if err != nil {
				return nil, nil, err
			}
			all := []turns.ID{r.ID}
			fork := func(ctx context.Context, c *client.Client, id turns.ID) (string, error) {
				s, err := c.Fork(ctx, r.ID, api.CreateFork{ID: id, Turn: at})
				if err != nil {
					return "", err
				}
				return fmt.Sprint(s.ID, s.Hash, s.Head), nil
			}
			for range before {
				id := api.NewID()
				if _, err := fork(ctx, c, id); err != nil {
					return nil, nil, err
				}
				all = append(all, id)
			}
			next := api.NewID()
			return func(ctx context.Context, c *client.Client) (string, error) { return fork(ctx, c, next) },
				func(ctx context.Context, c *client.Client) error {
					all := append(all, next)
					for range 3 { // one that has its own, one that moves it, and one that names that
						id := api.NewID()
						if _, err := fork(ctx, c, id); err != nil {
							return err
						}
						all = append(all, id)
					}
					for i, id := range all {
						if got, err := shownBy(ctx, c, id); err != nil || got != want {
							return fmt.Errorf("session %d of the tree, %s, shows %d bytes, want %d: %v", i, id, len(got), len(want), err)
						}
					}
					tree, err := c.Tree(ctx, r.ID)
					if err == nil && len(tree.Sessions) != len(all) {
						err = fmt.Errorf("the tree of %s has %d sessions, want %d", r.ID, len(tree.Sessions), len(all))
					}
					return err
				}, nil
		}
	}
	return []testOperation{
		{"event", eventOf(300)},
		{"event with a blob", eventOf(700 << 10)},
		{"append", appendOf(300)},
		{"append with a blob", appendOf(700 << 10)},
		{"redact", redactOf(300)},
		{"redact with a blob", redactOf(700 << 10)},
		{"erase", func(ctx context.Context, c *client.Client) (requester, checker, error) {
			session, _, err := newSession(ctx, c, 2)
			erase := func(ctx context.Context) (string, error) {
				return e.operator(ctx, func(c *client.Client) (string, error) {
					r, err := c.Erase(ctx, session, api.EraseSession{})
					if err != nil {
						return "", err
					}
					return r.Position, isDone(r.Stores, "key")
				})
			}
			return func(ctx context.Context, _ *client.Client) (string, error) { return erase(ctx) },
				func(ctx context.Context, c *client.Client) error {
					s, err := c.Session(ctx, session)
					if err == nil && s.State != "erased" {
						err = fmt.Errorf("session %s is %s", session, s.State)
					}
					return err
				}, err
		}},
		{"create", func(context.Context, *client.Client) (requester, checker, error) {
			label := "label of " + api.NewID().String()
			r := api.CreateSession{ID: api.NewID(), SessionSettings: api.SessionSettings{Label: &label}}
			return func(ctx context.Context, c *client.Client) (string, error) {
					s, err := c.Create(ctx, r)
					if err != nil {
						return "", err
					}
					return fmt.Sprint(s.ID, s.Hash, s.Position), nil
				}, func(ctx context.Context, c *client.Client) error {
					s, err := c.Resolve(ctx, label)
					if err == nil && s.ID != r.ID {
						err = fmt.Errorf("label %s is of session %s, want %s", label, s.ID, r.ID)
					}
					return err
				}, nil
		}},
		{"compaction", func(ctx context.Context, c *client.Client) (requester, checker, error) {
			session, ids, err := newSession(ctx, c, 8)
			r := api.RunCompaction{ID: api.NewID(), Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"keep_tokens":50}`)}}
			return func(ctx context.Context, c *client.Client) (string, error) {
					run, err := c.Compact(ctx, session, r)
					if err != nil {
						return "", err
					}
					if run.Compaction == nil {
						return "", fmt.Errorf("the state is %s", run.State)
					}
					return fmt.Sprint(run.Compaction.ID, run.Compaction.Hash), nil
				}, func(ctx context.Context, c *client.Client) error {
					s, err := c.Session(ctx, session)
					if err == nil && s.Compactions != 1 {
						err = fmt.Errorf("session %s has %d compactions, want 1", session, s.Compactions)
					}
					return errors.Join(err, hasTurns(ctx, c, session, ids))
				}, err
		}},
		{"fork", func(ctx context.Context, c *client.Client) (requester, checker, error) {
			session, ids, err := newSession(ctx, c, 3)
			if err != nil {
				return nil, nil, err
			}
			r := api.CreateFork{ID: api.NewID(), Turn: ids[1]}
			return func(ctx context.Context, c *client.Client) (string, error) {
					s, err := c.Fork(ctx, session, r)
					if err != nil {
						return "", err
					}
					return fmt.Sprint(s.ID, s.Hash, s.Head), nil
				}, func(ctx context.Context, c *client.Client) error {
					tree, err := c.Tree(ctx, session)
					if err == nil && len(tree.Sessions) != 2 {
						err = fmt.Errorf("the tree of %s has %d sessions, want 2", session, len(tree.Sessions))
					}
					return errors.Join(err, hasTurns(ctx, c, r.ID, ids[:2]), hasTurns(ctx, c, session, ids))
				}, nil
		}},
		{"second fork", forkOf(1)},
		{"third fork", forkOf(2)},
		{"import", func(ctx context.Context, _ *client.Client) (requester, checker, error) {
			ctx, from, end := other.connect(ctx)
			defer end()
			session, ids, err := newSession(ctx, from, 2)
			if err != nil {
				return nil, nil, err
			}
			id := api.NewID()
			if _, err := from.Append(ctx, session, api.AppendTurn{ID: id, Messages: text(id, 600<<10)}); err != nil {
				return nil, nil, err
			}
			ids = append(ids, id)
			all, err := client.Dial(other.d.URL, other.d.Operator) // an export hands out keys
			if err != nil {
				return nil, nil, err
			}
			defer all.Close()
			records, events, err := exported(ctx, client.New(all, "default", "main"), session)
			return func(ctx context.Context, c *client.Client) (string, error) {
					got, err := c.Import(ctx, records)
					if err != nil {
						return "", err
					}
					return fmt.Sprint(got.Stored + got.Existing), nil
				}, func(ctx context.Context, c *client.Client) error {
					if err := hasTurns(ctx, c, session, ids); err != nil {
						return err
					}
					for i, id := range ids {
						got, err := c.Turn(ctx, session, id)
						if err != nil {
							return err
						}
						if got.Hash != events[i+1] {
							return fmt.Errorf("turn %s has %v, in the other ledger %v", id, got.Hash, events[i+1])
						}
					}
					return nil
				}, err
		}},
	}
}

// noise returns text that does not compress much, and differs from id to id.
func noise(id turns.ID, bytes int) string {
	rng := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(id[8:]), 1))
	b := make([]byte, bytes)
	for i := range b {
		b[i] = 'a' + byte(rng.IntN(26))
	}
	return string(b)
}

// shownBy returns all that a session's context shows.
func shownBy(ctx context.Context, c *client.Client, session turns.ID) (string, error) {
	got, err := c.Context(ctx, session, api.GetContext{Format: "anthropic"})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s\n%s\n%s", got.System, got.Tools, got.Messages), nil
}

// exported reads the export of a session, and the hashes of its events.
func exported(ctx context.Context, c *client.Client, session turns.ID) (records []api.ExportRecord, events []turns.Hash, err error) {
	for r, err := range c.Export(ctx, session) {
		if err != nil {
			return nil, nil, err
		}
		records = append(records, r)
		if r.Event != nil {
			events = append(events, r.Event.Hash)
		}
	}
	return records, events, nil
}
