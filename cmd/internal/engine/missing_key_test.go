package engine_test

import (
	"slices"
	"strings"
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal/keyring"
)

// Content whose key is not in the key store is corrupt, with the id of the key: the
// operator puts a backup's key back. Lists show what the headers say, and which key
// is missing.
func TestMissingContentKeyIsCorruptAndKeepsHeaders(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	var last turns.ID
	for range 3 {
		last = add(t, e, s.ID, say("a secret question", "a secret answer")).ID
	}
	other := create(t, e, 0, "nexus")
	bare := *w
	bare.Keys = new(keyring.Memory)
	for _, id := range []turns.ID{other.ID, turns.ID(w.ID)} {
		if err := bare.Keys.Put(id, must(w.Keys.Key(id))(t)); err != nil {
			t.Fatal(err)
		}
	}
	e = bare.Engine(t)
	set := api.SetSession{}
	_, get := e.Reader.Get(t.Context(), alice, s.ID, api.Read{})
	_, getTurn := e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: last})
	_, context := e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{})
	_, change := e.Sessions.Set(t.Context(), alice, s.ID, set, canon(set))
	_, export := e.Transfer.Export(t.Context(), alice, s.ID, api.ExportSession{})
	_, blob := e.Writer.PutBlob(t.Context(), alice, api.PutBlob{Session: s.ID, Data: []byte("x")})
	_, appended := e.Sessions.Append(t.Context(), alice, s.ID, say("q", "a"), canon(say("q", "a")))
	_, compacted := e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}"))
	for verb, err := range map[string]error{"session.get": get, "turn.get": getTurn, "context.get": context, "session.set": change,
		"session.export": export, "blob.put": blob, "turn.append": appended, "compaction.run": compacted} {
		x := api.FromError(err)
		if err == nil || x.Code != api.Corrupt || x.Details["key"] != s.ID.String() || !strings.Contains(x.Message, "no key "+s.ID.String()) {
			t.Errorf("%s: %v, want corrupt with the id of the key", verb, err)
		}
	}
	key := `"missing_key":"` + s.ID.String() + `"`
	list := must(e.History.List(t.Context(), alice, api.ListSessions{}))(t)
	listed := list.Sessions[slices.IndexFunc(list.Sessions, func(x api.Session) bool { return x.ID == s.ID })]
	if got := string(canon(listed)); !strings.Contains(got, key) || listed.Error != api.Corrupt || listed.Depth != 3 {
		t.Errorf("session.list: %s", got)
	}
	tree := must(e.History.Tree(t.Context(), alice, s.ID, api.GetTree{}))(t)
	if got := string(canon(tree.Sessions[0])); !strings.Contains(got, key) || tree.Sessions[0].Depth != 3 {
		t.Errorf("lineage.tree: %s", got)
	}
	for _, turn := range must(e.History.ListTurns(t.Context(), alice, s.ID, api.ListTurns{Full: true}))(t).Turns {
		if got := string(canon(turn)); !strings.Contains(got, key) || turn.Error != api.Corrupt || turn.Pending || turn.Depth == 0 || turn.TokenCount == 0 {
			t.Errorf("turn.list: %s", got)
		}
	}
	v := must(e.Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t)
	for _, p := range v.Problems {
		if p.Code != api.Corrupt {
			t.Errorf("audit.verify: %s", canon(p))
		}
	}
	if v.OK {
		t.Error("a ledger without a key is sound")
	}
}
