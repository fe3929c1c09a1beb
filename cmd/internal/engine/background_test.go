package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nexus/cmd/internal/engine/compactions"
	"nexus/cmd/internal/engine/content"
	"nexus/compactor"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/render/strict"
	"nexus/turns/seal"
)

// slowSummarizer is a summarizer that returns when release is closed or sends.
type slowSummarizer struct {
	began   chan struct{}
	release chan struct{}
}

func (h slowSummarizer) Summarize(ctx context.Context, in summary.Input) (summary.Output, error) {
	h.began <- struct{}{}
	select {
	case <-h.release:
	case <-ctx.Done():
		return summary.Output{}, ctx.Err()
	}
	return summary.Output{Text: fmt.Sprintf("what was said in %d halves, page after page, each of so many sentences", len(in.Halves))}, nil
}

// works runs the engine's background until the test ends.
func works(t *testing.T, e *Engine) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { e.Compactions.Work(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	for n := 0; n == 0; { // until the worker is there
		n, _ = e.Compactions.Jobs()
	}
}

// NXS-2: No call waits for a summarizer: while one takes its time, contexts come and
// turns are appended; its summary is committed over what was appended meanwhile.
// A context that would not fit is shortened at once, by a tier that asks nobody.
func TestNobodyWaitsForASummary(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	slow := slowSummarizer{make(chan struct{}, 10), make(chan struct{})}
	e.Loader.Tiers = append([]compactor.Tier{{Name: "slow", Summarizer: slow}}, e.Loader.Tiers...)
	applied := make(chan turns.ID, 10)
	e.Writer.Notify = func(_, _ string, n api.Notification) {
		if n.Kind == "compaction.applied" {
			applied <- n.Turn
		}
	}
	works(t, e)
	s := create(t, e, 16_000, "balanced")
	turn := func(i, size int) *api.Appended {
		return add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(size)), fmt.Sprintf("answer %d", i)))
	}
	n := 0
	for ; ; n++ {
		if a := turn(n, 1500); a.Compaction.State == "due" {
			break
		}
	}
	get := func() *api.Context {
		return must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{Format: "anthropic"}))(t)
	}
	cx := get()
	<-slow.began
	if cx.Compacted != nil || cx.Compaction.State != "preparing" || cx.Tokens+cx.Overhead > cx.Budget {
		t.Errorf("while it is made: compacted %v, state %s, %d of %d tokens", cx.Compacted, cx.Compaction.State, cx.Tokens, cx.Budget)
	}
	later := turn(100, 10)
	if later.Compaction.State != "preparing" {
		t.Errorf("state of an append meanwhile: %s", later.Compaction.State)
	}
	if again := get(); !bytes.Contains(canon(again.Messages), []byte("question 100")) {
		t.Error("the turn that was appended meanwhile is not in the context")
	}
	close(slow.release)
	k := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: <-applied}))(t)
	if k.Compaction.Tier != "slow" || *k.Parent != later.ID || k.Compaction.Mode != "background" {
		t.Errorf("compaction by %s after %s, mode %s", k.Compaction.Tier, *k.Parent, k.Compaction.Mode)
	}
	cx = get()
	if err := strict.Anthropic(canon(cx.System), canon(cx.Messages)); err != nil {
		t.Error(err)
	}
	if !bytes.Contains(canon(cx.Messages), []byte("what was said in")) || !bytes.Contains(canon(cx.Messages), []byte("question 100")) {
		t.Errorf("after it: %.300s", canon(cx.Messages))
	}
	verified(t, e)
}

