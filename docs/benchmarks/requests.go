package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/embed"
	"nexus/turns"
)

// versus is two works that were measured in turns, each many times.
type versus struct {
	What, Than  string
	P50, Than50 float64 // ms
	P99, Than99 float64
	Samples     int
	Cells       string // what the row says beside
}

// alternate measures two works in turns for a while, at least 20 times each, after a tenth of that for the caches.
// The first is done often times for each time of the second, so that a slow second leaves it enough samples.
func (r *run) alternate(ctx context.Context, often int, what, than func(i int) error) (v versus, err error) {
	var a, b []time.Duration
	times := func(to *[]time.Duration, n, i int, do func(int) error) error {
		for k := range n {
			began := time.Now()
			if err := do(i + k); err != nil {
				return err
			}
			*to = append(*to, time.Since(began))
		}
		return nil
	}
	i := 0
	for _, phase := range []struct {
		each time.Duration
		n    int
	}{{r.each / 10, 3}, {r.each * time.Duration(r.rounds), 20}} {
		a, b = nil, nil
		for end := time.Now().Add(phase.each); time.Now().Before(end) || len(b) < phase.n; i += often {
			if ctx.Err() != nil {
				return v, ctx.Err()
			}
			first, second := func() error { return times(&a, often, i, what) }, func() error { return times(&b, 1, i, than) }
			if len(b)%2 == 1 {
				first, second = second, first
			}
			if err := first(); err != nil {
				return v, err
			}
			if err := second(); err != nil {
				return v, err
			}
		}
	}
	slices.Sort(a)
	slices.Sort(b)
	return versus{P50: ms(at(a, 0.5)), Than50: ms(at(b, 0.5)), P99: ms(at(a, 0.99)), Than99: ms(at(b, 0.99)), Samples: len(a)}, nil
}

// withSession runs do with a session of n turns of a fresh nexusd. log is the folder of its log.
func (r *run) withSession(ctx context.Context, n int, do func(c *client.Client, log string, session turns.ID, ids []turns.ID) error) (err error) {
	dir, err := os.MkdirTemp(r.dir, "requests-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d, err := r.startNexusd(ctx, dir, "--listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	nc, err := client.Dial(d.url, d.agent)
	if err != nil {
		return err
	}
	defer nc.Close()
	c := client.New(nc, "default", "bench")
	var create api.CreateSession
	create.Limits = &turns.Limits{ContextWindow: 100_000_000}
	create.Policy = &api.Policy{Name: "nexus"} // it compacts by the window alone, so no compaction is due
	s, err := c.Create(ctx, create)
	if err != nil {
		return err
	}
	ids := make([]turns.ID, n)
	l := r.load(1)
	for i := range ids {
		t := l.turn(0, i+1)
		answer := turns.TextMessage(turns.Assistant, t.answer)
		a, err := c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, t.question)}, Response: &answer})
		if err != nil {
			return err
		}
		ids[i] = a.ID
	}
	return do(c, embed.StreamDir(d.dir, jetstream.StreamName), s.ID, ids)
}

// forks measures a fork at a random depth beside a new session.
func (r *run) forks(ctx context.Context, res *results) error {
	r.say("fork.create beside session.create")
	return r.withSession(ctx, r.forkTurns, func(c *client.Client, log string, session turns.ID, ids []turns.ID) error {
		rng := rand.New(rand.NewPCG(1, 2))
		fork := func(int) error {
			_, err := c.Fork(ctx, session, api.CreateFork{Turn: ids[rng.IntN(len(ids))]})
			return err
		}
		v, err := r.alternate(ctx, 1, fork, func(int) error {
			_, err := c.Create(ctx, api.CreateSession{})
			return err
		})
		if err != nil {
			return err
		}
		v.What, v.Than = fmt.Sprintf("fork.create at a random depth of %s turns", grouped(int64(len(ids)))), "session.create"
		each, err := bytesOf(log, fork)
		if err != nil {
			return err
		}
		v.Cells = fmt.Sprintf("both write one event, and are answered when it is on disk; a fork takes %d bytes of the log", each)
		res.Requests = append(res.Requests, v)
		return nil
	})
}

// bytesOf returns how many bytes a call of do adds to the blocks of a log.
func bytesOf(log string, do func(i int) error) (int64, error) {
	size := func() (sum int64, err error) {
		files, err := filepath.Glob(filepath.Join(log, "msgs", "*.blk"))
		if err == nil && len(files) == 0 {
			err = fmt.Errorf("no blocks in %s", log)
		}
		for _, name := range files {
			st, serr := os.Stat(name)
			if serr != nil {
				return 0, serr
			}
			sum += st.Size()
		}
		return sum, err
	}
	const calls = 50
	before, err := size()
	for i := 0; i < calls && err == nil; i++ {
		err = do(i)
	}
	if err != nil {
		return 0, err
	}
	after, err := size()
	return (after - before) / calls, err
}

// contextTurns is how many turns the context has that is asked for again and again.
const contextTurns = 200

