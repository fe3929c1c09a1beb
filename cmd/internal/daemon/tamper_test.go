package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/checkpoint"
	"nexus/cmd/internal/daemon/config"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/backup"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/mark"
	"nexus/ledger/tlog"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
	"nexus/turns/seal"
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
	made := make(map[string]int)
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
		made[k.name]++
		if err := os.RemoveAll(f.dir); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d edits of %d kinds", n, len(made))
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
	keys             *seal.Memory
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
	w := &tampered{yesterday: t.TempDir(), known: t.TempDir(), keys: new(seal.Memory)}
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
	store := must[*seal.Store](t)(seal.OpenStore(filepath.Join(dir, "keys")))
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

// forger edits a copy of the folder of today.
type forger struct {
	*testing.T
	w    *tampered
	dir  string
	rng  *mathrand.Rand
	said []string // by whom it was found, and how
}

// digest is of all files.
func (f *forger) digest() string {
	h := sha256.New()
	err := filepath.WalkDir(f.dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			fmt.Fprintf(h, "%s %x\n", name, sha256.Sum256(must[[]byte](f.T)(os.ReadFile(name))))
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// foundBy opens the folder, and says who finds that it was edited.
func (f *forger) foundBy() (found [3]bool) {
	d, err := Open(f.Context(), config.Config{Data: f.dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30})
	if err != nil {
		f.said = append(f.said, "refused: "+err.Error())
		return [3]bool{true, true, true}
	}
	nc := must[*nats.Conn](f.T)(d.Connect())
	c := client.New(nc, "default", "main")
	v, err := c.As(api.Operator).Verify(f.Context())
	found[0] = f.problems("verify", v, err)
	v, err = c.As(api.Operator).VerifyCheckpoint(f.Context(), f.w.note)
	found[1] = f.problems("verify --checkpoint", v, err)
	known := f.TempDir()
	if err := os.CopyFS(known, os.DirFS(f.w.known)); err != nil {
		f.Fatal(err)
	}
	if _, _, err := c.As(api.Operator).CheckKnown(f.Context(), known); err != nil {
		if !errors.Is(err, turns.ErrCorrupt) {
			f.Errorf("a client's memory: %v", err)
		}
		found[2] = true
		f.said = append(f.said, "client: "+err.Error())
	}
	nc.Close()
	_ = d.Close(context.WithoutCancel(f.Context())) // it may have ended by itself
	return found
}

func (f *forger) problems(who string, v *api.Verified, err error) bool {
	if err != nil {
		if !errors.Is(err, ledger.ErrCorrupt) {
			f.Errorf("%s: %v", who, err)
		}
		f.said = append(f.said, who+": "+err.Error())
		return true
	}
	if !v.OK {
		f.said = append(f.said, who+": "+v.Problems[0].Message)
	}
	return !v.OK
}

func pick[T any](f *forger, s []T) T { return s[f.rng.IntN(len(s))] }

// records are those of a stream.
func (f *forger) records(stream string) (out []blocks.Record) {
	for r, err := range blocks.Records(f.Context(), embed.StreamDir(f.dir, stream), 0) {
		if err != nil {
			f.Fatal(err)
		}
		r.Header, r.Payload = bytes.Clone(r.Header), bytes.Clone(r.Payload)
		out = append(out, r)
	}
	return out
}

// write writes a stream anew, and removes what would tell that it was another one.
func (f *forger) write(stream string, records []blocks.Record) {
	b := must[*backup.Blocks](f.T)(backup.NewBlocks(embed.StreamDir(f.dir, stream)))
	for i, r := range records {
		r.Seq = uint64(1 + i)
		if err := b.Append(r); err != nil {
			f.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		f.Fatal(err)
	}
	f.remove("projections", "search", markFile)
}

func (f *forger) remove(names ...string) {
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(f.dir, name)); err != nil {
			f.Fatal(err)
		}
	}
}

// markAll writes a mark that fits the streams.
func (f *forger) markAll() {
	m := mark.Mark{Ledger: f.identity().Ledger, Server: embed.ServerVersion}
	if all := f.records(jetstream.StreamName); len(all) > 0 {
		m.Log = mark.Place{Seq: uint64(len(all)), Sum: turns.HashEvent(all[len(all)-1].Payload)}
	}
	if all := f.records(jetstream.BlobsName); len(all) > 0 {
		m.Blobs = mark.Place{Seq: uint64(len(all)), Sum: sha256.Sum256(all[len(all)-1].Payload)}
	}
	k := must[*mark.Keeper](f.T)(mark.Open(filepath.Join(f.dir, markFile), m, func(err error) { f.Error(err) }))
	if err := k.Close(nil); err != nil {
		f.Fatal(err)
	}
}

func (f *forger) identity() identity { return must[identity](f.T)(loadIdentity(f.dir)) }

// event decodes a record.
func (f *forger) event(r blocks.Record) *turns.Event {
	return must[*turns.Event](f.T)(turns.Decode(r.Payload))
}

// put puts an event into a record.
func (f *forger) put(r *blocks.Record, e *turns.Event) {
	r.Payload = must[[]byte](f.T)(e.Encode())
	r.Header = jetstream.LogHeader(r.Payload)
}

// reseal seals an event with its body anew, with another text if it is of a turn, and puts it into its record.
func (f *forger) reseal(r *blocks.Record, e *turns.Event, old *turns.Event, another bool) {
	body := must[[]byte](f.T)(seal.Open(old, f.w.keys))
	if another {
		changed := bytes.Replace(body, []byte("some words"), []byte("evil words"), 1)
		if bytes.Equal(changed, body) {
			f.Fatal("the body has no text to change")
		}
		body = changed
	}
	digest := e.Digest
	e.Digest = turns.Hash{}
	if err := seal.Seal(e, body, f.w.keys, e.Keys, rand.Reader); err != nil {
		f.Fatal(err)
	}
	e.Digest = digest
	if !digest.IsZero() { // the seal covers it
		e.Digest = turns.Hash{}
		h := *e
		h.Digest = seal.RequestDigest("forged", body)
		if err := seal.Seal(&h, body, f.w.keys, e.Keys, rand.Reader); err != nil {
			f.Fatal(err)
		}
		*e = h
	}
	f.put(r, e)
}

// of returns the places in all of the records of a session's chain.
func (f *forger) of(all []blocks.Record, session turns.ID) (at []int) {
	for i, r := range all {
		if e, err := turns.Decode(r.Payload); err == nil && e.Chain == turns.SessionChain(session) {
			at = append(at, i)
		}
	}
	return at
}

// turnsOf are the places of its turns.
func (f *forger) turnsOf(all []blocks.Record, session turns.ID) (at []int) {
	return slices.DeleteFunc(f.of(all, session), func(i int) bool { return f.event(all[i]).Kind != turns.KindTurn })
}

// rewrite rewrites a session's chain from a place on, with another text there.
func (f *forger) rewrite(all []blocks.Record, session turns.ID, from int) {
	prev := turns.Hash{}
	for _, i := range f.of(all, session) {
		if i < from {
			continue
		}
		old := f.event(all[i])
		e := *old
		if i > from {
			e.Prev = prev
		}
		f.reseal(&all[i], &e, old, i == from)
		prev = turns.HashEvent(all[i].Payload)
	}
}

// signing is what the forger does with what the folder has signed.
type signing int

const (
	leave    signing = iota // the note and the key as they are
	withdraw                // both are removed
	resign                  // another note of the folder's key
	begin                   // the log says that it began anew, under another origin
)

// log edits the log, and makes the rest of the folder fit.
func (f *forger) log(how signing, edit func(all []blocks.Record) []blocks.Record) {
	f.write(jetstream.StreamName, edit(f.records(jetstream.StreamName)))
	f.markAll()
	f.sign(how)
}

func (f *forger) sign(how signing) {
	switch how {
	case withdraw:
		f.remove(checkpoint.KeyFile, checkpoint.NoteFile)
	case begin:
		id := f.identity()
		id.Began++
		if err := saveIdentity(f.dir, id); err != nil {
			f.Fatal(err)
		}
		f.remove(checkpoint.KeyFile, checkpoint.NoteFile)
	case resign:
		key := must[*tlog.Key](f.T)(tlog.ParseKey(string(must[[]byte](f.T)(os.ReadFile(filepath.Join(f.dir, checkpoint.KeyFile))))))
		tree := tlog.Frontier{}
		for _, r := range f.records(jetstream.StreamName) {
			if err := tree.AppendLeaf(tlog.Leaf(r.Seq, r.Payload), func(int, uint64, turns.Hash) error { return nil }); err != nil {
				f.Fatal(err)
			}
		}
		note := must[[]byte](f.T)(key.Sign(tlog.Checkpoint{Origin: key.Origin(), Size: tree.Size(), Root: tree.Root()}))
		if err := os.WriteFile(filepath.Join(f.dir, checkpoint.NoteFile), note, 0o600); err != nil {
			f.Fatal(err)
		}
	}
}

// goOn has a daemon append to the folder.
func (f *forger) goOn(n int) {
	d, err := Open(f.Context(), config.Config{Data: f.dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	c := client.New(must[*nats.Conn](f.T)(d.Connect()), "default", "main")
	extend(f.T, c, pick(f, f.w.old), n)
	stop(f.T, d, c)
}

// back puts the folder of yesterday in the place of today's.
func (f *forger) back() {
	f.remove(".")
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		f.Fatal(err)
	}
	if err := os.CopyFS(f.dir, os.DirFS(f.w.yesterday)); err != nil {
		f.Fatal(err)
	}
}

// copyFrom puts files of another folder into this one.
func (f *forger) copyFrom(dir string, names ...string) {
	f.remove(names...)
	for _, name := range names {
		from := filepath.Join(dir, name)
		if st := must[os.FileInfo](f.T)(os.Stat(from)); st.IsDir() {
			if err := os.CopyFS(filepath.Join(f.dir, name), os.DirFS(from)); err != nil {
				f.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(filepath.Join(f.dir, name), must[[]byte](f.T)(os.ReadFile(from)), 0o600); err != nil {
			f.Fatal(err)
		}
	}
}

// blobs edits the attachments, and makes the rest fit: the second stream is made of the first.
func (f *forger) blobs(edit func(all []blocks.Record) []blocks.Record) {
	all := edit(f.records(jetstream.BlobsName))
	for i, r := range all { // the headers that the daemon checks fit
		sum := sha256.Sum256(r.Payload)
		lines := strings.Split(string(r.Header), "\r\n")
		for n, line := range lines {
			name, _, _ := strings.Cut(line, ": ")
			if name == "Nexus-Chunk-Sha256" || name == "Nexus-Blob-Sha256" {
				lines[n] = name + ": " + hex.EncodeToString(sum[:])
			}
		}
		all[i].Header = []byte(strings.Join(lines, "\r\n"))
	}
	f.write(jetstream.BlobsName, all)
	if err := os.RemoveAll(embed.StreamDir(f.dir, jetstream.CopyName)); err != nil {
		f.Fatal(err)
	}
	f.markAll()
}

// row changes a row of the projections, with checksums that fit.
func (f *forger) row(kind rows.Prefix) {
	folder, opened, err := db.Open(db.Config{Dir: filepath.Join(f.dir, projectionsDir), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	it, err := opened.DB.NewIter(&pebble.IterOptions{LowerBound: []byte{byte(kind)}, UpperBound: []byte{byte(kind) + 1}})
	if err != nil {
		f.Fatal(err)
	}
	var keys, values [][]byte
	for ok := it.First(); ok; ok = it.Next() {
		keys, values = append(keys, bytes.Clone(it.Key())), append(values, bytes.Clone(it.Value()))
	}
	if err := it.Close(); err != nil {
		f.Fatal(err)
	}
	n := f.rng.IntN(len(keys))
	values[n][f.rng.IntN(len(values[n]))] ^= 1 << f.rng.IntN(8)
	if err := opened.DB.DB.Set(keys[n], values[n], pebble.Sync); err != nil {
		f.Fatal(err)
	}
	if err := folder.Close(opened.DB, true); err != nil {
		f.Fatal(err)
	}
}

// swap is the key store with one change.
func (f *forger) swap(change func(id turns.ID, k seal.Key) (seal.Key, bool)) {
	f.remove("keys")
	store := must[*seal.Store](f.T)(seal.OpenStore(filepath.Join(f.dir, "keys")))
	for _, id := range f.w.ids {
		if k, keep := change(id, must[seal.Key](f.T)(f.w.keys.Key(id))); keep {
			if err := store.Put(id, k); err != nil {
				f.Fatal(err)
			}
		}
	}
	if err := store.Close(); err != nil {
		f.Fatal(err)
	}
}

// lost puts a replacement in the place of a record.
func (f *forger) lost(leaf func(seq uint64, payload []byte) turns.Hash) func([]blocks.Record) []blocks.Record {
	return func(all []blocks.Record) []blocks.Record {
		i := pick(f, f.turnsOf(all, pick(f, f.w.plain)))
		all[i].Payload = tlog.LostPayload(uint64(1+i), leaf(uint64(1+i), all[i].Payload))
		all[i].Header = jetstream.LogHeader(all[i].Payload)
		return all
	}
}

// session edits the log at a session that nothing names; at are the places of its turns.
func session(how signing, edit func(f *forger, all []blocks.Record, id turns.ID, at []int) []blocks.Record) func(*forger) {
	return func(f *forger) {
		f.log(how, func(all []blocks.Record) []blocks.Record {
			id := pick(f, f.w.plain)
			return edit(f, all, id, f.turnsOf(all, id))
		})
	}
}

func drop(all []blocks.Record, at ...int) (out []blocks.Record) {
	for i, r := range all {
		if !slices.Contains(at, i) {
			out = append(out, r)
		}
	}
	return out
}

func resealLast(f *forger, all []blocks.Record, id turns.ID, at []int) []blocks.Record {
	f.rewrite(all, id, at[len(at)-1])
	return all
}

func rewriteSession(f *forger, all []blocks.Record, id turns.ID, at []int) []blocks.Record {
	f.rewrite(all, id, at[f.rng.IntN(len(at)-1)])
	return all
}

func dropSession(f *forger, all []blocks.Record, id turns.ID, _ []int) []blocks.Record {
	return drop(all, f.of(all, id)...)
}

func dropLast(_ *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
	return drop(all, at[len(at)-1])
}

// addTurn puts a forged turn on top of a session, behind its newest one.
func addTurn(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
	last := at[len(at)-1]
	r := all[last]
	old := f.event(r)
	e := *old
	e.ID, e.Index, e.Prev = api.NewID(), old.Index+1, turns.HashEvent(r.Payload)
	e.Parent, e.Depth = old.Ref(), old.Depth+1
	f.reseal(&r, &e, old, true)
	return slices.Insert(all, last+1, r)
}

// addSession puts a copy of a session, with other ids, in between.
func addSession(f *forger, all []blocks.Record, id turns.ID, _ []int) []blocks.Record {
	session := api.NewID()
	store := must[*seal.Store](f.T)(seal.OpenStore(filepath.Join(f.dir, "keys")))
	k := must[seal.Key](f.T)(store.Create(session, rand.Reader))
	if err := errors.Join(f.w.keys.Put(session, k), store.Close()); err != nil {
		f.Fatal(err)
	}
	ids := map[turns.ID]turns.ID{id: session}
	other := func(id turns.ID) turns.ID {
		if _, ok := ids[id]; !ok && !id.IsZero() {
			ids[id] = api.NewID()
		}
		return ids[id]
	}
	var forged []blocks.Record
	prev, end := turns.Hash{}, 0
	for _, i := range f.of(all, id) {
		r, old := all[i], f.event(all[i])
		e := *old
		e.Chain, e.Keys, e.Prev = turns.SessionChain(session), []turns.ID{session}, prev
		if old.Kind != turns.KindOpened { // its id is of the request, and is not checked
			e.ID = other(old.ID)
		} else {
			o := *old.Origin
			o.Session = session
			e.Origin, e.ID = &o, session
		}
		if !old.Parent.IsZero() {
			e.Parent = turns.Ref{Session: session, Turn: other(old.Parent.Turn)}
		}
		e.Root, e.Segment = other(old.Root), other(old.Segment)
		r.Subject = ledger.SessionSubject("default", session, session)
		f.reseal(&r, &e, old, false)
		prev, end = turns.HashEvent(r.Payload), i
		forged = append(forged, r)
	}
	return slices.Insert(all, f.rng.IntN(end), forged...)
}

// cut cuts the log behind the checkpoint that is kept elsewhere.
func cut(f *forger, all []blocks.Record) []blocks.Record {
	return all[:int(f.w.size)-1-f.rng.IntN(5)]
}

// otherLeaf is any leaf but that of the record.
func otherLeaf(uint64, []byte) turns.Hash { return turns.Hash{7} }

func noLeaf(uint64, []byte) turns.Hash { return turns.Hash{} }

var anybody, unseen = [3]bool{true, true, true}, [3]bool{}

// elsewhere is found by whoever kept a checkpoint, and by nobody else; inside by verify, and not by a client.
var elsewhere, inside = [3]bool{false, true, true}, [3]bool{true, true, false}

// The records, unless a kind says otherwise, lie below the checkpoint that is kept elsewhere.
var tamperKinds = []tamperKind{
	// A record is edited. The rest of the folder is made to fit, and signed again with its key, unless the kind says otherwise.
	{"a bit of the log flipped", anybody, func(f *forger) {
		change(f.T, largest(f.T, f.dir, jetstream.StreamName), func(b []byte) []byte { b[f.rng.IntN(len(b))] ^= 1 << f.rng.IntN(8); return b })
	}},
	{"a byte of a body changed, the hash beside it made to fit", anybody, session(resign, func(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
		i := pick(f, at)
		all[i].Payload[len(all[i].Payload)-1-f.rng.IntN(20)] ^= 1 << f.rng.IntN(8)
		all[i].Header = jetstream.LogHeader(all[i].Payload)
		return all
	})},
	{"a header changed (when it was recorded), the newest of its session, the hash beside it made to fit", anybody, session(resign, func(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
		i := at[len(at)-1]
		e := f.event(all[i])
		e.Recorded += 1 + f.rng.Int64N(1000)
		f.put(&all[i], e)
		return all
	})},
	{"the hash beside a record changed", anybody, session(resign, func(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
		all[pick(f, at)].Header = jetstream.LogHeader([]byte("another"))
		return all
	})},
	{"the time at which the server stored a record changed", unseen, session(resign, func(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
		i := pick(f, at)
		all[i].Stored = all[i].Stored.Add(-1)
		return all
	})},
	{"a middle turn sealed again with another text", anybody, session(resign, func(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
		i := at[f.rng.IntN(len(at)-1)]
		old := f.event(all[i])
		e := *old
		f.reseal(&all[i], &e, old, true)
		return all
	})},
	{"the newest turn of a session sealed again with another text", elsewhere, session(resign, resealLast)},
	{"the same, key and note removed", elsewhere, session(withdraw, resealLast)},
	{"the same, key and note left", anybody, session(leave, resealLast)},
	{"a session written anew from a turn on, each hash made to fit", elsewhere, session(resign, rewriteSession)},
	{"the same, key and note removed", elsewhere, session(withdraw, rewriteSession)},
	{"the same, key and note left", anybody, session(leave, rewriteSession)},
	{"the same, as a log that began anew after a repair", elsewhere, session(begin, rewriteSession)},
	{"who wrote the newest turn of a session changed, sealed again", elsewhere, session(resign, func(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
		i := at[len(at)-1]
		old := f.event(all[i])
		e := *old
		e.Sender = "U" + strings.Repeat("A", 55)
		f.reseal(&all[i], &e, old, false)
		return all
	})},
	// Records are removed, moved, put in between.
	{"a middle turn deleted", anybody, session(resign, func(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
		return drop(all, at[f.rng.IntN(len(at)-1)])
	})},
	{"the newest turn of a session deleted", elsewhere, session(resign, dropLast)},
	{"the same, key and note left", anybody, session(leave, dropLast)},
	{"a session dropped that nothing names", elsewhere, session(resign, dropSession)},
	{"the same, key and note removed", elsewhere, session(withdraw, dropSession)},
	{"the same, key and note left", anybody, session(leave, dropSession)},
	{"the same, as a log that began anew after a repair", elsewhere, session(begin, dropSession)},
	{"a session dropped that a fork names", anybody, func(f *forger) {
		f.log(resign, func(all []blocks.Record) []blocks.Record { return drop(all, f.of(all, f.w.parent)...) })
	}},
	{"two turns of a session exchanged", anybody, session(resign, func(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
		i := f.rng.IntN(len(at) - 1)
		all[at[i]], all[at[i+1]] = all[at[i+1]], all[at[i]]
		return all
	})},
	{"neighbours of two sessions exchanged", elsewhere, func(f *forger) {
		f.log(resign, func(all []blocks.Record) []blocks.Record {
			var at []int // the last of one session, and the first of the next
			for i := range f.w.size - 1 {
				if f.event(all[i]).Chain != f.event(all[i+1]).Chain && f.event(all[i+1]).Index == 0 && f.event(all[i+1]).ForkOf == nil {
					at = append(at, int(i))
				}
			}
			i := pick(f, at)
			all[i], all[i+1] = all[i+1], all[i]
			return all
		})
	}},
	{"a turn put in between a second time", anybody, session(resign, func(f *forger, all []blocks.Record, _ turns.ID, at []int) []blocks.Record {
		i := pick(f, at)
		return slices.Insert(all, i+1, all[i])
	})},
	{"a turn of one session in the place of another's", anybody, session(resign, func(f *forger, all []blocks.Record, id turns.ID, at []int) []blocks.Record {
		other := f.turnsOf(all, f.w.parent)
		i, from := pick(f, at), pick(f, other)
		all[i].Payload, all[i].Header = all[from].Payload, all[from].Header
		return all
	})},
	{"a forged turn on top of a session, in the middle of the log", elsewhere, session(resign, addTurn)},
	{"the same, key and note left", anybody, session(leave, addTurn)},
	{"a forged session put in between", elsewhere, session(resign, addSession)},
	{"a session moved to another tenant, each hash as it is", inside, session(resign, func(f *forger, all []blocks.Record, id turns.ID, _ []int) []blocks.Record {
		for _, i := range f.of(all, id) {
			all[i].Subject = ledger.SessionSubject("another", id, id)
		}
		return all
	})},
	{"the same of a session that was imported", unseen, func(f *forger) {
		f.log(resign, func(all []blocks.Record) []blocks.Record {
			for _, i := range f.of(all, f.w.imported) {
				all[i].Subject = ledger.SessionSubject("another", f.w.imported, f.w.imported)
			}
			return all
		})
	}},
	{"a turn replaced by one that says it is lost, with its leaf", inside, func(f *forger) { f.log(leave, f.lost(tlog.Leaf)) }},
	{"the same with another leaf", anybody, func(f *forger) { f.log(resign, f.lost(otherLeaf)) }},
	{"the same without a leaf", anybody, func(f *forger) { f.log(resign, f.lost(noLeaf)) }},
	// The end is cut, or all of it is of yesterday.
	{"the tail cut", anybody, func(f *forger) {
		all := f.records(jetstream.StreamName)
		m := must[[]byte](f.T)(os.ReadFile(filepath.Join(f.dir, markFile)))
		f.write(jetstream.StreamName, cut(f, all))
		if err := os.WriteFile(filepath.Join(f.dir, markFile), m, 0o600); err != nil {
			f.Fatal(err)
		}
	}},
	{"the tail cut, the mark removed, then `nexusd repair`", anybody, func(f *forger) {
		f.write(jetstream.StreamName, cut(f, f.records(jetstream.StreamName)))
		if _, err := Repair(f.Context(), RepairConfig{Data: f.dir}); err != nil {
			f.Fatal(err)
		}
	}},
	{"the same, key and note removed", elsewhere, func(f *forger) {
		f.log(withdraw, func(all []blocks.Record) []blocks.Record { return cut(f, all) })
	}},
	{"the same, signed again", elsewhere, func(f *forger) {
		f.log(resign, func(all []blocks.Record) []blocks.Record { return cut(f, all) })
	}},
	{"the same, and other turns in its place", elsewhere, func(f *forger) {
		f.log(resign, func(all []blocks.Record) []blocks.Record { return cut(f, all) })
		f.goOn(10)
	}},
	{"yesterday's folder, key and note included", elsewhere, func(f *forger) { f.back() }},
	{"yesterday's folder, and a forged continuation with its keys, shorter than today's", elsewhere, func(f *forger) { f.back(); f.goOn(2) }},
	{"the same, longer than today's", elsewhere, func(f *forger) { f.back(); f.goOn(25) }},
	{"yesterday's folder, key and note removed", elsewhere, func(f *forger) { f.back(); f.sign(withdraw) }},
	{"yesterday's folder with today's key and note", anybody, func(f *forger) {
		f.back()
		f.copyFrom(f.w.today, checkpoint.KeyFile, checkpoint.NoteFile)
	}},
	// What is beside the log.
	{"yesterday's note put back, the log as it is", unseen, func(f *forger) { f.copyFrom(f.w.yesterday, checkpoint.NoteFile) }},
	{"another key in the place of the folder's, the log as it is", [3]bool{false, false, true}, func(f *forger) { f.sign(withdraw) }},
	{"the note of another key", anybody, func(f *forger) {
		k := must[*tlog.Key](f.T)(tlog.NewKey(rand.Reader, must[tlog.Checkpoint](f.T)(tlog.ReadCheckpoint([]byte(f.w.note))).Origin))
		c := must[tlog.Checkpoint](f.T)(tlog.ReadCheckpoint([]byte(f.w.note)))
		if err := os.WriteFile(filepath.Join(f.dir, checkpoint.NoteFile), must[[]byte](f.T)(k.Sign(c)), 0o600); err != nil {
			f.Fatal(err)
		}
	}},
	{"the mark removed", anybody, func(f *forger) { f.remove(markFile) }},
	{"another ledger's id", anybody, func(f *forger) {
		id := f.identity()
		id.Ledger = "0f8fad5b-d9cb-469f-a165-70867728950e"
		if err := saveIdentity(f.dir, id); err != nil {
			f.Fatal(err)
		}
	}},
	{"two attachments exchanged", inside, func(f *forger) {
		f.blobs(func(all []blocks.Record) []blocks.Record {
			i := f.rng.IntN(len(all) - 1)
			all[i].Payload, all[i+1].Payload = all[i+1].Payload, all[i].Payload
			return all
		})
	}},
	{"an attachment changed, the hashes beside it made to fit", inside, func(f *forger) {
		f.blobs(func(all []blocks.Record) []blocks.Record {
			b := pick(f, all).Payload
			b[f.rng.IntN(len(b))] ^= 1 << f.rng.IntN(8)
			return all
		})
	}},
	{"an attachment removed", inside, func(f *forger) {
		f.blobs(func(all []blocks.Record) []blocks.Record { return drop(all, f.rng.IntN(len(all))) })
	}},
	{"the key log of yesterday", anybody, func(f *forger) { f.copyFrom(f.w.yesterday, "keys") }},
	{"the key of a session removed", inside, func(f *forger) {
		gone := pick(f, f.w.plain)
		f.swap(func(id turns.ID, k seal.Key) (seal.Key, bool) { return k, id != gone })
	}},
	{"the key of a session exchanged for another one", inside, func(f *forger) {
		at := pick(f, f.w.plain)
		f.swap(func(id turns.ID, k seal.Key) (seal.Key, bool) {
			if id == at {
				k[0] ^= 1
			}
			return k, true
		})
	}},
	{"a row of a turn in the projections changed", inside, func(f *forger) { f.row(rows.Payloads) }},
	{"a row of the tree in the projections changed", anybody, func(f *forger) { f.row(rows.TreeHashes) }},
	// What is above the checkpoint that is kept elsewhere.
	{"any of this above the newest checkpoint that is kept elsewhere, signed again: the newest turn of a session sealed again", unseen, func(f *forger) {
		f.log(resign, func(all []blocks.Record) []blocks.Record {
			return resealLast(f, all, f.w.late, f.turnsOf(all, f.w.late))
		})
	}},
	{"the same: a session dropped", unseen, func(f *forger) {
		f.log(resign, func(all []blocks.Record) []blocks.Record { return drop(all, f.of(all, f.w.late)...) })
	}},
	{"the same: the tail cut", unseen, func(f *forger) {
		f.log(resign, func(all []blocks.Record) []blocks.Record {
			return all[:int(f.w.size)+f.rng.IntN(len(all)-int(f.w.size))]
		})
	}},
}
