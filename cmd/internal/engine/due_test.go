package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"nexus/cmd/internal/engine/cache"
	"nexus/cmd/internal/engine/compactions"
	"nexus/cmd/internal/engine/metrics"
	"nexus/cmd/internal/engine/reader"
	"nexus/compactor"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// modelled returns an engine with a model that answers when the test releases it, before the
// tier that asks nobody.
func modelled(t *testing.T) (*Engine, slowSummarizer) {
	t.Helper()
	e := newWorld().Engine(t)
	slow := slowSummarizer{make(chan struct{}, 10), make(chan struct{})}
	e.Loader.Tiers = append([]compactor.Tier{{Name: "slow", Summarizer: slow}}, e.Loader.Tiers...)
	works(t, e)
	return e, slow
}

// dueSession returns a session whose context is due, and fits or does not fit.
func dueSession(t *testing.T, e *Engine, mode policy.Mode, over bool) turns.ID {
	t.Helper()
	r := api.CreateSession{SessionSettings: api.SessionSettings{Limits: &turns.Limits{ContextWindow: 16_000},
		Policy: &api.Policy{Name: "balanced", Set: turns.Raw(fmt.Sprintf(`{"mode":%q}`, mode))}}}
	s := must(e.Sessions.Create(t.Context(), alice, r, []byte("{}")))(t).ID
	for i := 0; ; i++ {
		a := add(t, e, s, say(fmt.Sprintf("question %d %s", i, long(1500)), "answer"))
		if a.Compaction.State == "due" && (!over || a.Context.Pressure > 1) {
			return s
		}
	}
}

func tierOf(t *testing.T, e *Engine, s turns.ID, id *turns.ID) string {
	t.Helper()
	if id == nil {
		return ""
	}
	return must(e.Reader.GetTurn(t.Context(), alice, s, api.GetTurn{ID: *id}))(t).Compaction.Tier
}

// A context waits for a model if the caller says how long, whatever the mode of
// the policy. What comes in time is what it is answered with.
func TestContextWaitsForAModelWithinWaitMS(t *testing.T) {
	for _, mode := range []policy.Mode{policy.BeforeCall, policy.Background} {
		for _, over := range []bool{false, true} {
			e, slow := modelled(t)
			s := dueSession(t, e, mode, over)
			go func() { <-slow.began; close(slow.release) }()
			cx := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{WaitMS: 25_000}))(t)
			if by := tierOf(t, e, s, cx.Compacted); by != "slow" || cx.Tokens+cx.Overhead > cx.Budget || !bytes.Contains(canon(cx.Messages), []byte("what was said in")) {
				t.Errorf("%s, over %v: by %q, %d of %d tokens", mode, over, by, cx.Tokens, cx.Budget)
			}
			verified(t, e)
		}
	}
}

// compactionsOf lists the tiers of a session's compactions, oldest first.
func compactionsOf(t *testing.T, e *Engine, s turns.ID) (tiers []string) {
	t.Helper()
	for _, k := range must(e.History.ListCompactions(t.Context(), alice, s, api.ListCompactions{}))(t).Turns {
		tiers = append(tiers, k.Compaction.Tier)
	}
	slices.Reverse(tiers)
	return tiers
}

