package sessions_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
)

// What an engine remembers of the session that it opened is what another one reads of the event,
// whatever its settings are.
func TestRememberedSettingsAreThoseOfTheEvent(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	label, model, user := "main", "m-1", "u"
	none := []turns.Raw{}
	tools := []turns.Raw{turns.Raw(`{ "name" : "ls" }`)}
	for i, s := range []api.SessionSettings{
		{},
		{System: &api.System{}, Tools: &none},
		{System: &api.System{{Name: "a", Content: "be brief"}}, Tools: &tools, Label: &label, Model: &model, User: &user, Meta: turns.Raw(`{ "a" : [1, 2] }`),
			Limits: &turns.Limits{ContextWindow: 9000}, Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{ "keep_tokens":4000 }`)}},
		{System: &api.System{{Content: strings.Repeat("long ", 30_000)}}, Tools: &tools}, // in a blob
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			id := enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, api.CreateSession{SessionSettings: s}, []byte(fmt.Sprint(i))))(t).ID
			at := enginetest.Add(t, e, id, enginetest.Say("q", "a"))
			fork := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, id, api.CreateFork{Turn: at.ID}, []byte(fmt.Sprint(i))))(t).ID
			other := w.EngineOver(e.Reader.Projections)
			other.Store.Blobs = e.Store.Blobs
			for _, id := range []turns.ID{id, fork} {
				read, remembered := settingsOf(t, other, id), settingsOf(t, e, id)
				for i := range read {
					if !reflect.DeepEqual(read[i], remembered[i]) {
						t.Errorf("session %s: remembered %+v, read %+v", id, remembered[i], read[i])
					}
				}
			}
		})
	}
}

func settingsOf(t *testing.T, e *engine.Engine, id turns.ID) []any {
	t.Helper()
	s := enginetest.Must(e.Reader.Projections.Session(id))(t)
	ev, label, set, err := e.Reader.StoredSettings(&s)
	if err != nil {
		t.Fatal(err)
	}
	of, full, err := e.Reader.SettingsInForce(t.Context(), &s)
	if err != nil {
		t.Fatal(err)
	}
	return []any{ev, label, set, of, full, enginetest.Must(e.Reader.Get(t.Context(), enginetest.Alice, id, api.Read{}))(t)}
}
