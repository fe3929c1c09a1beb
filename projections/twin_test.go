package projections

import (
	"bytes"
	"cmp"
	"errors"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/projections/rows"
	"nexus/turns"
)

// twin is every read model in maps, made of the log the slow and obvious way.
type twin struct {
	records  []ledger.Record
	sessions map[turns.ID]ledger.Session
	events   map[turns.ID][]*turns.Event // by session; payloads has their bytes
	payloads map[turns.ID][][]byte
	seqs     map[turns.Ref]uint64
	forest   lineage.Forest
	turns    map[turns.Ref]*turns.Event
	labels   map[string]ledger.Label

	policies ledger.Policies
	stored   map[turns.Hash]uint64      // position by digest of a policy
	named    map[turns.Hash][]uint64    // positions of versions by the digest of a name
	puts     map[turns.ID]uint64        // position by id, on the tenant's chain
	channels map[string]ledger.Channel  // by subject
	received map[string][]ledger.Record // by subject
	by       map[string]uint64          // number of events of the tenant's chain by actor
	books    map[string]*book
}

func newTwin(t *testing.T, log ledger.Log) *twin {
	t.Helper()
	w := &twin{sessions: map[turns.ID]ledger.Session{}, events: map[turns.ID][]*turns.Event{}, payloads: map[turns.ID][][]byte{},
		seqs: map[turns.Ref]uint64{}, turns: map[turns.Ref]*turns.Event{}, labels: map[string]ledger.Label{},
		stored: map[turns.Hash]uint64{}, named: map[turns.Hash][]uint64{}, puts: map[turns.ID]uint64{}, channels: map[string]ledger.Channel{}, received: map[string][]ledger.Record{}, by: map[string]uint64{}, books: map[string]*book{}}
	for r, err := range log.Read(t.Context(), 1, false) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := turns.Decode(r.Payload)
		if err != nil {
			t.Fatal(err)
		}
		w.records = append(w.records, r)
		tenant, _, err := ledger.ParseSubject(r.Subject)
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == turns.KindClaimed {
			l := w.labels[r.Subject]
			if err := l.Apply(r.Subject, r.Seq, r.Hash, e); err != nil {
				t.Fatal(err)
			}
			w.labels[r.Subject] = l
			continue
		}
		if e.Kind == turns.KindReceived {
			c := w.channels[r.Subject]
			if err := c.Apply(r.Subject, r.Seq, r.Hash, e); err != nil {
				t.Fatal(err)
			}
			w.channels[r.Subject], w.received[r.Subject] = c, append(w.received[r.Subject], r)
			continue
		}
		if e.Kind == turns.KindPolicy {
			if err := w.policies.Apply(r.Subject, r.Seq, r.Hash, e); err != nil {
				t.Fatal(err)
			}
			if _, ok := w.stored[e.Policy.Digest]; !ok {
				w.stored[e.Policy.Digest] = r.Seq
			}
			if name := e.Policy.Name; !name.IsZero() {
				w.named[name] = append(w.named[name], r.Seq)
			}
			w.puts[e.ID] = r.Seq
			w.by[e.Actor]++
			continue
		}
		if e.Chain.Entity == turns.AgentEntity {
			bookOf(w.books, &w.forest, tenant, e.Chain.ID).event(t, r, e)
			continue
		}
		id, _ := e.Chain.Session()
		s := w.sessions[id]
		if err := s.Apply(tenant, r.Seq, r.Hash, e); err != nil {
			t.Fatal(err)
		}
		w.sessions[id] = s
		for _, m := range ledger.LearnedMemories(&s, e, r.Seq) {
			bookOf(w.books, &w.forest, tenant, s.Agent).add(m, false)
		}
		w.events[id], w.payloads[id] = append(w.events[id], e), append(w.payloads[id], r.Payload)
		w.seqs[e.Ref()] = r.Seq
		if e.Kind.IsTurn() {
			n, err := w.forest.AddEvent(e, false)
			if err != nil {
				t.Fatal(err)
			}
			w.turns[e.Ref()] = e
			if e.Kind == turns.KindTurn && e.Usage == nil && e.Halves.Has(turns.ResponseHalf) {
				s.Uncounted.Calls++
				s.Uncounted.Input += w.input(t, e, n)
				s.Uncounted.Output += e.Tokens.Response
				w.sessions[id] = s
			}
		}
	}
	return w
}

