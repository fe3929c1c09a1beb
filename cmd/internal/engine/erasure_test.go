package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/erasure"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

func erase(t *testing.T, e *Engine, s turns.ID, r api.EraseSession) *api.Receipt {
	t.Helper()
	return must(e.Erasure.Erase(t.Context(), enginetest.Operator, s, r))(t)
}

// stateOf returns what a receipt says of a store.
func stateOf(r *api.Receipt, store string) api.StoreState {
	i := slices.IndexFunc(r.Stores, func(s api.ErasedStore) bool { return s.Store == store })
	if i < 0 {
		return ""
	}
	return r.Stores[i].State
}

// What was said in a session that is erased can't be read any more, by any call and after any restart; what a fork
// said stays, what it inherited reads erased, and the chain still verifies.
func TestAnErasedSession(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	ctx := t.Context()
	s := create(t, e, 0, "nexus")
	add(t, e, s.ID, say("a needle", "found"))
	turn := add(t, e, s.ID, say("another needle", "found again"))
	fork := must(e.Forks.Fork(ctx, alice, s.ID, api.CreateFork{Turn: turn.ID}, []byte("{}")))(t)
	add(t, e, fork.ID, say("in the fork", "it stays"))
	must(e.Memories.Save(ctx, alice, api.SaveMemory{Kind: "semantic", Visibility: "all", Text: "The needle is here.", Session: s.ID, Sources: []api.TurnName{{Session: s.ID, Turn: turn.ID}}}, []byte("{}")))(t)

	dry := erase(t, e, s.ID, api.EraseSession{DryRun: true})
	if dry.Done || dry.Erased != nil || !dry.DryRun || stateOf(dry, "events") != api.StorePending || stateOf(dry, "forks") != api.StoreOutside {
		t.Errorf("the dry run: %+v", dry)
	}
	if got := find(t, w, e, alice, seek("needle")).Hits; len(got) == 0 {
		t.Error("the dry run erased something")
	}

	got := erase(t, e, s.ID, api.EraseSession{Ground: "request-1"})
	if got.Erased == nil || stateOf(got, "events") != api.StoreDone || stateOf(got, "key") != api.StoreDone || stateOf(got, "combined") != api.StoreDone || stateOf(got, "forks") != api.StoreOutside {
		t.Errorf("the receipt: %+v", got)
	}
	for range 3000 { // the index is made again
		if got = erase(t, e, s.ID, api.EraseSession{}); got.Done {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if !got.Done {
		t.Errorf("it is never done: %+v", got)
	}
	for _, e := range []*Engine{e, w.Engine(t)} {
		if g := must(e.Reader.Get(ctx, alice, s.ID, api.Read{}))(t); g.State != "erased" || g.Label != "" {
			t.Errorf("the session: %+v", g)
		}
		if _, err := e.Sessions.Append(ctx, alice, s.ID, say("more", ""), []byte("{}")); enginetest.Code(err) != api.Erased {
			t.Errorf("an append: %v", err)
		}
		if _, err := e.Sessions.Create(ctx, alice, api.CreateSession{ID: s.ID}, []byte("{}")); enginetest.Code(err) != api.Erased {
			t.Errorf("its id again: %v", err)
		}
		for what, at := range map[string]turns.ID{"a turn of it": turn.ID, "no turn": enginetest.ID(t)} {
			if _, err := e.Forks.Fork(ctx, alice, s.ID, api.CreateFork{Turn: at}, []byte("{}")); enginetest.Code(err) != api.Erased {
				t.Errorf("a fork at %s: %v", what, err)
			}
			if _, err := e.Forks.Fork(ctx, bob, s.ID, api.CreateFork{Turn: at}, []byte("{}")); enginetest.Code(err) != api.NotFound {
				t.Errorf("somebody else's fork at %s: %v", what, err)
			}
		}
		if c, err := e.Contexts.Context(ctx, alice, fork.ID, api.GetContext{}); err != nil || !mentions(c.Messages, "it stays") || mentions(c.Messages, "needle") {
			t.Errorf("the fork's context: %+v, %v", c, err)
		}
		if l := must(e.Memories.List(ctx, alice, api.ListMemories{}))(t); len(l.Memories) != 1 || l.Memories[0].Text != "" || l.Memories[0].Error != api.Erased {
			t.Errorf("its memory: %+v", l.Memories)
		}
		enginetest.Verified(t, e)
	}
	if got := find(t, w, e, alice, seek("needle")).Hits; len(got) != 0 {
		t.Errorf("found: %+v", got)
	}
}

// Only the operator erases, a ground that could tell something is refused, and external events are not taken along.
func TestWhoErases(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	for name, c := range map[string]struct {
		r    api.EraseSession
		as   reader.Caller
		want api.Code
	}{
		"agent":  {as: alice, want: api.Denied},
		"ground": {as: enginetest.Operator, r: api.EraseSession{Ground: "Ada asked us to"}, want: api.Malformed},
	} {
		if _, err := e.Erasure.Erase(t.Context(), c.as, s.ID, c.r); enginetest.Code(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := e.Erasure.Erase(t.Context(), enginetest.Operator, enginetest.ID(t), api.EraseSession{}); enginetest.Code(err) != api.NotFound {
		t.Errorf("a session that is not there: %v", err)
	}
}

// A crash between the event and the key is finished by the next start, and a session that a restored backup brought
// back is erased again, by the list.
func TestAnErasureIsFinished(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	cut, back := create(t, e, 0, "nexus"), create(t, e, 0, "nexus")
	failing := e.Store.Keys
	e.Store.Keys = keysThatStay{failing}
	if _, err := e.Erasure.Erase(t.Context(), enginetest.Operator, cut.ID, api.EraseSession{}); enginetest.Code(err) != api.Indeterminate {
		t.Fatalf("a key that stays: %v", err)
	}
	e.Store.Keys = failing
	var published []erasure.Erased
	e.Erasure.Listed = func() ([]erasure.Erased, error) { return []erasure.Erased{{Session: back.ID, Ground: "g"}}, nil }
	e.Erasure.Publish = func(l []erasure.Erased) error { published = append(published, l...); return nil }
	if err := e.Erasure.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range []turns.ID{cut.ID, back.ID} {
		if _, err := e.Store.Key(s); !errors.Is(err, turns.ErrErased) {
			t.Errorf("the key of %s: %v", s, err)
		}
		if !slices.ContainsFunc(published, func(p erasure.Erased) bool { return p.Session == s && !p.Hash.IsZero() }) {
			t.Errorf("%s is not on the list: %+v", s, published)
		}
	}
	enginetest.Verified(t, e)
}

// keysThatStay has a disk on which no key can be destroyed.
type keysThatStay struct{ content.Keys }

func (keysThatStay) Destroy(...turns.ID) error { return errors.New("the disk is full") }

func (keysThatStay) Puncture(turns.ID, uint64, ...uint64) error {
	return errors.New("the disk is full")
}

// mentions reports whether a text is in messages.
func mentions(ms any, text string) bool { return strings.Contains(string(enginetest.JSON(ms)), text) }

// A fork whose summaries were made of an erased session goes on: its context lacks them, a compaction is made from the
// originals that are left, and neither an append nor the verification stumbles.
func TestAForkOfAnErasedSessionGoesOn(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	ctx := t.Context()
	s := create(t, e, 8000, "nexus")
	var last *api.Appended
	for range 6 {
		last = add(t, e, s.ID, say("saffron "+enginetest.Text(600), "saffron answer"))
	}
	fork := must(e.Forks.Fork(ctx, alice, s.ID, api.CreateFork{Turn: last.ID}, []byte("{}")))(t)
	for range 8 {
		add(t, e, fork.ID, say("cobalt "+enginetest.Text(600), "cobalt answer"))
	}
	run := func() *api.CompactionRun {
		return must(e.Compactions.Compact(ctx, alice, fork.ID, api.RunCompaction{ID: enginetest.ID(t)}, []byte("{}")))(t)
	}
	if r := run(); r.Compaction == nil {
		t.Fatalf("%+v", r)
	}
	erase(t, e, s.ID, api.EraseSession{})
	context := func() *api.Context {
		return must(e.Contexts.Context(ctx, alice, fork.ID, api.GetContext{}))(t)
	}
	if c := context(); mentions(c.Messages, "saffron") {
		t.Errorf("the context shows what was erased: %+v", c.Messages)
	}
	for range 6 {
		add(t, e, fork.ID, say("cobalt later "+enginetest.Text(600), "cobalt answer"))
		context()
	}
	r := run()
	if r.Compaction == nil || r.Compaction.Compaction == nil || !r.Compaction.Compaction.FromOriginals {
		t.Fatalf("a compaction over erased turns: %+v", r)
	}
	_, ev, err := e.Reader.TurnEvent(turns.Ref{Session: fork.ID, Turn: r.Compaction.ID})
	if err != nil || !slices.Equal(ev.Keys, []turns.ID{fork.ID}) {
		t.Errorf("it is sealed under %v, %v", ev.Keys, err)
	}
	if c := context(); mentions(c.Messages, "saffron") || !mentions(c.Messages, "cobalt") {
		t.Errorf("the context after it: %+v", c.Messages)
	}
	add(t, e, fork.ID, say("cobalt at the end", "yes"))
	enginetest.Verified(t, e)
}

// With its events, what a session answered can't be read or found any more; the channel's other events can, and it takes
// more.
func TestAnErasedSessionTakesTheEventsAlongThatItAnswered(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	ctx := t.Context()
	s := create(t, e, 0, "nexus")
	mail := func(text string) *api.AppendedEvent {
		r := api.AppendEvent{Channel: "mail", Kind: "mail", Body: turns.Raw(fmt.Sprintf("%q", text))}
		return must(e.Events.AppendEvent(ctx, alice, r, enginetest.JSON(r)))(t)
	}
	kept, gone := mail("cobalt mail"), mail("saffron mail")
	answer := say("a mail came", "answered")
	answer.Meta = turns.Raw(fmt.Sprintf(`{"event":{"channel":"mail","id":%q}}`, gone.ID))
	add(t, e, s.ID, answer)
	if n := len(find(t, w, e, alice, seek("saffron")).Hits); n != 1 {
		t.Fatalf("%d hits before", n)
	}
	if r := erase(t, e, s.ID, api.EraseSession{}); stateOf(r, "external events") != api.StoreOutside {
		t.Errorf("without its events: %+v", r.Stores)
	}
	r := erase(t, e, s.ID, api.EraseSession{WithEvents: true})
	if stateOf(r, "external events") != api.StoreDone {
		t.Errorf("with its events: %+v", r.Stores)
	}
	if l, err := e.Events.ListChannels(ctx, alice, api.ListChannels{}); err != nil || len(l.Channels) != 1 || l.Channels[0].Channel != "mail" || l.Channels[0].Error != "" {
		t.Errorf("the channel whose newest event was erased: %+v, %v", l, err)
	}
	later := mail("cobalt later")
	for _, e := range []*Engine{e, w.Engine(t)} {
		if ev, err := e.Events.GetEvent(ctx, alice, api.GetEvent{Channel: "mail", ID: gone.ID}); err == nil && ev.Error != api.Erased || err != nil && enginetest.Code(err) != api.Erased {
			t.Errorf("the event: %+v, %v", ev, err)
		}
		for _, id := range []turns.ID{kept.ID, later.ID} {
			if ev, err := e.Events.GetEvent(ctx, alice, api.GetEvent{Channel: "mail", ID: id}); err != nil || !strings.Contains(string(ev.Body), "cobalt") {
				t.Errorf("another event: %+v, %v", ev, err)
			}
		}
		enginetest.Verified(t, e)
	}
	for range 6000 {
		if len(find(t, w, e, alice, seek("saffron")).Hits) == 0 && len(find(t, w, e, alice, seek("cobalt")).Hits) == 2 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the index has the words of the event still, or lacks those of the others")
}

// The operator of another ledger that has the session brings its erasure there; the next start destroys the key.
func TestAnErasureIsImported(t *testing.T) {
	w, there := newWorld(), newWorld()
	e, b := w.Engine(t), there.Engine(t)
	ctx := t.Context()
	s := create(t, e, 0, "nexus")
	add(t, e, s.ID, say("saffron", "yes"))
	bring := func() error {
		out := must(e.Transfer.Export(ctx, enginetest.Operator, s.ID, api.ExportSession{}))(t)
		for _, c := range []reader.Caller{alice, enginetest.Operator} {
			if _, err := b.Transfer.Import(ctx, c, api.ImportRecords{Records: out.Records}); c == enginetest.Operator {
				return err
			} else if err != nil && enginetest.Code(err) != api.Denied {
				return err
			}
		}
		return nil
	}
	if err := bring(); err != nil {
		t.Fatal(err)
	}
	erase(t, e, s.ID, api.EraseSession{})
	if err := bring(); err != nil {
		t.Fatal(err)
	}
	if err := b.Erasure.Finish(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Store.Key(s.ID); !errors.Is(err, turns.ErrErased) {
		t.Errorf("its key there: %v", err)
	}
	enginetest.Verified(t, b)
}

// copyingLog calls before and after around each append of a chain's first event.
type copyingLog struct {
	ledger.Log
	before, after func()
}

func (l *copyingLog) Append(ctx context.Context, subject string, expect uint64, payload []byte) (uint64, error) {
	if expect == 0 {
		l.before()
		defer l.after()
	}
	return l.Log.Append(ctx, subject, expect, payload)
}

// A fork, or what replaces a session after a reset, copies its settings. One that has read them when the session is erased,
// or a text redacted, is stored before that is acknowledged, and the receipt counts the fork.
func TestACopyUnderWayEndsBeforeAnErasure(t *testing.T) {
	for _, by := range []string{"fork", "reset"} {
		for _, taken := range []string{"erased", "redacted"} {
			t.Run(by+", "+taken, func(t *testing.T) {
				w := newWorld()
				e, ctx := w.Engine(t), t.Context()
				r := api.CreateSession{}
				r.System = &api.System{{Content: "a saffron word"}}
				s := must(e.Sessions.Create(ctx, alice, r, canon(r)))(t).ID
				at := add(t, e, s, say("q", "a")).ID
				var receipt *api.Receipt
				var err error
				stored, acknowledged := make(chan struct{}), make(chan struct{})
				early := false
				erasing := sync.OnceFunc(func() {
					go func() {
						defer close(acknowledged)
						if taken == "erased" {
							receipt, err = e.Erasure.Erase(ctx, enginetest.Operator, s, api.EraseSession{})
						} else {
							_, err = e.Erasure.Redact(ctx, enginetest.Operator, s, api.RedactTurn{Text: "saffron"}, nil)
						}
						select {
						case <-stored:
						default:
							early = true
						}
					}()
					for tries := 0; tries < 20_000; tries++ { // it is acknowledged by then, or it waits
						select {
						case <-acknowledged:
							return
						default:
							runtime.Gosched()
						}
					}
				})
				e.Reader.Log = &copyingLog{w.Log, erasing, sync.OnceFunc(func() { close(stored) })}
				if by == "fork" {
					must(e.Forks.Fork(ctx, alice, s, api.CreateFork{Turn: at}, []byte("{}")))(t)
				} else {
					must(e.Sessions.Reset(ctx, alice, s, api.ResetSession{}, []byte("{}")))(t)
				}
				<-acknowledged
				if err != nil || early {
					t.Errorf("acknowledged before the copy was stored: %t, %v", early, err)
				}
				if receipt != nil && by == "fork" {
					i := slices.IndexFunc(receipt.Stores, func(s api.ErasedStore) bool { return s.Store == "forks" })
					if i < 0 || receipt.Stores[i].Count != 1 {
						t.Errorf("the receipt: %+v", receipt)
					}
				}
				enginetest.Verified(t, e)
			})
		}
	}
}
