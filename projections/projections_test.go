package projections

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"nexus/ledger"
	"nexus/ledger/memlog"
	"nexus/lineage"
	"nexus/projections/db"
	"nexus/turns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// author writes sessions to a log, by the same fold that everything uses.
type author struct {
	t    testing.TB
	log  *memlog.Log
	rng  *rand.Rand
	all  []*session
	next uint64

	many   bool           // write all kinds of events, of several agents and tenants
	usage  bool           // some turns have one
	forest lineage.Forest // where many is set
	labels map[string]ledger.Label

	channels map[string]ledger.Channel // by subject
	policies ledger.Policies
	versions map[turns.Hash]uint64 // of policies, by the digest of their name
	books    map[string]*book      // memories, by tenant and agent
}

type session struct {
	ledger.Session
	depth map[turns.Ref]uint64
	turns []turns.Ref
	hash  map[turns.Ref]turns.Hash
}

func newAuthor(t *testing.T, seed uint64) *author {
	return &author{t: t, log: memlog.New(memlog.Config{}), rng: rand.New(rand.NewPCG(seed, 1)), labels: map[string]ledger.Label{}, versions: map[turns.Hash]uint64{}, channels: map[string]ledger.Channel{}, books: map[string]*book{}}
}

func (a *author) id() turns.ID {
	a.next++
	at := a.next
	if a.many && a.rng.IntN(4) == 0 { // clients choose ids: not each is greater than the one before
		at /= 2
	}
	return turns.DeriveID(time.UnixMilli(int64(at)), fmt.Sprint(a.next))
}

func (a *author) append(s *session, e *turns.Event) {
	a.t.Helper()
	e.Version, e.Recorded = turns.Version, int64(a.next+1)*4e8
	if e.Kind != turns.KindOpened {
		e.Chain = turns.SessionChain(s.ID)
		e.Index, e.Prev = s.Tail.Index+1, s.Tail.Hash
	}
	payload, err := e.Encode()
	if err != nil {
		a.t.Fatal(err)
	}
	next, tenant := s.Session, "default"
	if e.Kind == turns.KindOpened {
		tenant = e.Origin.Tenant
	}
	if err := next.Apply(tenant, s.Tail.Seq+1, turns.HashEvent(payload), e); err != nil {
		a.t.Fatal(err)
	}
	seq, err := a.log.Append(a.t.Context(), next.Subject(), s.Tail.Seq, payload)
	if err != nil {
		a.t.Fatal(err)
	}
	next.Tail.Seq = seq
	s.Session = next
	if e.Kind.IsTurn() {
		s.turns = append(s.turns, e.Ref())
		s.depth[e.Ref()], s.hash[e.Ref()] = e.Depth, turns.HashEvent(payload)
		if _, err := a.forest.AddEvent(e, false); err != nil {
			a.t.Fatal(err)
		}
	}
}

// open opens a session, forked from a random turn of another if of is set.
func (a *author) open(of *session) *session { return a.openAt(of, a.rng.IntN) }

// openAt opens a session, forked from the turn of another that at chooses if of is set.
func (a *author) openAt(of *session, choose func(n int) int) *session {
	id := a.id()
	s := &session{depth: map[turns.Ref]uint64{}, hash: map[turns.Ref]turns.Hash{}}
	e := &turns.Event{Kind: turns.KindOpened, ID: id, Chain: turns.SessionChain(id), Root: id, Agent: "main",
		Origin: &turns.Origin{Ledger: [16]byte{1}, Tenant: "default", Session: id}}
	if a.many {
		e.Agent = []string{"main", "mainly"}[a.rng.IntN(2)]
		e.Origin.Tenant = []string{"default", "other"}[a.rng.IntN(2)]
	}
	if of != nil {
		e.Agent, e.Origin.Tenant = of.Agent, of.Tenant
		at := of.turns[choose(len(of.turns))]
		e.Root, e.ForkOf = of.Root, &turns.ForkOf{At: at, Hash: of.hash[at], Mode: turns.AsSeen}
		s.depth[at] = of.depth[at]
	}
	a.append(s, e)
	a.all = append(a.all, s)
	return s
}

