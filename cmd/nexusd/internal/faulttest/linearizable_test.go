package faulttest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/nats-io/nats.go"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

var linearizable = flag.Duration("linearizable", 0, "how long TestLinearizable runs, on three servers, and TestLinearizableEmbedded; 0: 2 s, on one server")

// TestLinearizable has several clients work on the same sessions through two daemons, while
// servers and daemons are killed and paused. For each session there is an order of the
// operations, each at a moment between its call and its answer, that explains every answer.
//
// Reads with stale_ok may be older, so they are no part of that order: such a list is one path of
// turns that were sent before it ended, and one with the position of an ack has its turn.
//
// It can't see a loss of what was not synced: a kill leaves what a process has written. The
// network between the servers is not cut.
func TestLinearizable(t *testing.T) {
	servers := 1
	if *linearizable > 0 {
		servers = 3
	}
	c, log := newCluster(t, servers), newLog(t)
	data := []string{t.TempDir(), t.TempDir()}
	checkLinearizable(t, &recorder{url: c.url()}, c, len(data), func(i int) *Nexusd { return c.daemon(t, log, data[i]) })
}

// TestLinearizableEmbedded does the same on one nexusd with its own server, as it comes.
func TestLinearizableEmbedded(t *testing.T) {
	bin, log, data, listen := nexusdBinary(t), newLog(t), t.TempDir(), fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])
	credentials := func(user string) string { return filepath.Join(data, "users", user+".nk") }
	r := &recorder{url: "nats://" + listen, agent: credentials("agent"), operator: credentials("operator")}
	checkLinearizable(t, r, &cluster{}, 1, func(int) *Nexusd {
		d, err := StartNexusd(t.Context(), log, bin, "--data", data, "--listen", listen, "--http", "off", "--log-level", "error", "--max-store", "8000000000")
		if err != nil {
			t.Fatal(err)
		}
		return d
	})
}

// checkLinearizable runs so many daemons, on servers of their own or those of c.
func checkLinearizable(t *testing.T, r *recorder, c *cluster, count int, start func(int) *Nexusd) {
	length := 2 * time.Second
	if *linearizable > 0 {
		length = *linearizable
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	daemons := make([]*Nexusd, count)
	for i := range daemons {
		daemons[i] = start(i)
	}
	t.Cleanup(func() {
		for _, d := range daemons {
			d.Kill()
		}
	})
	r.began, r.begun = time.Now(), make(chan struct{}, 1)
	working, stop := context.WithCancel(t.Context())
	defer stop()
	var group sync.WaitGroup
	for g := range 3 {
		group.Go(func() { r.work(working, t, rand.New(rand.NewPCG(seed, uint64(g)))) })
	}
	select { // the time counts from the first session: a busy machine takes long to come so far
	case <-r.begun:
	case <-time.After(startTime):
		stop()
		group.Wait()
		t.Fatal("no session was created")
	}
	defer time.AfterFunc(length, stop).Stop()
	faults := harass(working, t, c, daemons, start, rand.New(rand.NewPCG(seed, 99)))
	group.Wait()
	if t.Failed() {
		return
	}
	nc, client := r.dial(t, r.agent)
	if nc == nil {
		return
	}
	defer nc.Close()
	eventually(t, "the ledger answers again", func(ctx context.Context) error {
		_, err := client.Create(ctx, api.CreateSession{})
		return err
	})
	operations, open := 0, 0
	for i, s := range r.sessions {
		// A last read, when everything runs: what was acknowledged is still there.
		eventually(t, "a last read", func(ctx context.Context) error { return s.list(ctx, client) })
		operations += len(s.history)
		for _, o := range s.history {
			if o.Return == never {
				open++
			}
		}
		switch porcupine.CheckOperationsTimeout(sessionModel, s.history, time.Minute) {
		case porcupine.Illegal:
			t.Errorf("session %d, %s: no order explains this history:\n%s", i, s.id, describe(s.history))
		case porcupine.Unknown:
			t.Errorf("session %d, %s: not decided in a minute:\n%s", i, s.id, describe(s.history))
		}
		if t.Failed() {
			return
		}
	}
	op, operator := r.dial(t, r.operator)
	if op == nil {
		return
	}
	defer op.Close()
	v, err := operator.As(api.Operator).Verify(t.Context())
	if err != nil || !v.OK {
		t.Errorf("verify: %+v, %v", v, err)
	}
	t.Logf("%d servers, %v: %d sessions, %d operations, %d of unknown outcome, %d refused and not carried out, %d stale reads; %d refused for good after a call without an answer; %v", len(c.servers), length, len(r.sessions), operations, open, r.unavailable, r.stale, r.refusedLate, faults)
	if operations == 0 {
		t.Error("nothing was done: the run shows nothing")
	}
}

// harass kills and pauses servers and daemons, one of each kind at a time, until ctx ends. Then
// everything runs again. It returns how often it did what.
func harass(ctx context.Context, t *testing.T, c *cluster, daemons []*Nexusd, start func(int) *Nexusd, rng *rand.Rand) map[string]int {
	count := make(map[string]int)
	pause := func(low, high int) {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(low+rng.IntN(high-low)) * time.Millisecond):
		}
	}
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	for ctx.Err() == nil && !t.Failed() {
		pause(200, 800)
		d, s, kind := rng.IntN(len(daemons)), rng.IntN(max(1, len(c.servers))), rng.IntN(5)
		if len(c.servers) < 2 {
			kind %= 2
		}
		if kind == 0 || kind == 4 {
			count["daemons killed"]++
			daemons[d].Kill()
		}
		if kind == 1 {
			count["daemons paused"]++
			must(daemons[d].Pause())
		}
		if kind == 2 || kind == 4 {
			count["servers killed"]++
			c.servers[s].Kill()
		}
		if kind == 3 {
			count["servers paused"]++
			must(c.servers[s].Pause())
		}
		if kind == 1 && *linearizable > 0 && rng.IntN(2) == 0 {
			pause(3000, 12_000) // longer than a try may be decided
		} else {
			pause(100, 3000)
		}
		if kind == 1 {
			must(daemons[d].Resume())
		}
		if kind == 2 || kind == 4 {
			c.start(t, s)
		}
		if kind == 3 {
			must(c.servers[s].Resume())
		}
		if kind == 0 || kind == 4 {
			daemons[d] = start(d)
		}
	}
	return count
}

