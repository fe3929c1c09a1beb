package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
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
	"nexus/cmd/internal/daemon/folder"
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
	"nexus/turns/seal/keyring"
)

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
	cfg := config.Config{Data: f.dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30}
	d, err := Open(f.Context(), cfg)
	for tries := 0; errors.Is(err, ledger.ErrUnavailable) && tries < 10; tries++ { // a slow machine finds nothing
		d, err = Open(f.Context(), cfg)
	}
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
	f.remove("projections", "search", folder.MarkFile)
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
	k := must[*mark.Keeper](f.T)(mark.Open(filepath.Join(f.dir, folder.MarkFile), m, func(err error) { f.Error(err) }))
	if err := k.Close(nil); err != nil {
		f.Fatal(err)
	}
}

func (f *forger) identity() folder.Identity {
	return must[folder.Identity](f.T)(folder.LoadIdentity(f.dir))
}

// event decodes a record.
func (f *forger) event(r blocks.Record) *turns.Event {
	return must[*turns.Event](f.T)(turns.Decode(r.Payload))
}

// replace puts an event in the place of that of a record.
func (f *forger) replace(r *blocks.Record, e *turns.Event) {
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
	f.replace(r, e)
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
		if err := folder.SaveIdentity(f.dir, id); err != nil {
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
	folder, opened, err := db.Open(db.Config{Dir: filepath.Join(f.dir, folder.ProjectionsDir), Logger: slog.New(slog.DiscardHandler)})
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
	store := must[*keyring.Store](f.T)(keyring.Open(filepath.Join(f.dir, "keys")))
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