func (a *author) turn(s *session) {
	e := &turns.Event{Kind: turns.KindTurn, ID: a.id(), Parent: s.Head, Depth: s.depth[s.Head] + 1, Halves: 3,
		Tokens: turns.Tokens{Counter: "approx-1", Messages: 3, Response: 5}}
	e.Segment = s.SegmentFor(e.ID, s.Head)
	if a.many && a.rng.IntN(4) == 0 {
		e.External = &turns.ExternalLink{Channel: channelOf(s.Agent, a.rng.IntN(2)), ID: turns.ID{7, byte(a.rng.IntN(3))}}
	}
	if a.usage && a.rng.IntN(3) == 0 {
		e.Usage = &turns.Usage{InputTokens: 1 + a.rng.Uint64N(1000)}
	}
	a.append(s, e)
}

// write does n random things: turns, forks, head moves, new sessions.
func (a *author) write(n int) {
	for range n {
		if len(a.all) == 0 || a.rng.IntN(20) == 0 {
			a.open(nil)
			continue
		}
		s := a.all[a.rng.IntN(len(a.all))]
		if a.many && a.rng.IntN(20) == 0 {
			a.policy(s.Agent, turns.Hash{})
			a.policy("main", turns.Hash{9, byte(a.rng.IntN(3) + 1)})
			continue
		}
		if a.many && a.rng.IntN(10) == 0 {
			a.receive(s.Tenant, s.Agent, a.rng.IntN(2))
			continue
		}
		if a.many && a.rng.IntN(4) == 0 {
			a.memory(s)
			continue
		}
		if a.many && a.rng.IntN(3) == 0 {
			a.other(s)
			continue
		}
		switch k := a.rng.IntN(12); {
		case k == 0 && len(s.turns) > 0:
			a.open(s)
		case k == 1 && len(s.turns) > 0:
			a.append(s, &turns.Event{Kind: turns.KindMoved, ID: a.id(), To: s.turns[a.rng.IntN(len(s.turns))]})
		default:
			a.turn(s)
		}
	}
}

// other does something else to a session: a compaction, settings, a flush, a
// pause, or a claim of a label.
func (a *author) other(s *session) {
	a.t.Helper()
	var head lineage.Node
	if !s.Head.IsZero() {
		var err error
		if head, err = a.forest.Node(s.Head); err != nil {
			a.t.Fatal(err)
		}
	}
	switch a.rng.IntN(5) {
	case 0:
		a.append(s, &turns.Event{Kind: turns.KindChanged, ID: a.id(), Timed: a.rng.IntN(2) == 0})
	case 1:
		a.append(s, &turns.Event{Kind: turns.KindState, ID: a.id(), State: turns.Paused})
	case 2:
		cycle, after, err := lineage.Cycle(&a.forest, head, false)
		if err != nil {
			a.t.Fatal(err)
		}
		if s.FlushOf(cycle, after).State == 0 {
			a.append(s, &turns.Event{Kind: turns.KindFlush, ID: a.id(), Flush: &turns.Flush{State: turns.FlushBegun, Cycle: cycle, After: after, Try: 1, Lease: 1}})
		}
	case 3:
		a.claim(s)
	default:
		a.compact(s, head)
	}
}

// compact covers all before the head, where that is a normal turn behind another
// one, and else nothing.
func (a *author) compact(s *session, head lineage.Node) {
	a.t.Helper()
	if s.Head.IsZero() {
		return
	}
	span := &turns.Span{Provenance: turns.ByNexus, Previous: head.Compaction}
	up := head
	for up.Ref == head.Ref || up.Kind == turns.KindCompaction {
		if up.Parent.IsZero() {
			up = lineage.Node{}
			break
		}
		var err error
		if up, err = a.forest.Node(up.Parent); err != nil {
			a.t.Fatal(err)
		}
	}
	if head.Kind == turns.KindTurn && !up.Ref.IsZero() {
		span.Through, span.FirstKept, span.Covered = up.Ref, head.Ref, 1
	}
	e := &turns.Event{Kind: turns.KindCompaction, ID: a.id(), Parent: s.Head, Depth: head.Depth + 1, Span: span, Open: 2,
		Tokens: turns.Tokens{Counter: "approx-1", Messages: 2}}
	e.Segment = s.SegmentFor(e.ID, s.Head)
	for range a.rng.IntN(3) {
		e.Learned = append(e.Learned, turns.Learned{Kind: turns.Daily, Text: turns.Hash{2, byte(a.rng.IntN(12))}})
	}
	a.append(s, e)
	for _, m := range ledger.LearnedMemories(&s.Session, e, s.Tail.Seq) {
		a.book(s.Tenant, s.Agent).add(m, false)
	}
}

