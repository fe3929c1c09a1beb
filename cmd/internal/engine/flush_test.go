package engine_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nexus/compactor/view"
	"nexus/ledger/api"
	"nexus/turns"
)

// In a window of 16,000 with these limits the policy spec-008 has a flush due
// over 11,000 tokens, a compaction over 12,000, and a budget of 14,800.
var flushLimits = turns.Limits{ContextWindow: 16_000, MaxOutputTokens: 1_000, SafetyMargin: 200}

const flushOver, compactOver, flushBudget = 11_000, 12_000, 14_800

// clock is a clock that a test moves.
type clock struct{ ahead atomic.Int64 }

func (c *clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *clock) pass(d time.Duration) { c.ahead.Add(int64(d)) }

func flushSession(t *testing.T, e *Engine) turns.ID {
	t.Helper()
	model := "large-1"
	r := api.CreateSession{}
	r.Limits, r.Policy, r.Model = &flushLimits, &api.Policy{Name: "spec-008"}, &model
	return must(e.Sessions.Create(t.Context(), alice, r, []byte("{}")))(t).ID
}

// swell appends turns of about 300 tokens until the context has more than so many.
func swell(t *testing.T, e *Engine, s turns.ID, over uint64) (last *api.Appended) {
	t.Helper()
	for {
		if cx := viewContext(t, e, s); cx.Tokens > over {
			return last
		}
		last = add(t, e, s, say("go on "+long(600), "well "+long(600)))
	}
}

// viewContext returns a session's context at its head, without anything being written.
func viewContext(t *testing.T, e *Engine, s turns.ID) *api.Context {
	t.Helper()
	return must(e.Contexts.Context(t.Context(), operator, s, api.GetContext{}))(t)
}

func getContext(t *testing.T, e *Engine, s turns.ID) *api.Context {
	t.Helper()
	return must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t)
}

func begin(t *testing.T, e *Engine, s turns.ID, cycle uint64) *api.BegunFlush {
	t.Helper()
	r := api.BeginFlush{Cycle: cycle}
	return must(e.Compactions.BeginFlush(t.Context(), alice, s, r, canon(r)))(t)
}

func endFlush(t *testing.T, e *Engine, s turns.ID, r api.DoneFlush) *api.EndedFlush {
	t.Helper()
	return must(e.Compactions.DoneFlush(t.Context(), alice, s, r, canon(r)))(t)
}

// flushOf returns what a compaction says of the flush before it.
func flushOf(t *testing.T, e *Engine, s turns.ID, compaction *turns.ID) string {
	t.Helper()
	if compaction == nil {
		t.Fatal("there is no compaction")
	}
	return must(e.Reader.GetTurn(t.Context(), alice, s, api.GetTurn{ID: *compaction}))(t).Compaction.Flush
}

// S8-8, AC-8: a flush is due when the context has more tokens than window - reserve -
// threshold, and the agent learns it: in the ack, in the context, and by a notification.
func TestFlushIsDueOverItsThreshold(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	var announced []string
	e.Writer.Notify = func(_, _ string, n api.Notification) {
		if n.Kind == "flush.requested" {
			announced = append(announced, string(n.Detail))
		}
	}
	s := flushSession(t, e)
	due := 0
	for range 45 {
		a := add(t, e, s, say("go on "+long(500), "well "+long(500)))
		cx := viewContext(t, e, s)
		if want := cx.Tokens+cx.Overhead > flushOver; cx.Flush.Due != want || cx.Flush.Cycle != 1 {
			t.Fatalf("%d tokens: %+v, want due %v in cycle 1", cx.Tokens, cx.Flush, want)
		}
		if a.Flush.Cycle != 1 {
			t.Errorf("the ack says cycle %d, want 1", a.Flush.Cycle)
		}
		if a.Flush.Due {
			due++
		}
	}
	if due == 0 || len(announced) != due || announced[0] != `{"cycle":1}` {
		t.Errorf("due in %d acks; notified %v", due, announced)
	}
	other := create(t, e, 0, "nexus")
	ack, cx := add(t, e, other.ID, say("one", "two")), getContext(t, e, other.ID)
	if none := (api.FlushState{}); ack.Flush != none || cx.Flush != none {
		t.Errorf("a policy without a flush has one: %+v, %+v", ack.Flush, cx.Flush)
	}
	r := api.BeginFlush{Cycle: 1}
	if _, err := e.Compactions.BeginFlush(t.Context(), alice, other.ID, r, canon(r)); code(err) != api.Unprocessable {
		t.Errorf("begun without one: %v, want unprocessable", err)
	}
}

