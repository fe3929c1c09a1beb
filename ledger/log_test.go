package ledger

import (
	"errors"
	"testing"

	"nexus/turns"
)

func TestSoundNeedsEveryRecordFromTheFirst(t *testing.T) {
	for s, want := range map[State]error{
		{}:                            nil,
		{First: 1}:                    nil,
		{First: 7}:                    nil, // an empty log has no first record
		{First: 1, Last: 1, Count: 1}: nil,
		{First: 1, Last: 9, Count: 9}: nil,
		{First: 1, Last: 9, Count: 8}: ErrCorrupt,
		{First: 1, Last: 8, Count: 9}: ErrCorrupt,
		{First: 2, Last: 9, Count: 9}: ErrCorrupt,
		{First: 2, Last: 1, Count: 1}: ErrCorrupt,
		{First: 2, Last: 9, Count: 8}: ErrCorrupt,
		{First: 1, Last: 0, Count: 1}: ErrCorrupt,
	} {
		if err := s.Sound(); !errors.Is(err, want) {
			t.Errorf("%+v: %v, want %v", s, err, want)
		}
	}
}

func TestAConflictNamesWhatFollows(t *testing.T) {
	for want, e := range map[string]*ConflictError{
		"append to s: expected the tail at 7, it has moved":     {Subject: "s", Want: 7},
		"append to s: expected the tail at 7, but 9 follows it": {Subject: "s", Want: 7, Got: 9},
	} {
		if e.Error() != want || !errors.Is(e, ErrConflict) {
			t.Errorf("%q, want %q, a conflict", e.Error(), want)
		}
	}
}