// input returns the tokens that the context of a turn's call had, half by half.
func (w *twin) input(t *testing.T, e *turns.Event, n lineage.Node) (tokens uint64) {
	var cut lineage.Cut
	var c lineage.Node
	if !n.Compaction.IsZero() {
		var err error
		if c, err = w.forest.Node(n.Compaction); err != nil {
			t.Fatal(err)
		}
		cut = c.Cut
	}
	for x := e; ; x = w.turns[x.Parent] {
		if x.Kind == turns.KindTurn {
			if lineage.CutBefore(x.Depth, turns.MessagesHalf) >= cut {
				tokens += x.Tokens.Messages
			}
			if lineage.CutBefore(x.Depth, turns.ResponseHalf) >= cut {
				tokens += x.Tokens.Response
			}
		}
		if x.Parent.IsZero() {
			break
		}
	}
	tokens = tokens - min(tokens, c.Saved) + c.Replaced
	return tokens - min(tokens, e.Tokens.Response)
}

// only returns the turns for which a predicate holds, sorted.
func (w *twin) only(is func(*turns.Event) bool) (refs []turns.Ref) {
	for ref, e := range w.turns {
		if is(e) {
			refs = append(refs, ref)
		}
	}
	return sorted(refs)
}

func sorted(refs []turns.Ref) []turns.Ref {
	slices.SortFunc(refs, func(a, b turns.Ref) int {
		return cmp.Or(a.Session.Compare(b.Session), a.Turn.Compare(b.Turn))
	})
	return refs
}

// same reports a difference of a read.
func same[T any](t *testing.T, what string, got, want T, err error) {
	t.Helper()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: %v, %v; want %v", what, got, err, want)
	}
}

func all[T any](t *testing.T, seq iter.Seq2[T, error]) (out []T) {
	t.Helper()
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// unknown checks the errors for what is not there.
func unknown(t *testing.T, s *Store, session turns.ID) {
	t.Helper()
	none := turns.ID{0xff, 0xff}
	at := turns.Ref{Session: session, Turn: none}
	for what, err := range map[string]error{
		"Session": second(s.Session(none)), "Index": second(s.Index(session, none)), "EventAt": second(s.EventAt(session, 1<<40)),
		"SettingsAt": second(s.SettingsAt(none, 3)), "Record": second(s.Record(1 << 40)),
	} {
		if !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%s of what is not there: %v", what, err)
		}
	}
	for what, err := range map[string]error{"Turn": second(s.Turn(at)), "Node": second(s.Node(at)), "Hash": second(s.History().Hash(at))} {
		if !errors.Is(err, lineage.ErrUnknown) {
			t.Errorf("%s of what is not there: %v", what, err)
		}
	}
	has, err := s.History().HasEvent(session, none)
	same(t, "HasEvent", has, false, err)
	l, err := s.Label("default", "none")
	same(t, "Label", l, ledger.Label{}, err)
	more, err := s.HasChildren(at)
	same(t, "HasChildren", more, false, err)
	if _, err := s.Payload(rows.Turn{Node: lineage.Node{Ref: at, Segment: none}}); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("Payload of a turn that has none: %v", err)
	}
	for range s.Sessions("default", "", none) {
		return
	}
	t.Error("Sessions after one that is not there yield nothing, not even an error")
}

func second[T any](_ T, err error) error { return err }

