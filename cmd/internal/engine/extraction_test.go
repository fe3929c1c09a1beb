package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/extraction"
	"nexus/compactor"
	"nexus/compactor/summary"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// rememberer stands for a model: it remembers each text that begins with "fact".
type rememberer struct {
	mu    sync.Mutex
	calls int
	seen  []string // what the last call was given
	known []string // what it was told that is on record
	fail  error
	used  *turns.Usage // by each answer, also one that fails
	enter func()       // before each answer, if it is set
}

func (m *rememberer) Summarize(_ context.Context, in summary.Input) (summary.Output, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls++; m.enter != nil {
		m.enter()
	}
	m.known = in.Known
	if m.seen = nil; m.fail != nil {
		return summary.Output{Usage: m.used, CostMicros: 30}, m.fail
	}
	out := summary.Output{Text: "What was said: " + in.Previous, Usage: m.used, CostMicros: 30, Model: "m-1"}
	for _, h := range in.Halves {
		for i := range h.Messages {
			text := summary.TextOf(&h.Messages[i])
			if m.seen = append(m.seen, text); strings.HasPrefix(text, "fact") {
				fact, _, _ := strings.Cut(text, ";")
				out.Text += " " + fact
				out.Memories = append(out.Memories, summary.Memory{Text: fact, Source: []turns.Ref{h.Ref}})
			}
		}
	}
	out.Text += " " + strings.Join(m.seen[max(0, len(m.seen)-3):], " ")
	out.Text = out.Text[max(0, len(out.Text)-int(in.MaxTokens)):]
	return out, nil
}

// askModel lets the daemons ask m, and nobody else.
func askModel(m *rememberer, daemons ...*engine.Engine) {
	for _, e := range daemons {
		e.Loader.Tiers = []compactor.Tier{{Name: "llm", Summarizer: m, Model: "m"}}
	}
}

