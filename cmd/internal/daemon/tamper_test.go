package daemon

import (
	"flag"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nexus/ledger/api"
	"nexus/ledger/tlog"
	"nexus/turns"
	"nexus/turns/seal"
	"nexus/turns/seal/keyring"
)

var (
	tampers    = flag.Int("tamper", 0, "TestTamper: how many edits it makes; 0: one of each kind")
	tamperSeed = flag.Uint64("tamper-seed", 1, "TestTamper: which edits; with one seed each, several processes share a long run")
	tamperOnly = flag.String("tamper-only", "", "TestTamper: kinds whose name has this in it")
)

// Somebody has the whole disk, the keys of the folder included, and edits it. Each kind of edit is found by
// verify alone, with a checkpoint that is kept elsewhere, or by a client that remembers one, as the table of
// docs/THREATS.md says of it; what that says is not found, isn't, so that the table promises neither too much nor
// too little. A start that is refused counts as found. The long run is
//
//	go test ./cmd/internal/daemon -run TestTamper -tamper 10000 -v -timeout 8h
//
// It can't see edits that need a program in the place of nexusd.
func TestTamper(t *testing.T) {
	w := newTampered(t)
	page, err := os.ReadFile("../../../docs/THREATS.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(tamperKinds) < 30 {
		t.Errorf("%d kinds", len(tamperKinds))
	}
	var kinds []tamperKind
	if !strings.Contains(string(page), tamperTable()) {
		t.Errorf("docs/THREATS.md has not just the rows of the kinds, in their order:%s", tamperTable())
	}
	for _, k := range tamperKinds {
		if strings.Contains(k.name, *tamperOnly) {
			kinds = append(kinds, k)
		}
	}
	n := *tampers
	if n == 0 {
		n = len(kinds)
	}
	rng := mathrand.New(mathrand.NewPCG(9, *tamperSeed))
	for i := range n {
		k := kinds[i%len(kinds)]
		f := &forger{T: t, w: w, dir: damaged(t, w.today, func(string) {}), rng: rng}
		before := f.digest()
		k.edit(f)
		if f.digest() == before {
			t.Fatalf("%s: nothing was edited", k.name)
		}
		if got := f.foundBy(); got != k.found {
			t.Errorf("%s (edit %d): found %v, want %v: %s", k.name, i, got, k.found, strings.Join(f.said, "; "))
		}
		if err := os.RemoveAll(f.dir); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d edits of %d kinds", n, min(n, len(kinds))) // names repeat: "the same, …"
}

// tamperKind is a kind of edit, and who finds it: verify alone, with an exported checkpoint, a client's memory.
type tamperKind struct {
	name  string
	found [3]bool
	edit  func(f *forger)
}

func (k tamperKind) row() string {
	cells := []string{k.name}
	for _, found := range k.found {
		cells = append(cells, map[bool]string{true: "found", false: "**not**"}[found])
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

// tamperTable is what docs/THREATS.md has of the kinds.
func tamperTable() string {
	var b strings.Builder
	for _, k := range tamperKinds {
		b.WriteString("\n" + k.row())
	}
	return b.String() + "\n\n"
}

// tampered is a ledger of yesterday and of today, and what was kept of it elsewhere.
type tampered struct {
	yesterday, today string // folders
	note             string // a checkpoint of today, but for the newest turns
	known            string // the folder of a client that was there then
	keys             *keyring.Memory
	ids              []turns.ID // of keys
	plain            []turns.ID // sessions that nothing names
	old              []turns.ID // plain ones that yesterday has
	parent           turns.ID   // session that others were forked from
	imported         turns.ID   // plain session that came from another ledger
	late             turns.ID   // plain session, of which all is above the checkpoint
	size             uint64     // of the checkpoint
}

func newTampered(t *testing.T) *tampered {
	t.Helper()
	w := &tampered{yesterday: t.TempDir(), known: t.TempDir(), keys: new(keyring.Memory)}
	dir := t.TempDir()
	d, c := start(t, dir)
	plain := func(n int) turns.ID {
		s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
		extend(t, c, s.ID, n)
		return s.ID
	}
	for range 4 {
		w.plain = append(w.plain, plain(5))
	}
	w.old = slices.Clone(w.plain)
	w.parent = plain(3)
	head := extend(t, c, w.parent, 1)
	for range 2 {
		f := must[*api.Session](t)(c.Fork(t.Context(), w.parent, api.CreateFork{Turn: head.ID}))
		extend(t, c, f.ID, 2)
	}
	files := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	other, oc := start(t, t.TempDir())
	imported := must[*api.Session](t)(oc.Create(t.Context(), api.CreateSession{}))
	extend(t, oc, imported.ID, 3)
	var records []api.ExportRecord
	for r, err := range oc.As(api.Operator).Export(t.Context(), imported.ID) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	stop(t, other, oc)
	must[*api.Imported](t)(c.As(api.Operator).Import(t.Context(), records))
	w.imported = imported.ID
	for i := range uint64(2) {
		m := turns.TextMessage(turns.User, words(i, 700_000))
		must[*api.Appended](t)(c.Append(t.Context(), files.ID, api.AppendTurn{Messages: []turns.Message{m}}))
	}
	stop(t, d, c)
	if err := os.CopyFS(w.yesterday, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	d, c = start(t, dir)
	for _, s := range w.plain[:2] {
		extend(t, c, s, 2)
	}
	for range 2 {
		w.plain = append(w.plain, plain(4))
	}
	plain(1) // what is put in behind a session that the kinds edit is below the checkpoint
	op := c.As(api.Operator)
	w.note = must[*api.Checkpoint](t)(op.Checkpoint(t.Context())).Note
	w.size = must[tlog.Checkpoint](t)(tlog.ReadCheckpoint([]byte(w.note))).Size
	if _, _, err := op.CheckKnown(t.Context(), w.known); err != nil {
		t.Fatal(err)
	}
	w.late = plain(3)
	stop(t, d, c)
	d, c = start(t, dir) // the server's index is that of a start
	verified(t, c)
	stop(t, d, c)
	w.today = dir
	store := must[*keyring.Store](t)(keyring.Open(filepath.Join(dir, "keys")))
	w.ids, _ = store.IDs()
	for _, id := range w.ids {
		if err := w.keys.Put(id, must[seal.Key](t)(store.Key(id))); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return w
}
