package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"nexus/cmd/internal/engine/reader"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/ledger/api"
	"nexus/projections"
	"nexus/turns"
	"nexus/turns/render/strict"
)

// Any sequence of legal appends, results in any order and late, interruptions,
// aborted answers, head moves, forks, resets and compactions, on two daemons,
// renders to contexts that the providers' rules accept, within budget, with every
// signature of what is shown in them. In the end the ledger verifies, and a
// third daemon that reads it from the start sees the same. Both give every context
// that was served again, by its recipe, and at its turn.
func TestLife(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLife(rt)
		defer l.stop()
		rt.Repeat(map[string]func(*rapid.T){
			"ask":       l.ask,
			"answer":    l.answer,
			"exchange":  l.exchange,
			"call":      l.call,
			"results":   l.results,
			"late":      l.late,
			"move":      l.move,
			"fork":      l.fork,
			"compact":   l.compact,
			"summarize": l.summarize,
			"overflow":  l.overflow,
			"settings":  l.settings,
			"flush":     l.flush,
			"reset":     l.reset,
			"wait":      l.wait,
			"other one": func(t *rapid.T) { l.at = rapid.IntRange(0, len(l.sessions)-1).Draw(t, "session") },
			"":          l.check,
		})
		l.end()
	})
}

type life struct {
	t        *rapid.T
	w        *world
	engines  []*Engine
	cancel   context.CancelFunc
	done     []chan error
	sessions []turns.ID
	at       int
	n        int // calls and texts so far
	memories []turns.ID
	clock    clock
	counts   bool                           // providers count calls, as they like
	served   []served                       // to be asked for again, when all is over
	last     map[turns.ID]*api.Context      // by session: what its next call is made with
	behind   map[turns.ID]map[turns.ID]bool // by session: turns that it went on from
}

// served is a context that was served, or, with at, one that a call got there when
// that turn was the newest.
type served struct {
	session, at turns.ID
	format      string
	cx          *api.Context
}

func newLife(t *rapid.T) *life {
	l := &life{t: t, w: newWorld(), last: make(map[turns.ID]*api.Context), behind: make(map[turns.ID]map[turns.ID]bool)}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	for range 2 {
		l.engines = append(l.engines, l.start(ctx))
	}
	working := make(chan error, 1)
	go func() { l.engines[0].Compactions.Work(ctx); working <- nil }()
	l.done = append(l.done, working)
	r := api.CreateSession{}
	r.Limits = &turns.Limits{ContextWindow: rapid.SampledFrom([]uint64{0, 4000, 12_000}).Draw(t, "window")}
	r.Policy = l.policy(t)
	s, err := l.engine().Sessions.Create(context.Background(), alice, r, canon(r))
	l.must(err)
	l.sessions = []turns.ID{s.ID}
	return l
}

func (l *life) start(ctx context.Context) *Engine {
	store, err := projections.Open(projections.Config{Dir: "p", FS: vfs.NewMem()})
	l.must(err)
	done := make(chan error, 1)
	go func() { done <- firstOf(store.Run(ctx, l.w.Log), store.Close()) }()
	l.done = append(l.done, done)
	e := newEngine(l.w, store)
	e.Reader.Now = l.clock.Now
	return e
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *life) stop() {
	l.cancel()
	for _, d := range l.done {
		if err := <-d; err != nil {
			l.t.Errorf("projections: %v", err)
		}
	}
}

func (l *life) must(err error) {
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *life) engine() *Engine {
	return l.engines[l.n%len(l.engines)]
}

func (l *life) session() turns.ID { return l.sessions[l.at] }

func (l *life) text(t *rapid.T) string {
	l.n++
	return fmt.Sprintf("text %d %s", l.n, long(rapid.SampledFrom([]int{0, 40, 900, 3000}).Draw(t, "length")))
}

