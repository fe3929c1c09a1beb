package jetstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
	"nexus/ledger/jetstream/mark"
	"nexus/ledger/ledgertest"
)

// machine is a server of others whose disk can be put back as it was.
type machine struct {
	t       *testing.T
	dir     string
	address *net.TCPAddr
	server  *server.Server
	ledger  string
}

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, dir: t.TempDir(), address: &net.TCPAddr{Port: server.RANDOM_PORT}, ledger: uuid.NewString()}
	m.start()
	t.Cleanup(m.stop)
	return m
}

func (m *machine) start() {
	m.t.Helper()
	s, err := server.NewServer(&server.Options{ServerName: "m", Host: "127.0.0.1", Port: m.address.Port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: filepath.Join(m.dir, "now"), SyncAlways: true, JetStreamMaxStore: 1 << 30, JetStreamMaxMemory: 1 << 26})
	if err != nil {
		m.t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		m.t.Fatal("the server does not start")
	}
	m.server, m.address = s, s.Addr().(*net.TCPAddr)
}

func (m *machine) stop() {
	m.server.Shutdown()
	m.server.WaitForShutdown()
}

// copy copies the disk; back puts that copy in the disk's place.
func (m *machine) copy() {
	m.t.Helper()
	m.stop()
	if err := os.CopyFS(filepath.Join(m.dir, "then"), os.DirFS(filepath.Join(m.dir, "now"))); err != nil {
		m.t.Fatal(err)
	}
	m.start()
}

func (m *machine) back() {
	m.t.Helper()
	m.stop()
	if err := errors.Join(os.RemoveAll(filepath.Join(m.dir, "now")), os.Rename(filepath.Join(m.dir, "then"), filepath.Join(m.dir, "now"))); err != nil {
		m.t.Fatal(err)
	}
	m.start()
}

// daemon is a process that uses the log.
type process struct {
	*Log
	lost atomic.Int32
}