// recorder keeps the histories of all sessions.
type recorder struct {
	began           time.Time
	url             string
	agent, operator string        // files of credentials; "": none
	begun           chan struct{} // a session was created

	mu                 sync.Mutex
	sessions           []*sharedSession
	unavailable, stale int
	refusedLate        int // refused for good, after a call of open outcome
}

// sharedSession is a session that several clients work on, and what they saw.
type sharedSession struct {
	id turns.ID
	r  *recorder

	mu      sync.Mutex
	history []porcupine.Operation
	number  map[turns.ID]int // of each turn whose append was sent
	ids     []turns.ID       // by number; ids[0] is the zero id
	head    int              // as somebody saw it last: what to name as a parent
	acks    []api.Appended
}

func (r *recorder) now() int64 { return int64(time.Since(r.began)) }

func (r *recorder) dial(t *testing.T, credentials string) (*nats.Conn, *client.Client) {
	t.Helper()
	nc, err := client.Dial(r.url, credentials, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.RetryOnFailedConnect(true),
		nats.PingInterval(500*time.Millisecond), nats.MaxPingsOutstanding(2), nats.Timeout(time.Second))
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	return nc, client.New(nc, "default", "main")
}

// Each session gets so many operations from so many clients at once, then the next one begins.
// A history stays short enough to be decided.
const clientsOfSession, operationsOfClient = 4, 9

func (r *recorder) work(ctx context.Context, t *testing.T, rng *rand.Rand) {
	var clients []*client.Client
	for range clientsOfSession {
		nc, c := r.dial(t, r.agent)
		if nc == nil {
			return
		}
		defer nc.Close()
		clients = append(clients, c)
	}
	for ctx.Err() == nil && !t.Failed() {
		s := &sharedSession{r: r, id: api.NewID(), number: map[turns.ID]int{{}: 0}, ids: []turns.ID{{}}}
		created, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, err := clients[0].Create(created, api.CreateSession{ID: s.id})
		cancel()
		if err != nil {
			continue // nobody works on it
		}
		r.mu.Lock()
		r.sessions = append(r.sessions, s)
		r.mu.Unlock()
		select {
		case r.begun <- struct{}{}:
		default:
		}
		var group sync.WaitGroup
		for i, c := range clients {
			mine := rand.New(rand.NewPCG(rng.Uint64(), 0))
			group.Go(func() {
				for range operationsOfClient {
					if ctx.Err() != nil || t.Failed() {
						return
					}
					s.operate(t, c, i, mine)
				}
			})
		}
		group.Wait()
	}
}

