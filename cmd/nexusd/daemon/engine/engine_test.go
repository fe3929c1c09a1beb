package engine

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/compactor"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/memlog"
	"nexus/projections"
	"nexus/turns"
	"nexus/turns/interchange/strict"
	"nexus/turns/seal"
	"nexus/turns/tokens"
)

// world is a ledger, its log and its keys, that any number of engines share.
type world struct {
	id   [16]byte
	log  *memlog.Log
	keys *seal.Memory
}

func newWorld() *world {
	w := &world{log: memlog.New(memlog.Config{}), keys: new(seal.Memory)}
	_, _ = rand.Read(w.id[:]) // never fails
	return w
}

// engine starts an engine with projections of its own.
func (w *world) engine(t *testing.T) *Engine {
	t.Helper()
	store, err := projections.Open(projections.Config{Dir: "p", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- store.Run(ctx, w.log) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("projections: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("close projections: %v", err)
		}
	})
	return newEngine(w, store)
}

func newEngine(w *world, store *projections.Store) *Engine {
	return &Engine{
		Ledger: w.id, Log: w.log, Blobs: new(memlog.Blobs), Store: store, Keys: w.keys, Counter: tokens.Approx{},
		Tiers: []compactor.Tier{{Name: "first-words", Summarizer: firstWords{}, Local: true}}, Now: time.Now, Rand: rand.Reader,
	}
}

// firstWords is a summarizer that keeps the first words of the text it is given.
type firstWords struct{}

func (firstWords) Summarize(_ context.Context, in compactor.Input) (compactor.Output, error) {
	text := in.Previous
	for _, h := range in.Halves {
		text += fmt.Sprintf(" [%d %s]", h.Depth, h.Half)
	}
	return compactor.Output{Text: text[max(0, len(text)-int(in.MaxTokens)*2):]}, nil
}

var alice = Caller{Tenant: "default", Agent: "alice"}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newID(t *testing.T) turns.ID {
	t.Helper()
	return must(turns.NewID(time.Now(), rand.Reader))(t)
}

func canon(v any) []byte {
	b, err := turns.EncodeJSON(v)
	if err != nil {
		panic(err)
	}
	return b
}

func create(t *testing.T, e *Engine, window uint64, policy string) *api.Session {
	t.Helper()
	r := api.CreateSession{}
	r.Limits = &turns.Limits{ContextWindow: window}
	r.Policy = &api.Policy{Name: policy}
	return must(e.Create(t.Context(), alice, r, []byte("{}")))(t)
}

func say(user, assistant string) api.AppendTurn {
	r := api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, user)}}
	if assistant != "" {
		m := turns.TextMessage(turns.Assistant, assistant)
		r.Response = &m
	}
	return r
}

func add(t *testing.T, e *Engine, s turns.ID, r api.AppendTurn) *api.Appended {
	t.Helper()
	return must(e.Append(t.Context(), alice, s, r, canon(r)))(t)
}

func verified(t *testing.T, e *Engine) *api.Verified {
	t.Helper()
	v := must(e.Verify(t.Context(), Caller{"default", "_"}, api.Verify{}))(t)
	for _, p := range v.Problems {
		t.Errorf("verify: %+v", p)
	}
	return v
}

func code(err error) api.Code {
	if err == nil {
		return ""
	}
	return api.FromError(err).Code
}

func TestAppendAndRead(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	s := create(t, e, 0, "nexus")
	var ids []turns.ID
	for i := range 5 {
		a := add(t, e, s.ID, say(fmt.Sprintf("question %d", i), fmt.Sprintf("answer %d", i)))
		if a.Depth != uint64(i+1) || a.Context.Tokens == 0 {
			t.Errorf("turn %d: %+v", i, a)
		}
		ids = append(ids, a.ID)
	}
	got := must(e.Get(t.Context(), alice, s.ID, api.Read{}))(t)
	if *got.Head != ids[4] || got.Depth != 5 || got.Turns != 5 || got.State != "open" {
		t.Errorf("session: %+v", got)
	}
	list := must(e.ListTurns(t.Context(), alice, s.ID, api.ListTurns{Page: api.Page{Limit: 2}, Full: true}))(t)
	if len(list.Turns) != 2 || list.Turns[0].ID != ids[0] || list.Next == "" {
		t.Fatalf("first page: %+v", list)
	}
	list = must(e.ListTurns(t.Context(), alice, s.ID, api.ListTurns{Page: api.Page{After: list.Next}}))(t)
	if len(list.Turns) != 3 || list.Turns[0].ID != ids[2] || list.Next != "" {
		t.Fatalf("second page: %+v", list)
	}
	back := must(e.ListTurns(t.Context(), alice, s.ID, api.ListTurns{Order: "desc", Page: api.Page{Limit: 2}}))(t)
	if len(back.Turns) != 2 || back.Turns[0].ID != ids[4] {
		t.Fatalf("backwards: %+v", back)
	}
	cx := must(e.Context(t.Context(), alice, s.ID, api.GetContext{Format: "openai"}))(t)
	if len(cx.Messages) != 10 || len(cx.Sources) != 10 {
		t.Errorf("context: %d messages, %d sources", len(cx.Messages), len(cx.Sources))
	}
	if err := strict.OpenAI(canon(cx.Messages)); err != nil {
		t.Error(err)
	}
	if v := verified(t, e); v.Turns != 5 || v.Sessions != 1 {
		t.Errorf("verified: %+v", v)
	}
	if _, err := e.Get(t.Context(), Caller{"default", "bob"}, s.ID, api.Read{}); code(err) != api.NotFound {
		t.Errorf("another agent's session: %v, want not_found", err)
	}
}

