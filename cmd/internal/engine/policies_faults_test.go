package engine_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/reader"
	"nexus/compactor/policy"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/ledgertest"
	"nexus/turns"
	"nexus/turns/seal/keyring"
)

// countSessions returns the number of sessions on the log.
func countSessions(t *testing.T, w *world) (n int) {
	t.Helper()
	for r, err := range w.Log.Read(t.Context(), 1, false) {
		if err != nil {
			t.Fatal(err)
		}
		if must(turns.Decode(r.Payload))(t).Kind == turns.KindOpened {
			n++
		}
	}
	return n
}

// A session is opened by two appends, of its policy and of its first event. Whatever
// becomes of either, the same id ends in one policy and one session, on any daemon.
func TestRetryOfACreateStoresItsPolicyAndItsSessionOnce(t *testing.T) {
	for name, faults := range map[string][]ledgertest.Fault{
		"the policy is lost":                    {ledgertest.Lost},
		"the policy is stored, its answer lost": {ledgertest.Persisted},
		"the session is lost":                   {ledgertest.None, ledgertest.Lost},
		"the session is stored, its answer lost": {
			ledgertest.None, ledgertest.Persisted,
		},
	} {
		for _, elsewhere := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, retry on another daemon %v", name, elsewhere), func(t *testing.T) {
				w := newWorld()
				e := w.Engine(t)
				var f ledgertest.Faults
				f.Script(faults...)
				e.Reader.Log = ledgertest.Flaky(w.Log, &f)
				r := api.CreateSession{ID: newID(t)}
				if _, err := e.Sessions.Create(t.Context(), alice, r, canon(r)); code(err) != api.Indeterminate {
					t.Fatalf("%v, want indeterminate", err)
				}
				if elsewhere {
					e = w.Engine(t)
				}
				for range 2 {
					if s := must(e.Sessions.Create(t.Context(), alice, r, canon(r)))(t); s.ID != r.ID {
						t.Errorf("session %s, want %s", s.ID, r.ID)
					}
				}
				if p, s := stored(t, w), countSessions(t, w); p != 1 || s != 1 {
					t.Errorf("%d policies, %d sessions are stored, want one of each", p, s)
				}
				verified(t, e)
			})
		}
	}
}

// A put whose answer is lost is settled by its id.
func TestRetryOfAPutStoresOneVersion(t *testing.T) {
	for _, fault := range []ledgertest.Fault{ledgertest.Lost, ledgertest.Persisted} {
		t.Run(fault.String(), func(t *testing.T) {
			w := newWorld()
			e := w.Engine(t)
			var f ledgertest.Faults
			f.Script(fault)
			e.Reader.Log = ledgertest.Flaky(w.Log, &f)
			r := api.PutPolicy{ID: newID(t), Name: "mine", Settings: putSettings("2100")}
			if _, err := putPolicy(t, e, alice, r); code(err) != api.Indeterminate {
				t.Fatalf("%v, want indeterminate", err)
			}
			got := must(putPolicy(t, w.Engine(t), alice, r))(t)
			if got.Version != 1 || got.Duplicate != (fault == ledgertest.Persisted) || stored(t, w) != 1 {
				t.Errorf("%+v, %d policies are stored", got, stored(t, w))
			}
			verified(t, e)
		})
	}
}

// rivalLog is a log in which a rival appends to a tenant's chain just before the
// first append to it.
type rivalLog struct {
	ledger.Log
	once  sync.Once
	rival func()
}

func (l *rivalLog) Append(ctx context.Context, subject string, expect uint64, payload []byte) (uint64, error) {
	if _, chain, err := ledger.ParseSubject(subject); err == nil && chain.Entity == turns.TenantEntity {
		l.once.Do(l.rival)
	}
	return l.Log.Append(ctx, subject, expect, payload)
}

// Two daemons open the first session under one policy: the one that is slower finds
// the policy stored, and stores no second.
func TestTwoDaemonsStoreOnePolicyOnce(t *testing.T) {
	w := newWorld()
	slow, fast := w.Engine(t), w.Engine(t)
	log := &rivalLog{Log: w.Log, rival: func() { create(t, fast, 8000, "nexus") }}
	slow.Reader.Log = log
	s := create(t, slow, 8000, "nexus")
	add(t, slow, s.ID, say("1", "a"))
	if n := stored(t, w); n != 1 {
		t.Errorf("%d policies are stored, want 1", n)
	}
	if n := countSessions(t, w); n != 2 {
		t.Errorf("%d sessions, want 2", n)
	}
	verified(t, slow)
}

// The slower of two daemons that put one name decides again on what the other stored.
func TestPutAfterAnotherDaemonsPutIsTheNextVersionOrDenied(t *testing.T) {
	for _, rival := range []reader.Caller{alice, bobby} {
		w := newWorld()
		slow, fast := w.Engine(t), w.Engine(t)
		slow.Reader.Log = &rivalLog{Log: w.Log, rival: func() {
			must(putPolicy(t, fast, rival, api.PutPolicy{Name: "mine", Settings: putSettings("2100")}))(t)
		}}
		got, err := putPolicy(t, slow, alice, api.PutPolicy{Name: "mine", Settings: putSettings("2200")})
		switch {
		case rival == alice && (err != nil || got.Version != 2):
			t.Errorf("%+v, %v; want version 2", got, err)
		case rival != alice && code(err) != api.Denied:
			t.Errorf("%v, want denied", err)
		}
		verified(t, slow)
	}
}