// contexts measures context.get beside a plain reply of the same bytes from a NATS server and its client, both of one process too.
func (r *run) contexts(ctx context.Context, res *results) error {
	r.say("context.get beside a plain reply")
	return r.withSession(ctx, contextTurns, func(c *client.Client, _ string, session turns.ID, ids []turns.ID) (err error) {
		subject := fmt.Sprintf("nexus.v1.default.bench.context.get.%s", session)
		request := []byte(`{}`)
		answer, err := c.Conn().RequestWithContext(ctx, subject, request)
		if err != nil {
			return err
		}
		var got api.Context
		if err := turns.DecodeJSON(answer.Data, &got); err != nil || len(got.Messages) != 2*len(ids) || got.Next != "" {
			return fmt.Errorf("context.get of %d turns answered %d messages: %w", len(ids), len(got.Messages), err)
		}
		dir, err := os.MkdirTemp(r.dir, "plain-")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		file := filepath.Join(dir, "reply")
		if err := os.WriteFile(file, answer.Data, 0o600); err != nil {
			return err
		}
		plain, nc, err := startPlain(dir, file)
		if err != nil {
			return err
		}
		defer func() {
			nc.Close()
			err = errors.Join(err, plain.end(syscall.SIGTERM))
		}()
		ask := func(nc *nats.Conn, subject string) func(int) error {
			return func(int) error {
				m, err := nc.RequestWithContext(ctx, subject, request)
				if err == nil && len(m.Data) != len(answer.Data) {
					err = fmt.Errorf("a reply of %d bytes, not %d", len(m.Data), len(answer.Data))
				}
				return err
			}
		}
		v, err := r.alternate(ctx, 1, ask(c.Conn(), subject), ask(nc, plainSubject))
		if err != nil {
			return err
		}
		v.What, v.Than = fmt.Sprintf("context.get of %d turns, warm", contextTurns), fmt.Sprintf("a plain reply of its %s bytes", grouped(int64(len(answer.Data))))
		v.Cells = "over NATS, one request after the other; the replies are not decoded"
		res.Requests = append(res.Requests, v)
		v, err = r.conditional(ctx, c, session, &got)
		res.Requests = append(res.Requests, v)
		return err
	})
}

// conditional measures context.get after one more turn, by a caller that has the context
// before it, beside one that has nothing. Both decode and put together.
func (r *run) conditional(ctx context.Context, c *client.Client, session turns.ID, had *api.Context) (v versus, err error) {
	t := r.load(1).turn(0, contextTurns+1)
	answer := turns.TextMessage(turns.Assistant, t.answer)
	if _, err := c.Append(ctx, session, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, t.question)}, Response: &answer}); err != nil {
		return v, err
	}
	subject := fmt.Sprintf("nexus.v1.default.bench.context.get.%s", session)
	have := []byte(fmt.Sprintf(`{"have":{"fingerprint":%q,"preamble_digest":%q}}`, had.Fingerprint, had.PreambleDigest))
	var sizes [2]int
	ask := func(n int, request []byte) func(int) error {
		return func(int) error {
			m, err := c.Conn().RequestWithContext(ctx, subject, request)
			if err != nil {
				return err
			}
			var got api.Context
			if err := api.DecodeContext(m.Data, &got); err != nil || got.Keep+len(got.Messages) != len(had.Messages)+2 {
				return fmt.Errorf("%d messages kept, %d sent: %w", got.Keep, len(got.Messages), err)
			}
			sizes[n] = len(m.Data)
			return nil
		}
	}
	if v, err = r.alternate(ctx, 1, ask(0, have), ask(1, []byte(`{}`))); err != nil {
		return v, err
	}
	v.What, v.Than = fmt.Sprintf("context.get of %d turns and one more, by a caller that has the %d", contextTurns, contextTurns), "the same by one that has nothing"
	v.Cells = fmt.Sprintf("%s bytes, not %s; both are decoded", grouped(int64(sizes[0])), grouped(int64(sizes[1])))
	return v, nil
}

const plainCommand, plainSubject = "serve-plain", "plain"

// startPlain starts this program as a NATS server whose own client answers with a file.
func startPlain(dir, file string) (*child, *nats.Conn, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(self, plainCommand, filepath.Join(dir, "nats"), file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	c, err := start(cmd)
	if err != nil {
		return nil, nil, err
	}
	var at struct{ URL string }
	if err := readyLine(c, out, &at); err != nil {
		return nil, nil, err
	}
	nc, err := nats.Connect(at.URL)
	if err != nil {
		return nil, nil, errors.Join(err, c.end(os.Kill))
	}
	return c, nc, nil
}

// servePlain is the other end of startPlain. It ends when it is asked to.
func servePlain(dir, file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	s, err := embed.StartBare(dir)
	if err != nil {
		return err
	}
	nc, err := nats.Connect(s.URL())
	if err != nil {
		return err
	}
	if _, err := nc.Subscribe(plainSubject, func(m *nats.Msg) { _ = m.Respond(b) }); err != nil {
		return err
	}
	if err := nc.Flush(); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(struct{ URL string }{s.URL()}); err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	<-ended
	nc.Close()
	s.Close()
	return nil
}
