package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nexus/cmd/internal/engine/episodes"
	"nexus/compactor"
	"nexus/compactor/summary"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// teller stands for a summarizer: it says again each text that begins with "fact", up to its
// semicolon, each with the handle of its turn.
type teller struct{}

func (teller) Summarize(_ context.Context, in summary.Input) (summary.Output, error) {
	out := summary.Output{Text: in.Previous}
	for _, h := range in.Halves {
		for i := range h.Messages {
			if text := summary.TextOf(&h.Messages[i]); strings.HasPrefix(text, "fact") {
				fact, _, _ := strings.Cut(text, ";")
				out.Text += fmt.Sprintf("\n- %s [t%d]", fact, h.Depth)
			}
		}
	}
	out.Text = strings.TrimSpace(out.Text)
	return out, nil
}

// withEpisodes is a policy under which sessions have episodes, and contexts show memories.
const withEpisodes = `{"memory":{"episode_tokens":300,"episodes":5,"max_tokens":2000}}`

// telling opens a session whose summarizer is a teller.
func telling(t *testing.T, e *Engine, kind turns.SessionKind, set string) turns.ID {
	t.Helper()
	e.Loader.Tiers = []compactor.Tier{{Name: "teller", Summarizer: teller{}, Local: true}}
	return sessionUnder(t, e, kind, "nexus", set, 8000)
}

// compactFact says a fact, and other things until something can be compacted, and compacts.
func compactFact(t *testing.T, e *Engine, s turns.ID, fact string) *api.Turn {
	t.Helper()
	add(t, e, s, say("fact "+fact+"; noted", "ok"))
	for range 12 {
		add(t, e, s, say(long(3000), "b"))
	}
	k := must(e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{}, []byte("{}")))(t).Compaction
	if k == nil {
		t.Fatal("nothing was compacted")
	}
	return k
}