// GSV-5, GSV-6, S8-14, S8-18: where a model is configured, a policy of mode before_call asks it
// without wait_ms, and no request waits for it. A context that fits is given as it is
// meanwhile. One that does not fit is compacted at once by a tier that asks nobody, and the
// model's summary, of the turns and not of the rules' summary, takes its place when it comes.
func TestContextWithoutWaitMSAsksTheModelBeside(t *testing.T) {
	for _, tc := range []struct {
		tiers       string // of the policy
		over, fails bool
		at          string // the tier of the compaction that the request gets, "" for none
		want        string // all of them, in the end
	}{
		{"", false, false, "", "slow"},
		{"", true, false, "first-words", "first-words slow"},
		{"", false, true, "", "first-words"},
		{"", true, true, "first-words", "first-words"},
		{`["slow"]`, false, false, "", "slow"},
		{`["slow"]`, true, false, plan.NoticeTier, plan.NoticeTier + " slow"},
		{`["slow"]`, false, true, "", plan.NoticeTier},
		{`["slow"]`, true, true, plan.NoticeTier, plan.NoticeTier},
		{`["first-words"]`, false, false, "first-words", "first-words"},
	} {
		t.Run(fmt.Sprintf("%s over %v fails %v", tc.tiers, tc.over, tc.fails), func(t *testing.T) {
			e, slow := modelled(t)
			if tc.fails {
				e.Loader.Tiers[0].Summarizer = fallible{slow}
			}
			s := dueSession(t, e, policy.BeforeCall, tc.over)
			if tc.tiers != "" {
				r := api.SetSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"mode":"before_call","tiers":` + tc.tiers + `}`)}}}
				must(e.Sessions.Set(t.Context(), alice, s, r, []byte("{}")))(t)
			}
			cx := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t)
			if by := tierOf(t, e, s, cx.Compacted); by != tc.at || cx.Tokens+cx.Overhead > cx.Budget {
				t.Errorf("by %q, want %q; %d of %d tokens", by, tc.at, cx.Tokens+cx.Overhead, cx.Budget)
			}
			if tc.tiers != `["first-words"]` {
				if cx.Compaction.State != "preparing" {
					t.Errorf("state %s", cx.Compaction.State)
				}
				<-slow.began
			}
			close(slow.release)
			ready(e, s)
			if got := strings.Join(compactionsOf(t, e, s), " "); got != tc.want {
				t.Errorf("compactions by %s, want %s", got, tc.want)
			}
			after := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t)
			if strings.HasSuffix(tc.want, "slow") != bytes.Contains(canon(after.Messages), []byte("what was said in")) {
				t.Errorf("after all, the context is %.300s", canon(after.Messages))
			}
			verified(t, e)
		})
	}
}

// WOL-8: without wait_ms parts are shortened at once, with a summary by rules, and the nudge gets the
// session's model's summary when that comes. The same parts stay shortened, for the call.
func TestANudgeGetsTheModelsSummaryWhenItComes(t *testing.T) {
	for _, fails := range []bool{false, true} {
		e, slow := modelled(t)
		if fails {
			e.Loader.Tiers[0].Summarizer = fallible{slow}
		}
		s := opened(t, e, alice, "wolffish", `{}`, turns.Limits{ContextWindow: 30_000})
		for i := 0; ; i++ {
			id := fmt.Sprint("c", i)
			called(t, e, s.ID, fmt.Sprintf("question %d", i), id, `{"path":"src/a.go"}`)
			if a := returned(t, e, s.ID, id, long(4000), "answer"); a.Compaction.State == "due" {
				break
			}
		}
		cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
		first := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: *cx.Compacted}))(t).Compaction
		if first.Tier != "first-words" || first.Scope != "call" || len(first.Elisions) == 0 || first.Elisions[0].Tool == "" || first.Elisions[0].Reduction <= 0 {
			t.Errorf("at once: %+v", first)
		}
		<-slow.began
		close(slow.release)
		ready(e, s.ID)
		after := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
		all, want := compactionsOf(t, e, s.ID), "first-words slow"
		if fails {
			want = "first-words"
		}
		if got := strings.Join(all, " "); got != want {
			t.Fatalf("fails %v: compactions by %s, want %s", fails, got, want)
		}
		if !fails {
			k := must(e.History.ListCompactions(t.Context(), alice, s.ID, api.ListCompactions{}))(t).Turns[0].Compaction
			if k.Scope != "call" || len(k.Elisions) != len(first.Elisions) || !bytes.Contains(canon(after.Messages), []byte("what was said in")) || bytes.Count(canon(after.Messages), []byte("TRUNCATED")) != bytes.Count(canon(cx.Messages), []byte("TRUNCATED")) {
				t.Errorf("when the model has answered: %+v\n%.2000s", k, canon(after.Messages))
			}
		}
		verified(t, e)
	}
}

// fallible is a model that fails when it is released.
type fallible struct{ slowSummarizer }

func (f fallible) Summarize(ctx context.Context, in summary.Input) (summary.Output, error) {
	if _, err := f.slowSummarizer.Summarize(ctx, in); err != nil {
		return summary.Output{}, err
	}
	return summary.Output{}, errors.New("no answer")
}

// When the time is up, a context that fits is given as it is, and the summary is
// committed when it comes. One that does not fit is compacted at once by a tier
// that asks nobody, and the late summary takes the place of that one.
func TestContextWaitsNoLongerThanWaitMS(t *testing.T) {
	for _, over := range []bool{false, true} {
		e, slow := modelled(t)
		s := dueSession(t, e, policy.BeforeCall, over)
		// Long enough for the model to be asked on a busy machine: what is not begun in time is not asked.
		cx := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{WaitMS: 500}))(t)
		<-slow.began
		switch by := tierOf(t, e, s, cx.Compacted); {
		case over && by != "first-words":
			t.Errorf("one that does not fit is compacted by %q", by)
		case !over && (by != "" || cx.Compaction.State != "preparing"):
			t.Errorf("one that fits is compacted by %q, state %s", by, cx.Compaction.State)
		case cx.Tokens+cx.Overhead > cx.Budget:
			t.Errorf("%d of %d tokens", cx.Tokens, cx.Budget)
		}
		close(slow.release)
		ready(e, s)
		want := "slow"
		if over {
			want = "first-words slow"
		}
		if got := strings.Join(compactionsOf(t, e, s), " "); got != want {
			t.Errorf("over %v: compactions by %s, want %s", over, got, want)
		}
		verified(t, e)
	}
}

// An overflow waits for a model as long as it says, and not at all if it says
// nothing; whichever is stored has its id, and nothing is stored twice.
func TestOverflowWaitsForAModelWithinWaitMS(t *testing.T) {
	for _, tc := range []struct {
		wait  int
		early bool
		tier  string
	}{{25_000, true, "slow"}, {1, false, "first-words"}, {0, false, "first-words"}} {
		e, slow := modelled(t)
		s, _ := long40(t, e)
		if tc.early {
			close(slow.release)
		}
		r := api.Overflow{ID: newID(t), Status: 400, Error: "prompt is too long: 210000 tokens > 200000 maximum", WaitMS: tc.wait}
		cx := must(e.Contexts.Overflow(t.Context(), alice, s, r, []byte("{}")))(t)
		if by := tierOf(t, e, s, cx.Compacted); by != tc.tier || *cx.Compacted != r.ID {
			t.Errorf("%d ms: by %q under %v", tc.wait, by, *cx.Compacted)
		}
		if !tc.early {
			close(slow.release)
		}
		ready(e, s)
		again := must(e.Contexts.Overflow(t.Context(), alice, s, r, []byte("{}")))(t)
		if n := len(must(e.History.ListCompactions(t.Context(), alice, s, api.ListCompactions{}))(t).Turns); n != 1 || *again.Compacted != r.ID {
			t.Errorf("%d ms: %d compactions, again %v", tc.wait, n, *again.Compacted)
		}
		verified(t, e)
	}
}

// The operator changes nothing, and so asks no model either.
func TestOverflowOfTheOperatorAsksNoModel(t *testing.T) {
	e, slow := modelled(t)
	s, _ := long40(t, e)
	_, err := e.Contexts.Overflow(t.Context(), reader.Caller{Tenant: "default", Agent: "_"}, s, api.Overflow{Status: 400, Error: "prompt is too long: 210000 tokens > 200000 maximum", WaitMS: 1000}, nil)
	if code(err) != api.Denied || len(slow.began) != 0 {
		t.Errorf("%v; the model was asked %d times", err, len(slow.began))
	}
}

// What the decision has loaded is not loaded again, and is not taken for a head
// that came later.
func TestContextLoadsItsPathOnce(t *testing.T) {
	e := newWorld().Engine(t)
	r := api.CreateSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"measure":"reported"}`)}}}
	s := must(e.Sessions.Create(t.Context(), alice, r, []byte("{}")))(t).ID
	for i := range 20 {
		add(t, e, s, say(fmt.Sprint("question ", i, long(1000)), long(1000)))
	}
	loads := func(get api.GetContext) int64 {
		ctx, end := e.Loader.Memory.Begin(t.Context())
		defer end()
		must(e.Contexts.Context(ctx, alice, s, get))(t)
		return e.Loader.Memory.Loaded()
	}
	if once, own := loads(api.GetContext{Budget: 100_000}), loads(api.GetContext{}); own != once {
		t.Errorf("with the decision %d bytes are loaded, a view loads %d", own, once)
	}
	d := must(e.Compactions.Decide(t.Context(), alice, s))(t)
	was := must(e.Reader.FindSession(t.Context(), alice, s, true))(t)
	add(t, e, s, say("the newest", "yes"))
	now := must(e.Reader.FindSession(t.Context(), alice, s, true))(t)
	if d.Context == nil || d.ReusableFor(was) != d || d.ReusableFor(now) != nil {
		t.Errorf("loaded %v; seen at its head %v, at a later one %v", d.Context != nil, d.ReusableFor(was) == d, d.ReusableFor(now) != nil)
	}
}