// A retry of a stored append stores nothing twice: on the same daemon, on one
// that lags behind, after a head move, and the same id with another request is
// refused.
func TestSameIDIsStoredOnce(t *testing.T) {
	w := newWorld()
	e, other := w.engine(t), w.engine(t)
	s := create(t, e, 0, "nexus")
	r := say("one", "two")
	r.ID = newID(t)
	first := add(t, e, s.ID, r)
	second := add(t, e, s.ID, say("three", "four"))
	for name, d := range map[string]*Engine{"the same daemon": e, "a second daemon": other} {
		again := must(d.Append(t.Context(), alice, s.ID, r, canon(r)))(t)
		if again.Hash != first.Hash || !again.Duplicate || again.Position != first.Position {
			t.Errorf("retry on %s: %+v, first was %+v", name, again, first)
		}
	}
	must(other.Move(t.Context(), alice, s.ID, api.MoveSession{To: &first.ID}, nil))(t)
	for name, d := range map[string]*Engine{"the same daemon": e, "a second daemon": other} {
		again := must(d.Append(t.Context(), alice, s.ID, r, canon(r)))(t)
		if again.Hash != first.Hash || !again.Duplicate {
			t.Errorf("retry on %s after a head move: %+v", name, again)
		}
		changed := r
		changed.Model = "another"
		if _, err := d.Append(t.Context(), alice, s.ID, changed, canon(changed)); code(err) != api.IDReused {
			t.Errorf("the same id with another request on %s: %v, want id_reused", name, err)
		}
	}
	if st := must(w.log.State(t.Context()))(t); st.Last != 4 {
		t.Errorf("the log has %d records, want 4: opened, two turns, one move", st.Last)
	}
	_ = second
	verified(t, e)
}

func TestStaleParentIsConflict(t *testing.T) {
	w := newWorld()
	e, other := w.engine(t), w.engine(t)
	s := create(t, e, 0, "nexus")
	one := add(t, e, s.ID, say("1", "a"))
	two := add(t, other, s.ID, say("2", "b"))
	r := say("3", "c")
	r.Parent = one.ID
	_, err := e.Append(t.Context(), alice, s.ID, r, canon(r))
	var x *api.Error
	if !errors.As(err, &x) || x.Code != api.Conflict || x.Details["head"] != two.ID.String() {
		t.Errorf("append after a stale parent: %v, want conflict with head %s", err, two.ID)
	}
	r.Parent = two.ID
	add(t, e, s.ID, r)
}

func TestToolCallsAcrossAppends(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	s := create(t, e, 0, "nexus")
	call := func(id string) turns.Part {
		return turns.Part{Type: turns.ToolCall, ID: id, Name: "run", Arguments: turns.Raw(`{}`)}
	}
	result := func(id string) turns.Message {
		return turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: turns.Raw(`"ok"`)}}}
	}
	r := say("go", "")
	r.Response = &turns.Message{Role: turns.Assistant, Parts: []turns.Part{call("a"), call("b"), call("c")}}
	if a := add(t, e, s.ID, r); len(a.Open) != 3 {
		t.Fatalf("open after the calls: %v", a.Open)
	}
	if a := add(t, e, s.ID, api.AppendTurn{Messages: []turns.Message{result("b")}}); len(a.Open) != 2 {
		t.Fatalf("open after one result: %v", a.Open)
	}
	second := w.engine(t) // has no memory of the open calls
	a := must(second.Append(t.Context(), alice, s.ID, say("never mind", "fine"), nil))(t)
	if len(a.Abandoned) != 2 || len(a.Open) != 0 {
		t.Fatalf("after moving on: %+v", a)
	}
	late := add(t, e, s.ID, api.AppendTurn{Messages: []turns.Message{result("a")}})
	if len(late.Late) != 1 {
		t.Errorf("a late result: %+v", late)
	}
	unknown := api.AppendTurn{Messages: []turns.Message{result("nope")}}
	if _, err := e.Append(t.Context(), alice, s.ID, unknown, canon(unknown)); code(err) != api.Malformed {
		t.Errorf("a result of no known call: %v, want malformed", err)
	}
	for _, f := range []string{"openai", "anthropic"} {
		cx := must(e.Context(t.Context(), alice, s.ID, api.GetContext{Format: f}))(t)
		var err error
		if f == "openai" {
			err = strict.OpenAI(canon(cx.Messages))
		} else {
			err = strict.Anthropic(nil, canon(cx.Messages))
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", f, err, canon(cx.Messages))
		}
	}
	verified(t, e)
}