// Every read agrees with the twin, whatever the batches were.
func TestReadsAgreeWithTheTwin(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	a := newAuthor(t, seed)
	a.many = true
	a.write(500)
	w := newTwin(t, a.log)
	fs := vfs.NewMem()
	s := openStore(t, fs)
	for at := uint64(0); at < uint64(len(w.records)); {
		at = min(at+1+uint64(a.rng.IntN(700)), uint64(len(w.records)))
		run(t, s, a.log, at)
		r := w.records[at-1]
		cp := s.Applied()
		same(t, "checkpoint", cp, rows.Checkpoint{Identity: cp.Identity, Seq: at, Hash: r.Hash, Schema: rows.Schema}, nil)
		if a.rng.IntN(3) == 0 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openStore(t, fs)
			same(t, "checkpoint after a start", s.Applied(), cp, nil)
		}
	}
	defer func() { s.Close() }()
	st, err := a.log.State(t.Context())
	same(t, "identity", s.Applied().Identity, st.Identity, err)
	for i, r := range w.records {
		got, err := s.Record(r.Seq)
		same(t, "Record", got, ledger.Record{Seq: uint64(i) + 1, Subject: r.Subject, Payload: r.Payload, Hash: r.Hash}, err)
	}
	for subject, want := range w.labels {
		tenant, chain, _ := ledger.ParseSubject(subject)
		l, err := s.Label(tenant, chain.ID)
		same(t, "Label", l, want, err)
	}
	w.checkPolicies(t, s)
	w.checkChannels(t, s)
	w.checkMemories(t, s)
	w.checkLists(t, s)
	for id, row := range w.sessions {
		got, err := s.Session(id)
		same(t, "Session", got, row, err)
		w.checkEvents(t, s, id)
		w.checkForks(t, s, id)
		unknown(t, s, id)
	}
	for _, n := range w.forest.All() {
		w.checkTurn(t, s, n)
	}
}

func (w *twin) checkPolicies(t *testing.T, s *Store) {
	t.Helper()
	p, err := s.Policies("default")
	same(t, "Policies", p, w.policies, err)
	for digest, seq := range w.stored {
		at, ok, err := s.PolicyContent("default", digest)
		same(t, "PolicyContent", at, seq, err)
		same(t, "PolicyContent", ok, true, nil)
		_, ok, err = s.PolicyContent("other", digest)
		same(t, "PolicyContent of another tenant", ok, false, err)
	}
	for id, seq := range w.puts {
		at, ok, err := s.PolicyEvent("default", id)
		same(t, "PolicyEvent", at, seq, err)
		same(t, "PolicyEvent", ok, true, nil)
	}
	for _, actor := range []string{"default/main", "default/", "default/none"} {
		n, err := s.PoliciesBy("default", actor)
		same(t, "PoliciesBy", n, w.by[actor], err)
		n, err = s.PoliciesBy("other", actor)
		same(t, "PoliciesBy in another tenant", n, 0, err)
	}
	var names []NamedPolicy
	for name, seqs := range w.named {
		for i := range len(seqs) + 1 {
			got, err := s.PolicyVersions("default", name, uint64(i)+1)
			same(t, "PolicyVersions", got, append([]uint64(nil), seqs[i:]...), err)
		}
		names = append(names, NamedPolicy{name, ledger.PolicyName{Agent: "main", Version: uint64(len(seqs)), Seq: seqs[len(seqs)-1]}})
	}
	slices.SortFunc(names, func(a, b NamedPolicy) int { return bytes.Compare(a.Name[:], b.Name[:]) })
	same(t, "PolicyNames", all(t, s.PolicyNames("default", turns.Hash{})), names, nil)
	same(t, "PolicyNames of another tenant", all(t, s.PolicyNames("other", turns.Hash{})), nil, nil)
	for i, n := range names {
		same(t, "PolicyNames after one", len(all(t, s.PolicyNames("default", n.Name))), len(names)-i-1, nil)
		got, err := s.PolicyName("default", n.Name)
		same(t, "PolicyName", got, n.PolicyName, err)
	}
	none, err := s.PolicyName("default", turns.Hash{0xff})
	same(t, "PolicyName of one that is not there", none, ledger.PolicyName{}, err)
}

