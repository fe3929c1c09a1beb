package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"weak"

	"pgregory.net/rapid"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

var formats = []string{"otel", "openai", "anthropic", "gemini"}

// TestKeptContentChangesNoContext lives a random life. After each step it asks for
// contexts of a session, at the head, at an older turn and by a recipe: an engine that keeps what it loaded and encoded gives the bytes of one that keeps
// nothing.
func TestKeptContentChangesNoContext(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLife(rt)
		defer l.stop()
		l.counts = true
		for _, e := range l.engines {
			e.Loader.MaxContent = rapid.SampledFrom([]int{0, 0, 12_000}).Draw(rt, "content that a request loads")
		}
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
			"settings":  l.settings,
			"reset":     l.reset,
			"wait":      l.wait,
			"remember":  l.saveMemory,
			"forget":    l.withdrawMemory,
			"at once":   func(t *rapid.T) { l.idle(); l.compareAtOnce(t) },
			"other one": func(t *rapid.T) { l.at = rapid.IntRange(0, len(l.sessions)-1).Draw(t, "session") },
			"":          func(t *rapid.T) { l.idle(); l.compareKept(t) },
		})
		l.idle()
	})
}

// saveMemory saves a memory of any kind, or replaces the document.
func (l *life) saveMemory(t *rapid.T) {
	l.n++
	words := fmt.Sprintf("memory %d: %s", l.n, l.text(t))
	if len(words) > 2000 {
		words = strings.ToValidUTF8(words[:2000], "")
	}
	words = strings.Join(strings.Fields(words), " ")
	if rapid.IntRange(0, 3).Draw(t, "the document") == 0 {
		d, err := l.engine().Memories.Document(context.Background(), alice, api.MemoryDocument{}, nil)
		l.must(err)
		r := api.MemoryDocument{Text: &words, If: fmt.Sprint(d.Version)}
		_, err = l.engine().Memories.Document(context.Background(), alice, r, canon(r))
		l.must(err)
		return
	}
	r := api.SaveMemory{Kind: rapid.SampledFrom([]string{"daily", "episodic", "semantic"}).Draw(t, "kind"), Text: words, Session: l.session()}
	m, err := l.engine().Memories.Save(context.Background(), alice, r, canon(r))
	l.must(err)
	l.memories = append(l.memories, m.ID)
}

// withdrawMemory withdraws a memory.
func (l *life) withdrawMemory(t *rapid.T) {
	if len(l.memories) == 0 {
		t.Skip("nothing is remembered")
	}
	i := rapid.IntRange(0, len(l.memories)-1).Draw(t, "memory")
	r := api.WithdrawMemory{Memory: l.memories[i]}
	_, err := l.engine().Memories.Withdraw(context.Background(), alice, r, canon(r))
	l.must(err)
	l.memories = append(l.memories[:i:i], l.memories[i+1:]...)
}

// compareKept compares an engine with one that keeps nothing, over the same projections.
func (l *life) compareKept(t *rapid.T) {
	e, s := rapid.SampledFrom(l.engines).Draw(t, "engine"), rapid.SampledFrom(l.sessions).Draw(t, "of session")
	req := api.GetContext{Format: rapid.SampledFrom(formats).Draw(t, "format"), Explain: true}
	// A recipe says at which position the memories were read.
	state, err := e.Reader.Log.State(context.Background())
	l.must(err)
	l.must(e.Reader.Projections.WaitFor(context.Background(), state.Last))
	head := l.sameContext(e, s, req)
	if head == nil {
		return
	}
	l.sameContext(e, s, api.GetContext{Format: req.Format, Recipe: head.Recipe})
	if n := len(head.Sources); n > 0 {
		if at := head.Sources[rapid.IntRange(0, n-1).Draw(t, "source")].Turn; !at.IsZero() {
			l.sameContext(e, s, api.GetContext{Format: req.Format, At: at})
		}
	}
}