// A compaction that is asked for at once waits for no model, fits the budget that was asked
// for while an answer is awaited, and is stored once.
func TestCompactionAtOnceAsksNoModel(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	slow := slowSummarizer{make(chan struct{}, 10), make(chan struct{})}
	e.Loader.Tiers = append([]compactor.Tier{{Name: "slow", Summarizer: slow}}, e.Loader.Tiers...)
	works(t, e)
	s := create(t, e, 200_000, "balanced")
	for i := range 20 {
		add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(1500)), fmt.Sprintf("answer %d", i)))
	}
	asked := add(t, e, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "and now?")}})
	run := api.RunCompaction{ID: newID(t), Budget: 4000, AtOnce: true}
	done := must(e.Compactions.Compact(t.Context(), alice, s.ID, run, []byte("{}")))(t)
	if done.State != "done" || done.Compaction == nil || done.Compaction.Compaction.Tier == "slow" || *done.Compaction.Parent != asked.ID {
		t.Fatalf("%+v", done)
	}
	again := must(e.Compactions.Compact(t.Context(), alice, s.ID, run, []byte("{}")))(t)
	if again.Compaction.ID != done.Compaction.ID || len(slow.began) != 0 {
		t.Errorf("again %v, first %v; the model was asked %d times", again.Compaction.ID, done.Compaction.ID, len(slow.began))
	}
	cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{At: run.ID}))(t)
	if cx.Tokens+cx.Overhead > run.Budget || !bytes.Contains(canon(cx.Messages), []byte("and now?")) {
		t.Errorf("%d tokens: %.300s", cx.Tokens, canon(cx.Messages))
	}
	// The answer follows the request, under which the compaction came.
	answer := turns.TextMessage(turns.Assistant, "yes")
	add(t, e, s.ID, api.AppendTurn{Parent: asked.ID, Response: &answer})
	verified(t, e)
}

// A turn that comes while a model writes uses a name that stands in a covered turn. The
// summary lacks it, so what was said of it is added when it is committed; a summary
// that has it is stored as the model wrote it.
func TestLateSummaryIsCheckedAgainstNewerTurns(t *testing.T) {
	for name, c := range map[string]struct {
		text string // of the model
		adds bool
	}{
		"lacks it": {"Many questions were asked, page after page, each of so many sentences, and all of them were answered.", true},
		"has it":   {"Many questions were asked, page after page; the limit retryQuota is 17, and all of them were answered.", false},
	} {
		e := newWorld().Engine(t)
		release, began := make(chan struct{}), make(chan struct{}, 10)
		e.Loader.Tiers = append([]compactor.Tier{asked(func(ctx context.Context, _ summary.Input) (summary.Output, error) {
			began <- struct{}{}
			select {
			case <-release:
			case <-ctx.Done():
				return summary.Output{}, ctx.Err()
			}
			return summary.Output{Text: c.text}, nil
		})}, e.Loader.Tiers...)
		works(t, e)
		s := create(t, e, 16_000, "balanced")
		add(t, e, s.ID, say("begin", "yes"))
		add(t, e, s.ID, say("The broker refuses more than retryQuota = 17 messages at once.", "noted"))
		untilDue(t, e, s.ID, 1500)
		must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
		<-began
		newer := add(t, e, s.ID, say("go on", "I lower retryQuota now"))
		close(release)
		idle(e, s.ID)
		cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
		ks := must(e.History.ListCompactions(t.Context(), alice, s.ID, api.ListCompactions{}))(t).Turns
		if len(ks) != 1 {
			t.Fatalf("%s: %d compactions", name, len(ks))
		}
		k := ks[0]
		if *k.Parent != newer.ID {
			t.Fatalf("%s: it follows %s, the newest turn is %s", name, *k.Parent, newer.ID)
		}
		if has := bytes.Contains(canon(cx.Messages), []byte("refuses more than retryQuota = 17")); has != c.adds {
			t.Errorf("%s: the context shows what was said of it: %v\n%s", name, has, *k.Compaction.Summary)
		}
		if same := *k.Compaction.Summary == c.text; same == c.adds {
			t.Errorf("%s: the summary is %s", name, *k.Compaction.Summary)
		}
		verified(t, e)
	}
}

// keysFailOnce fails to read a key twice when it is armed: for what is kept in memory of a
// path, and for the path.
type keysFailOnce struct {
	content.Keys
	armed atomic.Int32
}

func (k *keysFailOnce) Content(id turns.ID) (seal.Content, error) {
	if k.armed.Load() > 0 {
		k.armed.Add(-1)
		return seal.Content{}, fmt.Errorf("%w: the disk is slow", ledger.ErrUnavailable)
	}
	return k.Keys.Content(id)
}