// WOL-15: with the log at debug, each decision and each context leaves a line
// with its numbers, and no text of a turn.
func TestDebugLogTracesDecisionsWithoutContent(t *testing.T) {
	e := newWorld().Engine(t)
	var log bytes.Buffer
	e.Writer.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	quiet := create(t, e, 100_000, "wolffish")
	add(t, e, quiet.ID, say("hello", "hi"))
	must(e.Contexts.Context(t.Context(), alice, quiet.ID, api.GetContext{}))(t)
	s := due(t, e)
	cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
	want := []map[string]any{
		{"msg": "compaction decided", "session": quiet.ID.String(), "due": false, "trigger": "", "does": "nothing", "budget": 100_000.0, "threshold": 75_000.0},
		{"msg": "context", "session": quiet.ID.String(), "compacted": false, "budget": 100_000.0},
		{"msg": "compaction", "session": s.ID.String(), "id": cx.Compacted.String(), "trigger": "threshold", "tier": "first-words", "mode": "before_call", "tokens_after": float64(cx.Tokens)},
		{"msg": "compaction decided", "session": s.ID.String(), "due": true, "trigger": "threshold", "does": "at once", "mode": "before_call", "policy": "wolffish", "threshold": 75_000.0},
		{"msg": "context", "session": s.ID.String(), "compacted": true, "tokens": float64(cx.Tokens), "budget": 100_000.0},
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), log.String())
	}
	for i, line := range lines {
		got := object(t, turns.Raw(line))
		for k, v := range want[i] {
			if got[k] != v {
				t.Errorf("line %d: %s is %v, want %v", i+1, k, got[k], v)
			}
		}
		if _, timed := got["took"]; !timed || got["level"] != "DEBUG" {
			t.Errorf("line %d has level %v, took %v", i+1, got["level"], got["took"])
		}
	}
	if s := log.String(); strings.Contains(s, "hello") || strings.Contains(s, "page ") {
		t.Error("the log has content")
	}
	e.Writer.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	log.Reset()
	must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
	if log.Len() > 0 {
		t.Errorf("at the default level: %s", log.String())
	}
}