// append appends; a refusal that the contract names is no failure.
func (l *life) append(r api.AppendTurn, may ...api.Code) {
	r.ID, _ = turns.NewID(time.Now(), l.engine().Store.Rand)
	made := l.last[l.session()]
	if made != nil && rapid.Bool().Draw(l.t, "with its recipe") {
		r.Context = &api.ContextUsed{Recipe: made.Recipe, Fingerprint: made.Fingerprint}
	}
	if l.counts && r.Response != nil && rapid.Bool().Draw(l.t, "counted by its provider") {
		r.Usage = &turns.Usage{InputTokens: uint64(rapid.IntRange(1, 5000).Draw(l.t, "input tokens"))}
	}
	ack, err := l.engine().Sessions.Append(context.Background(), alice, l.session(), r, canon(r))
	if c := code(err); c != "" && !slices.Contains(may, c) {
		l.t.Fatalf("append %s: %v", canon(r), err)
	}
	l.n++
	if err == nil && ack.Parent != nil {
		l.leave(*ack.Parent, made)
	}
}

// leave notes that the session goes on from a turn, for the first time from there
// with a call that was made with a context of it.
func (l *life) leave(at turns.ID, made *api.Context) {
	delete(l.last, l.session())
	if l.behind[l.session()] == nil {
		l.behind[l.session()] = make(map[turns.ID]bool)
	}
	known := l.behind[l.session()][at]
	if l.behind[l.session()][at] = true; known || made == nil {
		return
	}
	r, err := view.ParseRecipe(made.Recipe)
	l.must(err)
	if r.Head.Turn == at {
		l.served = append(l.served, served{session: l.session(), at: at, cx: made})
	}
}

func (l *life) ask(t *rapid.T) { l.append(say(l.text(t), "")) }

func (l *life) answer(t *rapid.T) {
	m := l.reply(t)
	m.FinishReason = rapid.SampledFrom([]string{"", "stop", "length"}).Draw(t, "finish")
	l.append(api.AppendTurn{Messages: []turns.Message{}, Response: &m})
}

func (l *life) exchange(t *rapid.T) {
	r := say(l.text(t), "")
	m := l.reply(t)
	r.Response = &m
	l.append(r)
}

func (l *life) reply(t *rapid.T) turns.Message {
	m := turns.Message{Role: turns.Assistant}
	if rapid.Bool().Draw(t, "reasons") {
		m.Parts = append(m.Parts, l.signed(t))
	}
	m.Parts = append(m.Parts, turns.TextPart(l.text(t)))
	return m
}

// signed is reasoning as Anthropic signs it.
func (l *life) signed(t *rapid.T) turns.Part {
	text := l.text(t)
	return turns.Part{Type: turns.Reasoning, Content: text, Ext: turns.Raw(fmt.Sprintf(`{"anthropic":{"signature":"sig%d+/=="}}`, l.n))}
}

func (l *life) call(t *rapid.T) {
	m := turns.Message{Role: turns.Assistant}
	if rapid.Bool().Draw(t, "reasons") {
		m.Parts = append(m.Parts, l.signed(t))
	}
	for range rapid.IntRange(1, 3).Draw(t, "calls") {
		l.n++
		m.Parts = append(m.Parts, turns.Part{Type: turns.ToolCall, ID: fmt.Sprintf("call-%d", l.n), Name: "run", Arguments: turns.Raw(fmt.Sprintf(`{"n": %d.50}`, l.n))})
	}
	r := say(l.text(t), "")
	if rapid.Bool().Draw(t, "in the loop") {
		r.Messages = []turns.Message{}
	}
	r.Response = &m
	l.append(r)
}

// calls returns the tool calls on the path of the head, and those of them that are
// open, by the test's own account.
func (l *life) calls() (open, all []string) {
	for _, x := range l.path() {
		for _, m := range x.Messages {
			for _, p := range m.Parts {
				if p.Type == turns.ToolCallResponse {
					open = slices.DeleteFunc(open, func(id string) bool { return id == p.ID })
				} else if p.Type == turns.Text {
					open = nil
				}
			}
		}
		if x.Response != nil {
			open = x.Response.Calls(nil)
			all = append(all, open...)
		}
	}
	return open, all
}

func (l *life) path() []api.Turn {
	list, err := l.engine().History.ListTurns(context.Background(), alice, l.session(), api.ListTurns{Full: true, Page: api.Page{Limit: 5000}})
	l.must(err)
	return list.Turns
}