// AC-9, S8-9: the flush turn adds the design's instruction after the context, as
// a message of the user that is on no chain.
func TestFlushInstructionIsOnNoChain(t *testing.T) {
	e := newWorld().Engine(t)
	s := flushSession(t, e)
	swell(t, e, s, flushOver)
	b := begin(t, e, s, 1)
	if !strings.HasPrefix(b.Prompt, "Pre-compaction memory flush. The session is near its context limit. ") ||
		!strings.Contains(b.Prompt, "save any durable context to memory using save_memory") || b.SilentToken != "SILENT" {
		t.Errorf("%+v", b)
	}
	if remaining := time.Until(time.Time(b.Lease)); remaining < 4*time.Minute || remaining > 5*time.Minute {
		t.Errorf("a lease of %v, want 5m", remaining)
	}
	if bytes.Contains(canon(getContext(t, e, s)), []byte("Pre-compaction")) {
		t.Error("the instruction is in the context")
	}
}

// scripted is an agent: a model that follows a script, a tool, and the loop
// between them. It knows nothing of the ledger but its calls.
type scripted struct {
	t     *testing.T
	e     *Engine
	s     turns.ID
	ltm   []string // what save_memory saved
	reply string   // how it ends a flush
	asked []string // models it was asked for
}

// model answers a list of messages: where the last one of the user asks for a
// flush, it calls save_memory with each fact that it sees, and then replies.
func (a *scripted) model(messages []string) (calls []string, reply string) {
	if strings.HasPrefix(messages[len(messages)-1], "saved") {
		return nil, a.reply
	}
	for _, m := range messages[:len(messages)-1] {
		if _, fact, ok := strings.Cut(m, "remember: "); ok {
			fact, _, _ = strings.Cut(fact, ".")
			calls = append(calls, fact)
		}
	}
	if len(calls) == 0 {
		return nil, a.reply
	}
	return calls, ""
}

// flush returns the flush turn, where one is due, as an agent takes it.
func (a *scripted) flush() bool {
	a.t.Helper()
	cx := viewContext(a.t, a.e, a.s)
	if !cx.Flush.Due {
		return false
	}
	b := begin(a.t, a.e, a.s, cx.Flush.Cycle)
	a.asked = append(a.asked, b.Model)
	var messages []string
	for _, m := range cx.Messages {
		messages = append(messages, string(m))
	}
	messages = append(messages, b.Prompt)
	for n := 0; ; n++ {
		calls, reply := a.model(messages)
		if len(calls) == 0 {
			endFlush(a.t, a.e, a.s, api.DoneFlush{Cycle: b.Cycle, Response: reply, Saved: uint64(n)})
			return true
		}
		a.ltm = append(a.ltm, calls...)
		n += len(calls) - 1
		messages = append(messages, "saved")
	}
}

// S8-10, AC-10, test_memory_flush_calls_save_memory_tool: a whole flow. The flush turn
// runs with the agent's own tools, and what it saves comes from before the compaction.
func TestMemoryFlushCallsSaveMemoryTool(t *testing.T) {
	e := newWorld().Engine(t)
	s := flushSession(t, e)
	a := &scripted{t: t, e: e, s: s, reply: "SILENT"}
	add(t, e, s, say("please remember: the deploy day is Thursday.", "noted"))
	if a.flush() {
		t.Fatal("a flush in a context that is nearly empty")
	}
	swell(t, e, s, flushOver)
	if !a.flush() || !slices.Equal(a.ltm, []string{"the deploy day is Thursday"}) {
		t.Errorf("saved %q", a.ltm)
	}
	if f := lastFlush(t, e, s); f.Saved != 1 || f.Response != "" {
		t.Errorf("the ledger says %+v, want one memory and no text", f)
	}
	verified(t, e)
}