// claim gives a label of the session's tenant to the session.
func (a *author) claim(s *session) {
	a.t.Helper()
	chain := turns.Chain{Entity: turns.LabelEntity, ID: fmt.Sprintf("%032x", a.rng.IntN(3))}
	subject := ledger.Subject(s.Tenant, chain.ID, chain)
	l := a.labels[subject]
	e := &turns.Event{Version: turns.Version, Recorded: 1, Kind: turns.KindClaimed, ID: a.id(), Chain: chain, Agent: s.Agent, To: turns.Ref{Session: s.ID}}
	if !l.Session.IsZero() {
		e.Index, e.Prev = l.Tail.Index+1, l.Tail.Hash
	}
	payload, err := e.Encode()
	if err != nil {
		a.t.Fatal(err)
	}
	seq, err := a.log.Append(a.t.Context(), subject, l.Tail.Seq, payload)
	if err != nil {
		a.t.Fatal(err)
	}
	if err := l.Apply(subject, seq, turns.HashEvent(payload), e); err != nil {
		a.t.Fatal(err)
	}
	a.labels[subject] = l
}

// policy stores a policy on the tenant's chain, without a name or as the next
// version of one.
func (a *author) policy(agent string, name turns.Hash) {
	a.t.Helper()
	chain := turns.Chain{Entity: turns.TenantEntity, ID: "default"}
	subject := ledger.Subject("default", "default", chain)
	p := a.policies
	e := &turns.Event{Version: turns.Version, Recorded: 1, Kind: turns.KindPolicy, ID: a.id(), Chain: chain, Index: p.Stored, Prev: p.Tail.Hash, Body: []byte("x"), Commitment: turns.Hash{1}, Actor: "default/" + agent,
		Policy: &turns.StoredPolicy{Digest: turns.Hash{1, byte(a.rng.IntN(4))}}}
	if !name.IsZero() {
		a.versions[name]++
		e.Agent, e.Policy.Name, e.Policy.Version = agent, name, a.versions[name]
	}
	payload, err := e.Encode()
	if err != nil {
		a.t.Fatal(err)
	}
	seq, err := a.log.Append(a.t.Context(), subject, p.Tail.Seq, payload)
	if err != nil {
		a.t.Fatal(err)
	}
	if err := a.policies.Apply(subject, seq, turns.HashEvent(payload), e); err != nil {
		a.t.Fatal(err)
	}
}

// channelOf is the id of the chain of an agent's n-th channel.
func channelOf(agent string, n int) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "channel-%s-%d", agent, n)))[:32]
}

// receive appends an event to a channel of an agent.
func (a *author) receive(tenant, agent string, n int) {
	a.t.Helper()
	chain := turns.Chain{Entity: turns.ChannelEntity, ID: channelOf(agent, n)}
	subject := ledger.Subject(tenant, chain.ID, chain)
	c := a.channels[subject]
	e := &turns.Event{Version: turns.Version, Recorded: 1, Kind: turns.KindReceived, ID: a.id(), Chain: chain, Index: c.Count, Prev: c.Tail.Hash, Agent: agent, Body: []byte("x"), Commitment: turns.Hash{1}}
	payload, err := e.Encode()
	if err != nil {
		a.t.Fatal(err)
	}
	seq, err := a.log.Append(a.t.Context(), subject, c.Tail.Seq, payload)
	if err != nil {
		a.t.Fatal(err)
	}
	if err := c.Apply(subject, seq, turns.HashEvent(payload), e); err != nil {
		a.t.Fatal(err)
	}
	a.channels[subject] = c
}