func result(id, text string) turns.Message {
	return turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText(text), IsError: len(text)%2 == 0}}}
}

func (l *life) results(t *rapid.T) {
	open, _ := l.calls()
	if len(open) == 0 {
		t.Skip("no call is open")
	}
	open = rapid.Permutation(open).Draw(t, "order")
	r := api.AppendTurn{}
	for _, id := range open[:rapid.IntRange(1, len(open)).Draw(t, "answered")] {
		r.Messages = append(r.Messages, result(id, l.text(t)))
	}
	if len(r.Messages) == len(open) && rapid.Bool().Draw(t, "with the answer") {
		m := l.reply(t)
		r.Response = &m
	}
	l.append(r)
}

func (l *life) late(t *rapid.T) {
	_, all := l.calls()
	if len(all) == 0 {
		t.Skip("no call was made")
	}
	l.append(api.AppendTurn{Messages: []turns.Message{result(rapid.SampledFrom(all).Draw(t, "call"), l.text(t))}})
}

func (l *life) somewhere(t *rapid.T) turns.ID {
	p := l.path()
	if len(p) == 0 {
		t.Skip("no turn yet")
	}
	return p[rapid.IntRange(0, len(p)-1).Draw(t, "turn")].ID
}

func (l *life) move(t *rapid.T) {
	to := l.somewhere(t)
	if was, err := l.engine().Reader.Get(context.Background(), alice, l.session(), api.Read{}); err == nil && was.Head != nil && *was.Head != to {
		l.leave(*was.Head, l.last[l.session()])
	}
	_, err := l.engine().Sessions.Move(context.Background(), alice, l.session(), api.MoveSession{To: &to}, nil)
	l.must(err)
	l.n++
}

func (l *life) fork(t *rapid.T) {
	if len(l.sessions) > 6 {
		t.Skip("enough sessions")
	}
	r := api.CreateFork{Turn: l.somewhere(t), Mode: rapid.SampledFrom([]string{"as_seen", "full", "summary"}).Draw(t, "mode")}
	f, err := l.engine().Forks.Fork(context.Background(), alice, l.session(), r, []byte(fmt.Sprint(l.n)))
	l.must(err)
	l.sessions, l.at = append(l.sessions, f.ID), len(l.sessions)
	l.n++
}

func (l *life) compact(t *rapid.T) {
	r := api.RunCompaction{FromOriginals: rapid.Bool().Draw(t, "from originals")}
	_, err := l.engine().Compactions.Compact(context.Background(), alice, l.session(), r, []byte(fmt.Sprint(l.n)))
	if c := code(err); c != "" && c != api.Nothing && c != api.Unprocessable {
		l.t.Fatalf("compact: %v", err)
	}
	l.n++
}

// summarize is the agent's own summary, of a plan that it took some time ago.
func (l *life) summarize(t *rapid.T) {
	offer, err := l.engine().Compactions.Take(context.Background(), alice, l.session(), api.TakeCompaction{})
	if c := code(err); c == api.Nothing || c == api.Unprocessable {
		t.Skip("nothing to summarize")
	}
	l.must(err)
	if rapid.Bool().Draw(t, "meanwhile") {
		l.append(say(l.text(t), ""))
	}
	l.n++
	r := api.SubmitCompaction{Plan: offer.Plan, Text: fmt.Sprintf("summary %d", l.n)}
	_, err = l.engine().Compactions.Submit(context.Background(), alice, l.session(), r, canon(r))
	if c := code(err); c != "" && c != api.Unprocessable && c != api.Conflict { // one in the background may be first
		l.t.Fatalf("submit: %v", err)
	}
	l.n++
}

func (l *life) overflow(t *rapid.T) {
	r := api.Overflow{Error: "context_length_exceeded", Status: 400, Format: "anthropic"}
	_, err := l.engine().Contexts.Overflow(context.Background(), alice, l.session(), r, []byte(fmt.Sprint(l.n)))
	if c := code(err); c != "" && c != api.Unprocessable {
		l.t.Fatalf("overflow: %v", err)
	}
	l.n++
}

