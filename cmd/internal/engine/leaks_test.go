package engine_test

import (
	"strings"
	"testing"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
	"nexus/turns/seal/keyring"
)

// Whoever sees a header of a channel's chain (field 42) opens a session under the id of the channel's key,
// and exports the key: from another agent, and another tenant.
func TestNoSessionHasTheIDOfAChannelsKey(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	r := mail(`"a secret"`)
	_ = must(e.Events.AppendEvent(t.Context(), alice, r, withoutID(r)))(t)
	ch := must(e.Reader.ChannelOf("default", "alice", "mail"))(t)
	rec := must(w.Log.Last(t.Context(), ch.Subject))(t)
	ev := must(turns.Decode(rec.Payload))(t)
	id := ev.Keys[0] // in the clear in the stream
	thief := alice
	thief.Tenant, thief.Agent = "other", "mallory"
	req := api.CreateSession{ID: id}
	if _, err := e.Sessions.Create(t.Context(), thief, req, canon(req)); err != nil {
		if code(err) != api.Malformed {
			t.Errorf("a session under the id of a channel's key: %v, want malformed", err)
		}
		return
	}
	for _, x := range must(e.Transfer.Export(t.Context(), thief, id, api.ExportSession{}))(t).Records {
		if x.Key == nil || x.Key.ID != id {
			continue
		}
		var ring keyring.Memory
		_ = ring.Put(id, seal.Key(x.Key.Key))
		body := new(turns.ReceivedBody)
		if err := content.OpenBody(&ring, ev, body); err == nil {
			t.Errorf("mallory of another tenant reads alice's channel: %s", body.Body)
		}
	}
}

// The report of a verification has the key of a blob: content in one piece has the digest of its piece.
func TestAReportNamesNoKeyOfABlob(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	ref := putInPieces(t, e, s.ID, turns.RawText(string(randomText(6, 1000))))
	t.Logf("pieces: %d, whole has the digest of the piece: %v", len(ref.Pieces), ref.Digest == ref.Pieces[0])
	callThenResult(t, e, s.ID, turns.Part{Ref: ref})
	row := must(e.Reader.Projections.Session(s.ID))(t)
	bad := *ref
	bad.Preview = "another"
	done := turns.TextMessage(turns.Assistant, "done")
	body := &turns.TurnBody{Messages: []turns.Message{{Role: turns.User, Parts: []turns.Part{{Type: turns.Text, Ref: &bad}}}}, Response: &done}
	rec := must(w.Log.Last(t.Context(), row.Subject()))(t)
	last := must(turns.Decode(rec.Payload))(t)
	ev := *last
	ev.ID, ev.Index, ev.Prev, ev.Parent, ev.Depth, ev.Digest = newID(t), last.Index+1, turns.HashEvent(rec.Payload), last.Ref(), last.Depth+1, turns.Hash{}
	ev.UserTexts = 1
	raw(t, w, e, ledger.SessionSubject("default", row.Root, s.ID), sealedUnder(t, w.Keys, &ev, body, s.ID))
	v := must(w.Engine(t).Audit.Verify(t.Context(), operator, api.Verify{}))(t)
	for _, p := range v.Problems {
		t.Log(p.Message)
		for _, d := range append(ref.Pieces, ref.Digest) {
			if strings.Contains(p.Message, d.String()) {
				stored := must(w.Blobs.GetBlob(t.Context(), "default", seal.BlobAddress(d)))(t)
				_, err := seal.OpenBlob(d, stored)
				t.Errorf("the report names digest %v, which opens the blob without a key: %v", d, err == nil)
			}
		}
	}
}

// A channel's tree whose key is destroyed takes blobs under digests that anyone computes (the zero key).
func TestNoBlobIsStoredUnderNoKey(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	id := newID(t)
	must(w.Keys.Create(id, e.Store.Rand))(t)
	if err := w.Keys.Destroy(id); err != nil {
		t.Fatal(err)
	}
	tree, err := e.Store.Tree(id) // as events/append.go offload does, after its Keys.Create
	if err != nil {
		t.Skip(err)
	}
	d, err := e.Store.StoreBlob(t.Context(), "default", tree, []byte("guess me"))
	if err == nil && d == seal.BlobDigest(seal.Key{}, []byte("guess me")) {
		t.Error("stored under a digest keyed by zeros: its address and its key follow from the content")
	}
}

// A user of another tenant who sees the stream, and has no key, tests a guess of a policy's name.
func TestAPolicysNameIsNotGuessedFromAnotherTenant(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	mallory := alice
	mallory.Tenant, mallory.Agent = "other", "mallory"
	var evs []*turns.Event
	for _, c := range []reader.Caller{alice, mallory} {
		if _, err := putPolicy(t, e, c, api.PutPolicy{Name: "merger-with-acme", Settings: putSettings("2100")}); err != nil {
			t.Fatal(err)
		}
		subject, _ := reader.PolicySubject(c.Tenant)
		evs = append(evs, must(turns.Decode(must(w.Log.Last(t.Context(), subject))(t).Payload))(t))
	}
	if evs[0].Policy.Name == evs[1].Policy.Name {
		t.Error("names are keyed alike")
	}
	if evs[0].Commitment == evs[1].Commitment || evs[0].Digest == evs[1].Digest {
		t.Errorf("headers of two tenants have equal commitments (%v) and request digests (%v)", evs[0].Commitment == evs[1].Commitment, evs[0].Digest == evs[1].Digest)
	}
}
