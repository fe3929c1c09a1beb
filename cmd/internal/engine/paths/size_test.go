package paths_test

import (
	"fmt"
	"testing"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/paths"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/ledger/api"
	"nexus/turns"
)

// The size that was remembered is that of one head, under one event with settings and
// one compaction in force. It is not used for another.
func TestSizeIsKnownOnlyOfThePathThatWasLoaded(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(t *testing.T, e *engine.Engine, s turns.ID)
		known  bool
	}{
		"nothing changed": {func(*testing.T, *engine.Engine, turns.ID) {}, true},
		"other settings": {func(t *testing.T, e *engine.Engine, s turns.ID) {
			model := "another"
			enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, s, api.SetSession{SessionSettings: api.SessionSettings{Model: &model}}, nil))(t)
		}, false},
		"a compaction": {func(t *testing.T, e *engine.Engine, s turns.ID) {
			enginetest.Must(e.Compactions.Compact(t.Context(), enginetest.Alice, s, api.RunCompaction{}, []byte("{}")))(t)
		}, false},
		"another head": {func(t *testing.T, e *engine.Engine, s turns.ID) {
			list := enginetest.Must(e.History.ListTurns(t.Context(), enginetest.Alice, s, api.ListTurns{}))(t).Turns
			enginetest.Must(e.Sessions.Move(t.Context(), enginetest.Alice, s, api.MoveSession{To: &list[3].ID}, nil))(t)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := enginetest.NewWorld().Engine(t)
			s := enginetest.Create(t, e, 8000, "nexus").ID
			for i := range 8 {
				enginetest.Add(t, e, s, enginetest.Say(fmt.Sprintf("question %d %s", i, enginetest.Text(2000)), "answer"))
			}
			// size returns the remembered size of the head's path, and whether it is known.
			size := func(load bool) (paths.Size, bool) {
				row := enginetest.Must(e.Reader.FindSession(t.Context(), enginetest.Alice, s, true))(t)
				head := enginetest.Must(e.Reader.HeadNode(row))(t)
				_, set, err := e.Reader.SettingsInForce(t.Context(), row)
				if err != nil {
					t.Fatal(err)
				}
				pol := enginetest.Must(policy.Resolve(set.Policy))(t)
				p := e.Loader.EmptyPath(row, &set, pol, head)
				if load {
					p = enginetest.Must(e.Loader.Load(t.Context(), row, &set, pol, head))(t)
					e.Loader.RememberLoaded(row, pol, p, enginetest.Must(view.Render(p, p.Counter))(t))
				}
				return e.Loader.SizeAt(row, head, p, pol, nil)
			}
			if m, ok := size(true); !ok || m.Load.Turns != 8 || m.Load.Messages != 16 || m.Load.Tokens < 4000 {
				t.Errorf("after the load: %+v, %v; want 8 turns with 16 messages", m.Load, ok)
			}
			tc.change(t, e, s)
			if _, ok := size(false); ok != tc.known {
				t.Errorf("the size is known: %v, want %v", ok, tc.known)
			}
		})
	}
}