// extractAll lets all daemons look for extractions at the same time.
func extractAll(t *testing.T, daemons ...*engine.Engine) {
	t.Helper()
	var wg sync.WaitGroup
	for _, e := range daemons {
		if err := e.Reader.Projections.WaitFor(t.Context(), must(e.Reader.Log.State(t.Context()))(t).Last); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range daemons {
		wg.Go(func() {
			if err := e.Extraction.ExtractDue(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// recordsOf returns the kinds of the events on the channel of extractions, oldest first.
func recordsOf(t *testing.T, e *engine.Engine) (kinds []string) {
	t.Helper()
	out, err := e.Events.ListEvents(t.Context(), alice, api.ListEvents{Channel: extraction.Channel, Order: "asc"})
	if code(err) == api.NotFound {
		return nil
	}
	for _, ev := range must(out, err)(t).Events {
		kinds = append(kinds, ev.Kind)
	}
	return kinds
}

// spent is what a record says that a try used.
type spent struct {
	Asked bool        `json:"asked"`
	Usage turns.Usage `json:"usage"`
	Cost  uint64      `json:"cost_micros"`
	Model string      `json:"model"`
}

// spentOf returns what the records of a kind say, oldest first.
func spentOf(t *testing.T, e *engine.Engine, kind string) (out []spent) {
	t.Helper()
	for _, ev := range must(e.Events.ListEvents(t.Context(), alice, api.ListEvents{Channel: extraction.Channel, Order: "asc", Kind: kind}))(t).Events {
		var s spent
		if err := json.Unmarshal(ev.Body, &s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

// rivalOfChannel is a log in which a rival acts just before the first append to a channel.
type rivalOfChannel struct {
	ledger.Log
	once  sync.Once
	rival func()
}

func (l *rivalOfChannel) Append(ctx context.Context, subject string, expect uint64, payload []byte) (uint64, error) {
	if _, chain, err := ledger.ParseSubject(subject); err == nil && chain.Entity == turns.ChannelEntity {
		l.once.Do(l.rival)
	}
	return l.Log.Append(ctx, subject, expect, payload)
}

// GSV-12: the turns since the last compaction of a session that was reset are given to the
// model, by one of several daemons and once, also after a restart. What it finds are memories
// with those turns as their sources. The successor takes turns before.
func TestGSV12MemoriesAreExtractedAtAReset(t *testing.T) {
	w, c, m := newWorld(), new(resetClock), &rememberer{used: &turns.Usage{InputTokens: 70, OutputTokens: 7}}
	c.set(utc(t, "2026-05-01T20:00:00Z"))
	daemons := timedDaemons(t, w, c, 2)
	askModel(m, daemons...)
	e := daemons[0]
	s := timedSession(t, e, "x", `{"mode":"daily"}`)
	add(t, e, s.ID, say("fact one;", "noted"))
	second := add(t, e, s.ID, say("fact two;", "noted"))
	known := save(t, e, api.SaveMemory{Kind: "daily", Text: "fact one", Visibility: "all"})
	gone := save(t, e, api.SaveMemory{Kind: "daily", Text: "fact three", Visibility: "all"})
	must(withdraw(t, e, alice, api.WithdrawMemory{Memory: gone.ID}))(t)
	add(t, e, s.ID, say("fact three;", "noted"))
	extractAll(t, daemons...)
	if m.calls != 0 {
		t.Fatal("the model was asked before the reset")
	}
	c.set(utc(t, "2026-05-02T04:00:00Z"))
	fireAll(t, daemons)
	next := must(e.Sessions.Resolve(t.Context(), alice, "x"))(t)
	m.enter = func() { // the model takes its time
		if _, err := e.Sessions.Append(t.Context(), alice, next.ID, say("good", "morning"), nil); err != nil {
			t.Errorf("the successor waits: %v", err)
		}
	}
	slow := timedDaemons(t, w, c, 1)[0]
	askModel(m, slow)
	slow.Reader.Log = &rivalOfChannel{Log: w.Log, rival: func() { extractAll(t, daemons...) }}
	extractAll(t, slow)
	extractAll(t, daemons...)
	later := timedDaemons(t, w, c, 1)[0]
	askModel(m, later)
	extractAll(t, later)
	if m.calls != 1 {
		t.Errorf("the model was asked %d times", m.calls)
	}
	got := list(t, later, alice, api.ListMemories{Session: next.ID, State: "accepted"})
	if want := []string{"fact two", "fact one"}; !slices.Equal(texts(got), want) {
		t.Fatalf("%q, want %q", texts(got), want)
	}
	if src := got[0].Sources; len(src) != 1 || src[0].Turn != second.ID || src[0].Session != s.ID || src[0].Hash != second.Hash || got[0].Kind != "daily" {
		t.Errorf("%+v", got[0])
	}
	if got[1].ID != known.ID {
		t.Errorf("what was known is said again: %+v", got[1])
	}
	if r := recordsOf(t, e); !slices.Equal(r, []string{"extraction.begun", "extraction.done"}) {
		t.Errorf("%q", r)
	}
	if got, want := spentOf(t, e, "extraction.done"), []spent{{true, *m.used, 30, "m-1"}}; !slices.Equal(got, want) {
		t.Errorf("the record says that the model used %+v, want %+v", got, want)
	}
	verified(t, e)
}

// What a model copies from a page is no other memory for it: a character in another form,
// one that nobody sees, a text that is too long. And one of these costs no other memory.
func TestAModelsCopiesAreMemoriesAsTheyAreRead(t *testing.T) {
	w, c, m := newWorld(), new(resetClock), new(rememberer)
	c.set(utc(t, "2026-05-01T20:00:00Z"))
	e := timedDaemons(t, w, c, 1)[0]
	askModel(m, e)
	s := timedSession(t, e, "x", `{"mode":"daily"}`)
	gone := save(t, e, api.SaveMemory{Kind: "daily", Text: "fact caf\u00e9", Visibility: "all"})
	must(withdraw(t, e, alice, api.WithdrawMemory{Memory: gone.ID}))(t)
	for _, text := range []string{"fact cafe\u0301;", "fact " + strings.Repeat("long ", 10_000) + ";", "fact so\u00adft\u202e\U000e0041;", "fact soft;", "fact last;"} {
		add(t, e, s.ID, say(text, "noted"))
	}
	c.set(utc(t, "2026-05-02T04:00:00Z"))
	fireAll(t, []*engine.Engine{e})
	extractAll(t, e)
	got := list(t, e, alice, api.ListMemories{Session: must(e.Sessions.Resolve(t.Context(), alice, "x"))(t).ID, State: "accepted"})
	if want := []string{"fact last", "fact soft"}; !slices.Equal(texts(got), want) {
		t.Errorf("%.200q, want %q", texts(got), want)
	}
	verified(t, e)
}

// What a compaction covers was given to its summarizer, and what a fork inherits is its
// parent's: an extraction reads neither. A session that is reset by hand has one, too.
func TestExtractionReadsWhatNoSummarizerRead(t *testing.T) {
	w, c, m := newWorld(), new(resetClock), new(rememberer)
	c.set(utc(t, "2026-05-01T20:00:00Z"))
	e := timedDaemons(t, w, c, 1)[0]
	r := api.CreateSession{}
	r.Policy = &api.Policy{Name: "gsv", Set: turns.Raw(`{"keep_tokens":300,"reserve_tokens":100}`)}
	r.Limits = &turns.Limits{ContextWindow: 8000, MaxOutputTokens: 500}
	s := must(e.Sessions.Create(t.Context(), alice, r, canon(r)))(t)
	for i := range 12 {
		add(t, e, s.ID, say(fmt.Sprintf("fact %d; %s", i, strings.Repeat("and so on ", 60)), "noted"))
	}
	k := must(e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")))(t).Compaction
	kept := 12 - int(k.Compaction.Covered)
	if kept < 1 || kept > 6 {
		t.Fatalf("%d of 12 turns are kept", kept)
	}
	fork := must(e.Forks.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: k.ID}, []byte("{}")))(t)
	add(t, e, fork.ID, say("fact of the fork;", "noted"))
	askModel(m, e)
	for _, x := range []struct {
		id   turns.ID
		want int
	}{{s.ID, kept}, {fork.ID, 1}} {
		must(e.Sessions.Reset(t.Context(), alice, x.id, api.ResetSession{}, nil))(t)
		extractAll(t, e)
		if n := len(m.seen); n < 2*x.want || n > 2*x.want+1 { // the cut may lie inside of a turn
			t.Errorf("the model saw %d messages of %d turns", len(m.seen), x.want)
		}
	}
	if got := list(t, e, alice, api.ListMemories{}); len(got) != kept+1 || got[0].Text != "fact of the fork" || got[0].Visibility != "branch" {
		t.Errorf("%d memories: %+v", len(got), got)
	}
}

// GSV-12, GSV-9: after a compaction by rules the model is given every turn that no model has
// summarized, and what is on record; what it finds is of the day of the session's zone.
func TestGSV12ExtractionReadsWhatRulesSummarized(t *testing.T) {
	for _, tiers := range []string{`["extractive"]`, `["llm"]`} {
		t.Run(tiers, func(t *testing.T) {
			w, c, m := newWorld(), new(resetClock), new(rememberer)
			c.set(utc(t, "2026-05-01T00:08:00Z"))
			e := timedDaemons(t, w, c, 1)[0]
			e.Loader.Tiers = []compactor.Tier{{Name: "llm", Summarizer: m, Model: "m"}, {Name: "extractive", Summarizer: firstWords{}, Local: true}}
			works(t, e)
			r := api.CreateSession{}
			r.Policy = &api.Policy{Name: "gsv", Set: turns.Raw(`{"keep_tokens":300,"reserve_tokens":100,"tiers":` + tiers + `}`)}
			r.Limits, r.Reset = &turns.Limits{ContextWindow: 8000, MaxOutputTokens: 500}, turns.Raw(`{"time_zone":"Pacific/Pago_Pago"}`)
			s := must(e.Sessions.Create(t.Context(), alice, r, canon(r)))(t)
			known := save(t, e, api.SaveMemory{Kind: "daily", Text: "fact 3", Session: s.ID})
			if known.Zone != "Pacific/Pago_Pago" {
				t.Errorf("a memory that a session saves is of the zone %q", known.Zone)
			}
			const all = 12
			for i := range all {
				add(t, e, s.ID, say(fmt.Sprintf("fact %d; %s", i, strings.Repeat("and so on ", 60)), "noted"))
			}
			k := must(e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{WaitMS: 20_000}, []byte("{}")))(t).Compaction
			want := all
			if tiers == `["llm"]` {
				if want -= int(k.Compaction.Covered); !slices.Contains(m.known, "fact 3") {
					t.Errorf("the summarizer was told that %q is on record", m.known)
				}
			} else if k.Compaction.Tier != "extractive" {
				t.Fatal(k.Compaction.Tier)
			}
			set := api.SetSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "gsv"}}} // with all tiers
			must(e.Sessions.Set(t.Context(), alice, s.ID, set, []byte("{}")))(t)
			must(e.Sessions.Reset(t.Context(), alice, s.ID, api.ResetSession{}, nil))(t)
			extractAll(t, e)
			if n := len(m.seen); n < 2*want || n > 2*want+1 {
				t.Errorf("the model saw %d messages of %d turns", n, want)
			}
			if !slices.Contains(m.known, "fact 3") {
				t.Errorf("the extractor was told that %q is on record", m.known)
			}
			got := list(t, e, alice, api.ListMemories{})
			if len(got) != all {
				t.Errorf("%d memories: %q", len(got), texts(got))
			}
			for _, x := range got {
				if x.Zone != "Pacific/Pago_Pago" || x.Extracted == (x.Compaction != nil || x.ID == known.ID) {
					t.Errorf("%q: zone %q, extracted %v, compaction %v", x.Text, x.Zone, x.Extracted, x.Compaction)
				}
			}
			verified(t, e)
		})
	}
}

// A try that fails is recorded, counted and logged, and another follows when its lease is
// over, on any daemon; after the last there is none.
func TestFailedExtractionIsTriedAFewTimes(t *testing.T) {
	w, c, m := newWorld(), new(resetClock), &rememberer{fail: errors.New("the model is away"), used: &turns.Usage{InputTokens: 70}}
	c.set(utc(t, "2026-05-01T20:00:00Z"))
	daemons := timedDaemons(t, w, c, 2)
	askModel(m, daemons...)
	e := daemons[0]
	s := timedSession(t, e, "x", `{}`)
	add(t, e, s.ID, say("fact one;", "noted"))
	must(e.Sessions.Reset(t.Context(), alice, s.ID, api.ResetSession{}, nil))(t)
	var want []string
	for try := 1; try <= extraction.Tries+2; try++ {
		extractAll(t, daemons...)
		c.add(extraction.Lease - time.Nanosecond)
		extractAll(t, daemons...)
		if try <= extraction.Tries {
			want = append(want, "extraction.begun", "extraction.failed")
		}
		if got := recordsOf(t, e); m.calls != min(try, extraction.Tries) || !slices.Equal(got, want) {
			t.Fatalf("after try %d: %d calls, %q", try, m.calls, got)
		}
		c.add(time.Nanosecond)
		daemons[try%2] = timedDaemons(t, w, c, 1)[0] // a restart
		askModel(m, daemons...)
	}
	if got := list(t, e, alice, api.ListMemories{}); len(got) != 0 {
		t.Errorf("%q", texts(got))
	}
	one := spent{Asked: true, Usage: *m.used, Cost: 30}
	if got, want := spentOf(t, e, "extraction.failed"), []spent{one, one, one}; !slices.Equal(got, want) {
		t.Errorf("the records say that the model used %+v, want %+v", got, want)
	}
}

// A daemon that ends while it asks leaves a try without an end. When its lease is over the
// next one stores the memories, once.
func TestExtractionGoesOnAfterACrash(t *testing.T) {
	w, c, m := newWorld(), new(resetClock), new(rememberer)
	c.set(utc(t, "2026-05-01T20:00:00Z"))
	e := timedDaemons(t, w, c, 1)[0]
	askModel(m, e)
	s := timedSession(t, e, "x", `{}`)
	add(t, e, s.ID, say("fact one;", "noted"))
	add(t, e, s.ID, say("fact two;", "noted"))
	must(e.Sessions.Reset(t.Context(), alice, s.ID, api.ResetSession{}, nil))(t)
	ctx, cancel := context.WithCancel(t.Context())
	m.enter = cancel
	_ = e.Extraction.ExtractDue(ctx)
	m.enter = nil
	before := list(t, e, alice, api.ListMemories{})
	later := timedDaemons(t, w, c, 1)[0]
	askModel(m, later)
	extractAll(t, later)
	if m.calls != 1 {
		t.Error("the lease is not over")
	}
	c.add(extraction.Lease)
	extractAll(t, later, e)
	extractAll(t, later, e)
	got := texts(list(t, later, alice, api.ListMemories{}))
	slices.Sort(got)
	if !slices.Equal(got, []string{"fact one", "fact two"}) {
		t.Errorf("%d memories before, then %q", len(before), got)
	}
	if r := recordsOf(t, e); m.calls != 2 || !slices.Equal(r, []string{"extraction.begun", "extraction.begun", "extraction.done"}) {
		t.Errorf("%d calls, %q", m.calls, r)
	}
	verified(t, e)
}

// Where no model is asked, or the policy asks for no memories, nothing is extracted and nothing
// is recorded.
func TestNoExtractionWithoutAModelOrMemories(t *testing.T) {
	w, c, m := newWorld(), new(resetClock), new(rememberer)
	c.set(utc(t, "2026-05-01T20:00:00Z"))
	daemons := timedDaemons(t, w, c, 2)
	askModel(m, daemons[1])
	for _, x := range []struct {
		e      *engine.Engine
		policy api.Policy
	}{
		{daemons[0], api.Policy{Name: "gsv"}},
		{daemons[1], api.Policy{Name: "balanced"}},
		{daemons[1], api.Policy{Name: "gsv", Set: turns.Raw(`{"mode":"manual"}`)}},
	} {
		r := api.CreateSession{}
		r.Policy = &x.policy
		s := must(x.e.Sessions.Create(t.Context(), alice, r, canon(r)))(t)
		add(t, x.e, s.ID, say("fact one;", "noted"))
		must(x.e.Sessions.Reset(t.Context(), alice, s.ID, api.ResetSession{}, nil))(t)
		extractAll(t, x.e)
		if got := recordsOf(t, x.e); m.calls != 0 || len(got) != 0 {
			t.Errorf("%+v: %d calls, %q", x.policy, m.calls, got)
		}
		c.add(extraction.Window + 1) // so that the next daemon finds it too old
	}
}
