package engine_test

import (
	"strings"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// A cause or a note that no reply could show beside the settings of its session is refused
// before it is stored: session.get shows the cause for good.
func TestCauseThatNoReplyCouldShowIsRefused(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 8000, "nexus")
	for _, long := range []string{strings.Repeat("c", e.Limits.TextBytes()+1), strings.Repeat("\x00", e.Limits.TextBytes()/6+1)} {
		_, reset := e.Sessions.Reset(t.Context(), alice, s.ID, api.ResetSession{Cause: long}, nil)
		_, closed := e.Sessions.CloseSession(t.Context(), alice, s.ID, api.CloseSession{Cause: long}, nil)
		_, moved := e.Sessions.Move(t.Context(), alice, s.ID, api.MoveSession{ID: newID(t), Note: long}, nil)
		for verb, err := range map[string]error{"reset": reset, "close": closed, "move": moved} {
			if code(err) != api.TooLarge {
				t.Errorf("%s: %v, want %s", verb, err, api.TooLarge)
			}
		}
	}
	long := strings.Repeat("c", e.Limits.TextBytes())
	if _, err := e.Sessions.CloseSession(t.Context(), alice, s.ID, api.CloseSession{Cause: long}, nil); err != nil {
		t.Error(err)
	}
	if got := must(e.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t); got.State != turns.Closed.String() || got.Ended.Cause != long {
		t.Errorf("%s, a cause of %d bytes", got.State, len(got.Ended.Cause))
	}
}