// compareAtOnce asks an engine for several contexts of one session at once, at the head and at
// turns of its branches. A context for the operator compacts nothing.
func (l *life) compareAtOnce(t *rapid.T) {
	e, s := rapid.SampledFrom(l.engines).Draw(t, "engine"), l.session()
	state, err := e.Reader.Log.State(context.Background())
	l.must(err)
	l.must(e.Reader.Projections.WaitFor(context.Background(), state.Last))
	var at []turns.ID
	for id := range l.behind[s] {
		at = append(at, id)
	}
	slices.SortFunc(at, turns.ID.Compare)
	at = append(at, turns.ID{})
	reqs := make([]api.GetContext, rapid.IntRange(2, 4).Draw(t, "requests"))
	answers, errs := make([]*api.Context, len(reqs)), make([]error, len(reqs))
	var wg sync.WaitGroup
	for i := range reqs {
		reqs[i] = api.GetContext{Format: rapid.SampledFrom(formats).Draw(t, "format"), At: rapid.SampledFrom(at).Draw(t, "at"), Explain: true}
		wg.Go(func() { answers[i], errs[i] = e.Contexts.Context(context.Background(), operator, s, reqs[i]) })
	}
	wg.Wait()
	for i, req := range reqs {
		l.sameAsFresh(e, s, req, answers[i], errs[i])
	}
}

// sameContext asks e and an engine that keeps nothing for a context.
func (l *life) sameContext(e *Engine, s turns.ID, req api.GetContext) *api.Context {
	kept, err := e.Contexts.Context(context.Background(), operator, s, req)
	return l.sameAsFresh(e, s, req, kept, err)
}

// sameAsFresh compares an answer of e with that of an engine that keeps nothing.
func (l *life) sameAsFresh(e *Engine, s turns.ID, req api.GetContext, kept *api.Context, err error) *api.Context {
	fresh := newEngine(l.w, e.Reader.Projections)
	fresh.Reader.Now, fresh.Loader.MaxContent = l.clock.Now, e.Loader.MaxContent
	want, wantErr := fresh.Contexts.Context(context.Background(), operator, s, req)
	if code(err) != code(wantErr) {
		l.t.Fatalf("session %s, %s: %v, without what is kept: %v", s, canon(req), err, wantErr)
	}
	if err != nil {
		return nil
	}
	kept.Compaction, want.Compaction = api.CompactionState{}, api.CompactionState{} // of the jobs of an engine
	got, err := kept.AppendJSON(nil)
	l.must(err)
	if !bytes.Equal(got, canon(want)) {
		l.t.Fatalf("session %s, %s:\n%s\nwithout what is kept:\n%s", s, canon(req), got, canon(want))
	}
	return kept
}

// TestDestroyedKeyIsNotServedFromMemory destroys the key of a session whose turns and
// contexts are kept, of itself and of a fork.
func TestDestroyedKeyIsNotServedFromMemory(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	var last turns.ID
	for i := range 5 {
		last = add(t, e, s.ID, say(fmt.Sprintf("secret %d", i), "secret")).ID
	}
	f := must(e.Forks.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: last}, []byte("{}")))(t)
	add(t, e, f.ID, say("of the fork", "of the fork"))
	ask := func(id turns.ID, format string) string {
		cx := must(e.Contexts.Context(t.Context(), alice, id, api.GetContext{Format: format, At: last}))(t)
		return string(canon(cx))
	}
	for _, format := range formats {
		if !strings.Contains(ask(s.ID, format), "secret") || !strings.Contains(ask(f.ID, format), "secret") {
			t.Fatal("the contexts do not show what was said")
		}
	}
	if keptBytes(e) == 0 {
		t.Fatal("nothing is kept")
	}
	if err := w.Keys.Destroy(s.ID); err != nil {
		t.Fatal(err)
	}
	if n := keptBytes(e); n != 0 {
		t.Errorf("%d bytes are kept after a key was destroyed", n)
	}
	for _, format := range formats {
		if got, err := e.Contexts.Context(t.Context(), alice, f.ID, api.GetContext{Format: format}); err != nil || strings.Contains(string(canon(got)), "secret") {
			t.Errorf("%s: %v, %s", format, err, canon(got))
		}
	}
}

// keptBytes returns the bytes that the caches of an engine keep.
func keptBytes(e *Engine) (n int) {
	for _, size := range e.Caches.Sizes() {
		n += size
	}
	return n
}