// storeEpisodes lets all daemons store episodes at the same time.
func storeEpisodes(t *testing.T, daemons ...*Engine) {
	t.Helper()
	var wg sync.WaitGroup
	for _, e := range daemons {
		if err := e.Reader.Projections.WaitFor(t.Context(), must(e.Reader.Log.State(t.Context()))(t).Last); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range daemons {
		wg.Go(func() {
			if err := e.Episodes.StoreEpisodes(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// episodesOf returns the episodes in a state that a session lists, or the agent if it is zero.
func episodesOf(t *testing.T, e *Engine, session turns.ID, state string) (out []api.Memory) {
	t.Helper()
	for _, m := range list(t, e, alice, api.ListMemories{Session: session, State: state, Kind: "episodic"}) {
		if m.Episode != nil {
			out = append(out, m)
		}
	}
	return out
}

// S8-22: a session's summary is an episode that the agent's other sessions find, once,
// whichever daemons see it. That of the next compaction supersedes it, and at last that of the
// end. The session's own contexts, and those of its forks, do not repeat it.
func TestS8_22SummaryIsAnEpisodeForOtherSessions(t *testing.T) {
	w := newWorld()
	e, other := w.Engine(t), w.Engine(t)
	a, b := telling(t, e, turns.Peer, withEpisodes), telling(t, other, turns.Peer, withEpisodes)
	k := compactFact(t, e, a, "one of the heron")
	add(t, other, b, say("what of the heron?", "I look."))
	storeEpisodes(t, e, other)
	storeEpisodes(t, e, other, w.Engine(t))
	got := episodesOf(t, e, b, "accepted")
	if len(got) != 1 {
		t.Fatalf("%d episodes: %+v", len(got), got)
	}
	m := got[0]
	if want := "Session " + a.String() + ":\n- fact one of the heron"; m.Text != want || m.Trust != "agent" || m.Visibility != "all" {
		t.Errorf("%+v, want the text %q", m, want)
	}
	if *m.Episode != (api.TurnName{Session: a, Turn: k.ID}) || !slices.ContainsFunc(m.Sources, func(s api.MemorySource) bool { return s.Turn == k.ID && s.Hash == k.Hash }) {
		t.Errorf("it names %+v and %+v, want compaction %s", m.Episode, m.Sources, k.ID)
	}
	if hits := must(e.Memories.Search(t.Context(), alice, api.SearchMemories{Text: "heron", Session: b}))(t).Hits; len(hits) != 1 || hits[0].ID != m.ID {
		t.Errorf("the other session finds %+v", hits)
	}
	fork := must(e.Forks.Fork(t.Context(), alice, a, api.CreateFork{Turn: k.ID}, []byte("{}")))(t).ID
	shows := func(e *Engine, s turns.ID) string {
		cx := contextOf(t, e, s, api.GetContext{Query: "the heron"})
		return string(cx.System)
	}
	if got := shows(other, b); !strings.Contains(got, "fact one of the heron") {
		t.Errorf("the other session's context: %s", got)
	}
	for _, own := range []turns.ID{a, fork} {
		if got := shows(e, own); strings.Contains(got, "heron") {
			t.Errorf("the context of the session itself repeats it: %s", got)
		}
	}
	before := &kept{session: b, contexts: []*api.Context{contextOf(t, e, b, api.GetContext{Query: "the heron"})}}

	compactFact(t, other, a, "two of the heron")
	storeEpisodes(t, e, other)
	second := episodesOf(t, e, b, "accepted")
	if len(second) != 1 || second[0].Supersedes != m.ID || second[0].Text != m.Text+"\n- fact two of the heron" {
		t.Fatalf("after the second compaction: %+v", second)
	}
	if old := episodesOf(t, e, b, "superseded"); len(old) != 1 || old[0].ID != m.ID || old[0].Superseded != second[0].ID {
		t.Errorf("superseded: %+v", old)
	}
	before.again(t, w.Engine(t))

	add(t, e, a, say("fact three of the heron;", "noted"))
	next := must(e.Sessions.Reset(t.Context(), alice, a, api.ResetSession{}, nil))(t)
	storeEpisodes(t, e, other)
	storeEpisodes(t, w.Engine(t))
	last := episodesOf(t, e, b, "accepted")
	if len(last) != 1 || last[0].Supersedes != second[0].ID || !strings.HasSuffix(last[0].Text, "\n- fact two of the heron\n- fact three of the heron") {
		t.Fatalf("after the reset: %+v", last)
	}
	if got := shows(e, next.ID); !strings.Contains(got, "fact three") || strings.Count(got, "fact two") != 1 {
		t.Errorf("the successor's context: %s", got)
	}
	verified(t, e)
}

// A policy that asks for none has none, and neither has a session before its first summary.
func TestEpisodesAreOffUnlessThePolicyAsks(t *testing.T) {
	e := newWorld().Engine(t)
	off, on := telling(t, e, turns.Peer, `{"memory":{"episodes":5,"max_tokens":2000}}`), telling(t, e, turns.Peer, withEpisodes)
	k := compactFact(t, e, off, "one")
	must(e.Forks.Fork(t.Context(), alice, off, api.CreateFork{Turn: k.ID, Policy: &api.Policy{Name: "nexus", Set: turns.Raw(withEpisodes)}}, []byte("{}")))(t) // the summary is its parent's
	add(t, e, on, say("fact two;", "noted"))
	storeEpisodes(t, e)
	if got := list(t, e, alice, api.ListMemories{}); len(got) != 0 {
		t.Errorf("%q", texts(got))
	}
	must(e.Sessions.Reset(t.Context(), alice, off, api.ResetSession{}, nil))(t)
	must(e.Sessions.CloseSession(t.Context(), alice, on, api.CloseSession{}, nil))(t)
	storeEpisodes(t, e)
	if got := list(t, e, alice, api.ListMemories{}); len(got) != 1 || !strings.HasSuffix(got[0].Text, ":\n- fact two") {
		t.Errorf("%q", texts(got))
	}
}

// What a main session did, and a fork of it, is seen by no peer's session, by any verb. A
// fork's episode stays on its branch.
func TestPeerSessionReachesNoEpisodeOfAMainSession(t *testing.T) {
	e := newWorld().Engine(t)
	main, peer := telling(t, e, turns.Main, withEpisodes), telling(t, e, turns.Peer, withEpisodes)
	add(t, e, peer, say("what is the heron's code?", "I do not know."))
	k := compactFact(t, e, main, "heron 4711")
	fork := must(e.Forks.Fork(t.Context(), alice, main, api.CreateFork{Turn: k.ID}, []byte("{}")))(t).ID
	compactFact(t, e, fork, "heron 4712")
	storeEpisodes(t, e)
	all := episodesOf(t, e, turns.ID{}, "accepted")
	if len(all) != 2 || all[0].Visibility != "branch" && all[1].Visibility != "branch" || !slices.ContainsFunc(all, func(m api.Memory) bool { return m.Visibility == "main" }) {
		t.Fatalf("%+v", all)
	}
	for _, m := range all {
		if m.Visibility == "branch" && !m.Private {
			t.Errorf("the fork's is not private: %+v", m)
		}
		for name, err := range map[string]error{
			"withdraws":  second(withdraw(t, e, alice, api.WithdrawMemory{Memory: m.ID, Session: peer})),
			"promotes":   second(promote(t, e, alice, api.PromoteMemory{Memory: m.ID, Session: peer, Visibility: "all"})),
			"supersedes": second(trySave(t, e, alice, api.SaveMemory{Text: "x", Session: peer, Supersedes: m.ID})),
			"derives":    second(trySave(t, e, alice, api.SaveMemory{Text: "x", Session: peer, From: []turns.ID{m.ID}})),
		} {
			if code(err) != api.NotFound {
				t.Errorf("a peer's session %s: %v", name, err)
			}
		}
	}
	if got := list(t, e, alice, api.ListMemories{Session: peer}); len(got) != 0 {
		t.Errorf("it lists %q", texts(got))
	}
	if got := must(e.Memories.Search(t.Context(), alice, api.SearchMemories{Text: "heron 4711", Session: peer}))(t); len(got.Hits) != 0 {
		t.Errorf("it finds %+v", got)
	}
	if got := contextOf(t, e, peer, api.GetContext{Query: "heron 4711"}); strings.Contains(string(got.System), "471") {
		t.Errorf("its context: %s", got.System)
	}
	again := telling(t, e, turns.Main, withEpisodes)
	add(t, e, again, say("what is the heron's code?", "I look."))
	if got := contextOf(t, e, again, api.GetContext{Query: "heron"}); !strings.Contains(string(got.System), "4711") || strings.Contains(string(got.System), "4712") {
		t.Errorf("another main session's context: %s", got.System)
	}
	verified(t, e)
}

// An agent that withdrew a session's episode gets no other of that session. One that it
// replaced or promoted stays as the agent left it.
func TestEpisodesLeaveWhatTheAgentChanged(t *testing.T) {
	e := newWorld().Engine(t)
	withdrawn, replaced := telling(t, e, turns.Peer, withEpisodes), telling(t, e, turns.Peer, withEpisodes)
	compactFact(t, e, withdrawn, "one")
	compactFact(t, e, replaced, "two")
	storeEpisodes(t, e)
	of := func(s turns.ID) (out []api.Memory) {
		for _, m := range list(t, e, alice, api.ListMemories{State: "accepted"}) {
			if strings.Contains(m.Text, s.String()) {
				out = append(out, m)
			}
		}
		return out
	}
	must(withdraw(t, e, alice, api.WithdrawMemory{Memory: of(withdrawn)[0].ID}))(t)
	mine := save(t, e, api.SaveMemory{Kind: "episodic", Text: "By the agent: " + replaced.String(), Supersedes: of(replaced)[0].ID, Visibility: "all"})
	compactFact(t, e, withdrawn, "three")
	compactFact(t, e, replaced, "four")
	storeEpisodes(t, e)
	if got := of(withdrawn); len(got) != 0 {
		t.Errorf("after the withdrawal: %q", texts(got))
	}
	if got := of(replaced); len(got) != 2 || got[1].ID != mine.ID || !strings.HasSuffix(got[0].Text, "fact four") {
		t.Errorf("after the agent's own: %q", texts(got))
	}
	verified(t, e)
}

// An episode that is late is not stored behind the one of a later compaction, and two daemons
// that store one at the same moment store it once.
func TestLateEpisodeIsNotStoredBehindALaterOne(t *testing.T) {
	w := newWorld()
	e, slow := w.Engine(t), w.Engine(t)
	s := telling(t, e, turns.Peer, withEpisodes)
	telling(t, slow, turns.Peer, withEpisodes)
	compactFact(t, e, s, "one")
	slow.Reader.Log = &rivalOfAgent{Log: w.Log, rival: func() {
		compactFact(t, e, s, "two")
		storeEpisodes(t, e)
	}}
	storeEpisodes(t, slow)
	for range 2 {
		if got := episodesOf(t, e, turns.ID{}, ""); len(got) != 1 || !strings.HasSuffix(got[0].Text, "fact two") {
			t.Errorf("%+v", got)
		}
		storeEpisodes(t, slow, e)
	}
	compactFact(t, e, s, "three")
	telling(t, slow, turns.Peer, withEpisodes)
	slow.Reader.Log = &rivalOfAgent{Log: w.Log, rival: func() { storeEpisodes(t, e) }}
	storeEpisodes(t, slow)
	if got := episodesOf(t, e, turns.ID{}, "accepted"); len(got) != 1 || got[0].Repeated != 0 || !strings.HasSuffix(got[0].Text, "fact three") {
		t.Errorf("%+v", got)
	}
}

// A daemon that dies between a compaction, or a reset, and the episode leaves it to the next
// one. An append that fails, stored or not, leaves one episode.
func TestEpisodeIsStoredAfterACrash(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := newWorld()
		e := w.Engine(t)
		s := telling(t, e, turns.Peer, withEpisodes)
		compactFact(t, e, s, "one")
		e.Reader.Log = &brokenOfAgent{Log: w.Log, lost: lost}
		if err := e.Reader.Projections.WaitFor(t.Context(), must(w.Log.State(t.Context()))(t).Last); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_ = e.Episodes.StoreEpisodes(ctx)
		cancel()
		for range 2 {
			later := w.Engine(t)
			telling(t, later, turns.Peer, withEpisodes)
			storeEpisodes(t, later)
			if got := episodesOf(t, later, turns.ID{}, ""); len(got) != 1 {
				t.Errorf("lost %v: %d episodes", lost, len(got))
			}
		}
	}
}

// The first look of a daemon reads the sessions that changed lately, and not the log: it takes
// no more memory after ten times the turns.
func TestFirstLookForEpisodesIsBoundedByTheSessions(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := telling(t, e, turns.Peer, withEpisodes)
	other := telling(t, e, turns.Peer, withEpisodes)
	firstLook := func() float64 {
		if err := e.Reader.Projections.WaitFor(t.Context(), must(w.Log.State(t.Context()))(t).Last); err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(3, func() {
			if err := episodes.New(nil, e.Loader, e.Reader, e.Memories).StoreEpisodes(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	grow := func(n int) {
		for range n {
			add(t, e, s, say("a", "b"))
			add(t, e, other, say("a", "b"))
		}
	}
	grow(30)
	before := firstLook()
	grow(300)
	if after := firstLook(); after > 2*before+100 {
		t.Errorf("%v allocations after 600 more turns, %v before", after, before)
	}
}

// A session whose episode can't be stored is looked at after a minute, two, four, and so on:
// neither its changes nor each second ask again. When it can be stored, it is.
func TestAnEpisodeThatCanNotBeStoredIsTriedSeldom(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := telling(t, e, turns.Peer, withEpisodes)
	compactFact(t, e, s, "one")
	broken := &brokenOfAgent{Log: w.Log, lost: true}
	e.Reader.Log = broken
	now := time.Now()
	e.Reader.Now = func() time.Time { return now }
	for range 100 { // seconds
		add(t, e, s, say("more", "of it"))
		if err := e.Reader.Projections.WaitFor(t.Context(), must(w.Log.State(t.Context()))(t).Last); err != nil {
			t.Fatal(err)
		}
		_ = e.Episodes.StoreEpisodes(t.Context())
		now = now.Add(time.Second)
	}
	if broken.tried != 2 {
		t.Errorf("%d tries in 100 seconds, want 2", broken.tried)
	}
	for range 24 * 60 { // minutes
		_ = e.Episodes.StoreEpisodes(t.Context())
		now = now.Add(time.Minute)
	}
	if broken.tried > 32 {
		t.Errorf("%d tries in a day", broken.tried)
	}
	e.Reader.Log = w.Log
	now = now.Add(time.Hour)
	storeEpisodes(t, e)
	if got := episodesOf(t, e, turns.ID{}, "accepted"); len(got) != 1 {
		t.Errorf("%d episodes", len(got))
	}
}

// brokenOfAgent is a log whose appends to an agent's chain fail, stored or lost.
type brokenOfAgent struct {
	ledger.Log
	lost  bool
	tried int
}

func (l *brokenOfAgent) Append(ctx context.Context, subject string, expect uint64, payload []byte) (uint64, error) {
	if _, chain, err := ledger.ParseSubject(subject); err == nil && chain.Entity == turns.AgentEntity {
		l.tried++
		if !l.lost {
			_, _ = l.Log.Append(ctx, subject, expect, payload)
		}
		return 0, fmt.Errorf("%w: the daemon dies", ledger.ErrUnavailable)
	}
	return l.Log.Append(ctx, subject, expect, payload)
}

// An episode falls with any session that it comes from, holds no character that nobody sees,
// and has at most the tokens that the policy gives it.
func TestEpisodeFallsWithItsSessionAndIsShort(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := telling(t, e, turns.Peer, `{"memory":{"episode_tokens":60}}`)
	compactFact(t, e, s, "one\u202e\x1b of the heron")
	var facts strings.Builder
	for i := range 40 {
		fmt.Fprintf(&facts, "\n- fact %d", i)
	}
	add(t, e, s, say("fact two"+facts.String()+";", "noted"))
	must(e.Sessions.Reset(t.Context(), alice, s, api.ResetSession{}, nil))(t)
	storeEpisodes(t, e)
	got := episodesOf(t, e, turns.ID{}, "accepted")
	if len(got) != 1 || !strings.Contains(got[0].Text, "\n- fact one of the heron\n- fact two\n- fact 0\n") || e.Loader.Tiers == nil {
		t.Fatalf("%+v", got)
	}
	if n := e.Store.Counter.Text(got[0].Text); n > 60 || n < 50 {
		t.Errorf("%d tokens: %q", n, got[0].Text)
	}
	open := telling(t, e, turns.Peer, withEpisodes)
	first := compactFact(t, e, open, "three")
	fork := must(e.Forks.Fork(t.Context(), alice, open, api.CreateFork{Turn: first.ID}, []byte("{}")))(t).ID
	compactFact(t, e, fork, "four")
	storeEpisodes(t, e)
	for _, gone := range []turns.ID{s, open} {
		if err := w.Keys.Destroy(gone); err != nil {
			t.Fatal(err)
		}
	}
	all := episodesOf(t, e, turns.ID{}, "accepted")
	for _, m := range all {
		if m.Text != "" || m.Error != api.Erased {
			t.Errorf("without a key of what it comes from: %+v", m)
		}
	}
	if len(all) != 3 {
		t.Errorf("%d episodes", len(all))
	}
	later := w.Engine(t)
	telling(t, later, turns.Peer, withEpisodes)
	storeEpisodes(t, later)
}
