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
		"autobyteus/1": "sha256:bc38fffabe817e3e18e97f1eee6990f0d64654d77c874348a8e6ed748e0f776c",
		"balanced/1":   "sha256:310c015e236529e113b2beb0809e1f2d2009d257fbe93de294026dbef4f30c96",
		"gsv/1":        "sha256:091a6add382dc60bb7475b4325f6644a6639a138485c1bbfa9374980b1b21a64",
		"nexus/1":      "sha256:3c49ab496e833aef16c451983552b7714894dc516aaed20d00114547a26d6488",
		"spec-008/1":   "sha256:335989c1b5f86d9901d97fac355e022106442dfc9b85d826b3ee22cca8fdd96c",
		"wolffish/1":   "sha256:887402580b0435d8087517c239bf1c650a45c4491e073b0c178f15712db905df",
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