// changesAt returns the order of changes at a position.
func (w *twin) changesAt(tenant, agent string, seq uint64) (out []Change) {
	for id, row := range w.sessions {
		if row.Tenant != tenant || agent != "" && row.Agent != agent {
			continue
		}
		c := Change{}
		for _, e := range w.events[id] {
			if w.seqs[e.Ref()] <= seq {
				c = Change{e.Recorded, id}
			}
		}
		if !c.Session.IsZero() {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, Change.Compare)
	return out
}

func (w *twin) checkLists(t *testing.T, s *Store) {
	t.Helper()
	timed := map[turns.ID]bool{}
	for _, row := range all(t, s.Timed()) {
		same(t, "Timed", row, w.sessions[row.ID], nil)
		timed[row.ID] = true
	}
	for id, row := range w.sessions {
		same(t, "Timed", timed[id], row.Timed && !row.Final(), nil)
	}
	for _, row := range w.sessions {
		since := time.Unix(row.Updated/1e9, 0) // the second counts as a whole
		var want []turns.ID
		for id, row := range w.sessions {
			if row.Updated >= since.UnixNano() {
				want = append(want, id)
			}
		}
		slices.SortFunc(want, turns.ID.Compare)
		got := all(t, s.UpdatedSince(since.Add(time.Second/2)))
		slices.SortFunc(got, turns.ID.Compare)
		same(t, "UpdatedSince", got, want, nil)
	}
	for _, tenant := range []string{"default", "other", "none"} {
		for _, agent := range []string{"", "main", "mainly", "none"} {
			var want []ledger.Session
			for _, row := range w.sessions {
				if row.Tenant == tenant && (agent == "" || row.Agent == agent) {
					want = append(want, row)
				}
			}
			slices.SortFunc(want, func(a, b ledger.Session) int { return cmp.Or(cmp.Compare(a.Agent, b.Agent), a.ID.Compare(b.ID)) })
			same(t, "Sessions", all(t, s.Sessions(tenant, agent, turns.ID{})), want, nil)
			newest := slices.Clone(want)
			slices.SortFunc(newest, func(a, b ledger.Session) int {
				return cmp.Or(cmp.Compare(b.Updated, a.Updated), b.ID.Compare(a.ID))
			})
			at := s.Applied().Seq
			listed := func(seq uint64, after Change) (out []ledger.Session) {
				for _, c := range all(t, s.SessionsAt(t.Context(), tenant, agent, seq, after)) {
					out = append(out, c.Session)
				}
				return out
			}
			same(t, "SessionsAt", listed(at, Change{}), newest, nil)
			for i, row := range newest {
				same(t, "SessionsAt after one", listed(at, Change{row.Updated, row.ID}), append([]ledger.Session(nil), newest[i+1:]...), nil)
			}
			for seq := uint64(0); seq <= at; seq += 1 + at/16 {
				order := w.changesAt(tenant, agent, seq)
				var got []Change
				for _, c := range all(t, s.SessionsAt(t.Context(), tenant, agent, seq, Change{})) {
					got = append(got, c.Place)
				}
				same(t, "SessionsAt of an old position", got, order, nil)
				if n := len(order) / 2; n > 0 {
					same(t, "SessionsAt of an old position, behind one", len(all(t, s.SessionsAt(t.Context(), tenant, agent, seq, order[n-1]))), len(order)-n, nil)
				}
			}
			for i, row := range want {
				same(t, "Sessions after one", len(all(t, s.Sessions(tenant, agent, row.ID))), len(want)-i-1, nil)
			}
		}
	}
}

func (w *twin) checkEvents(t *testing.T, s *Store, id turns.ID) {
	t.Helper()
	var settings []byte
	for i, e := range w.events[id] {
		want := w.payloads[id][i]
		read := s.EventBytes()
		b, err := s.EventAt(id, uint64(i))
		same(t, "EventAt", b, want, err)
		if s.EventBytes() < read+int64(len(b)) {
			t.Fatalf("%d bytes were read, EventBytes counts %d", len(b), s.EventBytes()-read)
		}
		at, err := s.Index(id, e.ID)
		same(t, "Index", at, uint64(i), err)
		has, err := s.History().HasEvent(id, e.ID)
		same(t, "HasEvent", has, true, err)
		if e.Kind == turns.KindOpened || e.Kind == turns.KindChanged {
			settings = want
		}
		b, err = s.SettingsAt(id, uint64(i))
		same(t, "SettingsAt", b, settings, err)
		same(t, "Events", all(t, s.Events(id, uint64(i))), w.payloads[id][i:], nil)
	}
	var compactions []turns.Ref
	for _, e := range w.events[id] {
		if e.Kind == turns.KindCompaction {
			compactions = append(compactions, e.Ref())
		}
	}
	same(t, "CompactionsOf", all(t, s.CompactionsOf(id)), compactions, nil)
}

func (w *twin) checkForks(t *testing.T, s *Store, id turns.ID) {
	t.Helper()
	var want, got []Fork
	for _, row := range w.sessions {
		if row.ForkOf != nil && row.ForkOf.At.Session == id {
			want = append(want, Fork{row.ForkOf.At.Turn, row.ID})
		}
	}
	slices.SortFunc(want, func(a, b Fork) int { return cmp.Or(a.At.Compare(b.At), a.Session.Compare(b.Session)) })
	for f := (Fork{}); ; got = append(got, f) {
		next, err := s.NextFork(id, f)
		if err != nil {
			t.Fatal(err)
		}
		if f = next; f == (Fork{}) {
			break
		}
	}
	same(t, "NextFork", got, want, nil)
}

func (w *twin) checkTurn(t *testing.T, s *Store, n lineage.Node) {
	t.Helper()
	e := w.turns[n.Ref]
	seq := w.seqs[n.Ref]
	r := w.records[seq-1]
	want := rows.Turn{Node: n, Index: e.Index, Seq: seq, Hash: r.Hash, Open: e.Open, Recorded: e.Recorded}
	got, err := s.Turn(n.Ref)
	same(t, "Turn", got, want, err)
	node, err := s.Node(n.Ref)
	same(t, "Node", node, n, err)
	hash, err := s.History().Hash(n.Ref)
	same(t, "Hash", hash, r.Hash, err)
	read := s.EventBytes()
	b, err := s.Payload(got)
	same(t, "Payload", b, r.Payload, err)
	same(t, "EventBytes", s.EventBytes()-read, int64(len(b)), nil)

	children, err := s.Children(n.Ref)
	same(t, "Children", sorted(children), w.only(func(c *turns.Event) bool { return c.Parent == n.Ref }), err)
	has, err := s.HasChildren(n.Ref)
	same(t, "HasChildren", has, len(children) > 0, err)
	covering, err := s.Covering(n.Ref)
	same(t, "Covering", sorted(covering), w.only(func(c *turns.Event) bool { return c.Span != nil && c.Span.Through == n.Ref }), err)
	var forks []turns.ID
	for id, row := range w.sessions {
		if row.ForkOf != nil && row.ForkOf.At == n.Ref {
			forks = append(forks, id)
		}
	}
	slices.SortFunc(forks, turns.ID.Compare)
	ids, err := s.Forks(n.Ref)
	same(t, "Forks", ids, forks, err)

	for r, err := range s.Segments(n.Ref.Session) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Segment != n.Segment {
			continue
		}
		var in [][]byte
		for _, o := range w.forest.All() {
			if o.Segment == n.Segment && o.Ref.Session == n.Ref.Session {
				if o.Depth < r.Lo || o.Depth > r.Hi {
					t.Fatalf("turn %s at depth %d is not in its segment %+v", o.Ref, o.Depth, r)
				}
				if o.Depth <= n.Depth {
					in = append(in, w.records[w.seqs[o.Ref]-1].Payload)
				}
			}
		}
		if uint64(len(in)) != n.Depth-r.Lo+1 {
			t.Fatalf("segment %+v holds %d turns up to depth %d", r, len(in), n.Depth)
		}
		r.Hi = n.Depth
		before := s.EventBytes()
		same(t, "Range", all(t, s.Range(r)), in, nil)
		same(t, "EventBytes of Range", s.EventBytes()-before, int64(len(bytes.Join(in, nil))), nil)
		return
	}
	t.Fatalf("no segment of session %s is %s", n.Ref.Session, n.Segment)
}

