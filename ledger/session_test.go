package ledger

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	"nexus/turns"
)

func TestFoldOfASessionFollowsItsEvents(t *testing.T) {
	id := func(n byte) turns.ID { return turns.ID{15: n} }
	s := new(Session)
	h := byte(0)
	put := func(e *turns.Event) error {
		h++
		e.Chain = turns.SessionChain(id(1))
		if e.Kind != turns.KindOpened {
			e.Index, e.Prev = s.Tail.Index+1, s.Tail.Hash
		}
		return s.Apply("default", uint64(h), turns.Hash{h}, e)
	}
	ref := func(n byte) turns.Ref { return turns.Ref{Session: id(1), Turn: id(n)} }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(put(&turns.Event{Kind: turns.KindOpened, ID: id(1), Root: id(1), Agent: "main", Origin: &turns.Origin{}}))
	must(put(&turns.Event{Kind: turns.KindTurn, ID: id(2), Depth: 1, Segment: id(2), Usage: &turns.Usage{InputTokens: 7}}))
	must(put(&turns.Event{Kind: turns.KindTurn, ID: id(3), Depth: 2, Segment: id(2), Parent: ref(2)}))
	must(put(&turns.Event{Kind: turns.KindMoved, ID: id(4), To: ref(2)}))
	if got := s.SegmentFor(id(5), ref(2)); got != id(5) {
		t.Errorf("after a move back the segment is %s, want a new one", got)
	}
	if got := s.SegmentFor(id(5), ref(3)); got != id(2) {
		t.Errorf("after the last turn the segment is %s, want to go on with it", got)
	}
	before := *s
	for name, e := range map[string]*turns.Event{
		"a parent that is not the head": {Kind: turns.KindTurn, ID: id(5), Depth: 3, Segment: id(5), Parent: ref(3)},
		"a segment that is not its own": {Kind: turns.KindTurn, ID: id(5), Depth: 2, Segment: id(2), Parent: ref(2)},
		"a second opening":              {Kind: turns.KindOpened, ID: id(5), Root: id(1), Agent: "main", Origin: &turns.Origin{}},
		"a kind that does not belong":   {Kind: turns.KindClaimed, ID: id(5)},
	} {
		if err := put(e); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v, want corrupt", name, err)
		}
		if *s != before {
			t.Errorf("%s changed the fold", name)
		}
	}
	gap := &turns.Event{Kind: turns.KindTurn, ID: id(6), Chain: turns.SessionChain(id(1)), Index: s.Tail.Index + 2, Prev: s.Tail.Hash, Parent: ref(2), Segment: id(6)}
	if err := s.Apply("default", 99, turns.Hash{99}, gap); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a gap: %v, want corrupt", err)
	}
	must(put(&turns.Event{Kind: turns.KindState, ID: id(7), State: turns.Closed}))
	if err := put(&turns.Event{Kind: turns.KindTurn, ID: id(8), Depth: 2, Segment: id(8), Parent: ref(2)}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a turn after the end: %v, want corrupt", err)
	}
	if err := put(&turns.Event{Kind: turns.KindState, ID: id(8), State: turns.Paused}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a pause after the end: %v, want corrupt", err)
	}
	must(put(&turns.Event{Kind: turns.KindState, ID: id(9), State: turns.Erased}))
	if err := put(&turns.Event{Kind: turns.KindState, ID: id(10), State: turns.Erased}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a second erasure: %v, want corrupt", err)
	}
	if s.Turns != 2 || s.Usage.InputTokens != 7 || s.Head != ref(2) || !s.Final() {
		t.Errorf("fold: %+v", s)
	}
}

func TestFoldOfALabelFollowsItsClaims(t *testing.T) {
	chain := turns.Chain{Entity: turns.LabelEntity, ID: "0123456789abcdef0123456789abcdef"}
	subject := Subject("default", chain.ID, chain)
	claim := func(index uint64, prev turns.Hash) *turns.Event {
		return &turns.Event{Kind: turns.KindClaimed, ID: turns.ID{15: byte(index)}, Chain: chain, Index: index, Prev: prev, To: turns.Ref{Session: turns.ID{14: byte(index + 1)}}}
	}
	l := new(Label)
	for i, tc := range []struct {
		subject string
		event   *turns.Event
		ok      bool
	}{
		{subject, claim(1, turns.Hash{}), false},
		{subject, claim(0, turns.Hash{}), true},
		{subject, claim(2, turns.Hash{1}), false},
		{subject, claim(1, turns.Hash{9}), false},
		{subject, &turns.Event{Kind: turns.KindState, Chain: chain, Index: 1, Prev: turns.Hash{1}}, false},
		{Subject("default", "elsewhere", chain), claim(1, turns.Hash{1}), false},
		{subject, claim(1, turns.Hash{1}), true},
	} {
		want := *l
		if tc.ok {
			want = Label{Session: tc.event.To.Session, Tail: Tail{Seq: uint64(i), Index: tc.event.Index, Hash: turns.Hash{byte(i)}}}
		}
		if err := l.Apply(tc.subject, uint64(i), turns.Hash{byte(i)}, tc.event); (err == nil) != tc.ok || *l != want {
			t.Errorf("claim %d: %+v, %v; want %+v", i, *l, err, want)
		}
	}
}

func TestOnlyASubjectOfAChainIsParsed(t *testing.T) {
	root := turns.MustParseID("01ARZ3NDEKTSV4RRFFQ69G5FAV")
	got := SessionSubject("default", root, root)
	shard := sha256.Sum256([]byte(root.String()))
	if want := fmt.Sprintf("nexus.log.%02x.default.s.01ARZ3NDEKTSV4RRFFQ69G5FAV", shard[0]); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	tenant, chain, err := ParseSubject(got)
	if err != nil || tenant != "default" || chain != turns.SessionChain(root) {
		t.Errorf("parsed: %s %v %v", tenant, chain, err)
	}
	for _, bad := range []string{"", "nexus", "nexus.log.zz.default.s.X", "nexus.log.0.default.s.X", "agents.00.default.s.X", "agents.log.00.default.s.X", "nexus.v1.00.default.s.X", "nexus.log.00.Default.s.X", "nexus.log.00.default..X", "nexus.log.00.default.s.", "nexus.log.00.default.s.*", "nexus.log.00.default.>.X", "nexus.log.00.default.s.X.Y", "nexus.blobs.00.default.s.X"} {
		if _, _, err := ParseSubject(bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("subject %q: %v, want malformed", bad, err)
		}
	}
	child := turns.MustParseID("01BX5ZZKBKACTAV9WEVGEMMVRZ")
	if a, b := SessionSubject("default", root, child)[:12], got[:12]; a != b {
		t.Errorf("a fork is in shard %s, its root in %s", a, b)
	}
}
