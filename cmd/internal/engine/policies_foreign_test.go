package engine_test

import (
	"testing"

	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/turns"
)

// Content that another agent imports under a name and a version is not shown as put by
// the agent that has the name.
func TestImportedPolicyIsNotShownAsPutByTheAgentOfItsName(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	v1 := must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: putSettings("2100")}))(t)
	elsewhere := newWorld().Engine(t)
	var foreign []turns.Hash
	for i, keep := range []string{"3100", "3200", "3300"} { // versions 1, which is here, to 3
		info := must(putPolicy(t, elsewhere, bobby, api.PutPolicy{Name: "mine", Settings: putSettings(keep)}))(t)
		foreign = append(foreign, info.Digest)
		s := opened(t, elsewhere, bobby, "mine", "{}", turns.Limits{})
		if err := importAs(t, e, bobby, must(elsewhere.Transfer.Export(t.Context(), bobby, s.ID, api.ExportSession{}))(t).Records...); err != nil {
			t.Fatal(i, err)
		}
	}
	with := must(must(policy.Parse("mine", 1, putSettings("2100")))(t).With(turns.Raw(`{"keep_turns":3}`)))(t)
	opened(t, e, alice, "mine", `{"keep_turns":3}`, turns.Limits{}) // stores the overrides
	for _, digest := range append(foreign, with.Digest()) {
		got := must(e.Policies.GetPolicy(t.Context(), alice, api.GetPolicy{Name: "mine", Digest: digest}))(t)
		if got.Agent != "" || got.Digest != digest {
			t.Errorf("version %d that nobody put here: agent %q", got.Version, got.Agent)
		}
	}
	for _, r := range []api.GetPolicy{{Name: "mine"}, {Name: "mine", Digest: v1.Digest}, {Name: "mine", Set: turns.Raw(`{"keep_turns":3}`)}} {
		if got := must(e.Policies.GetPolicy(t.Context(), bobby, r))(t); got.Agent != "alice" {
			t.Errorf("%+v: agent %q, want alice", r, got.Agent)
		}
	}
}
