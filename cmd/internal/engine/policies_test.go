package engine_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
	"nexus/compactor/policy"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

var bobby = reader.Caller{Tenant: "default", Agent: "bobby"}

// stored is how many policies are on the tenant's chain.
func stored(t *testing.T, w *world) (n uint64) {
	t.Helper()
	for r, err := range w.Log.Read(t.Context(), 1, false) {
		if err != nil {
			t.Fatal(err)
		}
		if _, c, _ := ledger.ParseSubject(r.Subject); c.Entity == turns.TenantEntity {
			n++
		}
	}
	return n
}

// anotherBuilds is a policy under a built-in's name and version with content that
// this build does not have.
func anotherBuilds(t *testing.T) policy.Policy {
	t.Helper()
	p, _ := policy.Builtin("nexus")
	p.KeepTokens, p.Frame = 300, "Another build says: {summary}"
	if _, err := policy.Resolve(turns.PolicyRef{Name: p.Name, Digest: p.Digest()}); code(err) != api.Unsupported {
		t.Fatalf("this build has it: %v", err)
	}
	return p
}

// createWithPolicy opens a session that names a policy by its digest.
func createWithPolicy(t *testing.T, e *Engine, p policy.Policy) *api.Session {
	t.Helper()
	id := newID(t)
	ev := &turns.Event{ID: id, Kind: turns.KindOpened, Root: id, Agent: alice.Agent, Role: turns.Peer,
		Origin: &turns.Origin{Ledger: e.Store.Ledger, Tenant: alice.Tenant, Session: id}}
	set := turns.Settings{Policy: turns.PolicyRef{Name: p.Name, Digest: p.Digest()}, Limits: turns.Limits{ContextWindow: 8000}}
	return must(e.Sessions.OpenSession(t.Context(), alice, writer.Request{ID: id, Verb: "session.create"}, ev, "", set))(t)
}

// putSettings are settings that balanced has, with another number.
func putSettings(keep string) turns.Raw {
	p, _ := policy.Builtin("balanced")
	return turns.Raw(strings.Replace(string(p.Bytes()), `"keep_tokens":2000`, `"keep_tokens":`+keep, 1))
}

func putPolicy(t *testing.T, e *Engine, c reader.Caller, r api.PutPolicy) (*api.PolicyInfo, error) {
	t.Helper()
	req := r
	req.ID = turns.ID{}
	return e.Policies.PutPolicy(t.Context(), c, r, canon(req))
}

func TestAPolicyIsStoredOnceBeforeTheFirstSessionUnderIt(t *testing.T) {
	w := newWorld()
	e, second := w.Engine(t), w.Engine(t)
	s := create(t, e, 8000, "nexus")
	r := must(w.Log.Get(t.Context(), 1))(t)
	if _, c, _ := ledger.ParseSubject(r.Subject); c != (turns.Chain{Entity: turns.TenantEntity, ID: "default"}) {
		t.Fatalf("the first record is on %s", r.Subject)
	}
	add(t, e, s.ID, say("1", "a"))
	for _, e := range []*Engine{e, second, w.Engine(t)} {
		create(t, e, 8000, "nexus")
	}
	if n := stored(t, w); n != 1 {
		t.Errorf("%d policies are stored, want 1", n)
	}
	set := api.SetSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "nexus", Set: turns.Raw(`{"keep_tokens":400}`)}}}
	got := must(e.Sessions.Set(t.Context(), alice, s.ID, set, canon(set)))(t)
	if _, ok, err := e.Reader.StoredPolicy("default", got.Policy.Digest); !ok || err != nil || stored(t, w) != 2 {
		t.Errorf("with overrides: stored %v, %v; %d policies", ok, err, stored(t, w))
	}
	must(e.Sessions.Create(t.Context(), reader.Caller{Tenant: "other", Agent: "alice"}, api.CreateSession{}, []byte("{}")))(t)
	if n := stored(t, w); n != 3 {
		t.Errorf("%d policies are stored, want 3: a tenant has its own", n)
	}
	verified(t, e)
}