// callTimeout is how long a call lasts; the client tries it several times. In a long run an
// operation is called again while its outcome is open, for so long that a refusal can
// become final: a try may be decided for 5 s, and be on its way for 5 s.
const callTimeout, longOperation = 4 * time.Second, 15 * time.Second

// operate does one random operation and records what came of it. What is under way when the run
// ends is waited for.
func (s *sharedSession) operate(t *testing.T, c *client.Client, client int, rng *rand.Rand) {
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	s.mu.Lock()
	known := rng.IntN(len(s.ids))
	op := operation{turn: known}
	head := s.head
	s.mu.Unlock()
	switch x := rng.IntN(20); {
	case x < 7 && head != 0:
		op = operation{appendAfter, s.newTurn(), head}
	case x < 10:
		op = operation{appendHead, s.newTurn(), 0}
	case x < 12:
		op.kind = moveHead
		if x == 10 {
			op.other = head
		}
	case x < 13:
		op.kind = forkAt
	case x < 15:
		op.kind = getTurn
	case x < 17:
		op = operation{kind: getSession}
	case x < 19:
		op = operation{kind: listTurns}
	default:
		s.staleList(ctx, t, c, rng)
		return
	}
	if op.turn == 0 && (op.kind == forkAt || op.kind == getTurn) {
		op = operation{kind: listTurns}
	}
	call := s.r.now()
	id := api.NewID() // of a move; an append has that of its turn
	a, session, err := s.call(ctx, t, c, op, id)
	for err == nil && a.outcome == notKnown && op.kind <= moveHead && *linearizable > 0 && time.Duration(s.r.now()-call) < longOperation {
		again, cancel := context.WithTimeout(t.Context(), callTimeout)
		a, session, err = s.call(again, t, c, op, id)
		cancel()
		if a.outcome == notCarriedOut { // this call; the one before may have been
			a.outcome = notKnown
		}
		if err == nil && (a.outcome == refused || a.outcome == missing) {
			s.r.mu.Lock()
			s.r.refusedLate++
			s.r.mu.Unlock()
		}
	}
	if err != nil {
		t.Errorf("%s of turn %d, other %d, in session %s: %v", opNames[op.kind], op.turn, op.other, s.id, err)
	}
	s.record(client, call, op, a)
	if session != nil && op.kind == moveHead { // the reply is read after the move: a read of its own
		if a, err := s.sessionOf(session); err != nil {
			t.Error(err)
		} else {
			s.record(client, call, operation{kind: getSession}, a)
		}
	}
}

func (s *sharedSession) newTurn() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := api.NewID()
	s.number[id] = len(s.ids)
	s.ids = append(s.ids, id)
	if len(s.ids) > turnLimit {
		panic("a session has more turns than a byte counts")
	}
	return s.number[id]
}

// notCarriedOut is an outcome that the history leaves out: the call changed and told nothing.
const notCarriedOut outcome = -1