// process opens the log. others are asked what they know.
func (m *machine) process(others ...*process) *process {
	m.t.Helper()
	nc, err := nats.Connect(m.server.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(nc.Close)
	j, err := js.New(nc)
	if err != nil {
		m.t.Fatal(err)
	}
	p := new(process)
	c := Config{Replicas: 1, Create: true, Ledger: m.ledger, Confirm: true, Lost: func(*ShorterError) { p.lost.Add(1) }, Others: func(context.Context) (out []mark.Place, err error) {
		for _, o := range others {
			out = append(out, o.Confirmed())
		}
		return out, nil
	}}
	if p.Log, err = Open(ledgertest.Within(m.t), j, c); err != nil {
		m.t.Fatal(err)
	}
	p.agree = 200 * time.Millisecond
	return p
}

// tell appends, and returns what somebody may be told.
func (p *process) tell(ctx context.Context, subject string, expect uint64, payload []byte) (uint64, error) {
	seq, err := p.Append(ctx, subject, expect, payload)
	if err == nil || errors.Is(err, ledger.ErrConflict) {
		if fault := p.Confirm(ctx); fault != nil {
			err = fault
		}
	}
	return seq, err
}

// append appends n records to a subject that has had others.
func (p *process) append(t *testing.T, subject string, had uint64, n int) (last uint64) {
	t.Helper()
	last = had
	for i := range n {
		var err error
		if last, err = p.tell(ledgertest.Within(t), subject, last, fmt.Appendf(nil, "record %d of %s, %s", i, subject, uuid.NewString())); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

// A server comes back with an older copy of its disk, while two processes run that use the log:
// a has appended what is lost, b has not read it. Nothing is acknowledged on top.
func TestALogThatComesBackShorterTakesNoAppends(t *testing.T) {
	const subjectB, subjectC = "nexus.log.01.t.s.B", "nexus.log.02.t.s.C"
	isLost := func(t *testing.T, p *process) {
		t.Helper()
		for ctx := ledgertest.Within(t); p.lost.Load() == 0; time.Sleep(time.Millisecond) {
			if ctx.Err() != nil {
				t.Fatal("the loss was not noticed")
			}
		}
		if p.Lost() == nil || p.lost.Load() != 1 {
			t.Errorf("lost: %v, told %d times", p.Lost(), p.lost.Load())
		}
		if _, err := p.Append(ledgertest.Within(t), subjectC, 0, []byte("later")); !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("an append after it: %v, want corrupt", err)
		}
	}
	// refuses tries an append that must not be acknowledged.
	refuses := func(t *testing.T, p *process, subject string, expect uint64) {
		t.Helper()
		if seq, err := p.tell(ledgertest.Within(t), subject, expect, []byte("on top")); !errors.Is(err, ledger.ErrIndeterminate) && !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("an append over lost records: position %d, %v; want indeterminate or corrupt", seq, err)
		}
	}
	for name, c := range map[string]struct {
		others bool // b hears of a
		reads  bool // b follows the log
		after  func(t *testing.T, m *machine, a, b *process)
	}{
		"who has acknowledged appends": {after: func(t *testing.T, _ *machine, a, _ *process) {
			refuses(t, a, subjectC, 0)
			isLost(t, a)
		}},
		"who has acknowledged follows a lost tail": {after: func(t *testing.T, _ *machine, a, _ *process) {
			refuses(t, a, subjectA, 10)
			isLost(t, a)
		}},
		"who has not read it appends": {others: true, after: func(t *testing.T, _ *machine, _, b *process) {
			refuses(t, b, subjectB, 0)
			isLost(t, b)
		}},
		"who knows nothing of it goes past its end": {after: func(t *testing.T, m *machine, a, _ *process) {
			stranger := m.process()
			if last := stranger.append(t, subjectB, 0, 8); last != 13 {
				t.Fatalf("the stranger's last is %d", last)
			}
			refuses(t, a, subjectC, 0)
			isLost(t, a)
		}},
		"nobody appends": {after: func(t *testing.T, _ *machine, a, _ *process) {
			go a.Watch(t.Context())
			isLost(t, a)
		}},
		"another one says so": {after: func(t *testing.T, m *machine, a, b *process) {
			stranger := m.process()
			stranger.append(t, subjectB, 0, 8)
			go b.Watch(t.Context())
			if err := b.Confirm(t.Context()); err != nil { // it read five, which are there
				t.Fatal(err)
			}
			b.Doubt(a.Confirmed())
			isLost(t, b)
		}},
		"who has only read it": {reads: true, after: func(t *testing.T, m *machine, a, b *process) {
			m.process().append(t, subjectB, 0, 8)
			refuses(t, b, subjectC, 0)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			a := m.process()
			var b *process
			if c.others {
				b = m.process(a)
			} else {
				b = m.process()
			}
			five := a.append(t, subjectA, 0, 5)
			m.copy()
			if err := b.Confirm(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c.reads {
				go func() {
					for range b.Read(t.Context(), 1, true) {
					}
				}()
			}
			a.append(t, subjectA, five, 5)
			if c.reads {
				for ctx := ledgertest.Within(t); b.End() < 10; time.Sleep(time.Millisecond) {
					if ctx.Err() != nil {
						t.Fatal("b reads nothing")
					}
				}
			}
			m.back()
			c.after(t, m, a, b)
		})
	}
}

// A restart with all that was acknowledged, and with more, is none.
func TestARestartIsNoLoss(t *testing.T) {
	m := newMachine(t)
	a := m.process()
	b := m.process(a)
	five := a.append(t, subjectA, 0, 5)
	for range 3 {
		m.stop()
		m.start()
		five = a.append(t, subjectA, five, 3)
		b.append(t, "nexus.log.01.t.s."+uuid.NewString(), 0, 2)
	}
	if a.Lost() != nil || b.Lost() != nil {
		t.Errorf("lost: %v, %v", a.Lost(), b.Lost())
	}
	if got := a.Confirmed().Seq; got < five {
		t.Errorf("confirmed up to %d of %d", got, five)
	}
}

// What waits to be compared is bounded, and one comparison serves all who wait.
func TestComparisonsAreShared(t *testing.T) {
	m := newMachine(t)
	a := m.process()
	a.append(t, subjectA, 0, 1)
	counted := &lagging{Stream: a.stream}
	a.stream = counted
	const n = 200
	errs := make(chan error, n)
	for range n {
		go func() { errs <- a.Confirm(t.Context()) }()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if counted.infos > n/4 {
		t.Errorf("%d questions for %d that came together", counted.infos, n)
	}
	for seq := range uint64(3 * maxUnconfirmed) {
		if err := a.confirmer.read(t.Context(), mark.Place{Seq: min(seq, 1), Sum: a.Confirmed().Sum}); err != nil {
			t.Fatal(err)
		}
		if len(a.confirmer.fresh) > maxUnconfirmed {
			t.Fatalf("%d wait to be compared", len(a.confirmer.fresh))
		}
	}
}

// Leaders that give way, one after the other, while two processes append and follow, are no loss:
// each append that somebody may be told of is there, and nobody halts.
func TestR3LeadersThatGiveWayAreNoLoss(t *testing.T) {
	c := newCluster(t)
	whileTwoWrite(t, c, 2, func(int) {
		c.stepDown(t)
		time.Sleep(100 * time.Millisecond)
	})
}

// A stream that is moved to one server and back to three, as an operator does, is none either:
// not for the time without a majority, nor where another server leads after it.
func TestR3ReplicasThatChangeAreNoLoss(t *testing.T) {
	c, ctx := newCluster(t), ledgertest.Within(t)
	nc := c.connect(t, 2)
	whileTwoWrite(t, c, 4, func(n int) {
		s, err := stream(t, nc).Stream(ctx, StreamName)
		if err == nil {
			cfg := s.CachedInfo().Config
			cfg.Replicas = 1 + 2*(n%2)
			_, err = stream(t, nc).UpdateStream(ctx, cfg)
		}
		if err != nil {
			t.Logf("replicas are not changed now: %v", err)
		}
		time.Sleep(time.Second)
	})
}

// whileTwoWrite lets two processes append, each through a server of its own, and calls disturb,
// with the number of calls so far, until all is written, and at least as often as least says.
// What was acknowledged must be there, and no process sees a loss.
func whileTwoWrite(t *testing.T, c *cluster, least int, disturb func(n int)) {
	t.Helper()
	ctx := ledgertest.Within(t)
	first := c.empty(t)
	id := first.Ledger()
	var logs []*Log
	var lost atomic.Int32
	for node := range 2 {
		l, err := Open(ctx, stream(t, c.connect(t, node)), Config{Ledger: id, Confirm: true, Lost: func(*ShorterError) { lost.Add(1) }, Others: func(context.Context) (out []mark.Place, err error) {
			for _, o := range logs {
				out = append(out, o.Confirmed())
			}
			return out, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
	}
	for _, l := range logs {
		go func() {
			for range l.Read(t.Context(), 1, true) {
			}
		}()
		go l.Watch(t.Context())
	}
	var disturbed atomic.Int32
	type told struct {
		seq     uint64
		payload string
	}
	acks := make(chan told, 100_000)
	var writers sync.WaitGroup
	for w, l := range logs {
		writers.Go(func() {
			var tail uint64
			for i := 0; i < 60 || disturbed.Load() < int32(least); i++ {
				payload := fmt.Sprintf("record %d of %d", i, w)
				seq, err := l.Append(ctx, fmt.Sprintf("nexus.log.0%d.t.s.W", w), tail, []byte(payload))
				for ctx.Err() == nil && (errors.Is(err, ledger.ErrUnavailable) || errors.Is(err, ledger.ErrIndeterminate)) {
					seq, err = l.Append(ctx, fmt.Sprintf("nexus.log.0%d.t.s.W", w), tail, []byte(payload)) // no leader for as long as Append tries, which is no loss
				}
				if err == nil {
					err = l.Confirm(ctx)
				}
				if err != nil {
					t.Errorf("append %d of %d: %v", i, w, err)
					return
				}
				tail = seq
				acks <- told{seq, payload}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for n := 0; ; n++ {
		select {
		case <-done:
			close(acks)
			for a := range acks {
				r, err := first.Get(ctx, a.seq)
				for ctx.Err() == nil && errors.Is(err, ledger.ErrUnavailable) {
					r, err = first.Get(ctx, a.seq) // the servers may look for a leader yet
				}
				if err != nil || string(r.Payload) != a.payload {
					t.Errorf("position %d: %q, %v; told was %q", a.seq, r.Payload, err, a.payload)
				}
			}
			if lost.Load() > 0 {
				t.Errorf("%d processes saw a loss in %d disturbances: %v, %v", lost.Load(), n, logs[0].Lost(), logs[1].Lost())
			}
			return
		default:
			disturb(n)
			disturbed.Store(int32(n + 1))
		}
	}
}

// untold is a stream of servers that do not tell when their leader was elected.
type untold struct{ js.Stream }

func (u untold) Info(ctx context.Context, opts ...js.StreamInfoOpt) (*js.StreamInfo, error) {
	info, err := u.Stream.Info(ctx, opts...)
	if err == nil && info.Cluster != nil {
		cluster := *info.Cluster
		cluster.LeaderSince = nil
		info.Cluster = &cluster
	}
	return info, err
}

// Servers that do not tell when their leader was elected can be used: the newest record is compared at each
// question, so a loss of it is seen.
func TestR3WithoutTheInstantOfAnElection(t *testing.T) {
	c, ctx := newCluster(t), ledgertest.Within(t)
	l := c.empty(t)
	l.stream = untold{l.stream}
	var lost atomic.Int32
	l.confirmer = newConfirmer(l, Config{Lost: func(*ShorterError) { lost.Add(1) }})
	p := &process{Log: l}
	last := p.append(t, subjectA, 0, 5)
	if err := l.Confirm(ctx); err != nil || l.Confirmed().Seq != last {
		t.Fatalf("%v, confirmed up to %d of %d", err, l.Confirmed().Seq, last)
	}
	l.Doubt(mark.Place{Seq: last, Sum: [32]byte{1}}) // as if another record had been there
	if err := l.Confirm(ctx); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("another record at %d: %v, want corrupt", last, err)
	}
}

// led is a stream whose leader was elected at an instant, and shows a log that ends at last.
type led struct {
	js.Stream
	since time.Time
	last  uint64
}

func (l led) Info(ctx context.Context, opts ...js.StreamInfoOpt) (*js.StreamInfo, error) {
	info, err := l.Stream.Info(ctx, opts...)
	if err == nil && info.Cluster != nil {
		cluster := *info.Cluster
		cluster.LeaderSince = &l.since
		info.Cluster, info.State.LastSeq = &cluster, l.last
	}
	return info, err
}

// A log that is too short counts under one leadership only: one after the other, each may not have applied it yet.
func TestR3ShortLogsOfTwoLeadersDoNotAddUp(t *testing.T) {
	l := newCluster(t).empty(t)
	l.confirmer, l.agree = newConfirmer(l, Config{}), 50*time.Millisecond
	p := &process{Log: l}
	p.append(t, subjectA, 0, 5)
	stream := l.stream
	at := time.Now()
	for i := range 3 {
		l.stream = led{stream, at.Add(time.Duration(i) * time.Second), 3}
		if err := l.confirmer.compare([]mark.Place{l.Confirmed()}); !errors.Is(err, errUnsettled) {
			t.Fatalf("leader %d: %v", i, err)
		}
		time.Sleep(2 * l.agree)
	}
	if err := l.confirmer.compare([]mark.Place{l.Confirmed()}); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("one leader that shows a short log for long: %v, want corrupt", err)
	}
}

// A stream that an operator deleted and made anew is a log that came back without its records:
// the process that had them acknowledges nothing on it.
func TestR3AStreamMadeAnewTakesNoAppends(t *testing.T) {
	c, ctx := newCluster(t), ledgertest.Within(t)
	first := c.empty(t)
	var lost atomic.Int32
	l, err := Open(ctx, stream(t, c.connect(t, 1)), Config{Ledger: first.Ledger(), Confirm: true, Lost: func(*ShorterError) { lost.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range l.Read(t.Context(), 1, true) {
		}
	}()
	go l.Watch(t.Context())
	_, err = l.Append(ctx, subjectA, 0, []byte("one"))
	if err = errors.Join(err, l.Confirm(ctx)); err != nil {
		t.Fatal(err)
	}
	c.empty(t)
	for _, subject := range []string{"nexus.log.00.t.s.X", "nexus.log.00.t.s.Y"} {
		_, err := l.Append(ctx, subject, 0, []byte("two"))
		if err == nil {
			err = l.Confirm(ctx)
		}
		if err == nil {
			t.Errorf("an append on %s was acknowledged on another stream", subject)
		}
	}
	if lost.Load() != 1 || l.Lost() == nil {
		t.Errorf("%d losses noticed: %v", lost.Load(), l.Lost())
	}
}