// lastFlush returns the body of the last event of a session, a flush.
func lastFlush(t *testing.T, e *Engine, s turns.ID) (b turns.FlushBody) {
	t.Helper()
	row := must(e.Reader.FindSession(t.Context(), alice, s, true))(t)
	ev := must(turns.Decode(must(e.Reader.Projections.EventAt(s, row.Tail.Index))(t)))(t)
	if ev.Kind != turns.KindFlush {
		t.Fatalf("the last event is a %s", ev.Kind)
	}
	if err := e.Store.Open(ev, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// S8-11, AC-11, test_memory_flush_suppresses_silent_response: silent is a reply that
// equals the token. Anything else is recorded, and delivered to nobody either.
func TestMemoryFlushSuppressesSilentResponse(t *testing.T) {
	for reply, want := range map[string]struct{ state, kept string }{
		"SILENT":                        {"silent", ""},
		"  SILENT\n":                    {"silent", ""},
		"I stayed SILENT, the launch-7": {"done", "I stayed SILENT, the launch-7"},
		"":                              {"done", ""},
	} {
		e := newWorld().Engine(t)
		var announced []api.Notification
		e.Writer.Notify = func(_, _ string, n api.Notification) { announced = append(announced, n) }
		s := flushSession(t, e)
		swell(t, e, s, flushOver)
		begin(t, e, s, 1)
		n := len(announced)
		if got := endFlush(t, e, s, api.DoneFlush{Cycle: 1, Response: reply}); got.State != want.state {
			t.Errorf("%q is %s, want %s", reply, got.State, want.state)
		}
		if f := lastFlush(t, e, s); f.Response != want.kept {
			t.Errorf("%q is kept as %q", reply, f.Response)
		}
		list := must(e.History.ListTurns(t.Context(), alice, s, api.ListTurns{Full: true}))(t)
		if visible := append(canon(list), canon(getContext(t, e, s))...); bytes.Contains(visible, []byte("launch-7")) || bytes.Contains(visible, []byte("SILENT")) {
			t.Errorf("%q is in what is shown", reply)
		}
		if len(announced) != n {
			t.Errorf("%q was told: %+v", reply, announced[n:])
		}
	}
}

// S8-12, AC-12, test_memory_flush_fires_once_per_cycle: once in each cycle, and again in
// the next one.
func TestMemoryFlushFiresOncePerCycle(t *testing.T) {
	e := newWorld().Engine(t)
	s := flushSession(t, e)
	a := &scripted{t: t, e: e, s: s, reply: "SILENT"}
	for cycle := uint64(1); cycle <= 3; cycle++ {
		flushes := 0
		var compacted *turns.ID
		for compacted == nil {
			if a.flush() {
				flushes++
			}
			add(t, e, s, say("go on "+long(600), "well "+long(600)))
			cx := getContext(t, e, s)
			compacted = cx.Compacted
			if want := cycle + uint64(flushed(compacted)); cx.Flush.Cycle != want {
				t.Fatalf("in cycle %d, want %d", cx.Flush.Cycle, want)
			}
		}
		if flushes != 1 || flushOf(t, e, s, compacted) != "silent" {
			t.Errorf("cycle %d: %d flushes, the compaction says %q", cycle, flushes, flushOf(t, e, s, compacted))
		}
	}
	verified(t, e)
}

func flushed(id *turns.ID) int {
	if id == nil {
		return 0
	}
	return 1
}

// S8-12, test_memory_flush_skipped_when_already_flushed: on any daemon, whatever its
// memory, and wherever in its cycles the head goes.
func TestMemoryFlushSkippedWhenAlreadyFlushed(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := flushSession(t, e)
	swell(t, e, s, flushOver)
	begin(t, e, s, 1)
	endFlush(t, e, s, api.DoneFlush{Cycle: 1, Response: "SILENT"})
	last := swell(t, e, s, flushOver+500)
	for name, d := range map[string]*Engine{"the same daemon": e, "one that starts anew": w.Engine(t)} {
		r := api.BeginFlush{Cycle: 1}
		_, err := d.Compactions.BeginFlush(t.Context(), alice, s, r, canon(r))
		if cx := viewContext(t, d, s); cx.Flush.Due || code(err) != api.Conflict {
			t.Errorf("%s: %+v, begun: %v", name, cx.Flush, err)
		}
	}
	swell(t, e, s, compactOver)
	if cx := getContext(t, e, s); cx.Compacted == nil || cx.Flush.Cycle != 2 {
		t.Fatalf("compacted %v, %+v", cx.Compacted, cx.Flush)
	}
	swell(t, e, s, flushOver)
	if cx := viewContext(t, e, s); !cx.Flush.Due || cx.Flush.Cycle != 2 {
		t.Errorf("%+v, want due in cycle 2", cx.Flush)
	}
	begin(t, e, s, 2)
	must(e.Sessions.Move(t.Context(), alice, s, api.MoveSession{To: &last.ID}, nil))(t)
	if cx := viewContext(t, e, s); cx.Flush != (api.FlushState{Cycle: 1}) {
		t.Errorf("back in cycle 1: %+v, want that it ran", cx.Flush)
	}
	verified(t, e)
}

// S8-19, AC-19: the flush turn is for the session's own model, whatever writes summaries.
func TestFlushUsesTheSessionsModel(t *testing.T) {
	e := newWorld().Engine(t)
	s := flushSession(t, e)
	a := &scripted{t: t, e: e, s: s, reply: "SILENT"}
	swell(t, e, s, flushOver)
	a.flush()
	other := "larger-2"
	r := api.SetSession{}
	r.Model = &other
	must(e.Sessions.Set(t.Context(), alice, s, r, canon(r)))(t)
	swell(t, e, s, compactOver)
	getContext(t, e, s)
	swell(t, e, s, flushOver)
	a.flush()
	if !slices.Equal(a.asked, []string{"large-1", "larger-2"}) {
		t.Errorf("asked %v", a.asked)
	}
}

// S8-20: the flush is a ghost. Turns, contexts, fingerprints, tokens and the head
// are those of a session in which none ran; only its usage is counted.
func TestFlushLeavesNoTraceInTheHistory(t *testing.T) {
	e := newWorld().Engine(t)
	s := flushSession(t, e)
	last := swell(t, e, s, flushOver)
	shown := func() string {
		cx := viewContext(t, e, s)
		v := must(e.Reader.Get(t.Context(), alice, s, api.Read{}))(t)
		list := must(e.History.ListTurns(t.Context(), alice, s, api.ListTurns{Full: true}))(t)
		path := must(e.History.Path(t.Context(), alice, s, api.GetPath{}))(t)
		return string(canon([]any{cx.Messages, cx.Fingerprint, cx.Recipe, cx.Tokens, v.Head, v.Depth, v.Turns, v.Tokens, list, path}))
	}
	before := shown()
	begin(t, e, s, 1)
	if shown() != before {
		t.Error("beginning a flush shows")
	}
	usage := &turns.Usage{InputTokens: 11_500, OutputTokens: 40}
	endFlush(t, e, s, api.DoneFlush{Cycle: 1, Response: "I saved something.", Saved: 1, Usage: usage})
	if shown() != before {
		t.Error("its end shows")
	}
	if v := must(e.Reader.Get(t.Context(), alice, s, api.Read{}))(t); v.Usage != *usage {
		t.Errorf("usage %+v, want %+v", v.Usage, *usage)
	}
	next := say("and now", "this")
	next.Parent = last.ID
	add(t, e, s, next) // the head did not move
	verified(t, e)
}

// S8-21: on the overflow path an agent can flush first; the compaction says what
// became of it, and that it was skipped where it did not run.
func TestFlushRunsBeforeAnOverflowCompaction(t *testing.T) {
	for want, flush := range map[string]func(e *Engine, s turns.ID){
		"skipped": func(*Engine, turns.ID) {},
		"silent": func(e *Engine, s turns.ID) {
			begin(t, e, s, 1)
			endFlush(t, e, s, api.DoneFlush{Cycle: 1, Response: "SILENT"})
		},
		"failed": func(e *Engine, s turns.ID) {
			begin(t, e, s, 1)
			if got := endFlush(t, e, s, api.DoneFlush{Cycle: 1, Error: "rate_limit"}); got.State != "failed" {
				t.Errorf("%+v", got)
			}
		},
	} {
		e := newWorld().Engine(t)
		s := flushSession(t, e)
		swell(t, e, s, 8_000) // no flush is due by our count: the provider's is another
		flush(e, s)
		r := api.Overflow{Error: "prompt is too long: 17000 tokens > 16000 maximum"}
		cx := must(e.Contexts.Overflow(t.Context(), alice, s, r, canon(r)))(t)
		if got := flushOf(t, e, s, cx.Compacted); got != want {
			t.Errorf("the compaction says %q, want %q", got, want)
		}
		if cx.Flush.Cycle != 2 {
			t.Errorf("after it: %+v", cx.Flush)
		}
		verified(t, e)
	}
}

// S8-26: estimate, flush, compact, prune, call, track. A compaction that is due
// waits for the flush, as long as the context fits.
func TestDueCompactionWaitsForTheFlush(t *testing.T) {
	e := newWorld().Engine(t)
	c := new(clock)
	e.Reader.Now = c.Now
	s := flushSession(t, e)
	last := swell(t, e, s, flushOver)
	if !last.Flush.Due || last.Compaction.State != "idle" { // estimate
		t.Fatalf("%+v", last)
	}
	swell(t, e, s, compactOver)
	if cx := getContext(t, e, s); cx.Compacted != nil || cx.Compaction.State != "due" || !cx.Flush.Due {
		t.Errorf("not begun: compacted %v, %+v, %+v", cx.Compacted, cx.Compaction, cx.Flush)
	}
	begin(t, e, s, 1) // flush
	if cx := getContext(t, e, s); cx.Compacted != nil || cx.Flush.Due {
		t.Errorf("under way: compacted %v, %+v", cx.Compacted, cx.Flush)
	}
	endFlush(t, e, s, api.DoneFlush{Cycle: 1, Response: "SILENT"})
	cx := getContext(t, e, s) // compact
	if cx.Compacted == nil || flushOf(t, e, s, cx.Compacted) != "silent" {
		t.Fatalf("ended: compacted %v", cx.Compacted)
	}
	for i := range 4 { // prune: a view, of what is sent for the call
		m := turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: fmt.Sprintf("d%d", i), Name: "run", Arguments: turns.Raw(`{}`)}}}
		add(t, e, s, api.AppendTurn{Messages: say("again", "").Messages, Response: &m})
		r := turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: fmt.Sprintf("d%d", i), Response: turns.Raw(`"` + long(4400) + `"`)}}}
		answer := turns.TextMessage(turns.Assistant, "done")
		add(t, e, s, api.AppendTurn{Messages: []turns.Message{r}, Response: &answer, Usage: &turns.Usage{InputTokens: 100, OutputTokens: 1}})
	}
	trimmed := func(s api.Source) bool { return s.Status == string(view.Trimmed) }
	if cx = getContext(t, e, s); !slices.ContainsFunc(cx.Sources, trimmed) {
		t.Error("nothing is pruned")
	}
	if v := must(e.Reader.Get(t.Context(), alice, s, api.Read{}))(t); v.Usage.InputTokens != 400 { // track
		t.Errorf("usage %+v", v.Usage)
	}
	verified(t, e)
}