// flush begins a flush, in the cycle that a context tells of, and mostly ends it.
func (l *life) flush(t *rapid.T) {
	l.idle() // or one in the background ends the cycle
	cx, err := l.engine().Contexts.Context(context.Background(), reader.Caller{Tenant: "default", Agent: "_"}, l.session(), api.GetContext{})
	if code(err) == api.Unprocessable || (err == nil && cx.Flush.Cycle == 0) {
		t.Skip("the policy has none, or nothing fits")
	}
	l.must(err)
	l.n++
	_, err = l.engine().Compactions.BeginFlush(context.Background(), alice, l.session(), api.BeginFlush{Cycle: cx.Flush.Cycle}, nil)
	if c := code(err); c != "" && (cx.Flush.Due || (c != api.Conflict && c != api.Unprocessable)) {
		l.t.Fatalf("begin a flush, %+v: %v", cx.Flush, err)
	}
	if rapid.IntRange(0, 3).Draw(t, "dies") == 0 {
		return
	}
	l.n++
	r := api.DoneFlush{Cycle: cx.Flush.Cycle, Response: rapid.SampledFrom([]string{"SILENT", "", "well"}).Draw(t, "reply")}
	if _, err = l.engine().Compactions.DoneFlush(context.Background(), alice, l.session(), r, nil); err != nil && code(err) != api.Conflict {
		l.t.Fatalf("end a flush: %v", err)
	}
}

func (l *life) settings(t *rapid.T) {
	r := api.SetSession{}
	r.Policy = l.policy(t)
	r.System = &api.System{{Content: l.text(t)}}
	if rapid.Bool().Draw(t, "another window") {
		r.Limits = &turns.Limits{ContextWindow: rapid.SampledFrom([]uint64{0, 4000, 12_000, 40_000}).Draw(t, "window")}
	}
	_, err := l.engine().Sessions.Set(context.Background(), alice, l.session(), r, canon(r))
	l.must(err)
	delete(l.last, l.session())
}

// policy is one of ours, or one with a view that depends on the clock.
func (l *life) policy(t *rapid.T) *api.Policy {
	if rapid.IntRange(0, 3).Draw(t, "by the clock") == 0 {
		return &api.Policy{Name: "spec-008", Set: turns.Raw(`{"prune":{"when":"cache_cold","keep_last_assistants":1,"soft_trim_chars":100,"head_chars":20,"tail_chars":20}}`)}
	}
	return &api.Policy{Name: rapid.SampledFrom(policy.Names()).Draw(t, "policy")}
}

// wait lets time pass, and prompt caches with it.
func (l *life) wait(t *rapid.T) {
	l.clock.pass(time.Duration(rapid.IntRange(1, 20).Draw(t, "minutes")) * time.Minute)
	clear(l.last)
}

func (l *life) reset(t *rapid.T) {
	if len(l.sessions) > 6 || rapid.IntRange(0, 5).Draw(t, "really") > 0 {
		t.Skip("rarely")
	}
	s, err := l.engine().Sessions.Reset(context.Background(), alice, l.session(), api.ResetSession{}, []byte(fmt.Sprint(l.n)))
	l.must(err)
	l.sessions[l.at] = s.ID
	l.n++
}

// check renders the session for three providers.
func (l *life) check(*rapid.T) {
	open, _ := l.calls()
	var opts []strict.Option
	if len(open) > 0 {
		opts = append(opts, strict.OpenCalls)
	}
	for _, format := range []string{"openai", "anthropic", "gemini"} {
		cx, err := l.engine().Contexts.Context(context.Background(), alice, l.session(), api.GetContext{Format: format})
		if c := code(err); c == api.Unprocessable {
			continue // what is protected does not fit; it says so
		}
		l.must(err)
		l.remember(format, cx)
		if cx.Tokens+cx.Overhead > cx.Budget {
			l.t.Fatalf("%d tokens and %d of overhead in a budget of %d", cx.Tokens, cx.Overhead, cx.Budget)
		}
		switch format {
		case "openai":
			err = strict.OpenAI(canon(cx.Messages), opts...)
		case "anthropic":
			err = strict.Anthropic(canon(cx.System), canon(cx.Messages), opts...)
		default:
			err = strict.Gemini(canon(cx.System), canon(cx.Messages), append(opts, strict.Thinking)...)
		}
		if err != nil && len(cx.Messages) > 0 {
			l.t.Fatalf("%s: %v\n%s", format, err, canon(cx.Messages))
		}
		if format == "anthropic" {
			l.signatures(cx)
		}
	}
}

