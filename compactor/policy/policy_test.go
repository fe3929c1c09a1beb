package policy

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nexus/turns"
)

// TestBuiltinDigests pins every version that was published: sessions name
// policies by digest. A change of numbers is a new version next to these.
func TestBuiltinDigests(t *testing.T) {
	want := map[string]string{
		"autobyteus/1": "sha256:c5259ca5703f236075d35e72ce611d926dedd8484387037e6788612e95ce2c93",
		"autobyteus/2": "sha256:f24cb1228da9987d34f99b524413c12a303b8926257f0f06ec35ac181d0ca39d",
		"autobyteus/3": "sha256:3d852f75420c2d0f2581c56a5459fc253b1adfff5d93639454bc84492d76cb44",
		"balanced/1":   "sha256:1f6c28c37db7ecaf88dd9dddf6ec3f0a48f2415daa2bcc0302774e79cf6c3aa1",
		"balanced/2":   "sha256:db9d0d9a56b6e06a092019ac6d466c9006565e2b87fb4c04aff64f0bfbe2fc28",
		"gsv/1":        "sha256:93695b288a75c17ea637e178e02a54e59dae7d45c82de7b2553f38d76987729e",
		"gsv/2":        "sha256:e6161c923a882f12793acca40b6c42511d6e065dc138e2a6b6ec38fde8d433b4",
		"nexus/2":      "sha256:29dea5b47fd0ce65d50efc44cdda8617471779f9f1c981e7465575bf1f2c028e",
		"nexus/1":      "sha256:82263748a8a7737204440c1509cb78cb5bc739eb3449d4e39f1bd82763906c7e",
		"spec-008/1":   "sha256:335989c1b5f86d9901d97fac355e022106442dfc9b85d826b3ee22cca8fdd96c",
		"wolffish/2":   "sha256:ccf2b014a44630633584e198b41d40a48b909990b5071fe91661d607bd741dc6",
		"wolffish/1":   "sha256:abce29c6af7e3d0f2778b2277d22fdb57349ff6e708a5074df29f76801e292c3",
	}
	got := map[string]string{}
	for _, p := range builtins() {
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		got[p.Name+"/"+string(rune('0'+p.Version))] = p.Digest().String()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("digests of built-in policies (-published +now):\n%s", diff)
	}
}

// TestSizes: in every window, under every policy that validates, what is kept
// and the summary fit the target, and the target what overhead leaves.
func TestSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, _ := Builtin(rapid.SampledFrom(Names()).Draw(t, "policy"))
		size := rapid.Uint64Range(0, 300_000)
		p.ReserveTokens, p.TargetTokens = size.Draw(t, "reserve"), size.Draw(t, "target tokens")
		p.KeepTokens = rapid.Uint64Range(1, MaxTokens).Draw(t, "keep")
		p.TriggerRatio = rapid.Float64Range(0, 1).Draw(t, "trigger")
		p.TargetRatio = rapid.Float64Range(0.01, 0.9).Draw(t, "target")
		p.SummaryMaxRatio = rapid.Float64Range(0.001, 0.5).Draw(t, "summary")
		if p.TriggerRatio != 0 && p.TargetRatio >= p.TriggerRatio {
			p.TriggerRatio = 0
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		b := Bounds{Overhead: size.Draw(t, "overhead"), Limits: turns.Limits{
			ContextWindow: rapid.Uint64Range(0, 2_000_000).Draw(t, "window"), MaxOutputTokens: size.Draw(t, "output"), SafetyMargin: size.Draw(t, "margin"),
		}, Overflow: rapid.Bool().Draw(t, "overflow")}
		s := p.Scale(b)
		if s.Keep+s.Replacement() > s.Target || s.Target > s.Room || s.Room > s.Budget || s.Trigger > s.Budget && s.Room > 0 || s.Budget == 0 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestWith(t *testing.T) {
	base, _ := Builtin("balanced")
	got, err := base.With(turns.Raw(`{"keep_tokens":5000,"tiers":["extractive"]}`))
	must(t, err)
	want := base
	want.KeepTokens, want.Tiers = 5000, []string{"extractive"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Digest() == base.Digest() {
		t.Error("another policy has the same digest")
	}
	if same, err := base.With(turns.Raw(`{}`)); err != nil || same.Digest() != base.Digest() {
		t.Errorf("no override changes the digest, or %v", err)
	}
	for _, c := range []struct{ set, fields string }{
		{`{"keep":1}`, "/policy/set/keep"},
		{`{"Keep_Tokens":1}`, "/policy/set/Keep_Tokens"},
		{`{"keep_tokens":"many"}`, "/policy/set/keep_tokens"},
		{`{"keep_tokens":-1}`, "/policy/set/keep_tokens"},
		{`{"keep_tokens":1,"keep_tokens":2}`, "/policy/set/keep_tokens"},
		{`{"name":"mine"}`, "/policy/set/name"},
		{`{"mode":"sometimes"}`, "/policy/set/mode"},
		{`[1]`, "/policy/set"},
		{`{"keep_tokens":0,"target_ratio":0.95,"max_strikes":99}`, "/policy/set/target_ratio /policy/set/keep_tokens /policy/set/max_strikes /policy/set/target_ratio"},
	} {
		_, err := base.With(turns.Raw(c.set))
		if fields := strings.Join(faultFields(err), " "); fields != c.fields || !errors.Is(err, turns.ErrMalformed) {
			t.Errorf("%s: faults at %s, want %s (%v)", c.set, fields, c.fields, err)
		}
	}
}

func faultFields(err error) (out []string) {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range j.Unwrap() {
			out = append(out, faultFields(e)...)
		}
		return out
	}
	if fe := (*turns.FieldError)(nil); errors.As(err, &fe) {
		return []string{fe.Field}
	}
	return nil
}

func TestResolve(t *testing.T) {
	if got := Names(); !slices.Equal(got, []string{"autobyteus", "balanced", "gsv", "nexus", "spec-008", "wolffish"}) {
		t.Errorf("names %v", got)
	}
	ref := turns.PolicyRef{Name: "nexus", Set: turns.Raw(`{"keep_tokens":100}`)}
	p, err := Resolve(ref)
	must(t, err)
	ref.Digest = p.Digest()
	again, err := Resolve(ref)
	must(t, err)
	if diff := cmp.Diff(p, again); diff != "" {
		t.Errorf("by digest (-by name +by digest):\n%s", diff)
	}
	ref.Digest[0]++
	if _, err := Resolve(ref); !errors.Is(err, turns.ErrUnsupported) {
		t.Errorf("unknown digest: %v", err)
	}
	_, err = Resolve(turns.PolicyRef{Name: "lost"})
	if got := faultFields(err); !slices.Equal(got, []string{"/policy/name"}) {
		t.Errorf("unknown name: %v", err)
	}
}
