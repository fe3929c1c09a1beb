package engine_test

import (
	"strings"
	"testing"

	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/turns"
)

// An export carries the contents that its events name, ahead of them: a ledger of a
// build without that policy takes it and goes on under it. Without them it is refused
// where the digest is not known, and taken where it is.
func TestAnExportCarriesItsPolicies(t *testing.T) {
	e := newWorld().Engine(t)
	p := anotherBuilds(t)
	if err := e.Policies.Store(t.Context(), alice, p); err != nil {
		t.Fatal(err)
	}
	s := createWithPolicy(t, e, p)
	for range 8 {
		add(t, e, s.ID, say(long(2000), "b"))
	}
	mine, _ := policy.Builtin("nexus")
	mine.Frame = "Mine: {summary}"
	v1 := must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: mine.Bytes()}))(t)
	must(e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{Policy: &api.Policy{Name: "mine"}}, []byte("{}")))(t)
	set := api.SetSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "mine"}}}
	must(e.Sessions.Set(t.Context(), alice, s.ID, set, canon(set)))(t)

	records := exports(t, e, s.ID)
	var without []api.ExportRecord
	carried := map[turns.Hash]int{}
	for _, r := range records {
		if r.Policy != nil {
			carried[r.Policy.Digest]++
			continue
		}
		without = append(without, r)
	}
	if len(carried) != 2 || carried[p.Digest()] != 1 || carried[v1.Digest] != 1 {
		t.Fatalf("policies in the export: %v", carried)
	}
	w := newWorld()
	to := w.Engine(t)
	if err := importAs(t, to, alice, without...); code(err) != api.Unsupported {
		t.Errorf("without the policies: %v, want unsupported", err)
	}
	for i, r := range records {
		if r.Policy == nil {
			continue
		}
		hostile := *r.Policy
		hostile.Content = append([]byte(nil), hostile.Content...)
		hostile.Content[len(hostile.Content)-3]++
		if err := importAs(t, to, alice, api.ExportRecord{Policy: &hostile}); code(err) != api.Corrupt {
			t.Errorf("record %d with other content: %v, want corrupt", i, err)
		}
		hostile = api.ExportPolicy{Digest: policy.DigestOf(turns.Raw(`{"name":"x"}`)), Content: []byte(`{"name":"x"}`)}
		if err := importAs(t, to, alice, api.ExportRecord{Policy: &hostile}); code(err) != api.Unsupported {
			t.Errorf("content that is no policy: %v, want unsupported", err)
		}
		hostile.Content = make([]byte, turns.MaxPolicy+1)
		if err := importAs(t, to, alice, api.ExportRecord{Policy: &hostile}); code(err) != api.TooLarge {
			t.Errorf("content that is too large: %v, want too_large", err)
		}
	}
	if n := stored(t, w); n != 0 {
		t.Errorf("%d policies are stored by refused records", n)
	}
	for range 2 {
		for _, r := range records {
			if err := importAs(t, to, alice, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := stored(t, w); n != 2 {
		t.Errorf("%d policies are stored, want 2: each that an event names, once", n)
	}
	here, there := must(e.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t), must(to.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t)
	if here.Hash != there.Hash || there.Policy.Digest != v1.Digest {
		t.Errorf("hash %v there, %v here; policy %+v", there.Hash, here.Hash, there.Policy)
	}
	a, b := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t), must(to.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
	if a.Fingerprint != b.Fingerprint || !strings.Contains(string(canon(b)), "Mine: ") {
		t.Errorf("fingerprint %s there, %s here", b.Fingerprint, a.Fingerprint)
	}
	// The name is not taken by the import: what agent put it there says nothing here.
	if got := must(putPolicy(t, to, bobby, api.PutPolicy{Name: "mine", Settings: mine.Bytes()}))(t); got.Version != 1 {
		t.Errorf("%+v", got)
	}
	// Where the digests are known, an export without policies is taken.
	known := newWorld().Engine(t)
	for _, r := range records {
		if r.Policy != nil {
			if err := importAs(t, known, alice, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := importAs(t, known, alice, without...); err != nil {
		t.Errorf("without the policies, which are known: %v", err)
	}
	verified(t, to)
}