func long(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefgh "[i%9]
	}
	return string(b)
}

func TestCompactionIsATurn(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	s := create(t, e, 8000, "nexus")
	for i := range 12 {
		add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(800)), fmt.Sprintf("answer %d %s", i, long(800))))
	}
	cx := must(e.Context(t.Context(), alice, s.ID, api.GetContext{Explain: true}))(t)
	if cx.Compacted != nil {
		t.Fatalf("compacted too early: %d tokens of %d", cx.Tokens, cx.Budget)
	}
	parent := must(e.Get(t.Context(), alice, s.ID, api.Read{}))(t).Head
	var compacted []turns.ID
	for i := range 30 {
		r := say(fmt.Sprintf("more %d %s", i, long(800)), long(400))
		if len(compacted) == 0 {
			r.Parent = *parent // stays the head, but for compactions between
		}
		a := add(t, e, s.ID, r)
		parent = &a.ID
		cx := must(e.Context(t.Context(), alice, s.ID, api.GetContext{Format: "anthropic"}))(t)
		if cx.Compacted != nil {
			compacted = append(compacted, *cx.Compacted)
		}
		if cx.Tokens+cx.Overhead > cx.Budget {
			t.Fatalf("turn %d: %d tokens of %d", i, cx.Tokens, cx.Budget)
		}
		if err := strict.Anthropic(canon(cx.System), canon(cx.Messages)); err != nil {
			t.Fatalf("turn %d: %v", i, err)
		}
	}
	if len(compacted) < 2 {
		t.Fatalf("%d compactions, want several", len(compacted))
	}
	k := must(e.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: compacted[1]}))(t)
	if k.Type != "compaction" || k.Compaction.Through == nil || k.Compaction.FirstKept == nil || k.Compaction.TokensAfter >= k.Compaction.TokensBefore {
		t.Errorf("second compaction: %+v", k.Compaction)
	}
	if _, err := e.Compact(t.Context(), alice, s.ID, api.RunCompaction{DryRun: true}, nil); err != nil && code(err) != api.Nothing {
		t.Error(err)
	}
	run := must(e.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")))(t)
	if _, err := e.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")); code(err) != api.Nothing {
		t.Errorf("the same plan again: %v, want nothing_to_compact", err)
	}
	one := must(e.Expand(t.Context(), alice, s.ID, api.ExpandCompaction{ID: run.Compaction.ID}))(t)
	all := must(e.Expand(t.Context(), alice, s.ID, api.ExpandCompaction{ID: run.Compaction.ID, Levels: turns.Raw(`"all"`)}))(t)
	if len(one.Turns) == 0 || len(all.Turns) <= len(one.Turns) || all.Turns[0].Depth != 1 {
		t.Errorf("expand: one level %d turns, all %d", len(one.Turns), len(all.Turns))
	}
	if v := verified(t, e); v.Compactions != uint64(len(compacted)+1) {
		t.Errorf("verified %d compactions, want %d", v.Compactions, len(compacted)+1)
	}
}

func TestForksSeeWhatTheirModeSays(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	s := create(t, e, 8000, "nexus")
	var ids []turns.ID
	for i := range 8 {
		ids = append(ids, add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(2000)), fmt.Sprintf("answer %d", i))).ID)
	}
	run := must(e.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")))(t)
	texts := func(id turns.ID) int {
		return len(must(e.Context(t.Context(), alice, id, api.GetContext{Budget: 100_000}))(t).Messages)
	}
	parent := texts(s.ID)
	f := func(turn turns.ID, mode string) *api.Session {
		return must(e.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: turn, Mode: mode}, []byte(mode+turn.String())))(t)
	}
	if got := texts(f(run.Compaction.ID, "as_seen").ID); got != parent {
		t.Errorf("as_seen at the compaction: %d messages, the parent sees %d", got, parent)
	}
	if got := texts(f(run.Compaction.ID, "full").ID); got != 16 {
		t.Errorf("full at the compaction: %d messages, want all 16", got)
	}
	if got := texts(f(ids[2], "as_seen").ID); got != 6 {
		t.Errorf("as_seen at turn 3: %d messages, want 6: nothing that came later", got)
	}
	sum := f(ids[7], "summary")
	if sum.Compactions != 1 {
		t.Errorf("mode summary at the last turn: %d compactions, want the reused one", sum.Compactions)
	}
	a := add(t, e, sum.ID, say("on the fork", "yes"))
	if a.Depth != 10 {
		t.Errorf("depth on the fork: %d, want 10: 8 turns, a compaction, this", a.Depth)
	}
	full := f(run.Compaction.ID, "full")
	add(t, e, full.ID, say("in full", "yes"))
	if got := texts(full.ID); got != 18 {
		t.Errorf("full, one turn later: %d messages, want 18", got)
	}
	tree := must(e.Tree(t.Context(), alice, sum.ID, api.GetTree{}))(t)
	if len(tree.Sessions) != 6 || tree.Root != s.ID {
		t.Errorf("tree: %d sessions from %s", len(tree.Sessions), tree.Root)
	}
	verified(t, e)
}