// Where the ledger's own key is gone, stored policies can't be opened. Sessions under
// built-in policies go on; a session under another policy and the verification say why.
func TestPolicyWithoutItsKeyIsReported(t *testing.T) {
	for name, lose := range map[string]func(*testing.T, *world, *keyring.Memory){
		"missing": func(*testing.T, *world, *keyring.Memory) {},
		"made again": func(t *testing.T, w *world, k *keyring.Memory) {
			must(k.Create(turns.ID(w.ID), rand.Reader))(t)
		},
		"destroyed": func(t *testing.T, w *world, k *keyring.Memory) {
			if err := k.Destroy(turns.ID(w.ID)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			e := w.Engine(t)
			builtin := create(t, e, 8000, "nexus")
			p, _ := policy.Builtin("nexus")
			p.KeepTokens = 300
			must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: p.Bytes()}))(t)
			own := create(t, e, 8000, "mine")

			bare := *w
			bare.Keys = new(keyring.Memory)
			for _, s := range []turns.ID{builtin.ID, own.ID} {
				if err := bare.Keys.Put(s, must(w.Keys.Key(s))(t)); err != nil {
					t.Fatal(err)
				}
			}
			lose(t, &bare, bare.Keys)
			e = bare.Engine(t)
			add(t, e, builtin.ID, say("1", "a"))
			must(e.Contexts.Context(t.Context(), alice, builtin.ID, api.GetContext{}))(t)
			want := api.Corrupt
			if name == "destroyed" {
				want = api.Erased
			}
			if _, err := e.Contexts.Context(t.Context(), alice, own.ID, api.GetContext{}); code(err) != want {
				t.Errorf("a session under a policy that can't be opened: %v, want %s", err, want)
			}
			list := must(e.Policies.ListPolicies(t.Context(), alice, api.ListPolicies{}))(t)
			if len(list.Policies) != len(policy.Names()) {
				t.Errorf("policy.list: %s", canon(list))
			}
			v := must(e.Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t)
			found := 0
			for _, problem := range v.Problems {
				for r, err := range w.Log.Read(t.Context(), 1, false) {
					if err != nil {
						t.Fatal(err)
					}
					if ev := must(turns.Decode(r.Payload))(t); ev.Kind == turns.KindPolicy && ev.ID == problem.Event {
						found++
					}
				}
			}
			if found != 2 {
				t.Errorf("the verification reports %d of 2 policies: %s", found, canon(v))
			}
		})
	}
}

// A tenant has room for so many policies. What is stored, and the policies of this
// build, are taken beyond it.
func TestTenantHasRoomForSoManyPolicies(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	e.Policies.MaxPolicies, e.Policies.MaxVersions = 3, 2
	for _, keep := range []string{"2100", "2200"} {
		must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: putSettings(keep)}))(t)
	}
	if _, err := putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: putSettings("2300")}); code(err) != api.TooLarge || !errors.Is(err, ledger.ErrTooLarge) {
		t.Errorf("a third version: %v, want too_large", err)
	}
	s := opened(t, e, alice, "balanced", `{"keep_tokens":2301}`, turns.Limits{})
	overridden := api.SessionSettings{Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"keep_tokens":2302}`)}}
	foreign := exportUnder(t, alice, putSettings("2304"))
	before := must(w.Log.State(t.Context()))(t).Last
	for verb, call := range map[string]func() error{
		"policy.put": func() error {
			_, err := putPolicy(t, e, bobby, api.PutPolicy{Name: "hers", Settings: putSettings("2303")})
			return err
		},
		"session.create": func() error {
			r := api.CreateSession{SessionSettings: overridden}
			_, err := e.Sessions.Create(t.Context(), alice, r, canon(r))
			return err
		},
		"session.set": func() error {
			r := api.SetSession{SessionSettings: overridden}
			_, err := e.Sessions.Set(t.Context(), alice, s.ID, r, canon(r))
			return err
		},
		"session.import": func() error { return importAs(t, e, alice, foreign...) },
	} {
		if err := call(); code(err) != api.TooLarge || !errors.Is(err, ledger.ErrTooLarge) {
			t.Errorf("%s: %v, want too_large", verb, err)
		}
	}
	if after := must(w.Log.State(t.Context()))(t).Last; after != before {
		t.Errorf("%d events were stored by refused requests", after-before)
	}
	opened(t, e, bobby, "balanced", `{"keep_tokens":2301}`, turns.Limits{}) // stored already
	create(t, e, 8000, "mine")                                              // so is this
	create(t, e, 8000, "nexus")                                             // this build's
	if n := stored(t, w); n != 4 {
		t.Errorf("%d policies are stored, want 4", n)
	}
	again := must(putPolicy(t, e, alice, api.PutPolicy{Name: "mine", Settings: putSettings("2200")}))(t)
	if !again.Duplicate {
		t.Errorf("%+v, want a duplicate", again)
	}
	verified(t, e)
}