func openStore(t testing.TB, fs vfs.FS) *Store {
	t.Helper()
	s, err := Open(Config{Dir: "p", FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// upTo is a log that ends its readers' context behind a position.
type upTo struct {
	ledger.Log
	last uint64
	stop context.CancelFunc
}

func (l upTo) Read(ctx context.Context, from uint64, _ bool) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		defer l.stop()
		for r, err := range l.Log.Read(ctx, from, false) {
			if r.Seq > l.last || !yield(r, err) {
				return
			}
		}
	}
}

// run applies the log up to last, then stops.
func run(t testing.TB, s *Store, log ledger.Log, last uint64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := s.Run(ctx, upTo{log, last, cancel}); err != nil {
		t.Fatal(err)
	}
	if at := s.Applied().Seq; at != last {
		t.Fatalf("the log is applied up to %d, want %d", at, last)
	}
}

func last(t testing.TB, log ledger.Log) uint64 {
	t.Helper()
	st, err := log.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st.Last
}

// dump returns every key and value.
func dump(t *testing.T, s *Store) []byte {
	t.Helper()
	var b bytes.Buffer
	for p, err := range db.Scan(s.db(), []byte{0}, []byte{0xff}) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%x=%x\n", p.Key, p.Value)
	}
	return b.Bytes()
}

// A store that is deleted, or cut off by a crash at any batch, comes back with
// the same content to the byte.
func TestRebuildIsIdentical(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	a := newAuthor(t, seed)
	a.many = true
	a.write(600)
	whole := openStore(t, vfs.NewMem())
	defer whole.Close()
	run(t, whole, a.log, last(t, a.log))
	want := dump(t, whole)

	fs := vfs.NewCrashableMem()
	for cut := uint64(1); cut < last(t, a.log); cut += 1 + uint64(a.rng.IntN(150)) {
		s := openStore(t, fs)
		at := max(cut, s.Applied().Seq)
		run(t, s, a.log, at)
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: a.rng.IntN(101), RNG: a.rng})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		fs = crashed
	}
	s := openStore(t, fs)
	defer s.Close()
	run(t, s, a.log, last(t, a.log))
	if got := dump(t, s); !bytes.Equal(got, want) {
		t.Errorf("after crashes the store has %d bytes of rows, a fresh one %d", len(got), len(want))
	}
	if err := s.Clear(); err != nil {
		t.Fatal(err)
	}
	run(t, s, a.log, last(t, a.log))
	if got := dump(t, s); !bytes.Equal(got, want) {
		t.Error("after Clear and a rebuild the store differs")
	}
}

// A log that is not the one that was applied stops the projections before
// anything is appended to it.
func TestCheckRefusesAnotherLog(t *testing.T) {
	a := newAuthor(t, 7)
	a.write(50)
	s := openStore(t, vfs.NewMem())
	defer s.Close()
	run(t, s, a.log, last(t, a.log))
	if err := s.Check(t.Context(), a.log); err != nil {
		t.Errorf("its own log: %v", err)
	}
	other := newAuthor(t, 8)
	other.write(80)
	var d *DivergedError
	if err := s.Check(t.Context(), other.log); !errors.As(err, &d) || !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("another log: %v, want diverged", err)
	}
	n := last(t, a.log)
	a.log.Truncate(n - 3)
	if err := s.Check(t.Context(), a.log); !errors.As(err, &d) {
		t.Errorf("a log that lost its end: %v, want diverged", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := s.Run(ctx, a.log); !errors.As(err, &d) {
		t.Errorf("run on it: %v, want diverged", err)
	}
	if err := s.WaitFor(ctx, n+1); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("wait after that: %v, want unavailable", err)
	}
}