// remember notes a context, to be asked for again when all is over.
func (l *life) remember(format string, cx *api.Context) {
	l.served = append(l.served, served{session: l.session(), format: format, cx: cx})
	l.last[l.session()] = cx
}

// replay asks an engine for every context that was served.
func (l *life) replay(e *Engine) {
	for _, was := range l.served {
		req := api.GetContext{At: was.at, Format: was.format}
		if was.at.IsZero() {
			req.Recipe = was.cx.Recipe
		}
		cx, err := e.Contexts.Context(context.Background(), alice, was.session, req)
		if err != nil {
			l.t.Fatalf("session %s at %s, served by %s: %v", was.session, was.at, was.cx.Recipe, err)
		}
		if cx.Fingerprint != was.cx.Fingerprint || was.at.IsZero() && !bytes.Equal(shown(cx), shown(was.cx)) {
			l.t.Fatalf("session %s at %s: the context is %s by %s now, %s by %s was served", was.session, was.at, cx.Fingerprint, cx.Recipe, was.cx.Fingerprint, was.cx.Recipe)
		}
	}
}

// signatures checks that each response that is shown as it was has its reasoning
// with its signature.
func (l *life) signatures(cx *api.Context) {
	shown := make(map[turns.ID]bool)
	for _, s := range cx.Sources {
		if s.Half == "response" && s.Status == "verbatim" {
			shown[s.Turn] = true
		}
	}
	all := canon(cx.Messages)
	for _, x := range l.path() {
		if x.Response == nil || !shown[x.ID] {
			continue
		}
		for _, p := range x.Response.Parts {
			if p.Type != turns.Reasoning {
				continue
			}
			signature := p.Ext[bytes.Index(p.Ext, []byte(`"sig`)):]
			if !bytes.Contains(all, signature[:bytes.LastIndexByte(signature, '"')+1]) {
				l.t.Fatalf("turn %s is shown without %s", x.ID, signature)
			}
		}
	}
}

// idle waits until the first engine makes no compaction.
func (l *life) idle() {
	for e := l.engines[0]; ; runtime.Gosched() {
		if _, n := e.Compactions.Jobs(); n == 0 {
			return
		}
	}
}

// end verifies the ledger and compares with a daemon that starts from nothing.
func (l *life) end() {
	l.idle()
	l.replay(l.engine())
	v, err := l.engine().Audit.Verify(context.Background(), reader.Caller{Tenant: "default", Agent: "_"}, api.Verify{})
	l.must(err)
	if !v.OK {
		l.t.Fatalf("verify: %+v", v.Problems)
	}
	ctx, cancel := context.WithCancel(context.Background())
	third := l.start(ctx)
	defer cancel()
	st, err := l.w.Log.State(ctx)
	l.must(err)
	for _, e := range []*Engine{l.engines[0], third} {
		l.must(e.Reader.Projections.WaitFor(ctx, st.Last)) // a turn's children may be on other chains
	}
	l.replay(third)
	for _, s := range l.sessions {
		var got [2][]byte
		for i, e := range []*Engine{l.engines[0], third} {
			x, err := e.Reader.Get(context.Background(), alice, s, api.Read{})
			l.must(err)
			list, err := e.History.ListTurns(context.Background(), alice, s, api.ListTurns{Page: api.Page{Limit: 5000}})
			l.must(err)
			cx, err := e.Contexts.Context(context.Background(), reader.Caller{Tenant: "default", Agent: "_"}, s, api.GetContext{})
			if c := code(err); c != "" && c != api.Unprocessable {
				l.t.Fatal(err)
			}
			print := ""
			if cx != nil {
				print = cx.Fingerprint
			}
			got[i] = canon([]any{x, list, print})
		}
		if !bytes.Equal(got[0], got[1]) {
			l.t.Fatalf("session %s:\n%s\nrebuilt:\n%s", s, got[0], got[1])
		}
	}
}