// TestKeptTurnsAreThoseThatAreStored gives the loader of an engine projections of another
// ledger, where the turns have the same ids and other content, as after an outage in which
// events were lost that nobody heard of.
func TestKeptTurnsAreThoseThatAreStored(t *testing.T) {
	w, other := newWorld(), newWorld()
	other.Keys, other.ID = w.Keys, w.ID
	e, o := w.Engine(t), other.Engine(t)
	var r api.CreateSession
	r.ID = newID(t)
	must(e.Sessions.Create(t.Context(), alice, r, nil))(t)
	must(o.Sessions.Create(t.Context(), alice, r, nil))(t)
	var last turns.ID
	for i := range 4 {
		last = newID(t)
		for _, x := range []struct {
			e    *Engine
			text string
		}{{e, "lost"}, {o, "stored"}} {
			turn := say(fmt.Sprint(x.text, i), x.text)
			turn.ID = last
			add(t, x.e, r.ID, turn)
		}
	}
	for _, x := range []*Engine{e, o} {
		if err := x.Reader.Projections.WaitFor(t.Context(), must(x.Reader.Log.State(t.Context()))(t).Last); err != nil {
			t.Fatal(err)
		}
	}
	req := api.GetContext{At: last, Read: api.Read{StaleOK: true}}
	if got := must(e.Contexts.Context(t.Context(), alice, r.ID, req))(t); !strings.Contains(string(canon(got.Messages)), "lost3") {
		t.Fatalf("%s", canon(got))
	}
	want := must(o.Contexts.Context(t.Context(), alice, r.ID, req))(t)
	e.Reader.Projections = o.Reader.Projections
	got := must(e.Contexts.Context(t.Context(), alice, r.ID, req))(t)
	if string(canon(got.Messages)) != string(canon(want.Messages)) || got.Fingerprint != want.Fingerprint {
		t.Errorf("%s\nwant\n%s", canon(got.Messages), canon(want.Messages))
	}
}

// TestContextsAtOnceAreThoseThatNothingIsKeptFor asks for contexts of a session and of its
// fork in all formats, at once, while turns come: calls and their results, so that a context
// ends with an answer that the next one lacks. Each has the bytes of one that is made alone.
func TestContextsAtOnceAreThoseThatNothingIsKeptFor(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	first := add(t, e, s.ID, say("begin", "begun"))
	f := must(e.Forks.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: first.ID}, []byte("{}")))(t)
	type seen struct {
		session, at turns.ID
		format      string
		bytes       string
	}
	var mu sync.Mutex
	var all []seen
	heads := map[turns.ID][]turns.ID{s.ID: {first.ID}, f.ID: {first.ID}}
	ended := make(chan struct{})
	var readers sync.WaitGroup
	for i, format := range formats {
		readers.Go(func() {
			for n := i; ; n++ {
				select {
				case <-ended:
					return
				default:
				}
				mu.Lock()
				id := []turns.ID{s.ID, f.ID}[n%2]
				at := heads[id][max(0, len(heads[id])-1-n%3)]
				mu.Unlock()
				cx, err := e.Contexts.Context(t.Context(), alice, id, api.GetContext{Format: format, At: at})
				if err == nil && n%5 == 0 {
					_, err = e.Contexts.Context(t.Context(), alice, id, api.GetContext{Format: format})
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				all = append(all, seen{id, at, format, string(canon(cx.Messages)) + string(canon(cx.Sources)) + cx.Fingerprint})
				mu.Unlock()
			}
		})
	}
	for i := range 200 {
		id := []turns.ID{s.ID, f.ID}[i/2%2]
		turn := say(fmt.Sprint("ask ", i), "")
		m := turns.TextMessage(turns.Assistant, fmt.Sprint("answer ", i))
		if i%2 == 0 {
			m.Parts = append(m.Parts, turns.Part{Type: turns.ToolCall, ID: fmt.Sprint("c", i), Name: "run", Arguments: turns.Raw(`{}`)})
		} else if i%4 == 1 { // the other calls are abandoned
			turn.Messages = []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: fmt.Sprint("c", i-1), Response: turns.RawText("result")}}}}
		}
		turn.Response = &m
		a := add(t, e, id, turn)
		mu.Lock()
		heads[id] = append(heads[id], a.ID)
		mu.Unlock()
	}
	close(ended)
	readers.Wait()
	fresh := newEngine(w, e.Reader.Projections)
	want := make(map[seen]string)
	for _, x := range all {
		name := seen{x.session, x.at, x.format, ""}
		if want[name] == "" {
			fresh.Caches.Clear()
			cx := must(fresh.Contexts.Context(t.Context(), alice, x.session, api.GetContext{Format: x.format, At: x.at}))(t)
			want[name] = string(canon(cx.Messages)) + string(canon(cx.Sources)) + cx.Fingerprint
		}
		if x.bytes != want[name] {
			t.Fatalf("session %s at %s, %s:\n%s\nalone:\n%s", x.session, x.at, x.format, x.bytes, want[name])
		}
	}
	t.Log(len(all), "contexts of", len(want))
}