func TestHeadMovesBackAndForward(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	s := create(t, e, 0, "nexus")
	var ids []turns.ID
	for i := range 4 {
		ids = append(ids, add(t, e, s.ID, say(fmt.Sprint("q", i), fmt.Sprint("a", i))).ID)
	}
	move := func(to *turns.ID) {
		must(e.Move(t.Context(), alice, s.ID, api.MoveSession{To: to}, nil))(t)
	}
	move(&ids[1])
	side := add(t, e, s.ID, say("other way", "ok"))
	if side.Depth != 3 || *side.Parent != ids[1] {
		t.Errorf("after the move: %+v", side)
	}
	move(&ids[3])
	add(t, e, s.ID, say("forward again", "ok"))
	move(nil)
	if a := add(t, e, s.ID, say("from the start", "ok")); a.Depth != 1 || a.Parent != nil {
		t.Errorf("after the move to the start: %+v", a)
	}
	bogus := newID(t)
	if _, err := e.Move(t.Context(), alice, s.ID, api.MoveSession{To: &bogus}, nil); code(err) != api.NotFound {
		t.Errorf("a move to nowhere: %v, want not_found", err)
	}
	verified(t, e)
}

func TestExportKeepsHashes(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	s := create(t, e, 8000, "nexus")
	var last turns.ID
	for i := range 8 {
		last = add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(2000)), fmt.Sprintf("answer %d", i))).ID
	}
	must(e.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")))(t)
	fork := must(e.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: last}, []byte("f")))(t)
	add(t, e, fork.ID, say("on the fork", "yes"))
	var records []api.ExportRecord
	for after := ""; ; {
		p := must(e.Export(t.Context(), alice, fork.ID, api.ExportSession{Page: api.Page{After: after, Limit: 1}}))(t)
		records = append(records, p.Records...)
		if p.Next == after && after != "" {
			t.Fatalf("the page after %s is followed by itself", after)
		}
		if after = p.Next; after == "" {
			break
		}
	}
	to := newWorld().engine(t)
	first := must(to.Import(t.Context(), alice, api.ImportRecords{Records: records}))(t)
	again := must(to.Import(t.Context(), alice, api.ImportRecords{Records: records}))(t)
	if first.Stored == 0 || again.Stored != 0 || again.Existing != first.Stored {
		t.Errorf("imported %+v, then %+v", first, again)
	}
	a := must(e.Get(t.Context(), alice, fork.ID, api.Read{}))(t)
	b := must(to.Get(t.Context(), alice, fork.ID, api.Read{}))(t)
	if a.Hash != b.Hash {
		t.Errorf("hash %v became %v", a.Hash, b.Hash)
	}
	if must(e.Context(t.Context(), alice, fork.ID, api.GetContext{}))(t).Fingerprint != must(to.Context(t.Context(), alice, fork.ID, api.GetContext{}))(t).Fingerprint {
		t.Error("the context differs after import")
	}
	records[len(records)-1].Event.Payload[40] ^= 1
	if _, err := newWorld().engine(t).Import(t.Context(), alice, api.ImportRecords{Records: records}); code(err) != api.Corrupt {
		t.Errorf("import of a changed event: %v, want corrupt", err)
	}
	verified(t, to)
}

