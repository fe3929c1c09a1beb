package engine_test

import (
	"context"
	"testing"

	"nexus/cmd/internal/engine/page"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// A change that is on the log is never answered as if nothing had been written. A
// retry with the same id is answered and writes nothing.
func TestStoredRequestIsNeverUnavailable(t *testing.T) {
	label := "main"
	id := turns.ID{1}
	type verb struct {
		call    func(ctx context.Context, e *Engine, s, a turns.ID) error
		written uint64
	}
	for name, v := range map[string]verb{
		"session.create": {func(ctx context.Context, e *Engine, _, _ turns.ID) error {
			r := api.CreateSession{ID: id}
			_, err := e.Sessions.Create(ctx, alice, r, canon(r))
			return err
		}, 2}, // its policy first
		"session.create with a label": {func(ctx context.Context, e *Engine, _, _ turns.ID) error {
			r := opens(id, label)
			_, err := e.Sessions.Create(ctx, alice, r, canon(r))
			return err
		}, 3},
		"session.move": {func(ctx context.Context, e *Engine, s, a turns.ID) error {
			r := api.MoveSession{ID: id, To: &a}
			_, err := e.Sessions.Move(ctx, alice, s, r, canon(r))
			return err
		}, 1},
		"session.set": {func(ctx context.Context, e *Engine, s, _ turns.ID) error {
			r := api.SetSession{ID: id, SessionSettings: api.SessionSettings{Label: &label}}
			_, err := e.Sessions.Set(ctx, alice, s, r, canon(r))
			return err
		}, 2},
		"session.reset": {func(ctx context.Context, e *Engine, s, _ turns.ID) error {
			r := api.ResetSession{ID: id}
			_, err := e.Sessions.Reset(ctx, alice, s, r, canon(r))
			return err
		}, 1},
		"session.close": {func(ctx context.Context, e *Engine, s, _ turns.ID) error {
			r := api.CloseSession{ID: id}
			_, err := e.Sessions.CloseSession(ctx, alice, s, r, canon(r))
			return err
		}, 1},
		"fork.create": {func(ctx context.Context, e *Engine, s, a turns.ID) error {
			r := api.CreateFork{ID: id, Turn: a, Mode: "summary"}
			_, err := e.Forks.Fork(ctx, alice, s, r, canon(r))
			return err
		}, 1},
		"compaction.run": {func(ctx context.Context, e *Engine, s, _ turns.ID) error {
			r := api.RunCompaction{ID: id}
			_, err := e.Compactions.Compact(ctx, alice, s, r, canon(r))
			return err
		}, 1},
		"compaction.record": {func(ctx context.Context, e *Engine, s, _ turns.ID) error {
			r := api.RecordCompaction{ID: id, Summary: "in short"}
			_, err := e.Compactions.Record(ctx, alice, s, r, canon(r))
			return err
		}, 1},
		"context.overflow": {func(ctx context.Context, e *Engine, s, _ turns.ID) error {
			r := api.Overflow{ID: id, Error: "context_length_exceeded", Status: 400}
			_, err := e.Contexts.Overflow(ctx, alice, s, r, canon(r))
			return err
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			e := w.Engine(t)
			s := create(t, e, 8000, "nexus")
			a := add(t, e, s.ID, say("1", "a"))
			for range 8 {
				add(t, e, s.ID, say(long(2000), "b"))
			}
			late := w.EngineBehind(t)
			last := func() uint64 { return must(w.Log.State(t.Context()))(t).Last }
			before := last()
			ctx := untilAppended(t, late, v.written)
			err := v.call(ctx, late, s.ID, a.ID)
			if code(err) != api.Indeterminate || last() != before+v.written {
				t.Errorf("%v, %d events written; want indeterminate, %d", err, last()-before, v.written)
			}
			again := w.Engine(t)
			if err := v.call(t.Context(), again, s.ID, a.ID); err != nil {
				t.Errorf("the same again: %v", err)
			}
			end := last()
			if err := v.call(t.Context(), again, s.ID, a.ID); err != nil || last() != end {
				t.Errorf("the same a third time: %v, %d events written", err, last()-end)
			}
		})
	}
}

// untilAppended returns a context that ends when the engine has appended so many events.
func untilAppended(t *testing.T, e *Engine, events uint64) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	e.Reader.Log = &countedLog{Log: e.Reader.Log, left: events, end: cancel}
	return ctx
}

// countedLog calls end behind so many appends. One appends at a time.
type countedLog struct {
	ledger.Log
	left uint64
	end  func()
}

func (l *countedLog) Append(ctx context.Context, subject string, expect uint64, payload []byte) (uint64, error) {
	seq, err := l.Log.Append(ctx, subject, expect, payload)
	if l.left--; l.left == 0 {
		l.end()
	}
	return seq, err
}

// Who lists after the position of a notification finds what it tells of.
func TestNotificationHasThePositionOfItsEvent(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 8000, "nexus")
	announced := make(map[string]uint64)
	e.Writer.Notify = func(_, _ string, n api.Notification) {
		announced[n.Kind] = must(page.ParsePosition(n.Position))(t)
		if last := must(w.Log.State(t.Context()))(t).Last; n.Kind != "compaction.started" && announced[n.Kind] != last {
			t.Errorf("%s at %d, its event is at %d", n.Kind, announced[n.Kind], last)
		}
	}
	for range 8 {
		add(t, e, s.ID, say(long(2000), "b"))
	}
	must(e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")))(t)
	add(t, e, s.ID, say(long(4000), "b"))
	add(t, e, s.ID, say(long(4000), "b"))
	offer := must(e.Compactions.Take(t.Context(), alice, s.ID, api.TakeCompaction{}))(t)
	must(e.Compactions.Submit(t.Context(), alice, s.ID, api.SubmitCompaction{Plan: offer.Plan, Text: "in short"}, []byte("{}")))(t)
	must(e.Sessions.Reset(t.Context(), alice, s.ID, api.ResetSession{}, []byte("{}")))(t)
	for _, what := range []string{"turn.appended", "compaction.started", "compaction.applied", "session.reset"} {
		if announced[what] == 0 {
			t.Errorf("%s was not told", what)
		}
	}
}
