package engine_test

import (
	"fmt"
	"sync"
	"testing"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/ledgertest"
	"nexus/turns"
)

// agentEvents returns the number of events on the chains of agents.
func agentEvents(t *testing.T, w *world) (n int) {
	t.Helper()
	for r, err := range w.Log.Read(t.Context(), 1, false) {
		if err != nil {
			t.Fatal(err)
		}
		if _, c, _ := ledger.ParseSubject(r.Subject); c.Entity == turns.AgentEntity {
			n++
		}
	}
	return n
}

// A change of memories whose answer is lost is settled by its id, on any daemon.
func TestRetryOfAChangeOfMemoriesStoresItOnce(t *testing.T) {
	for _, fault := range []ledgertest.Fault{ledgertest.Lost, ledgertest.Persisted} {
		for name, change := range map[string]func(e *Engine, id turns.ID, on *api.Memory) (duplicate bool, err error){
			"save": func(e *Engine, id turns.ID, _ *api.Memory) (bool, error) {
				m, err := trySave(t, e, alice, api.SaveMemory{ID: id, Text: "new"})
				return err == nil && m.Duplicate, err
			},
			"say again": func(e *Engine, id turns.ID, on *api.Memory) (bool, error) {
				m, err := trySave(t, e, alice, api.SaveMemory{ID: id, Text: on.Text, State: "proposed"})
				if err == nil && (m.ID != on.ID || !m.Known || m.Repeated != 1) {
					t.Errorf("said again: %+v", m)
				}
				return err == nil && m.Duplicate, err
			},
			"promote": func(e *Engine, id turns.ID, on *api.Memory) (bool, error) {
				m, err := promote(t, e, alice, api.PromoteMemory{ID: id, Memory: on.ID})
				return err == nil && m.Duplicate, err
			},
			"withdraw": func(e *Engine, id turns.ID, on *api.Memory) (bool, error) {
				m, err := withdraw(t, e, alice, api.WithdrawMemory{ID: id, Memory: on.ID})
				return err == nil && m.Duplicate, err
			},
			"document": func(e *Engine, id turns.ID, _ *api.Memory) (bool, error) {
				d, err := document(t, e, alice, api.MemoryDocument{ID: id, Text: text("v1"), If: "0"})
				if err == nil && d.Version != 1 {
					t.Errorf("version %d", d.Version)
				}
				return err == nil && d.Duplicate, err
			},
		} {
			for _, elsewhere := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s, retry on another daemon %v", name, fault, elsewhere), func(t *testing.T) {
					w := newWorld()
					e := w.Engine(t)
					on := save(t, e, api.SaveMemory{Text: "old", State: "proposed"})
					var f ledgertest.Faults
					f.Script(fault)
					whole := e.Reader.Log
					e.Reader.Log = ledgertest.Flaky(w.Log, &f)
					id := newID(t)
					if _, err := change(e, id, on); code(err) != api.Indeterminate {
						t.Fatalf("%v, want indeterminate", err)
					}
					e.Reader.Log = whole
					retry := e
					if elsewhere {
						retry = w.Engine(t)
					}
					for i := range 2 {
						duplicate, err := change(retry, id, on)
						if err != nil || duplicate != (fault == ledgertest.Persisted || i > 0) {
							t.Errorf("try %d: duplicate %v, %v", i, duplicate, err)
						}
					}
					if n := agentEvents(t, w); n != 2 {
						t.Errorf("%d events, want 2", n)
					}
					verified(t, e)
				})
			}
		}
	}
}

// Daemons that change the memories of one agent at once store each change once, and of
// the writers of one version of the document one wins.
func TestDaemonsChangeMemoriesOfOneAgentAtOnce(t *testing.T) {
	w := newWorld()
	engines := []*Engine{w.Engine(t), w.Engine(t), w.Engine(t)}
	var all sync.WaitGroup
	var mu sync.Mutex
	won, ids := 0, map[turns.ID]bool{}
	for i, e := range engines {
		for n := range 8 {
			all.Go(func() {
				m, err := trySave(t, e, alice, api.SaveMemory{Text: fmt.Sprint("text ", n)})
				d, derr := document(t, e, alice, api.MemoryDocument{Text: text(fmt.Sprint(i, n)), If: "0"})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Errorf("save: %v", err)
					return
				}
				ids[m.ID] = true
				if derr == nil && d.Version == 1 {
					won++
				} else if code(derr) != api.Conflict {
					t.Errorf("document: %+v, %v", d, derr)
				}
			})
		}
	}
	all.Wait()
	if len(ids) != 8 || won != 1 {
		t.Errorf("%d memories, %d writers won; want 8 and 1", len(ids), won)
	}
	for _, e := range engines {
		if got := list(t, e, alice, api.ListMemories{}); len(got) != 8 {
			t.Errorf("%d memories are listed", len(got))
		}
	}
	if n := agentEvents(t, w); n != 25 {
		t.Errorf("%d events, want 24 saves and a document", n)
	}
	verified(t, engines[0])
}

