package engine_test

import (
	"fmt"
	"testing"

	"nexus/compactor"
	"nexus/compactor/extractive"
	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/turns"
)

// pathsAndPorts returns a session about files and numbers, of more than any policy keeps.
func pathsAndPorts(t *testing.T, e *Engine, policy string, mode policy.Mode) turns.ID {
	t.Helper()
	e.Loader.Tiers = []compactor.Tier{{Name: "extractive", Summarizer: extractive.New(extractive.Config{}), Local: true}}
	s := opened(t, e, alice, policy, fmt.Sprintf(`{"mode":%q}`, mode), turns.Limits{ContextWindow: 32_000})
	for i := range 45 {
		add(t, e, s.ID, say(fmt.Sprintf("question %d about src/pkg%d/file%d.go on port %d %s", i, i, i, 8000+i, long(900)), fmt.Sprintf("answer %d %s", i, long(300))))
	}
	return s.ID
}

// NXS-3: every compaction that covers something says what of the paths,
// identifiers, numbers and errors in it is still in the context, whatever made it.
func TestCompactionReportsTheSurvivalOfFacts(t *testing.T) {
	for _, pol := range policy.Names() {
		e := newWorld().Engine(t)
		s := pathsAndPorts(t, e, pol, policy.BeforeCall)
		must(e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{}, nil))(t) // manual
		for i := range 60 {                                                             // by the policy's own trigger
			add(t, e, s, say(fmt.Sprintf("more %d about lib/mod%d.py %s", i, i, long(1500)), "yes"))
			must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t)
		}
		o := api.Overflow{Error: "prompt is too long: 40000 tokens > 31000 maximum", Status: 400}
		if _, err := e.Contexts.Overflow(t.Context(), alice, s, o, canon(o)); err != nil {
			t.Fatalf("%s: %v", pol, err)
		}
		kinds := map[string]bool{}
		for _, k := range must(e.History.ListCompactions(t.Context(), alice, s, api.ListCompactions{}))(t).Turns {
			kinds[k.Compaction.Trigger.Kind] = true
			var report map[string]struct {
				Total uint64 `json:"total"`
				Kept  uint64 `json:"kept"`
			}
			if err := turns.DecodeJSON(k.Compaction.Survival, &report); err != nil {
				t.Fatalf("%s: %s %v", pol, k.Compaction.Survival, err)
			}
			total, kept := uint64(0), uint64(0)
			for _, of := range report {
				total, kept = total+of.Total, kept+of.Kept
			}
			if k.Compaction.Covered > 0 && (total == 0 || kept > total) {
				t.Errorf("%s, a compaction that covers %d turns: %s", pol, k.Compaction.Covered, k.Compaction.Survival)
			}
		}
		if len(kinds) < 2 {
			t.Errorf("%s: compactions by %v", pol, kinds)
		}
	}
}

// NXS-6: a compaction can be looked at before it is made, which writes nothing;
// undone, by the head going back before it; done again, by the head going forward;
// and its summary made anew from the originals.
func TestCompactionCanBePreviewedUndoneAndRedone(t *testing.T) {
	for _, pol := range []string{"balanced", "nexus", "gsv", "spec-008", "autobyteus"} {
		e := newWorld().Engine(t)
		s := pathsAndPorts(t, e, pol, policy.Manual)
		fingerprint := func() string {
			return must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t).Fingerprint
		}
		session := func() *api.Session { return must(e.Reader.Get(t.Context(), alice, s, api.Read{}))(t) }
		move := func(to turns.ID) { must(e.Sessions.Move(t.Context(), alice, s, api.MoveSession{To: &to}, nil))(t) }
		before, whole := session(), fingerprint()
		plan := must(e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{DryRun: true}, nil))(t)
		if after := session(); *after.Head != *before.Head || after.Compactions != before.Compactions || plan.State != "planned" || fingerprint() != whole {
			t.Errorf("%s: a preview wrote something: head %v, %d compactions, %s", pol, after.Head, after.Compactions, plan.State)
		}
		made := must(e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{}, nil))(t).Compaction
		if k := made.Compaction; k.TokensBefore != plan.Plan.TokensBefore || *k.Through != *plan.Plan.Through || *k.FirstKept != *plan.Plan.FirstKept {
			t.Errorf("%s: planned through %v from %v, made through %v from %v", pol, plan.Plan.Through, plan.Plan.FirstKept, k.Through, k.FirstKept)
		}
		short := fingerprint()
		move(*before.Head)
		if fingerprint() != whole || short == whole {
			t.Errorf("%s: undone, the context is another", pol)
		}
		move(made.ID)
		if fingerprint() != short {
			t.Errorf("%s: done again, the context is another", pol)
		}
		again := must(e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{FromOriginals: true}, nil))(t).Compaction
		if k := again.Compaction; !k.FromOriginals || *k.Through != *made.Compaction.Through || k.Covered != 0 && k.Covered != made.Compaction.Covered {
			t.Errorf("%s: anew through %v of %d turns, at first through %v of %d", pol, k.Through, k.Covered, made.Compaction.Through, made.Compaction.Covered)
		}
	}
}