// TestContentOfAnEarlierPathIsNotHeld: the content of a path that a compaction replaced is
// counted nowhere any more, so nothing that is kept may hold it.
func TestContentOfAnEarlierPathIsNotHeld(t *testing.T) {
	e := newWorld().Engine(t)
	r := api.CreateSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"measure":"reported"}`)}}}
	s := must(e.Sessions.Create(t.Context(), alice, r, []byte("{}")))(t).ID
	for i := range 40 {
		add(t, e, s, say(fmt.Sprint("question ", i, long(4000)), long(4000)))
	}
	loaded := func() weak.Pointer[turns.Message] {
		return weak.Make(&must(e.Compactions.Decide(t.Context(), alice, s))(t).Path.Halves[0].Messages[0])
	}
	before := loaded()
	if runtime.GC(); before.Value() == nil {
		t.Fatal("nothing is kept")
	}
	var set api.SetSession
	set.Policy = &api.Policy{Name: "balanced", Set: turns.Raw(`{"measure":"reported","prune":{"when":"always","keep_last_assistants":1,"soft_trim_chars":100,"head_chars":20,"tail_chars":20}}`)}
	must(e.Sessions.Set(t.Context(), alice, s, set, canon(set)))(t)
	must(e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{ID: newID(t)}, nil))(t)
	for i := range 3 {
		add(t, e, s, say(fmt.Sprint("later ", i), "yes"))
		loaded()
	}
	if runtime.GC(); before.Value() != nil {
		t.Errorf("the first message is in memory, of %v bytes that are counted", e.Caches.Sizes())
	}
}

// erasingKeys calls erase when a key is read for the first time, before its reader has it.
type erasingKeys struct {
	content.Keys
	erase func()
}

func (k *erasingKeys) Content(id turns.ID) (seal.Content, error) {
	c, err := k.Keys.Content(id)
	k.erase()
	return c, err
}

// Who read a key before it was destroyed may open what it opens. Nothing of that stays in memory, for anybody who asks when
// the erasure was answered.
func TestNothingIsKeptThatWasOpenedWithADestroyedKey(t *testing.T) {
	for name, read := range map[string]func(e *Engine, s turns.ID){
		"its settings": func(e *Engine, s turns.ID) { _, _ = e.Reader.Get(t.Context(), alice, s, api.Read{}) },
		"a context":    func(e *Engine, s turns.ID) { _, _ = e.Contexts.Context(t.Context(), alice, s, api.GetContext{}) },
		"a plan": func(e *Engine, s turns.ID) {
			_, _ = e.Compactions.Take(t.Context(), alice, s, api.TakeCompaction{})
		},
	} {
		for _, large := range []bool{false, true} { // the preamble is in a blob
			t.Run(fmt.Sprint(name, ", large ", large), func(t *testing.T) {
				w := newWorld()
				e := w.Engine(t)
				e.Limits.MaxPayload = 64 << 10
				system := "a saffron word"
				if large {
					system = strings.Repeat(system, 8_000)
					e.Limits.MaxPayload = 1 << 20
				}
				label := "saffron"
				r := api.CreateSession{}
				r.Label, r.System, r.Meta = &label, &api.System{{Content: system}}, turns.Raw(`{"title":"saffron"}`)
				s := must(e.Sessions.Create(t.Context(), alice, r, canon(r)))(t).ID
				var at turns.ID
				for range 12 {
					at = add(t, e, s, say("saffron "+long(4000), "yes")).ID
				}
				e.Caches.Clear()
				begun := false
				erase := func() {
					if !begun { // it reads keys too
						begun = true
						must(e.Erasure.Erase(t.Context(), enginetest.Operator, s, api.EraseSession{}))(t)
					}
				}
				e.Store.Keys = &erasingKeys{w.Keys, erase}
				read(e, s)
				erase()
				for cache, n := range e.Caches.Sizes() {
					if n > 0 && slices.Contains([]string{"settings", "preambles", "blobs", "plans", "contexts", "messages", "turns", "work contexts"}, cache) {
						t.Errorf("%s has %d bytes", cache, n)
					}
				}
				if got := must(e.Reader.Get(t.Context(), alice, s, api.Read{}))(t); got.State != "erased" || got.Label != "" || got.Meta != nil {
					t.Errorf("the session shows %+v", got)
				}
				if f, err := e.Forks.Fork(t.Context(), alice, s, api.CreateFork{Turn: at}, []byte("{}")); enginetest.Code(err) != api.Erased {
					t.Errorf("a fork of it: %+v, %v", f, err)
				}
			})
		}
	}
}