// The verification opens each memory, and compares it with its header.
func TestVerifyFindsAMemoryThatIsNotWhatItsHeaderSays(t *testing.T) {
	for _, k := range []turns.Kind{turns.KindMemory, turns.KindDocument} {
		w := newWorld()
		e := w.Engine(t)
		must(e.Store.AgentKey("default", "alice"))(t)
		key := must(e.Store.AgentKeyID("default", "alice"))(t)
		chain := turns.Chain{Entity: turns.AgentEntity, ID: "alice"}
		ev := &turns.Event{Version: turns.Version, Kind: k, ID: newID(t), Chain: chain, Recorded: 1}
		var body any = &turns.MemoryBody{Text: "not what the header says"}
		if k == turns.KindMemory {
			ev.Memory = &turns.Memory{State: turns.Accepted, Kind: turns.Daily, Trust: turns.ByAgent, Text: turns.Hash{1}}
		} else {
			ev.Document, body = &turns.StoredDocument{Version: 1, Text: turns.Hash{1}}, &turns.DocumentBody{Text: "another"}
		}
		payload := must(e.Store.Seal(t.Context(), "default", turns.ID{}, ev, body, []turns.ID{key}))(t)
		must(w.Log.Append(t.Context(), ledger.Subject("default", "alice", chain), 0, payload))(t)
		v := must(e.Audit.Verify(t.Context(), operator, api.Verify{}))(t)
		if len(v.Problems) != 1 || v.Problems[0].Event != ev.ID || v.Problems[0].Code != api.Corrupt {
			t.Errorf("%s: %s", k, canon(v))
		}
	}
}

// A chain of memories that is set aside takes no more of them, and stops nothing else.
func TestAnAgentsChainThatIsAsideStopsNoSession(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 8000, "nexus")
	add(t, e, s.ID, say("1", "a"))
	save(t, e, api.SaveMemory{Text: "before"})
	chain := turns.Chain{Entity: turns.AgentEntity, ID: "alice"}
	raw(t, w, e, ledger.Subject("default", "alice", chain), &turns.Event{Version: turns.Version, Kind: turns.KindDocument, ID: newID(t), Chain: chain, Recorded: 1,
		Index: 7, Prev: turns.Hash{1}, Document: &turns.StoredDocument{Version: 1, Text: turns.Hash{1}}, Body: []byte("x"), Commitment: turns.Hash{1}})
	if _, err := trySave(t, e, alice, api.SaveMemory{Text: "after"}); code(err) != api.Corrupt {
		t.Errorf("save: %v, want corrupt", err)
	}
	if got := texts(list(t, e, alice, api.ListMemories{})); len(got) != 1 || got[0] != "before" {
		t.Errorf("listed: %q", got)
	}
	if _, err := trySave(t, e, bob, api.SaveMemory{Text: "bob's"}); err != nil {
		t.Errorf("another agent: %v", err)
	}
	add(t, e, s.ID, say("2", "b"))
}

// The key of an agent is in no session's reach: none can be opened under its id, by no
// request and no import.
func TestNoSessionHasTheIDOfAnAgentsKey(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	save(t, e, api.SaveMemory{Text: "secret"})
	key := must(e.Store.AgentKeyID("default", "alice"))(t)
	if !key.IsReserved() {
		t.Fatalf("the id %s is not reserved", key)
	}
	if _, err := e.Sessions.Create(t.Context(), alice, api.CreateSession{ID: key}, []byte("{}")); code(err) != api.Malformed {
		t.Errorf("create: %v", err)
	}
	if _, err := e.Transfer.Import(t.Context(), operator, api.ImportRecords{Records: []api.ExportRecord{{Key: &api.ExportKey{ID: key, Key: make([]byte, 32)}}}}); code(err) != api.Malformed {
		t.Errorf("import: %v", err)
	}
	if _, err := e.Transfer.Export(t.Context(), alice, key, api.ExportSession{}); code(err) != api.NotFound && code(err) != api.Malformed {
		t.Errorf("export: %v", err)
	}
	// Without the key nothing of it can be read, and nobody makes another one in its place.
	if err := w.Keys.Destroy(key); err != nil {
		t.Fatal(err)
	}
	if got := list(t, e, alice, api.ListMemories{}); len(got) != 1 || got[0].Error != api.Erased || got[0].Text != "" {
		t.Errorf("%+v", got)
	}
	if _, err := trySave(t, e, alice, api.SaveMemory{Text: "more"}); code(err) != api.Erased {
		t.Errorf("save: %v", err)
	}
}

// Where nothing is sealed memories work the same.
func TestMemoriesOfALedgerThatDoesNotSeal(t *testing.T) {
	w := newWorld()
	e, other := w.Engine(t), w.Engine(t)
	e.Store.Keys, other.Store.Keys = nil, nil
	m := save(t, e, api.SaveMemory{Text: "plain"})
	if again := save(t, other, api.SaveMemory{Text: "plain."}); again.ID != m.ID || !again.Known {
		t.Errorf("%+v", again)
	}
	must(document(t, e, alice, api.MemoryDocument{Text: text("v1"), If: "0"}))(t)
	verified(t, e)
}

// A promotion changes where a memory is seen, and so what says the same. A text that was
// promoted can be superseded by the same text, and that by another one.
func TestPromotedMemoryIsSupersededByItsOwnText(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 8000, "nexus")
	one := add(t, e, s.ID, say("1", "a"))
	f := must(e.Forks.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: one.ID}, []byte("{}")))(t)
	first := save(t, e, api.SaveMemory{Text: "plan B", Session: f.ID})
	must(promote(t, e, alice, api.PromoteMemory{Memory: first.ID, Session: f.ID}))(t)
	second := save(t, e, api.SaveMemory{Text: "plan B", Session: f.ID, Supersedes: first.ID})
	save(t, e, api.SaveMemory{Text: "plan C", Session: f.ID, Supersedes: second.ID})
	for _, m := range list(t, e, alice, api.ListMemories{Session: f.ID}) {
		if want := m.Text != "plan C"; (m.State == "superseded") != want {
			t.Errorf("%q is %s", m.Text, m.State)
		}
	}
	verified(t, e)
}