func TestLabels(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	label := "telegram/42"
	open := func(c Caller) (*api.Session, error) {
		r := api.CreateSession{ID: newID(t)}
		r.Label = &label
		return e.Create(t.Context(), c, r, canon(r))
	}
	s := must(open(alice))(t)
	if got := must(e.Resolve(t.Context(), alice, label))(t); got.ID != s.ID || got.Label != label {
		t.Errorf("resolve: %+v", got)
	}
	if _, err := open(alice); code(err) != api.Conflict {
		t.Errorf("a second session with the label: %v, want conflict", err)
	}
	must(open(Caller{"default", "bob"}))(t) // another agent's labels are its own
	must(e.CloseSession(t.Context(), alice, s.ID, api.CloseSession{}, nil))(t)
	if _, err := e.Append(t.Context(), alice, s.ID, say("x", "y"), nil); code(err) != api.Closed {
		t.Errorf("append to a closed session: %v, want closed", err)
	}
	s2 := must(open(alice))(t)
	if got := must(e.Resolve(t.Context(), alice, label))(t); got.ID != s2.ID {
		t.Errorf("resolve after the close: %s, want %s", got.ID, s2.ID)
	}
	verified(t, e)
}

// What is too large for an event goes to blobs, and comes back.
func TestLargePartsBecomeBlobs(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	s := create(t, e, 0, "nexus")
	big := long(900_000)
	a := add(t, e, s.ID, say("read this: "+big, "done"))
	got := must(e.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: a.ID}))(t)
	if ref := got.Messages[0].Parts[0].Ref; ref == nil || ref.Size != uint64(len(big)+11) {
		t.Fatalf("no blob: %+v", got.Messages[0].Parts[0].Ref)
	}
	cx := must(e.Context(t.Context(), alice, s.ID, api.GetContext{Budget: 10_000_000}))(t)
	if len(cx.Messages[0]) < len(big) {
		t.Errorf("the context shows %d bytes of %d", len(cx.Messages[0]), len(big))
	}
	verified(t, e)
}

func TestResetGoesOnInASuccessor(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	label := "plan"
	r := api.CreateSession{SessionSettings: api.SessionSettings{Label: &label, System: &api.System{{Content: "be terse"}}}}
	s := must(e.Create(t.Context(), alice, r, []byte("{}")))(t)
	add(t, e, s.ID, say("one", "1"))
	id := newID(t)
	next := must(e.Reset(t.Context(), alice, s.ID, api.ResetSession{ID: id}, []byte("{}")))(t)
	if next.ID == s.ID || next.Label != label || next.Depth != 0 || next.Overhead != must(e.Get(t.Context(), alice, s.ID, api.Read{}))(t).Overhead {
		t.Errorf("successor: %+v", next)
	}
	if got := must(e.Resolve(t.Context(), alice, label))(t).ID; got != next.ID {
		t.Errorf("the label resolves to %s, want %s", got, next.ID)
	}
	again := must(w.engine(t).Reset(t.Context(), alice, s.ID, api.ResetSession{ID: id}, []byte("{}")))(t)
	if again.ID != next.ID {
		t.Errorf("the same reset again, on a second daemon: successor %s, want %s", again.ID, next.ID)
	}
	_, err := e.Append(t.Context(), alice, s.ID, say("two", "2"), nil)
	if x := api.FromError(err); x.Code != api.Closed || x.Details["successor"] != next.ID.String() {
		t.Errorf("append to the old session: %v %v", err, x)
	}
	verified(t, e)
}

// A daemon that dies between the two events of a reset leaves a session without
// a successor; the next look-up of the label, or the next refused append, opens it.
func TestResetIsFinishedByWhoComesNext(t *testing.T) {
	for name, finish := range map[string]func(*testing.T, *Engine, turns.ID, string){
		"resolve": func(t *testing.T, e *Engine, _ turns.ID, label string) {
			must(e.Resolve(t.Context(), alice, label))(t)
		},
		"append": func(t *testing.T, e *Engine, s turns.ID, _ string) {
			if _, err := e.Append(t.Context(), alice, s, say("x", "y"), nil); code(err) != api.Closed {
				t.Errorf("append: %v, want closed", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			e := w.engine(t)
			label := "plan"
			s := must(e.Create(t.Context(), alice, api.CreateSession{SessionSettings: api.SessionSettings{Label: &label}}, []byte("{}")))(t)
			successor := must(e.newSuccessor(s.ID))(t)
			err := e.mutate(t.Context(), alice, s.ID, func(_ *chain, s *ledger.Session) (*draft, error) {
				ev, _, err := e.begin(s, request{id: newID(t), what: "session.reset"}, turns.KindState)
				if err != nil {
					return nil, err
				}
				ev.State, ev.Successor = turns.Reset, successor
				return &draft{event: ev, body: &turns.StateBody{}}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			second := w.engine(t)
			finish(t, second, s.ID, label)
			if got := must(second.Get(t.Context(), alice, successor, api.Read{}))(t); got.Label != label || got.State != "open" {
				t.Errorf("successor: %+v", got)
			}
			if got := must(e.Resolve(t.Context(), alice, label))(t).ID; got != successor {
				t.Errorf("the label resolves to %s, want %s", got, successor)
			}
			verified(t, second)
		})
	}
}

// What a fork of mode full leaves aside, its own forks leave aside too, wherever
// on the inherited path their heads go.
func TestForkOfAFullForkSeesNoCompaction(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	s := create(t, e, 8000, "nexus")
	for i := range 8 {
		add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(2000)), fmt.Sprintf("answer %d", i)))
	}
	must(e.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")))(t)
	x := add(t, e, s.ID, say("x", "x")).ID
	y := add(t, e, s.ID, say("y", "y")).ID
	full := must(e.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: y, Mode: "full"}, []byte("1")))(t)
	z := add(t, e, full.ID, say("z", "z")).ID
	f := must(e.Fork(t.Context(), alice, full.ID, api.CreateFork{Turn: z}, []byte("2")))(t)
	messages := func() int {
		return len(must(e.Context(t.Context(), alice, f.ID, api.GetContext{Budget: 100_000}))(t).Messages)
	}
	if got := messages(); got != 22 {
		t.Errorf("at the fork point: %d messages, want 22", got)
	}
	must(e.Move(t.Context(), alice, f.ID, api.MoveSession{To: &x}, nil))(t)
	if got := messages(); got != 18 {
		t.Errorf("above the full fork's point: %d messages, want 18", got)
	}
	add(t, e, f.ID, say("w", "w"))
	if got := messages(); got != 20 {
		t.Errorf("after a turn there: %d messages, want 20", got)
	}
	verified(t, e)
}

