package audit_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/fxamacker/cbor/v2"

	"nexus/cmd/nexusd/daemon/engine/enginetest"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/projections"
	"nexus/turns"
)

// The rows of memories, of evidence and of what was withdrawn with another memory are
// those that follow from the log; whatever of one is changed is found, and named.
func TestVerifyNamesAMemoryWhoseRowDiffers(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	save := func(r api.SaveMemory) *api.Memory {
		t.Helper()
		r.Kind = "semantic"
		return enginetest.Must(e.Memories.Save(t.Context(), enginetest.Alice, r, []byte(r.Text)))(t)
	}
	first := save(api.SaveMemory{Text: "The owner is Ada."})
	save(api.SaveMemory{Text: "The owner is Ada."}) // evidence
	derived := save(api.SaveMemory{Text: "Ada decides.", From: []turns.ID{first.ID}})
	save(api.SaveMemory{Text: "The owner is Bob.", Supersedes: first.ID})
	enginetest.Must(e.Memories.Withdraw(t.Context(), enginetest.Alice, api.WithdrawMemory{Memory: first.ID}, []byte("{}")))(t)
	save(api.SaveMemory{Text: "The owner is Ada."}) // new, as the agent saves what was withdrawn
	if v := enginetest.Must(e.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t); !v.OK {
		t.Fatalf("%+v", v.Problems)
	}
	for name, change := range map[string]func(m *ledger.Memory){
		"trust":         func(m *ledger.Memory) { m.Trust++ },
		"digest":        func(m *ledger.Memory) { m.Text[0] ^= 1 },
		"place":         func(m *ledger.Memory) { m.Seq++ },
		"state":         func(m *ledger.Memory) { m.Statuses[len(m.Statuses)-1].State = turns.Accepted },
		"seen by":       func(m *ledger.Memory) { m.Statuses[0].Private = !m.Statuses[0].Private },
		"a status":      func(m *ledger.Memory) { m.Statuses = m.Statuses[:1] },
		"withdrawn by":  func(m *ledger.Memory) { m.Statuses[len(m.Statuses)-1].With = turns.ID{1} },
		"evidence of":   func(m *ledger.Memory) { m.Same = first.ID },
		"what it cites": func(m *ledger.Memory) { m.From = nil },
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			open := func() *projections.Store {
				return enginetest.Must(projections.Open(projections.Config{Dir: "p", FS: fs, Ledger: turns.ID(w.ID)}))(t)
			}
			run := func(store *projections.Store) {
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- store.Run(ctx, w.Log) }()
				err := store.WaitFor(t.Context(), enginetest.Must(w.Log.State(t.Context()))(t).Last)
				if stop(); err != nil {
					t.Fatal(err)
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			store := open()
			run(store)
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			changeRow(t, fs, derived.ID, change)
			store = open()
			defer store.Close()
			run(store)
			v := enginetest.Must(w.EngineOver(store).Verify(t.Context(), enginetest.Operator, api.Verify{}))(t)
			if len(v.Problems) == 0 || !strings.Contains(v.Problems[0].Message, derived.ID.String()) {
				t.Errorf("the verification found %+v, not the row of memory %s", v.Problems, derived.ID)
			}
		})
	}
}

// changeRow changes the row of a memory in the files of projections.
func changeRow(t *testing.T, fs vfs.FS, id turns.ID, change func(*ledger.Memory)) {
	t.Helper()
	var dir string
	for _, at := range enginetest.Must(fs.List("p"))(t) {
		if i, err := fs.Stat(fs.PathJoin("p", at)); err == nil && i.IsDir() {
			dir = fs.PathJoin("p", at)
		}
	}
	if dir == "" {
		dir = "p"
	}
	db := enginetest.Must(pebble.Open(dir, &pebble.Options{FS: fs}))(t)
	defer db.Close()
	it := enginetest.Must(db.NewIter(nil))(t)
	changed := 0
	for it.First(); it.Valid(); it.Next() {
		var m ledger.Memory
		if !bytes.HasSuffix(it.Key(), id[:]) || cbor.Unmarshal(it.Value(), &m) != nil || len(m.Statuses) == 0 {
			continue
		}
		change(&m)
		row := enginetest.Must(cbor.Marshal(m))(t)
		if err := db.Set(bytes.Clone(it.Key()), row, pebble.Sync); err != nil {
			t.Fatal(err)
		}
		changed++
	}
	if err := it.Close(); err != nil || changed != 1 {
		t.Fatalf("%d rows of memory %s: %v", changed, id, err)
	}
}