// A session is compacted and rendered by the stored content of its policy, in a build
// that has other content under the name, also after a restart.
func TestAPolicyOfAnotherBuildIsFoundByItsDigest(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	p := anotherBuilds(t)
	if err := e.Policies.Store(t.Context(), alice, p); err != nil {
		t.Fatal(err)
	}
	s := createWithPolicy(t, e, p)
	for range 8 {
		add(t, e, s.ID, say(long(2000), "b"))
	}
	e = w.Engine(t)
	run := must(e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")))(t)
	if run.Compaction == nil || run.Compaction.Compaction.PolicyDigest != p.Digest() {
		t.Fatalf("compaction: %s", canon(run))
	}
	cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
	if text := string(canon(cx)); !strings.Contains(text, "Another build says: ") {
		t.Errorf("the context is not of the stored content: %s", text)
	}
	info := must(e.Policies.GetPolicy(t.Context(), alice, api.GetPolicy{Name: p.Name, Digest: p.Digest()}))(t)
	if string(info.Settings) != string(p.Bytes()) {
		t.Errorf("policy.get: %s", info.Settings)
	}
	// What a fork, a reset and settings without a policy carry along stays known.
	fork := api.CreateFork{Turn: *must(e.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t).Head}
	if f := must(e.Forks.Fork(t.Context(), alice, s.ID, fork, canon(fork)))(t); f.Policy.Digest != p.Digest() {
		t.Errorf("fork: %+v", f.Policy)
	}
	if next := must(e.Sessions.Reset(t.Context(), alice, s.ID, api.ResetSession{}, []byte("{}")))(t); next.Policy.Digest != p.Digest() {
		t.Errorf("successor: %+v", next.Policy)
	}
	verified(t, e)
}

func TestAPolicyThatNobodyHasIsUnsupported(t *testing.T) {
	e := newWorld().Engine(t)
	p := anotherBuilds(t)
	if _, err := e.Policies.GetPolicy(t.Context(), alice, api.GetPolicy{Name: p.Name, Digest: p.Digest()}); code(err) != api.Unsupported {
		t.Errorf("%v, want unsupported", err)
	}
}

func TestPutPolicy(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	first := api.PutPolicy{ID: newID(t), Name: "mine", Settings: putSettings("2100")}
	v1 := must(putPolicy(t, e, alice, first))(t)
	if v1.Version != 1 || v1.Agent != "alice" || v1.Duplicate || v1.Name != "mine" {
		t.Fatalf("%+v", v1)
	}
	for _, e := range []*Engine{e, w.Engine(t)} {
		again := must(putPolicy(t, e, alice, first))(t)
		if !again.Duplicate || again.Digest != v1.Digest {
			t.Errorf("a retry by id: %+v", again)
		}
		same := must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: v1.Settings}))(t)
		if !same.Duplicate || same.Version != 1 {
			t.Errorf("the same content: %+v", same)
		}
		if _, err := putPolicy(t, e, alice, api.PutPolicy{ID: first.ID, Name: "mine", Settings: putSettings("1")}); code(err) != api.IDReused {
			t.Errorf("the id with other settings: %v, want id_reused", err)
		}
		if _, err := putPolicy(t, e, bobby, first); code(err) != api.IDReused {
			t.Errorf("the id from another agent: %v, want id_reused", err)
		}
		if _, err := putPolicy(t, e, bobby, api.PutPolicy{Name: "mine", Settings: v1.Settings}); code(err) != api.Denied {
			t.Errorf("another agent: %v, want denied", err)
		}
	}
	if n := stored(t, w); n != 1 {
		t.Fatalf("%d policies are stored, want 1", n)
	}
	v2 := must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: putSettings("2200")}))(t)
	back := must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: putSettings("2100")}))(t)
	if v2.Version != 2 || back.Version != 3 || back.Digest == v1.Digest {
		t.Errorf("versions %d, %d", v2.Version, back.Version)
	}
	// After a second put a retry of the first is still answered as it was.
	if again := must(putPolicy(t, e, alice, first))(t); again.Version != 1 || !again.Duplicate {
		t.Errorf("a late retry: %+v", again)
	}
	must(putPolicy(t, e, bobby, api.PutPolicy{Name: "hers", Settings: putSettings("2300")}))(t)

	other := w.Engine(t)
	list := must(other.Policies.ListPolicies(t.Context(), bobby, api.ListPolicies{}))(t)
	found := map[string]api.PolicyInfo{}
	for _, p := range list.Policies {
		found[p.Name] = p
	}
	if len(found) != len(policy.Names())+2 || found["mine"].Version != 3 || found["mine"].Agent != "alice" || found["mine"].Digest != back.Digest || found["hers"].Agent != "bobby" || found["nexus"].Agent != "" {
		t.Errorf("policy.list: %s", canon(list))
	}
	for limit := 1; limit <= len(list.Policies); limit++ {
		var names []string
		after := ""
		for first := true; first || after != ""; first = false {
			page := must(other.Policies.ListPolicies(t.Context(), alice, api.ListPolicies{Page: api.Page{Limit: limit, After: after}}))(t)
			if n := len(page.Policies); n > limit || n == 0 {
				t.Fatalf("a page of at most %d has %d policies", limit, n)
			}
			for _, p := range page.Policies {
				names = append(names, p.Name)
			}
			after = page.Next
		}
		if want := namesOf(list.Policies); !slices.Equal(names, want) {
			t.Errorf("pages of %d list %v, want %v", limit, names, want)
		}
	}
	for _, after := range []string{"x", "mine", strings.Repeat("0", 63), strings.Repeat("0", 66), strings.Repeat("x", 64)} {
		if _, err := other.Policies.ListPolicies(t.Context(), alice, api.ListPolicies{Page: api.Page{After: after}}); code(err) != api.Malformed || api.FromError(err).Details["field"] != "/after" {
			t.Errorf("after %q: %v, want malformed at /after", after, err)
		}
	}
	if got := must(other.Policies.GetPolicy(t.Context(), bobby, api.GetPolicy{Name: "mine"}))(t); string(got.Settings) != string(back.Settings) || got.Agent != "alice" {
		t.Errorf("policy.get: %s", canon(got))
	}
	if got := must(other.Policies.GetPolicy(t.Context(), bobby, api.GetPolicy{Name: "mine", Digest: v1.Digest}))(t); got.Version != 1 {
		t.Errorf("policy.get of the first version: %+v", got)
	}
	elsewhere := reader.Caller{Tenant: "other", Agent: "alice"}
	if _, err := other.Policies.GetPolicy(t.Context(), elsewhere, api.GetPolicy{Name: "mine"}); code(err) != api.NotFound {
		t.Errorf("in another tenant: %v, want not_found", err)
	}
	verified(t, e)
}