// A summary is paid for: that the newer turns could not be read once does not lose it.
func TestLateSummaryThatCannotBeCheckedIsStored(t *testing.T) {
	e := newWorld().Engine(t)
	keys := &keysFailOnce{Keys: e.Store.Keys}
	e.Store.Keys = keys
	release, began, asks := make(chan struct{}), make(chan struct{}, 10), 0
	e.Loader.Tiers = append([]compactor.Tier{asked(func(ctx context.Context, _ summary.Input) (summary.Output, error) {
		asks++
		began <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
			return summary.Output{}, ctx.Err()
		}
		keys.armed.Store(2)
		return summary.Output{Text: "Many questions were asked, page after page, each of so many sentences, and all of them were answered."}, nil
	})}, e.Loader.Tiers...)
	works(t, e)
	s := create(t, e, 16_000, "balanced")
	untilDue(t, e, s.ID, 1500)
	must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
	<-began
	newer := add(t, e, s.ID, say("go on", "yes"))
	close(release)
	idle(e, s.ID)
	ks := must(e.History.ListCompactions(t.Context(), alice, s.ID, api.ListCompactions{}))(t).Turns
	if len(ks) != 1 || *ks[0].Parent != newer.ID || ks[0].Compaction.Tier != "llm" || asks != 1 || keys.armed.Load() != 0 {
		t.Errorf("%d summaries are stored, the model was asked %d times, %d faults are left", len(ks), asks, keys.armed.Load())
	}
	verified(t, e)
}

// A compaction that asks a model is answered at once with its id, goes on, and
// the same request again tells how it ended.
func TestRunThatAsksAModelOutlivesItsRequest(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	slow := slowSummarizer{make(chan struct{}, 10), make(chan struct{})}
	e.Loader.Tiers = append([]compactor.Tier{{Name: "slow", Summarizer: slow}}, e.Loader.Tiers...)
	works(t, e)
	s := create(t, e, 0, "nexus")
	if _, err := e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, nil); code(err) != api.Nothing {
		t.Errorf("on an empty session: %v, want nothing_to_compact", err)
	}
	for i := range 40 {
		add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(5000)), "answer"))
	}
	r := api.RunCompaction{ID: newID(t)}
	run := must(e.Compactions.Compact(t.Context(), alice, s.ID, r, []byte("{}")))(t)
	if run.State != "running" || run.ID != r.ID || run.Compaction != nil {
		t.Fatalf("%+v", run)
	}
	<-slow.began
	if again := must(e.Compactions.Compact(t.Context(), alice, s.ID, r, []byte("{}")))(t); again.State != "running" {
		t.Errorf("again, meanwhile: %+v", again)
	}
	if _, err := e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, nil); code(err) != api.Busy {
		t.Errorf("another one meanwhile: %v, want busy", err)
	}
	close(slow.release)
	r.WaitMS = 20_000
	done := must(e.Compactions.Compact(t.Context(), alice, s.ID, r, []byte("{}")))(t)
	if done.State != "done" || done.Compaction.ID != r.ID || done.Compaction.Compaction.Tier != "slow" {
		t.Errorf("at the end: %+v", done)
	}
	verified(t, e)
}

func TestAContextThatDoesNotFitIsShortenedAtOnce(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	slow := slowSummarizer{make(chan struct{}, 10), make(chan struct{})}
	e.Loader.Tiers = append([]compactor.Tier{{Name: "slow", Summarizer: slow}}, e.Loader.Tiers...)
	works(t, e)
	s := create(t, e, 16_000, "balanced")
	for i := range 40 {
		add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(2000)), "answer"))
	}
	done := make(chan *api.Context, 1)
	go func() { done <- must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t) }()
	select {
	case cx := <-done:
		if cx.Compacted == nil || cx.Tokens+cx.Overhead > cx.Budget {
			t.Errorf("compacted %v, %d of %d tokens", cx.Compacted, cx.Tokens, cx.Budget)
		}
		if k := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: *cx.Compacted}))(t); k.Compaction.Tier != "first-words" {
			t.Errorf("by %s, want the tier that asks nobody", k.Compaction.Tier)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the context waits for the slow summarizer")
	}
	close(slow.release)
	verified(t, e)
}

// ready waits until no compaction of the session is queued or being made.
func ready(e *Engine, s turns.ID) {
	for e.Compactions.IsPreparing(s) {
		runtime.Gosched()
	}
}

// long40 returns a session with enough to summarize.
func long40(t *testing.T, e *Engine) (s turns.ID, ids []turns.ID) {
	t.Helper()
	s = create(t, e, 0, "nexus").ID
	for i := range 40 {
		ids = append(ids, add(t, e, s, say(fmt.Sprintf("question %d %s", i, long(5000)), "answer")).ID)
	}
	return s, ids
}

// restless is a summarizer under which the head moves from one branch to
// another, so that no plan holds.
type restless struct {
	e     *Engine
	s     turns.ID
	to    [2]turns.ID
	calls *atomic.Int64
}