// A context never goes over budget for a flush: it is compacted at once, and the
// compaction says that the flush was skipped. An agent that ends its flush after
// that is heard all the same.
func TestCompactionOverBudgetDoesNotWaitForTheFlush(t *testing.T) {
	e := newWorld().Engine(t)
	s := flushSession(t, e)
	swell(t, e, s, flushOver)
	begin(t, e, s, 1)
	var cx *api.Context
	for cx = getContext(t, e, s); cx.Compacted == nil; cx = getContext(t, e, s) {
		if cx.Tokens+cx.Overhead > flushBudget {
			t.Fatalf("%d tokens of %d", cx.Tokens, cx.Budget)
		}
		add(t, e, s, say("go on "+long(600), "well "+long(600)))
	}
	if k := must(e.Reader.GetTurn(t.Context(), alice, s, api.GetTurn{ID: *cx.Compacted}))(t).Compaction; k.Flush != "skipped" || k.TokensBefore <= flushBudget {
		t.Errorf("at %d tokens, flush %q", k.TokensBefore, k.Flush)
	}
	if got := endFlush(t, e, s, api.DoneFlush{Cycle: 1, Response: "SILENT", Saved: 2}); got.State != "silent" || got.Cycle != 1 {
		t.Errorf("%+v", got)
	}
	if cx := viewContext(t, e, s); cx.Flush.Cycle != 2 {
		t.Errorf("%+v, want cycle 2", cx.Flush)
	}
	verified(t, e)
}

// test_flush_then_compact_preserves_ltm: what the compaction takes out of the
// context was saved before.
func TestFlushThenCompactPreservesLTM(t *testing.T) {
	e := newWorld().Engine(t)
	s := flushSession(t, e)
	a := &scripted{t: t, e: e, s: s, reply: "SILENT"}
	e.Writer.Notify = func(_, _ string, n api.Notification) {
		if n.Kind == "compaction.started" && len(a.ltm) == 0 {
			t.Error("compacted before anything was saved")
		}
	}
	add(t, e, s, say("please remember: the vault code is open sesame.", "noted"))
	var cx *api.Context
	for cx = getContext(t, e, s); cx.Compacted == nil; cx = getContext(t, e, s) {
		add(t, e, s, say("go on "+long(600), "well "+long(600)))
		a.flush()
	}
	if bytes.Contains(canon(cx.Messages), []byte("open sesame")) {
		t.Error("the fact is still in the context: nothing is shown")
	}
	if !slices.Equal(a.ltm, []string{"the vault code is open sesame"}) || flushOf(t, e, s, cx.Compacted) != "silent" {
		t.Errorf("saved %q, flush %s", a.ltm, flushOf(t, e, s, cx.Compacted))
	}
	verified(t, e)
}