func namesOf(list []api.PolicyInfo) (names []string) {
	for _, p := range list {
		names = append(names, p.Name)
	}
	return names
}

// Sessions, views and compactions take policies that were put, by name.
func TestAPutPolicyIsUsedByName(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	p, _ := policy.Builtin("nexus")
	p.Frame, p.KeepTokens = "Mine: {summary}", 300
	v1 := must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: p.Bytes()}))(t)
	e = w.Engine(t) // another daemon, which may not have read it yet
	s := create(t, e, 8000, "mine")
	if s.Policy.Name != "mine" || s.Policy.Digest != v1.Digest {
		t.Fatalf("%+v", s.Policy)
	}
	p.Frame = "Later: {summary}"
	must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: p.Bytes()}))(t)
	for range 8 {
		add(t, e, s.ID, say(long(2000), "b"))
	}
	must(e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")))(t)
	if text := string(canon(must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t))); !strings.Contains(text, "Mine: ") {
		t.Errorf("the session does not keep the version that it was given: %s", text)
	}
	// Another session is compacted by a policy that it does not have, with overrides.
	o := create(t, e, 8000, "balanced")
	for range 4 {
		add(t, e, o.ID, say(long(2000), "b"))
	}
	named := &api.Policy{Name: "mine", Set: turns.Raw(`{"keep_tokens":400}`)}
	seen := must(e.Contexts.Context(t.Context(), alice, o.ID, api.GetContext{Policy: named}))(t)
	replayed := must(w.Engine(t).Contexts.Context(t.Context(), alice, o.ID, api.GetContext{Recipe: seen.Recipe}))(t)
	if replayed.Fingerprint != seen.Fingerprint {
		t.Errorf("a view by a put policy is served again as %s, was %s", replayed.Fingerprint, seen.Fingerprint)
	}
	run := must(e.Compactions.Compact(t.Context(), alice, o.ID, api.RunCompaction{Policy: named}, canon(named)))(t)
	if _, ok, err := e.Reader.StoredPolicy("default", run.Compaction.Compaction.PolicyDigest); !ok || err != nil {
		t.Errorf("the policy of the compaction is not stored: %v", err)
	}
	set := api.SetSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "mine"}}}
	if got := must(e.Sessions.Set(t.Context(), alice, o.ID, set, canon(set)))(t); got.Policy.Name != "mine" || got.Policy.Digest == v1.Digest {
		t.Errorf("session.set gives %+v, want the newest version", got.Policy)
	}
	verified(t, e)
}

func TestHostilePoliciesAreRefused(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	for why, r := range map[string]api.PutPolicy{
		"a built-in name":     {Name: "nexus", Settings: putSettings("2100")},
		"no name":             {Settings: putSettings("2100")},
		"a name of a subject": {Name: "a.b", Settings: putSettings("2100")},
		"no settings":         {Name: "mine"},
		"an empty object":     {Name: "mine", Settings: turns.Raw(`{}`)},
		"a list":              {Name: "mine", Settings: turns.Raw(`[1]`)},
		"an unknown setting":  {Name: "mine", Settings: turns.Raw(strings.Replace(string(putSettings("2100")), `"mode"`, `"modes"`, 1))},
		"too many tokens":     {Name: "mine", Settings: putSettings("99999999999999999")},
		"a negative number":   {Name: "mine", Settings: putSettings("-1")},
		"a long text":         {Name: "mine", Settings: turns.Raw(strings.Replace(string(putSettings("2100")), `"mode"`, `"notice":"`+strings.Repeat("x", 4001)+`","mode"`, 1))},
	} {
		_, err := putPolicy(t, e, alice, r)
		if code(err) != api.Malformed {
			t.Errorf("%s: %v, want malformed", why, err)
			continue
		}
		if why == "a long text" && !strings.Contains(err.Error(), "/settings/notice") {
			t.Errorf("%s: %v names no field", why, err)
		}
	}
	if _, err := putPolicy(t, e, enginetest.Operator, api.PutPolicy{Name: "mine", Settings: putSettings("2100")}); code(err) != api.Denied {
		t.Errorf("the operator: %v, want denied", err)
	}
	if n := stored(t, w); n != 0 {
		t.Errorf("%d policies are stored, want none", n)
	}
}

