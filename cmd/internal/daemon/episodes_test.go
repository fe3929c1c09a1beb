package daemon

import (
	"context"
	"strings"
	"testing"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// A daemon stores the episode of a session that ended, by itself; after a restart it stores no
// other.
func TestADaemonStoresTheEpisodeOfASession(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	set := api.SessionSettings{Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"memory":{"episode_tokens":500}}`)}}
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{SessionSettings: set}))
	answer := turns.TextMessage(turns.Assistant, "I decided for heron.go, port 8422.")
	must[*api.Appended](t)(c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "Fix the heron.")}, Response: &answer}))
	must[*api.Session](t)(c.Close(t.Context(), s.ID, api.CloseSession{}))
	var found []api.Memory
	list := func(c *client.Client) bool {
		found = nil
		for m, err := range c.Memories(t.Context(), api.ListMemories{}) {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, m)
		}
		return len(found) > 0
	}
	await(t, d, "an episode", func() bool { return list(c) })
	if len(found) != 1 || found[0].Episode == nil || found[0].Episode.Session != s.ID || !strings.Contains(found[0].Text, "8422") {
		t.Fatalf("%+v", found)
	}
	if err := d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	d, c = start(t, dir)
	// The daemon looks at the oldest session first: behind this one's episode it has looked at
	// the first session again.
	again := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{SessionSettings: set}))
	must[*api.Appended](t)(c.Append(t.Context(), again.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "Fix the egret.")}, Response: &answer}))
	must[*api.Session](t)(c.Close(t.Context(), again.ID, api.CloseSession{}))
	await(t, d, "a second episode", func() bool { return list(c) && len(found) > 1 })
	if len(found) != 2 || found[0].Episode.Session != again.ID {
		t.Errorf("%+v", found)
	}
}
