package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/turns"
)

// wordyVersion returns settings whose texts have a few thousand bytes, another for
// each n.
func wordyVersion(n int) turns.Raw {
	p, _ := policy.Builtin("nexus")
	p.KeepTokens, p.Notice, p.TemplateText = uint64(300+n), strings.Repeat("x", 3900), strings.Repeat("y", 7900)
	return p.Bytes()
}

// bytesAllocated returns how many bytes f allocates.
func bytesAllocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A name with many versions makes no request expensive: a digest of overrides is looked
// for among the newest versions only, and once.
func TestCostOfAPolicyLookupDoesNotGrowWithTheVersions(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	missing := turns.PolicyRef{Name: "mine", Set: turns.Raw(`{"keep_tokens":1}`), Digest: turns.Hash{1}}
	lookup := func(e *Engine) uint64 {
		return bytesAllocated(func() {
			if _, err := e.Reader.FindPolicy(t.Context(), alice.Tenant, missing); code(err) != api.Unsupported {
				t.Errorf("%v, want unsupported", err)
			}
		})
	}
	var cost []uint64
	versions := 0
	for _, upTo := range []int{20, 200} {
		for ; versions < upTo; versions++ {
			must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: wordyVersion(versions)}))(t)
		}
		fresh := w.Engine(t)
		must(fresh.Reader.CatchUpPolicies(t.Context(), alice.Tenant))(t)
		cost = append(cost, lookup(fresh))
		if again := lookup(fresh); again > cost[0]/4 {
			t.Errorf("with %d versions a second look-up allocates %d bytes, the first %d: it is not remembered", versions, again, cost[len(cost)-1])
		}
	}
	if cost[1] > 2*cost[0] {
		t.Errorf("a look-up allocates %d bytes with 20 versions, %d with 200", cost[0], cost[1])
	}
}

// A search that found nothing is made again when the name has another version.
func TestPolicyLookupFindsAVersionThatCameAfterAMiss(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: putSettings("2100")}))(t)
	next, _ := policy.Parse("mine", 2, putSettings("2200"))
	set := turns.Raw(`{"keep_turns":3}`)
	with := must(next.With(set))(t)
	ref := turns.PolicyRef{Name: "mine", Set: set, Digest: with.Digest()}
	if _, err := e.Reader.FindPolicy(t.Context(), alice.Tenant, ref); code(err) != api.Unsupported {
		t.Fatalf("%v, want unsupported", err)
	}
	must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: putSettings("2200")}))(t)
	if got := must(e.Reader.FindPolicy(t.Context(), alice.Tenant, ref))(t); got.Digest() != ref.Digest {
		t.Errorf("digest %v, want %v", got.Digest(), ref.Digest)
	}
}

// A look-up whose caller has gone ends.
func TestPolicyLookupEndsWithItsRequest(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	for i := range 4 {
		must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: putSettings(fmt.Sprint(2100 + i))}))(t)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ref := turns.PolicyRef{Name: "mine", Set: turns.Raw(`{"keep_tokens":1}`), Digest: turns.Hash{1}}
	if _, err := e.Reader.ResolvePolicy(ctx, alice.Tenant, ref); code(err) != api.Unavailable {
		t.Errorf("%v, want unavailable", err)
	}
}