func TestMergeBaseOfTwoSessions(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	s := create(t, e, 0, "nexus")
	a := add(t, e, s.ID, say("a", "a")).ID
	b := add(t, e, s.ID, say("b", "b")).ID
	f := must(e.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: a}, []byte("{}")))(t)
	c := add(t, e, f.ID, say("c", "c")).ID
	got := must(e.Base(t.Context(), alice, s.ID, api.GetBase{Other: api.Place{Session: f.ID}}))(t)
	if got.Base == nil || got.Base.ID != a || got.Here.ID != b || got.Other.ID != c {
		t.Errorf("base %+v of %+v and %+v", got.Base, got.Here, got.Other)
	}
	other := create(t, e, 0, "nexus")
	add(t, e, other.ID, say("o", "o"))
	if got := must(e.Base(t.Context(), alice, s.ID, api.GetBase{Other: api.Place{Session: other.ID}}))(t); got.Base != nil {
		t.Errorf("of two trees: %+v", got.Base)
	}
	if _, err := e.Base(t.Context(), Caller{"default", "bob"}, s.ID, api.GetBase{Other: api.Place{Session: f.ID}}); code(err) != api.NotFound {
		t.Errorf("another agent's sessions: %v, want not_found", err)
	}
	list := must(e.ListTurns(t.Context(), alice, f.ID, api.ListTurns{At: a}))(t)
	if len(list.Turns) != 1 || list.Turns[0].ID != a {
		t.Errorf("list at the fork point: %+v", list.Turns)
	}
}

func TestAttachmentsComeInPieces(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	s := create(t, e, 0, "nexus")
	whole := make([]byte, 1_500_000)
	for i := range whole {
		whole[i] = byte(i * i >> 3)
	}
	var pieces []turns.Hash
	for piece := range slices.Chunk(whole, 400_000) {
		pieces = append(pieces, must(e.PutBlob(t.Context(), alice, api.PutBlob{Session: s.ID, Data: piece}))(t).Digest)
	}
	info := must(e.PutBlob(t.Context(), alice, api.PutBlob{Session: s.ID, Pieces: pieces}))(t)
	part := turns.Part{Type: turns.Blob, Modality: "image", MimeType: "image/png", Ref: &turns.BlobRef{Digest: info.Digest, Size: info.Size}}
	r := say("look", "a picture")
	r.Messages[0].Parts = append(r.Messages[0].Parts, part)
	add(t, e, s.ID, r)
	var got []byte
	for off := uint64(0); ; {
		b := must(e.GetBlob(t.Context(), alice, api.GetBlob{Session: s.ID, Digest: info.Digest, Offset: off}))(t)
		if got = append(got, b.Data...); b.Next == 0 {
			break
		}
		off = b.Next
	}
	if !bytes.Equal(got, whole) {
		t.Errorf("the blob came back as %d bytes that differ", len(got))
	}
	wrong := part
	wrong.Ref = &turns.BlobRef{Digest: info.Digest, Size: 7}
	r = say("look", "x")
	r.Messages[0].Parts = append(r.Messages[0].Parts, wrong)
	if _, err := e.Append(t.Context(), alice, s.ID, r, nil); code(err) != api.Malformed {
		t.Errorf("a ref with a wrong size: %v, want malformed", err)
	}
	other := create(t, e, 0, "nexus")
	r.Messages[0].Parts[1] = part
	if _, err := e.Append(t.Context(), alice, other.ID, r, nil); code(err) != api.NotFound {
		t.Errorf("a ref to a blob of another tree: %v, want not_found", err)
	}
	if _, err := e.GetBlob(t.Context(), alice, api.GetBlob{Session: other.ID, Digest: info.Digest}); code(err) != api.NotFound {
		t.Errorf("a blob of another tree: %v, want not_found", err)
	}
	verified(t, e)
}