func (r restless) Summarize(ctx context.Context, _ summary.Input) (summary.Output, error) {
	to := r.to[r.calls.Add(1)%2]
	_, err := r.e.Sessions.Move(ctx, alice, r.s, api.MoveSession{To: &to}, nil)
	return summary.Output{Text: "short"}, err
}

// A request that asks again gets how its run ended, and no model is asked again.
func TestFailedRunIsReported(t *testing.T) {
	e := newWorld().Engine(t)
	s, ids := long40(t, e)
	must(e.Sessions.Move(t.Context(), alice, s, api.MoveSession{To: &ids[35]}, nil))(t)
	side := add(t, e, s, say("side "+long(5000), "x")).ID
	r := restless{e, s, [2]turns.ID{side, ids[39]}, new(atomic.Int64)}
	e.Loader.Tiers = []compactor.Tier{{Name: "slow", Summarizer: r}}
	var announced []string
	e.Writer.Notify = func(_, _ string, n api.Notification) { announced = append(announced, n.Kind) }
	works(t, e)
	q := api.RunCompaction{ID: newID(t)}
	run := must(e.Compactions.Compact(t.Context(), alice, s, q, []byte("{}")))(t)
	ready(e, s)
	calls := r.calls.Load()
	if _, err := e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{ID: q.ID}, []byte(`{"focus":"x"}`)); code(err) != api.IDReused {
		t.Errorf("the same id for another run: %v, want id_reused", err)
	}
	if _, err := e.Compactions.Compact(t.Context(), alice, s, q, []byte("{}")); run.State != "running" || code(err) != api.Unavailable {
		t.Errorf("%s, then %v; want running, unavailable", run.State, err)
	}
	if r.calls.Load() != calls || calls != 5 {
		t.Errorf("%d model calls, then %d; want 5", calls, r.calls.Load())
	}
	if want := []string{"compaction.started", "compaction.failed"}; !slices.Equal(announced, want) {
		t.Errorf("notifications %v, want %v", announced, want)
	}
	// It may succeed the next time: reported once, then tried again.
	if run := must(e.Compactions.Compact(t.Context(), alice, s, q, []byte("{}")))(t); run.State != "running" {
		t.Errorf("after it was reported: %s, want running", run.State)
	}
	ready(e, s)
}

// broken is a summarizer with a defect.
type broken struct{ calls *atomic.Int64 }

func (b broken) Summarize(context.Context, summary.Input) (summary.Output, error) {
	b.calls.Add(1)
	panic("a defect")
}

// A panic in a summarizer ends its compaction and not the worker. A request that asks
// gets the error.
func TestPanicEndsOneCompaction(t *testing.T) {
	e := newWorld().Engine(t)
	s, _ := long40(t, e)
	b := broken{new(atomic.Int64)}
	e.Loader.Tiers = []compactor.Tier{{Name: "broken", Summarizer: b}}
	var announced []string
	e.Writer.Notify = func(_, _ string, n api.Notification) { announced = append(announced, n.Kind) }
	works(t, e)
	q := api.RunCompaction{ID: newID(t)}
	must(e.Compactions.Compact(t.Context(), alice, s, q, []byte("{}")))(t)
	ready(e, s)
	for range 3 {
		if _, err := e.Compactions.Compact(t.Context(), alice, s, q, []byte("{}")); code(err) != api.Internal || b.calls.Load() != 1 {
			t.Errorf("%v after %d calls; want internal, 1", err, b.calls.Load())
		}
	}
	if want := []string{"compaction.started", "compaction.failed"}; !slices.Equal(announced, want) {
		t.Errorf("notifications %v, want %v", announced, want)
	}
	e.Reader.Now = func() time.Time { return time.Now().Add(compactions.FailureTTL + time.Second) }
	e.Loader.Tiers = []compactor.Tier{{Name: "first-words", Summarizer: firstWords{}}}
	q.WaitMS = 20_000
	if run := must(e.Compactions.Compact(t.Context(), alice, s, q, []byte("{}")))(t); run.State != "done" {
		t.Errorf("when it is forgotten: %s, want done", run.State)
	}
	verified(t, e)
}