func TestAnyShardMatchesASubjectButForItsShard(t *testing.T) {
	s := turns.MustParseID("01ARZ3NDEKTSV4RRFFQ69G5FAV")
	if got, want := AnyShard("default", turns.SessionChain(s)), "nexus.log.*.default.s.01ARZ3NDEKTSV4RRFFQ69G5FAV"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	of := Session{ID: s, Tenant: "default", Root: turns.ID{1}}
	if got, want := of.Subject(), SessionSubject("default", turns.ID{1}, s); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// opened is the fold of a session that was opened at position 5.
func opened(t *testing.T, id turns.ID) *Session {
	t.Helper()
	s := new(Session)
	e := &turns.Event{Kind: turns.KindOpened, ID: id, Chain: turns.SessionChain(id), Root: id, Agent: "main", Origin: &turns.Origin{}}
	if err := s.Apply("default", 5, turns.Hash{5}, e); err != nil {
		t.Fatal(err)
	}
	return s
}

// Each event follows its predecessor on the chain: by ordinal, hash and position.
func TestAnEventThatDoesNotFollowTheTailIsCorrupt(t *testing.T) {
	id := turns.ID{1}
	for name, tc := range map[string]struct {
		seq    uint64
		change func(*turns.Event)
		want   error
	}{
		"the next":                {6, func(*turns.Event) {}, nil},
		"the next, far behind":    {600, func(*turns.Event) {}, nil},
		"at the tail's position":  {5, func(*turns.Event) {}, ErrCorrupt},
		"before the tail":         {4, func(*turns.Event) {}, ErrCorrupt},
		"another hash":            {6, func(e *turns.Event) { e.Prev = turns.Hash{6} }, ErrCorrupt},
		"another ordinal":         {6, func(e *turns.Event) { e.Index = 2 }, ErrCorrupt},
		"of another session":      {6, func(e *turns.Event) { e.Chain = turns.SessionChain(turns.ID{2}) }, ErrCorrupt},
		"of no session":           {6, func(e *turns.Event) { e.Chain.Entity = turns.LabelEntity }, ErrCorrupt},
		"of a kind of other ones": {6, func(e *turns.Event) { e.Kind = turns.KindClaimed }, ErrUnsupported},
	} {
		s := opened(t, id)
		e := &turns.Event{Kind: turns.KindChanged, ID: turns.ID{2}, Chain: turns.SessionChain(id), Index: 1, Prev: turns.Hash{5}, Recorded: 9}
		tc.change(e)
		err := s.Apply("default", tc.seq, turns.Hash{6}, e)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
		if err == nil && (s.Tail != Tail{tc.seq, 1, turns.Hash{6}} || s.Settings != 1 || s.Updated != 9) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestAFoldCountsTurnsCompactionsAndUsage(t *testing.T) {
	id := turns.ID{1}
	s := opened(t, id)
	for i, e := range []*turns.Event{
		{Kind: turns.KindTurn, Usage: &turns.Usage{InputTokens: 1, OutputTokens: 2, CacheRead: 3, CacheCreation: 4}},
		{Kind: turns.KindCompaction, Usage: &turns.Usage{InputTokens: 1<<64 - 1, OutputTokens: 1<<64 - 3}},
		{Kind: turns.KindTurn},
	} {
		e.ID, e.Chain, e.Index, e.Prev, e.Parent = turns.ID{15: byte(i)}, turns.SessionChain(id), s.Tail.Index+1, s.Tail.Hash, s.Head
		if e.Segment = s.Segment; i == 0 {
			e.ID[0] = 9
			e.Segment = e.ID
		}
		if err := s.Apply("default", s.Tail.Seq+1, turns.Hash{byte(i)}, e); err != nil {
			t.Fatal(err)
		}
	}
	want := turns.Usage{InputTokens: 1<<64 - 1, OutputTokens: 1<<64 - 1, CacheRead: 3, CacheCreation: 4} // a sum does not overflow
	if s.Turns != 2 || s.Compactions != 1 || s.Usage != want {
		t.Errorf("%d turns, %d compactions, %+v; want 2, 1, %+v", s.Turns, s.Compactions, s.Usage, want)
	}
}

// A fork of mode full, and a fork of that, ignores the compactions above its
// fork point; a fork of mode as_seen does not.
func TestAForkOfModeFullIgnoresInheritedCompactions(t *testing.T) {
	forkOf := func(n byte, mode turns.ForkMode) *turns.ForkOf {
		return &turns.ForkOf{At: turns.Ref{Session: turns.ID{n}, Turn: turns.ID{n, 1}}, Mode: mode}
	}
	all := map[turns.ID]Session{
		{1}: {ID: turns.ID{1}},
		{2}: {ID: turns.ID{2}, ForkOf: forkOf(1, turns.AsSeen)},
		{3}: {ID: turns.ID{3}, ForkOf: forkOf(2, turns.Full)},
		{4}: {ID: turns.ID{4}, ForkOf: forkOf(3, turns.AsSeen)},
		{5}: {ID: turns.ID{5}, ForkOf: forkOf(9, turns.AsSeen)},
	}
	gone := errors.New("gone")
	for _, tc := range []struct {
		session, at byte
		want        bool
		reads       int
		err         error
	}{
		{1, 1, false, 0, nil}, {2, 2, false, 0, nil}, {2, 1, false, 0, nil},
		{3, 3, false, 0, nil}, {3, 2, true, 0, nil}, {3, 1, true, 0, nil},
		{4, 4, false, 0, nil}, {4, 3, false, 0, nil}, {4, 2, true, 1, nil}, {4, 1, true, 1, nil},
		{4, 0, false, 0, nil}, // no turn
		{5, 1, false, 1, gone},
	} {
		reads := 0
		s := all[turns.ID{tc.session}]
		got, err := s.Ignores(turns.ID{tc.at}, func(id turns.ID) (Session, error) {
			reads++
			if p, ok := all[id]; ok {
				return p, nil
			}
			return Session{}, gone
		})
		if got != tc.want || reads != tc.reads || !errors.Is(err, tc.err) {
			t.Errorf("session %d, turn of %d: %v after %d reads, %v; want %v after %d, %v", tc.session, tc.at, got, reads, err, tc.want, tc.reads, tc.err)
		}
	}
}