func (s *sharedSession) record(client int, call int64, op operation, a answered) {
	end := s.r.now()
	if a.outcome == notKnown {
		end = never
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.outcome == notCarriedOut || a.outcome == notKnown && op.kind >= forkAt {
		s.r.mu.Lock()
		s.r.unavailable++
		s.r.mu.Unlock()
		return
	}
	s.history = append(s.history, porcupine.Operation{ClientId: client, Input: op, Call: call, Output: a, Return: end})
	switch {
	case a.outcome == refused || op.kind == getSession:
		s.head = a.head
	case a.outcome == done && (op.kind == appendAfter || op.kind == appendHead || op.kind == moveHead):
		s.head = op.turn
	}
}

// call sends the request of op, a move under id. Its error is an answer that the contract does not have here.
func (s *sharedSession) call(ctx context.Context, t *testing.T, c *client.Client, op operation, id turns.ID) (answered, *api.Session, error) {
	s.mu.Lock()
	turn, other := s.ids[op.turn], s.ids[op.other]
	s.mu.Unlock()
	var a answered
	var session *api.Session
	var err error
	switch op.kind {
	case appendAfter, appendHead:
		var ack *api.Appended
		ack, err = c.Append(ctx, s.id, api.AppendTurn{ID: turn, Parent: other, Messages: []turns.Message{turns.TextMessage(turns.User, fmt.Sprint("turn ", op.turn))}})
		if err == nil {
			a.depth = int(ack.Depth)
			a.head, err = s.numberOf(ack.Parent)
			s.mu.Lock()
			s.acks = append(s.acks, *ack)
			s.mu.Unlock()
		}
	case moveHead:
		r := api.MoveSession{ID: id, IfHead: other}
		if op.turn != 0 {
			r.To = &turn
		}
		session, err = c.Move(ctx, s.id, r)
	case forkAt:
		_, err = c.Fork(ctx, s.id, api.CreateFork{ID: api.NewID(), Turn: turn})
	case getTurn:
		_, err = c.Turn(ctx, s.id, turn)
	case getSession:
		if session, err = c.Session(ctx, s.id); err == nil {
			a, err = s.sessionOf(session)
		}
	case listTurns:
		a.list, err = s.newest(ctx, c)
	}
	var e *api.Error
	switch {
	case err == nil:
		return a, session, nil
	case !errors.As(err, &e):
		return a, nil, err
	}
	switch e.Code {
	case api.Indeterminate:
		return answered{outcome: notKnown}, nil, nil
	case api.Unavailable, api.Busy:
		return answered{outcome: notCarriedOut}, nil, nil
	case api.NotFound: // of a turn that may not be stored; a session is never missing
		if op.kind == forkAt || op.kind == getTurn || op.kind == moveHead {
			return answered{outcome: missing}, nil, nil
		}
	case api.Conflict:
		if op.other == 0 {
			break
		}
		named, _ := e.Details["head"].(string)
		if named == "" {
			return answered{outcome: refused}, nil, nil
		}
		id, perr := turns.ParseID(named)
		if perr != nil {
			return a, nil, perr
		}
		n, perr := s.numberOf(&id)
		return answered{outcome: refused, head: n}, nil, perr
	}
	return answered{outcome: notKnown}, nil, err
}

func (s *sharedSession) numberOf(id *turns.ID) (int, error) {
	if id == nil {
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.number[*id]
	if !ok {
		return 0, fmt.Errorf("session %s has turn %s, which nobody sent", s.id, id)
	}
	return n, nil
}

func (s *sharedSession) sessionOf(got *api.Session) (answered, error) {
	n, err := s.numberOf(got.Head)
	return answered{head: n, depth: int(got.Depth)}, err
}

// newest lists the newest turns of the head's path.
func (s *sharedSession) newest(ctx context.Context, c *client.Client) (string, error) {
	var out []byte
	for x, err := range c.Turns(ctx, s.id, api.ListTurns{Order: "desc", Page: api.Page{Limit: listLimit}}) {
		if err != nil {
			return "", err
		}
		n, err := s.numberOf(&x.ID)
		if err != nil {
			return "", err
		}
		if out = append(out, byte(n)); len(out) == listLimit {
			break
		}
	}
	return string(out), nil
}

// list records a list of the newest turns.
func (s *sharedSession) list(ctx context.Context, c *client.Client) error {
	call := s.r.now()
	got, err := s.newest(ctx, c)
	if err == nil {
		s.record(clientsOfSession, call, operation{kind: listTurns}, answered{list: got})
	}
	return err
}

// staleList reads with stale_ok: the head's path, or the path of an acknowledged turn as of the
// position of its ack or later. The list is one path: each turn is the parent of the one before
// it, at the depth below, and was sent. The acknowledged turn is there.
func (s *sharedSession) staleList(ctx context.Context, t *testing.T, c *client.Client, rng *rand.Rand) {
	r := api.ListTurns{Order: "desc", Page: api.Page{Limit: listLimit}, Read: api.Read{StaleOK: true}}
	s.mu.Lock()
	if n := len(s.acks); n > 0 && rng.IntN(2) == 0 {
		ack := s.acks[rng.IntN(n)]
		r.At, r.MinPosition = ack.ID, api.Position(ack.Position)
	}
	s.mu.Unlock()
	var got []api.Turn
	for x, err := range c.Turns(ctx, s.id, r) {
		var e *api.Error
		if errors.As(err, &e) && (slices.Contains([]api.Code{api.Unavailable, api.Indeterminate, api.Busy}, e.Code) || e.Code == api.NotFound && r.MinPosition == "") {
			return // nothing was told; or this daemon has not seen the session yet
		}
		if err != nil {
			t.Errorf("stale list of %s at %s, as of %q: %v", s.id, r.At, r.MinPosition, err)
			return
		}
		if got = append(got, x); len(got) == listLimit {
			break
		}
	}
	if !r.At.IsZero() && (len(got) == 0 || got[0].ID != r.At) {
		t.Errorf("the list of %s at %s, as of the position of its ack, begins with another turn: %+v", s.id, r.At, got)
	}
	for i, x := range got {
		if _, err := s.numberOf(&x.ID); err != nil {
			t.Error(err)
		}
		if i > 0 && (got[i-1].Parent == nil || *got[i-1].Parent != x.ID || got[i-1].Depth != x.Depth+1) {
			t.Errorf("a stale list of %s is no path: %+v", s.id, got)
		}
	}
	s.r.mu.Lock()
	s.r.stale++
	s.r.mu.Unlock()
}

// A refusal settles an append, also if an earlier try of it is with a daemon that was
// paused, once the time is over for which that try may be decided: the head has moved back to
// the parent when the daemon goes on, and it does not store what the client was told is refused.
func TestRefusedAppendIsNotStoredLater(t *testing.T) {
	const waits = time.Second // what the sender of the first try says
	cl, log := newCluster(t, 1), newLog(t)
	paused := cl.daemon(t, log, t.TempDir())
	t.Cleanup(func() { paused.Kill() })
	r := &recorder{began: time.Now(), url: cl.url()}
	nc, c := r.dial(t, "")
	defer nc.Close()
	session, ids, err := newSession(t.Context(), c, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := paused.Pause(); err != nil {
		t.Fatal(err)
	}
	late := api.AppendTurn{ID: api.NewID(), Parent: ids[0]}
	late.Messages = text(late.ID, 10)
	b, err := turns.EncodeJSON(late)
	if err != nil {
		t.Fatal(err)
	}
	replies, err := nc.SubscribeSync(nats.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	var sent time.Time // the newest try
	try := func() {
		t.Helper()
		sent = time.Now()
		m := &nats.Msg{Subject: "nexus.v1.default.main.turn.append." + session.String(), Reply: replies.Subject, Data: b,
			Header: nats.Header{"Nexus-Within": {fmt.Sprint(waits.Milliseconds())}}}
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil { // the server has it
			t.Fatal(err)
		}
	}
	try()
	other := cl.daemon(t, log, t.TempDir())
	t.Cleanup(func() { other.Kill() })
	var calls atomic.Int64
	first := api.AppendTurn{ID: api.NewID(), Parent: ids[0]}
	first.Messages = text(first.ID, 10)
	if _, err := answer(t.Context(), &calls, func(ctx context.Context) (*api.Appended, error) { return c.Append(ctx, session, first) }); err != nil {
		t.Fatal(err)
	}
	code := func(m *nats.Msg) api.Code { return api.Code(m.Header.Get("Nats-Service-Error-Code")) }
	pending := 1
	for refused := false; !refused; { // the server gives some of the tries to the daemon that is paused
		try()
		pending++
		answered, err := replies.NextMsg(waits)
		if errors.Is(err, nats.ErrTimeout) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		pending--
		if refused = code(answered) == api.Conflict; !refused && code(answered) != api.Unavailable {
			t.Fatalf("another try: %q %s, want a conflict", code(answered), answered.Data)
		}
	}
	back := api.MoveSession{ID: api.NewID(), To: &ids[0]}
	if _, err := answer(t.Context(), &calls, func(ctx context.Context) (*api.Session, error) { return c.Move(ctx, session, back) }); err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Until(sent.Add(waits)))
	if err := paused.Resume(); err != nil {
		t.Fatal(err)
	}
	tooOld := 0
	for range pending {
		answered, err := replies.NextMsg(startTime)
		if err != nil {
			t.Fatal(err)
		}
		switch code(answered) {
		case api.Unavailable:
			tooOld++
		case api.Conflict: // of the other daemon, later than a try waited
		default:
			t.Errorf("a try that waited is answered %q %s, want unavailable", code(answered), answered.Data)
		}
	}
	if tooOld == 0 {
		t.Error("the daemon that was paused answered nothing")
	}
	if _, err := c.Turn(t.Context(), session, late.ID); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the turn that was refused: %v, want that it is not found", err)
	}
	// The head is the parent, so the same request is in order for anyone who asks now.
	if _, err := answer(t.Context(), &calls, func(ctx context.Context) (*api.Appended, error) { return c.Append(ctx, session, late) }); err != nil {
		t.Errorf("a new try: %v", err)
	}
}