// What is wrong with one chain sets that chain aside, says why, keeps its bytes
// and stops no other.
func TestABadChainIsSetAside(t *testing.T) {
	a := newAuthor(t, 9)
	good, bad := a.open(nil), a.open(nil)
	a.turn(good)
	a.turn(bad)
	// A turn that claims a depth of its own.
	e := &turns.Event{Version: turns.Version, Kind: turns.KindTurn, ID: a.id(), Chain: turns.SessionChain(bad.ID), Index: 2, Prev: bad.Tail.Hash,
		Recorded: 1, Parent: bad.Head, Depth: 40, Segment: bad.Segment, Halves: 1}
	payload, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	seq, err := a.log.Append(t.Context(), bad.Subject(), bad.Tail.Seq, payload)
	if err != nil {
		t.Fatal(err)
	}
	a.turn(good)
	s := openStore(t, vfs.NewMem())
	defer s.Close()
	run(t, s, a.log, last(t, a.log))
	if n := s.SetAside(); n != 1 {
		t.Errorf("%d chains aside, want 1", n)
	}
	if why, err := s.WhyAside(bad.Subject()); err != nil || why == "" {
		t.Errorf("why: %q, %v", why, err)
	}
	if row, err := s.Session(good.ID); err != nil || row.Turns != 2 {
		t.Errorf("the other session: %+v, %v", row, err)
	}
	if row, err := s.Session(bad.ID); err != nil || row.Turns != 1 {
		t.Errorf("the bad session: %+v, %v; want it as it was", row, err)
	}
	if r, err := s.Record(seq); err != nil || !bytes.Equal(r.Payload, payload) {
		t.Errorf("the bad record's copy: %v", err)
	}
}

// What a writer was answered counts on the chain that it asked about, and nowhere else.
func TestAnAnswerOfAnotherChainIsNotTaken(t *testing.T) {
	a := newAuthor(t, 11)
	other, x := a.open(nil), a.open(nil)
	s := openStore(t, vfs.NewMem())
	defer s.Close()
	run(t, s, a.log, last(t, a.log))
	st, err := a.log.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e := &turns.Event{Version: turns.Version, Kind: turns.KindTurn, ID: a.id(), Chain: turns.SessionChain(x.ID), Index: 1, Prev: x.Tail.Hash, Recorded: 1, Depth: 1, Halves: 1}
	e.Segment = e.ID
	payload, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	hash := turns.HashEvent(payload)
	next, err := ledger.Admit(s.History(), x.Subject(), x.Tail.Seq+1, hash, e)
	if err != nil {
		t.Fatal(err)
	}
	seq := st.Last
	for _, to := range []string{other.Subject(), x.Subject(), x.Subject()} { // another chain, its own, and its own once more
		s.Expect(x.Subject(), hash, e, &next)
		seq++
		if err := s.applyBatch(s.db(), st.Identity, queued{Parsed: s.db().Parse(ledger.Record{Seq: seq, Subject: to, Payload: payload, Hash: hash, Hashed: true})}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for subject, want := range map[string]bool{other.Subject(): true, x.Subject(): true} {
		if why, err := s.WhyAside(subject); err != nil || (why != "") != want {
			t.Errorf("%s is set aside: %q, %v, want %v", subject, why, err, want)
		}
	}
	if row, err := s.Session(x.ID); err != nil || row.Turns != 1 || row.Tail.Seq != seq-1 {
		t.Errorf("the session has %d turns, the newest at %d, %v; want 1 at %d", row.Turns, row.Tail.Seq, err, seq-1)
	}
}

// Every record of the log has its exact copy here.
func TestEveryRecordIsKept(t *testing.T) {
	a := newAuthor(t, 10)
	a.write(200)
	s := openStore(t, vfs.NewMem())
	defer s.Close()
	run(t, s, a.log, last(t, a.log))
	for r, err := range a.log.Read(t.Context(), 1, false) {
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Record(r.Seq)
		if err != nil || got.Subject != r.Subject || !bytes.Equal(got.Payload, r.Payload) || got.Hash != r.Hash {
			t.Fatalf("record %d: %+v, %v", r.Seq, got, err)
		}
	}
}