func TestOverflowIsMended(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	s := create(t, e, 200_000, "balanced")
	for i := range 30 {
		add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(2000)), fmt.Sprintf("answer %d %s", i, long(2000))))
	}
	before := must(e.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
	for _, tc := range []struct {
		status     int
		text, kind string
	}{
		{429, "Request too large for m on tokens per min (TPM): Limit 30000, Requested 342389", "rate_limit"},
		{500, "overloaded", "other"},
	} {
		_, err := e.Overflow(t.Context(), alice, s.ID, api.Overflow{Error: tc.text, Status: tc.status}, nil)
		if x := api.FromError(err); x.Code != api.Unprocessable || x.Details["kind"] != tc.kind {
			t.Errorf("%s: %v, want unprocessable, %s", tc.text, err, tc.kind)
		}
	}
	// The provider counts twice what we count, against a window of 25,000.
	said := fmt.Sprintf("prompt is too long: %d tokens > 25000 maximum", 2*before.Tokens)
	r := api.Overflow{ID: newID(t), Error: said, Status: 400, Format: "anthropic"}
	cx := must(e.Overflow(t.Context(), alice, s.ID, r, []byte("{}")))(t)
	if cx.Compacted == nil || 2*cx.Tokens > 25_000 {
		t.Errorf("compacted %v to %d tokens, want at most half of 25000", cx.Compacted, cx.Tokens)
	}
	if err := strict.Anthropic(canon(cx.System), canon(cx.Messages)); err != nil {
		t.Error(err)
	}
	again := must(e.Overflow(t.Context(), alice, s.ID, r, []byte("{}")))(t)
	if *again.Compacted != *cx.Compacted || again.Fingerprint != cx.Fingerprint {
		t.Errorf("the same request again: %+v", again)
	}
	k := must(e.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: *cx.Compacted}))(t)
	if k.Compaction.Trigger.Kind != "overflow" || !bytes.Contains(k.Compaction.Trigger.Detail, []byte(`"window":25000`)) {
		t.Errorf("trigger %+v", k.Compaction.Trigger)
	}
	// Until nothing is left to shorten, each one makes it shorter.
	last := cx.Tokens
	for i := 0; ; i++ {
		cx, err := e.Overflow(t.Context(), alice, s.ID, api.Overflow{Error: "context_length_exceeded", Status: 400}, nil)
		if err != nil {
			if x := api.FromError(err); x.Code != api.Unprocessable || x.Details["protected"] == nil {
				t.Errorf("at the end: %v", err)
			}
			break
		}
		if cx.Tokens >= last || i > 20 {
			t.Fatalf("overflow %d: %d tokens after %d", i, cx.Tokens, last)
		}
		last = cx.Tokens
	}
	verified(t, e)
}

// copyTo exports a session from one engine into another, and gives what the
// first refused record says.
func copyTo(t *testing.T, from, to *Engine, session turns.ID) error {
	t.Helper()
	for after := ""; ; {
		page := must(from.Export(t.Context(), alice, session, api.ExportSession{Page: api.Page{After: after, Limit: 3}}))(t)
		if _, err := to.Import(t.Context(), alice, api.ImportRecords{Records: page.Records}); err != nil {
			return err
		}
		if after = page.Next; after == "" {
			return nil
		}
	}
}

// A fork that reuses a summary from another branch can be read where only the
// fork and its ancestors are.
func TestAReusedSummaryGoesOutWithTheFork(t *testing.T) {
	e := newWorld().engine(t)
	s := create(t, e, 8000, "nexus")
	var ids []turns.ID
	for i := range 8 {
		ids = append(ids, add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(2000)), fmt.Sprintf("answer %d", i))).ID)
	}
	branch := must(e.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: ids[7]}, []byte("1")))(t)
	must(e.Compact(t.Context(), alice, branch.ID, api.RunCompaction{}, []byte("{}")))(t)
	f := must(e.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: ids[7], Mode: "summary"}, []byte("2")))(t)
	list := must(e.ListCompactions(t.Context(), alice, f.ID, api.ListCompactions{}))(t)
	if len(list.Turns) != 1 || list.Turns[0].Compaction.Mode != "reused" {
		t.Fatalf("compactions of the fork: %+v", list.Turns)
	}
	to := newWorld().engine(t)
	if err := copyTo(t, e, to, f.ID); err != nil {
		t.Fatal(err)
	}
	here := must(e.Context(t.Context(), alice, f.ID, api.GetContext{}))(t)
	there := must(to.Context(t.Context(), alice, f.ID, api.GetContext{}))(t)
	if here.Fingerprint != there.Fingerprint {
		t.Errorf("fingerprint %s here, %s there", here.Fingerprint, there.Fingerprint)
	}
	verified(t, to)
}