// heldByAppends returns the value of the metric.
func heldByAppends(t *testing.T, r *prometheus.Registry) float64 {
	t.Helper()
	for _, f := range must(r.Gather())(t) {
		if f.GetName() == "nexus_compactor_held_by_append_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("the metric is not exported")
	return 0
}

// In background mode no append ever takes a lock of the compactor, a place in its
// queue, or a worker: while compactions are queued, made, paused and asked for, the
// metric stays at zero.
func TestNoAppendHoldsTheCompactor(t *testing.T) {
	e, slow := modelled(t)
	registry := prometheus.NewRegistry()
	e.Writer.Metrics = metrics.New(registry, e.Reader.Projections, cache.NewBudget(0))
	close(slow.release)
	var made atomic.Int64 // that a model is asked for; some come too late and are dropped
	go func() {
		for range slow.began {
			made.Add(1)
		}
	}()
	var all sync.WaitGroup
	for range 4 {
		s := dueSession(t, e, policy.Background, false)
		if cx := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t); cx.Compacted != nil {
			t.Error("the compaction is not made in the background")
		}
		all.Go(func() {
			for i := range 60 {
				r := say(fmt.Sprintf("question %d %s", i, long(1500)), "answer")
				r.ID = newID(t)
				add(t, e, s, r)
				if a := add(t, e, s, r); !a.Duplicate {
					t.Error("stored twice")
				}
			}
		})
		all.Go(func() {
			for range 60 {
				if _, err := e.Contexts.Context(t.Context(), alice, s, api.GetContext{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, s := range must(e.History.List(t.Context(), alice, api.ListSessions{}))(t).Sessions {
		ready(e, s.ID)
	}
	if n := heldByAppends(t, registry); n != 0 || made.Load() == 0 {
		t.Errorf("held %v times by appends, beside %d compactions in the background", n, made.Load())
	}
}

// The metric counts: a compaction that is made below an append is counted, wherever
// below the append that happens. Package compactions tests the other ways.
func TestCompactionInsideAnAppendIsCounted(t *testing.T) {
	e := newWorld().Engine(t)
	registry := prometheus.NewRegistry()
	e.Writer.Metrics = metrics.New(registry, e.Reader.Projections, cache.NewBudget(0))
	s, _ := long40(t, e)
	e.Store.Blobs = compacting{e.Store.Blobs, e}
	add(t, e, s, say(long(600<<10), "x"))
	if n := heldByAppends(t, registry); n == 0 {
		t.Error("an append that compacts on its way is not counted")
	}
}

// compacting is a store of blobs that asks for a compaction for each.
type compacting struct {
	ledger.Blobs
	e *Engine
}

func (b compacting) PutBlob(ctx context.Context, tenant string, digest turns.Hash, sealed []byte) error {
	_, _ = b.e.Compactions.Run(ctx, alice, turns.ID{}, compactions.Spec{})
	return b.Blobs.PutBlob(ctx, tenant, digest, sealed)
}

// GSV-6: the summary that takes the place of one by rules, or of the notice, has the room that the
// policy gives a summary, not that of the text which it replaces.
func TestALateSummaryHasTheRoomOfASummary(t *testing.T) {
	room := make(map[string]uint64)
	for _, tiers := range []string{`["m"]`, `["m","first-words"]`} {
		e := newWorld().Engine(t)
		asked := make(chan uint64, 10)
		e.Loader.Tiers = append([]compactor.Tier{{Name: "m", Model: "m", Summarizer: summarizerFunc(func(in summary.Input) (summary.Output, error) {
			asked <- in.MaxTokens
			return summary.Output{Text: strings.Repeat("They spoke of page after page, each of so many sentences. ", 20)}, nil
		})}}, e.Loader.Tiers...)
		works(t, e)
		s := dueSession(t, e, policy.BeforeCall, true)
		r := api.SetSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"mode":"before_call","tiers":` + tiers + `}`)}}}
		must(e.Sessions.Set(t.Context(), alice, s, r, []byte("{}")))(t)
		before := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t)
		room[tiers] = <-asked
		ready(e, s)
		after := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t)
		if all := compactionsOf(t, e, s); all[len(all)-1] != "m" {
			t.Errorf("%s: compactions by %v", tiers, all)
		}
		if after.Tokens+after.Overhead > after.Budget {
			t.Errorf("%s: %d tokens of %d, before %d", tiers, after.Tokens+after.Overhead, after.Budget, before.Tokens)
		}
		verified(t, e)
	}
	if a, b := room[`["m"]`], room[`["m","first-words"]`]; a != b || a < 1000 {
		t.Errorf("the model may write %d tokens in place of the notice, %d in place of an extract", a, b)
	}
}

// NEX-7, GSV-1: the ack of an append says that a compaction is due where the provider's count says so, as the
// next context does, also before anybody asked for a context of the session. A policy that goes by
// estimates is not concerned.
func TestTheAckGoesByTheProvidersCount(t *testing.T) {
	e := newWorld().Engine(t)
	for name, want := range map[string]string{"nexus": "due", "gsv": "due", "balanced": "idle"} {
		s := opened(t, e, alice, name, `{}`, turns.Limits{ContextWindow: 60_000})
		add(t, e, s.ID, say("question", "answer"))
		a := add(t, e, s.ID, counted(say(long(2000), "answer"), 59_000, 50))
		if a.Compaction.State != want || a.Context.Tokens < 50_000 {
			t.Errorf("%s: %s at %+v, want %s", name, a.Compaction.State, a.Context, want)
		}
		verified(t, e)
	}
}

// A policy that takes no notice for a summary, and no summary by rules, is not stuck where the
// context does not fit: the request fails, and the model is asked beside it.
func TestAPolicyWithoutANoticeGetsTheModelsSummary(t *testing.T) {
	e, slow := modelled(t)
	s := dueSession(t, e, policy.BeforeCall, true)
	r := api.SetSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"mode":"before_call","tiers":["slow"],"on_failure":"fail"}`)}}}
	must(e.Sessions.Set(t.Context(), alice, s, r, []byte("{}")))(t)
	if _, err := e.Contexts.Context(t.Context(), alice, s, api.GetContext{}); !errors.Is(err, ledger.ErrUnprocessable) && api.FromError(err).Code != api.Unprocessable {
		t.Fatalf("a context that does not fit: %v", err)
	}
	<-slow.began
	close(slow.release)
	ready(e, s)
	cx := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t)
	if got := strings.Join(compactionsOf(t, e, s), " "); got != "slow" || cx.Tokens+cx.Overhead > cx.Budget {
		t.Errorf("compactions by %q, %d of %d tokens", got, cx.Tokens+cx.Overhead, cx.Budget)
	}
	verified(t, e)
}
