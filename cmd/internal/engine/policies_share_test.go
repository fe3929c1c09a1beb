package engine_test

import (
	"errors"
	"fmt"
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/reader"
	"nexus/compactor/policy"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// exportUnder returns the export of a session of c in another ledger, under a policy
// that is not known here.
func exportUnder(t *testing.T, c reader.Caller, settings turns.Raw) []api.ExportRecord {
	t.Helper()
	e := newWorld().Engine(t)
	must(putPolicy(t, e, c, api.PutPolicy{Name: "elsewhere", Settings: settings}))(t)
	s := opened(t, e, c, "elsewhere", "{}", turns.Limits{})
	return must(e.Transfer.Export(t.Context(), c, s.ID, api.ExportSession{}))(t).Records
}

// Policies that an import brings take no room until an event of a session names them.
func TestImportedPoliciesThatNoEventNamesAreNotStored(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	var records []api.ExportRecord
	for i := range 50 {
		p := must(policy.Parse("mine", 1, putSettings(fmt.Sprint(3000+i))))(t)
		records = append(records, api.ExportRecord{Policy: &api.ExportPolicy{Digest: p.Digest(), Content: p.Bytes()}})
	}
	if err := importAs(t, e, bobby, records...); err != nil {
		t.Fatal(err)
	}
	if n := stored(t, w); n != 0 {
		t.Errorf("%d policies are stored, want none", n)
	}
	foreign := exportUnder(t, alice, putSettings("2100"))
	if err := importAs(t, e, alice, append(records, foreign...)...); err != nil {
		t.Fatal(err)
	}
	if n := stored(t, w); n != 1 {
		t.Errorf("%d policies are stored, want the one that the session names", n)
	}
	verified(t, e)
}

// The content that one agent brings does not serve another agent's events.
func TestImportedPolicyIsOfWhoBroughtIt(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	var without []api.ExportRecord
	for _, r := range exportUnder(t, alice, putSettings("2100")) {
		if r.Policy == nil {
			without = append(without, r)
			continue
		}
		if err := importAs(t, e, bobby, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := importAs(t, e, alice, without...); code(err) != api.Unsupported {
		t.Errorf("%v, want unsupported", err)
	}
}

// An agent that stored its share is refused more, also after a restart. Other agents go
// on, and so does the operator.
func TestAnAgentHasAShareOfTheTenantsPolicies(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	e.Policies.MaxPerAgent = 3
	must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: putSettings("2100")}))(t)
	opened(t, e, alice, "balanced", `{"keep_tokens":2101}`, turns.Limits{})
	if err := importAs(t, e, alice, exportUnder(t, alice, putSettings("2102"))...); err != nil {
		t.Fatal(err)
	}
	e = w.Engine(t)
	e.Policies.MaxPerAgent = 3
	create := func(c reader.Caller, keep string) error {
		r := api.CreateSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"keep_tokens":` + keep + `}`)}}}
		_, err := e.Sessions.Create(t.Context(), c, r, canon(r))
		return err
	}
	before := stored(t, w)
	for verb, err := range map[string]error{
		"session.create": create(alice, "2103"),
		"session.import": importAs(t, e, alice, exportUnder(t, alice, putSettings("2104"))...),
		"policy.put": func() error {
			_, err := putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: putSettings("2105")})
			return err
		}(),
	} {
		if code(err) != api.TooLarge || !errors.Is(err, ledger.ErrTooLarge) {
			t.Errorf("%s: %v, want too_large", verb, err)
		}
	}
	if n := stored(t, w); n != before {
		t.Errorf("%d policies are stored by refused requests", n-before)
	}
	if err := create(bobby, "2103"); err != nil {
		t.Errorf("another agent: %v", err)
	}
	if err := create(alice, "2103"); err != nil {
		t.Errorf("what another agent has stored: %v", err)
	}
	if err := importAs(t, e, enginetest.Operator, exportUnder(t, alice, putSettings("2106"))...); err != nil {
		t.Errorf("the operator: %v", err)
	}
	verified(t, e)
}