// The same id with another request is refused while the first is under way.
func TestRunningCompactionKeepsItsID(t *testing.T) {
	e := newWorld().Engine(t)
	slow := slowSummarizer{make(chan struct{}, 10), make(chan struct{})}
	e.Loader.Tiers = []compactor.Tier{{Name: "slow", Summarizer: slow}}
	works(t, e)
	s, _ := long40(t, e)
	apples, pears := api.RunCompaction{ID: newID(t), Focus: "apples"}, api.RunCompaction{Focus: "pears"}
	pears.ID = apples.ID
	must(e.Compactions.Compact(t.Context(), alice, s, apples, []byte(`{"focus":"apples"}`)))(t)
	<-slow.began
	if run, err := e.Compactions.Compact(t.Context(), alice, s, pears, []byte(`{"focus":"pears"}`)); code(err) != api.IDReused {
		t.Errorf("%+v, %v; want id_reused", run, err)
	}
	close(slow.release)
	apples.WaitMS = 20_000
	if run := must(e.Compactions.Compact(t.Context(), alice, s, apples, []byte(`{"focus":"apples"}`)))(t); run.State != "done" || run.Compaction.Compaction.Focus != "apples" {
		t.Errorf("the first: %+v", run)
	}
}

// One run that is asked of two daemons is stored once, and announced once, by the one
// that stored it.
func TestRunOnTwoDaemonsIsAnnouncedOnce(t *testing.T) {
	w := newWorld()
	slow := slowSummarizer{make(chan struct{}, 10), make(chan struct{})}
	var mu sync.Mutex
	announced := make(map[string]int)
	engines := []*Engine{w.Engine(t), w.Engine(t)}
	for _, e := range engines {
		e.Loader.Tiers = []compactor.Tier{{Name: "slow", Summarizer: slow}}
		e.Writer.Notify = func(_, _ string, n api.Notification) { mu.Lock(); announced[n.Kind]++; mu.Unlock() }
		works(t, e)
	}
	s := create(t, engines[0], 0, "nexus")
	for i := range 40 {
		add(t, engines[0], s.ID, say(fmt.Sprintf("question %d %s", i, long(5000)), "answer"))
	}
	r := api.RunCompaction{ID: newID(t)}
	for i, e := range engines {
		if run := must(e.Compactions.Compact(t.Context(), alice, s.ID, r, []byte("{}")))(t); run.State != "running" {
			t.Fatalf("daemon %d: %+v", i, run)
		}
		<-slow.began
	}
	close(slow.release)
	r.WaitMS = 20_000
	for i, e := range engines {
		if run := must(e.Compactions.Compact(t.Context(), alice, s.ID, r, []byte("{}")))(t); run.State != "done" || run.Compaction.ID != r.ID {
			t.Errorf("daemon %d: %+v", i, run)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if announced["compaction.applied"] != 1 || announced["compaction.failed"] != 0 {
		t.Errorf("told: %v, want compaction.applied once", announced)
	}
	if v := verified(t, engines[0]); v.Compactions != 1 {
		t.Errorf("%d compactions, want 1", v.Compactions)
	}
}

// Under every policy, set to mode background, models write the summaries: there
// is room between what is due and what does not fit.
func TestModelsWriteInTheBackground(t *testing.T) {
	for _, name := range policy.Names() {
		for _, window := range []uint64{32_000, 128_000} {
			e := newWorld().Engine(t)
			e.Loader.Tiers = append([]compactor.Tier{asked(firstWords{}.Summarize)}, e.Loader.Tiers...)
			works(t, e)
			// The counts below are made up, and when a compaction is due follows from them.
			s := opened(t, e, alice, name, `{"mode":"background","runtime":"off"}`, turns.Limits{ContextWindow: window})
			body := long(int(window) / 20)
			for i := range 150 {
				cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
				idle(e, s.ID)
				r := say(fmt.Sprintf("question %d %s", i, body), fmt.Sprintf("answer %d", i))
				a := add(t, e, s.ID, counted(r, cx.Tokens+cx.Overhead+window/80, 10))
				if a.Flush.Due {
					begin(t, e, s.ID, a.Flush.Cycle)
					endFlush(t, e, s.ID, api.DoneFlush{Cycle: a.Flush.Cycle, Response: "SILENT"})
				}
			}
			tiers := map[string]int{}
			for _, k := range must(e.History.ListCompactions(t.Context(), alice, s.ID, api.ListCompactions{}))(t).Turns {
				tiers[k.Compaction.Tier]++
			}
			if tiers["llm"] == 0 {
				t.Errorf("%s in %d: compactions by %v", name, window, tiers)
			}
		}
	}
}