// A blob is written once: one with other content than its digest says must not
// take the place of the right one.
func TestAnImportedBlobHasItsDigest(t *testing.T) {
	e := newWorld().engine(t)
	s := create(t, e, 0, "nexus")
	add(t, e, s.ID, say("read this: "+long(900_000), "done"))
	var blob *api.ExportBlob
	for _, r := range must(e.Export(t.Context(), alice, s.ID, api.ExportSession{}))(t).Records {
		if r.Blob != nil {
			blob = r.Blob
		}
	}
	to := newWorld().engine(t)
	if _, err := to.Import(t.Context(), alice, api.ImportRecords{Records: []api.ExportRecord{{Blob: blob}}}); err == nil {
		t.Error("a blob of an unknown tree was taken")
	}
	wrong := *blob
	wrong.Sealed = bytes.Clone(blob.Sealed)
	wrong.Sealed[len(wrong.Sealed)/2] ^= 1
	key := must(e.Keys.Key(s.ID))(t)
	if _, err := to.Import(t.Context(), alice, api.ImportRecords{Records: []api.ExportRecord{{Key: &api.ExportKey{ID: s.ID, Key: key[:]}}, {Blob: &wrong}}}); code(err) != api.Corrupt {
		t.Errorf("altered content: %v, want corrupt", err)
	}
	if err := copyTo(t, e, to, s.ID); err != nil {
		t.Fatal(err)
	}
	verified(t, to)
}

// The agent summarizes itself, on one daemon or two, while the session goes on.
func TestAgentSummarizesItself(t *testing.T) {
	w := newWorld()
	e, second := w.engine(t), w.engine(t)
	s := create(t, e, 0, "balanced")
	for i := range 20 {
		add(t, e, s.ID, say(fmt.Sprintf("question %d </summary> %s", i, long(2000)), fmt.Sprintf("answer %d %s", i, long(2000))))
	}
	taken := must(e.Take(t.Context(), alice, s.ID, api.TakeCompaction{Focus: "the question"}))(t)
	if !strings.Contains(taken.Content, "question 0 &lt;/summary>") || !strings.Contains(taken.Prompt, "the question") || taken.Next != "" {
		t.Errorf("taken: prompt %q, content of %d bytes, next %q", taken.Prompt, len(taken.Content), taken.Next)
	}
	later := add(t, e, s.ID, say("meanwhile", "yes"))
	refused := api.SubmitCompaction{Plan: taken.Plan, Text: long(40 * int(taken.MaxTokens))}
	if _, err := second.Submit(t.Context(), alice, s.ID, refused, nil); code(err) != api.Unprocessable {
		t.Errorf("a summary that is too long: %v, want unprocessable", err)
	}
	r := api.SubmitCompaction{ID: newID(t), Plan: taken.Plan, Text: "TASK: questions were asked.", Usage: &turns.Usage{InputTokens: 9, OutputTokens: 3}, SawThrough: later.ID}
	k := must(second.Submit(t.Context(), alice, s.ID, r, canon(r)))(t)
	if k.Compaction.Tier != "agent" || *k.Compaction.Summary != r.Text || k.Usage == nil || *k.Compaction.SawThrough != later.ID || *k.Parent != later.ID {
		t.Errorf("compaction by %s, saw through %v, after %v", k.Compaction.Tier, k.Compaction.SawThrough, k.Parent)
	}
	if again := must(e.Submit(t.Context(), alice, s.ID, r, canon(r)))(t); again.ID != k.ID {
		t.Errorf("the same submit again: %s, want %s", again.ID, k.ID)
	}
	stale := api.SubmitCompaction{Plan: taken.Plan, Text: "again"}
	if _, err := e.Submit(t.Context(), alice, s.ID, stale, canon(stale)); code(err) != api.Conflict {
		t.Errorf("another summary of the same plan: %v, want conflict", err)
	}
	if _, err := e.Submit(t.Context(), alice, s.ID, api.SubmitCompaction{Plan: "e30", Text: "x"}, nil); code(err) != api.Malformed {
		t.Errorf("a forged plan: %v, want malformed", err)
	}
	cx := must(e.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
	if !bytes.Contains(cx.Messages[0], []byte("questions were asked")) || !bytes.Contains(canon(cx.Messages), []byte("meanwhile")) {
		t.Errorf("context begins with %.200s", cx.Messages[0])
	}
	verified(t, e)
}