// Two daemons put one name at the same moment: each put is a version of its own, or
// denied to who came second.
func TestTwoDaemonsPutOneName(t *testing.T) {
	for _, callers := range [][2]reader.Caller{{alice, alice}, {alice, bobby}} {
		w := newWorld()
		daemons := [2]*Engine{w.Engine(t), w.Engine(t)}
		var infos [2]*api.PolicyInfo
		var errs [2]error
		var wg sync.WaitGroup
		for i, e := range daemons {
			wg.Add(1)
			go func() {
				defer wg.Done()
				r := api.PutPolicy{Name: "mine", Settings: putSettings([]string{"2100", "2200"}[i])}
				infos[i], errs[i] = e.Policies.PutPolicy(t.Context(), callers[i], r, canon(r))
			}()
		}
		wg.Wait()
		won, versions := 0, map[uint64]bool{}
		for i := range daemons {
			if errs[i] == nil {
				won, versions[infos[i].Version] = won+1, true
			} else if code(errs[i]) != api.Denied {
				t.Errorf("%v, want a version or denied", errs[i])
			}
		}
		if want := 2; callers[0] == callers[1] && (won != want || !versions[1] || !versions[2]) || callers[0] != callers[1] && (won != 1 || !versions[1]) {
			t.Errorf("callers %v: %d puts won, versions %v", callers, won, versions)
		}
		verified(t, daemons[0])
	}
}

// A tenant's chain that can't be read stops no session: the content stays unstored.
func TestATenantChainThatIsAsideStopsNoSession(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	create(t, e, 8000, "nexus")
	subject, chain := reader.PolicySubject("default")
	raw(t, w, e, subject, &turns.Event{Version: turns.Version, Kind: turns.KindPolicy, ID: newID(t), Chain: chain, Index: 7, Prev: turns.Hash{1},
		Recorded: 1, Policy: &turns.StoredPolicy{Digest: turns.Hash{1}}, Body: []byte("x"), Commitment: turns.Hash{1}})
	s := create(t, e, 8000, "balanced")
	add(t, e, s.ID, say("1", "a"))
	if _, err := putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: putSettings("2100")}); code(err) != api.Corrupt {
		t.Errorf("a put: %v, want corrupt", err)
	}
	list := must(e.Policies.ListPolicies(t.Context(), alice, api.ListPolicies{}))(t)
	if len(list.Policies) != len(policy.Names()) {
		t.Errorf("policy.list: %s", canon(list))
	}
}

// The verification opens the body of a policy and compares it with its header.
func TestVerifyFindsAPolicyThatIsNotWhatItsHeaderSays(t *testing.T) {
	balanced, _ := policy.Builtin("balanced")
	nexus, _ := policy.Builtin("nexus")
	for why, body := range map[string]turns.PolicyBody{
		"other content": {Name: "nexus", Version: 1, Content: nexus.Bytes()},
		"another name":  {Name: "nexus", Version: 1, Content: balanced.Bytes()},
		"no policy":     {Name: "balanced", Version: 1, Content: []byte("{}")},
	} {
		w := newWorld()
		e := w.Engine(t)
		must(e.Store.LedgerKey())(t)
		subject, chain := reader.PolicySubject("default")
		ev := &turns.Event{Version: turns.Version, Kind: turns.KindPolicy, ID: newID(t), Chain: chain, Recorded: 1, Policy: &turns.StoredPolicy{Digest: balanced.Digest()}}
		if why == "no policy" {
			ev.Policy.Digest = policy.DigestOf(turns.Raw("{}"))
		}
		payload := must(e.Store.Seal(t.Context(), "default", turns.ID{}, ev, &body, []turns.ID{turns.ID(w.ID)}))(t)
		must(w.Log.Append(t.Context(), subject, 0, payload))(t)
		v := must(e.Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t)
		if len(v.Problems) != 1 || v.Problems[0].Event != ev.ID {
			t.Errorf("%s: %s", why, canon(v))
		}
	}
}