// A store of another schema is emptied, and one of this schema is kept.
func TestAnotherSchemaIsRebuilt(t *testing.T) {
	a := newAuthor(t, 12)
	a.write(60)
	for _, schema := range []uint64{rows.Schema - 1, rows.Schema, rows.Schema + 1} {
		fs := vfs.NewMem()
		s := openStore(t, fs)
		run(t, s, a.log, last(t, a.log))
		want := dump(t, s)
		cp := s.Applied()
		cp.Schema = schema
		b := s.db().NewBatch()
		if err := errors.Join(b.PutCheckpoint(cp), b.Commit(), s.Close()); err != nil {
			t.Fatal(err)
		}
		s = openStore(t, fs)
		kept := schema == rows.Schema
		if at := s.Applied(); (at.Seq == cp.Seq) != kept || at.Schema != rows.Schema {
			t.Errorf("schema %d: it starts at %+v", schema, at)
		}
		if got := dump(t, s); bytes.Equal(got, want) != kept || !kept && bytes.Count(got, []byte("\n")) != 1 {
			t.Errorf("schema %d: it starts with %d bytes of rows", schema, len(got))
		}
		run(t, s, a.log, last(t, a.log))
		if !bytes.Equal(dump(t, s), want) {
			t.Errorf("schema %d: the rebuilt rows differ", schema)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Chains that were set aside are counted and named, also after a start, and a
// pattern finds one whatever its shard. Clear forgets them.
func TestChainsThatAreAsideAreKnownAfterAStart(t *testing.T) {
	a := newAuthor(t, 13)
	fs := vfs.NewMem()
	s := openStore(t, fs)
	var bad []rows.AsideChain
	for i := range 3 {
		x := a.open(nil)
		a.turn(x)
		e := &turns.Event{Version: turns.Version, Kind: turns.KindMoved, ID: a.id(), Chain: turns.SessionChain(x.ID), Index: 2, Prev: x.Tail.Hash, Recorded: 1, To: turns.Ref{Session: x.ID, Turn: a.id()}}
		payload, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		seq, err := a.log.Append(t.Context(), x.Subject(), x.Tail.Seq, payload)
		if err != nil {
			t.Fatal(err)
		}
		// What follows on the chain is kept, and changes nothing.
		if _, err := a.log.Append(t.Context(), x.Subject(), seq, payload); err != nil {
			t.Fatal(err)
		}
		run(t, s, a.log, last(t, a.log))
		if n := s.SetAside(); n != i+1 {
			t.Errorf("%d chains are aside, want %d", n, i+1)
		}
		bad = append(bad, rows.AsideChain{Subject: x.Subject(), Seq: seq})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, fs)
	defer func() { s.Close() }()
	slices.SortFunc(bad, func(a, b rows.AsideChain) int { return cmp.Compare(a.Subject, b.Subject) })
	got := all(t, s.AllAside())
	if s.SetAside() != 3 || len(got) != 3 {
		t.Fatalf("after a start %d chains are aside: %v", s.SetAside(), got)
	}
	good := a.open(nil)
	for i, x := range bad {
		if got[i].Subject != x.Subject || got[i].Seq != x.Seq || got[i].Why == "" {
			t.Errorf("aside: %+v, want %+v", got[i], x)
		}
		tenant, chain, _ := ledger.ParseSubject(x.Subject)
		for _, subject := range []string{x.Subject, ledger.AnyShard(tenant, chain)} {
			why, err := s.WhyAside(subject)
			same(t, "WhyAside "+subject, why, got[i].Why, err)
		}
	}
	for _, subject := range []string{good.Subject(), ledger.AnyShard("default", turns.SessionChain(good.ID)), ledger.AnyShard("other", turns.SessionChain(all(t, s.Sessions("default", "", turns.ID{}))[0].ID))} {
		why, err := s.WhyAside(subject)
		same(t, "WhyAside "+subject, why, "", err)
	}
	if err := s.Clear(); err != nil {
		t.Fatal(err)
	}
	if s.SetAside() != 0 || s.Applied() != (rows.Checkpoint{Schema: rows.Schema}) || len(all(t, s.AllAside())) != 0 {
		t.Errorf("after Clear %d chains are aside, at %+v", s.SetAside(), s.Applied())
	}
}
