package engine_test

import (
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// A session says which version of its policy it has, and each version can be read by
// its number.
func TestSessionShowsItsPolicyVersion(t *testing.T) {
	e := newWorld().Engine(t)
	putMine := func(set string) *api.PolicyInfo {
		settings := must(e.Policies.GetPolicy(t.Context(), alice, api.GetPolicy{Name: "nexus", Set: turns.Raw(set)}))(t).Settings
		return must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: settings}))(t)
	}
	v1 := putMine(`{"keep_tokens":300}`)
	s := create(t, e, 0, "mine")
	v2 := putMine(`{"keep_tokens":400}`)
	if got := must(e.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t); got.Policy.Version != 1 {
		t.Errorf("before session.set: %+v", got.Policy)
	}
	set := api.SetSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "mine", Set: turns.Raw(`{"keep_tokens":500}`)}}}
	if got := must(e.Sessions.Set(t.Context(), alice, s.ID, set, canon(set)))(t); got.Policy.Version != 2 {
		t.Errorf("after session.set, with overrides: %+v", got.Policy)
	}
	for n, want := range map[uint64]*api.PolicyInfo{1: v1, 2: v2} {
		if got := must(e.Policies.GetPolicy(t.Context(), alice, api.GetPolicy{Name: "mine", Version: n}))(t); got.Digest != want.Digest || got.Version != n || got.Agent != alice.Agent {
			t.Errorf("version %d: %+v", n, got)
		}
	}
	builtin := must(e.Policies.GetPolicy(t.Context(), alice, api.GetPolicy{Name: "balanced"}))(t)
	if got := must(e.Policies.GetPolicy(t.Context(), alice, api.GetPolicy{Name: "balanced", Version: builtin.Version}))(t); got.Digest != builtin.Digest {
		t.Errorf("balanced in its version: %+v", got)
	}
	for _, r := range []api.GetPolicy{{Name: "mine", Version: 3}, {Name: "balanced", Version: builtin.Version + 1}} {
		if _, err := e.Policies.GetPolicy(t.Context(), alice, r); code(err) != api.NotFound {
			t.Errorf("%+v: %v, want not_found", r, err)
		}
	}
	_, err := e.Policies.GetPolicy(t.Context(), alice, api.GetPolicy{Name: "mine", Version: 1, Digest: v1.Digest})
	wantField(t, "a version and a digest", err, "/version")
	_, err = e.Policies.GetPolicy(t.Context(), alice, api.GetPolicy{Version: 1})
	wantField(t, "a version without a name", err, "/name")
	if _, err = e.Policies.GetPolicy(t.Context(), alice, api.GetPolicy{Name: "never", Version: 1}); code(err) != api.NotFound {
		t.Errorf("a version of a name that nobody put: %v, want not_found", err)
	}
	if _, err = e.Policies.GetPolicy(t.Context(), alice, api.GetPolicy{Name: "never"}); code(err) != api.NotFound {
		t.Errorf("a name that nobody put: %v, want not_found", err)
	}
}

// A policy is found by its digest alone, as the ledger knows it. A request that names
// none, nor a digest, is malformed.
func TestPolicyIsFoundByDigestAlone(t *testing.T) {
	e := newWorld().Engine(t)
	mine := must(e.Policies.GetPolicy(t.Context(), alice, api.GetPolicy{Name: "nexus", Set: turns.Raw(`{"keep_tokens":300}`)}))(t).Settings
	v1 := must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: mine}))(t)
	must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: must(e.Policies.GetPolicy(t.Context(), alice, api.GetPolicy{Name: "nexus"}))(t).Settings}))(t)
	builtin := must(e.Policies.GetPolicy(t.Context(), alice, api.GetPolicy{Name: "balanced"}))(t)
	for _, want := range []*api.PolicyInfo{v1, builtin} {
		got, err := e.Policies.GetPolicy(t.Context(), alice, api.GetPolicy{Digest: want.Digest})
		if err != nil || got.Digest != want.Digest || got.Name != want.Name || got.Version != want.Version {
			t.Errorf("%s by its digest: %+v, %v", want.Name, got, err)
		}
	}
	if _, err := e.Policies.GetPolicy(t.Context(), alice, api.GetPolicy{Digest: turns.Hash{1}}); code(err) != api.NotFound {
		t.Errorf("an unknown digest: %v, want not_found", err)
	}
	_, err := e.Policies.GetPolicy(t.Context(), alice, api.GetPolicy{})
	wantField(t, "no name and no digest", err, "/name")
}
