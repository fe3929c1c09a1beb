package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"nexus/cmd/internal/checkpoint"
	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/daemon/mend"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/backup"
	"nexus/ledger/tlog"
	"nexus/projections/db"
	"nexus/projections/rows"
)

// remembers has a client keep the newest checkpoint of a ledger, which must continue what it kept before.
func remembers(t *testing.T, c *client.Client, known string) (newest *api.Consistency, rekeyed bool) {
	t.Helper()
	newest, rekeyed, err := c.As(api.Operator).CheckKnown(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	return newest, rekeyed
}

// What signs is damaged or gone, and the log is whole: no checkpoint is signed, repair says so and changes nothing, and with
// --accept-loss a new log of hashes begins, which continues what clients kept.
func TestRepairBeginsANewLogWhereWhatSignsIsDamaged(t *testing.T) {
	folder, known := t.TempDir(), t.TempDir()
	d, c := start(t, folder)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, s.ID, 3)
	must[*api.Checkpoint](t)(c.As(api.Operator).Checkpoint(t.Context()))
	remembers(t, c, known)
	stop(t, d, c)
	note, key := checkpoint.NoteFile, checkpoint.KeyFile
	other := must[*tlog.Key](t)(tlog.NewKey(bytes.NewReader(make([]byte, 64)), "nexus/l/c"))
	for what, damage := range map[string]struct{ file, text, says string }{
		"no note":           {note, "", "checkpoint is missing"},
		"an empty note":     {note, "\n", "checkpoint: "},
		"a torn note":       {note, string(must[[]byte](t)(os.ReadFile(filepath.Join(folder, note)))[:40]), "checkpoint: "},
		"a damaged key":     {key, "PRIVATE+KEY+damaged", "checkpoint.key: "},
		"another log's key": {key, other.Text(), "the key of nexus/l/c"},
		"no key":            {key, "", "checkpoint.key is missing"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := damaged(t, folder, func(dir string) {
				name := filepath.Join(dir, damage.file)
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
				if damage.text != "" {
					if err := os.WriteFile(name, []byte(damage.text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			})
			before := streamFiles(t, dir)
			out := must[mend.Repaired](t)(mend.Repair(t.Context(), mend.RepairConfig{Data: dir}))
			if !strings.Contains(out.Unsigned, damage.says) || out.NewLog != "" || strings.Contains(out.Unsigned, "PRIVATE") {
				t.Errorf("%+v", out)
			}
			out = must[mend.Repaired](t)(mend.Repair(t.Context(), mend.RepairConfig{Data: dir, AcceptLoss: true}))
			if !strings.Contains(out.NewLog, damage.says) || out.Unsigned != "" {
				t.Errorf("%+v", out)
			}
			for name, was := range before {
				if now := streamFiles(t, dir)[name]; now != was && strings.HasSuffix(name, ".blk") {
					t.Errorf("%s changed", name)
				}
			}
			d, c := start(t, dir)
			extend(t, c, s.ID, 1)
			must[*api.Checkpoint](t)(c.As(api.Operator).Checkpoint(t.Context()))
			kept := t.TempDir()
			if err := os.CopyFS(kept, os.DirFS(known)); err != nil {
				t.Fatal(err)
			}
			if newest, rekeyed := remembers(t, c, kept); !rekeyed || newest.Size <= newest.From || newest.From == 0 || !strings.HasSuffix(newest.Origin, "/1") {
				t.Errorf("%+v", newest)
			}
			verified(t, c)
			stop(t, d, c)
			if out := must[mend.Repaired](t)(mend.Repair(t.Context(), mend.RepairConfig{Data: dir, AcceptLoss: true})); out.NewLog != "" {
				t.Errorf("once more: %+v", out)
			}
		})
	}
}

// A record is lost in the log and in its copy, and its leaf is left. The replacement carries it: the tree, the
// origin, and every proof stay.
func TestRepairKeepsTheLeafOfALostRecord(t *testing.T) {
	dir, known := t.TempDir(), t.TempDir()
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, s.ID, 3)
	last := extend(t, c, s.ID, 3)
	note := must[*api.Checkpoint](t)(c.As(api.Operator).Checkpoint(t.Context()))
	was, _ := remembers(t, c, known)
	stop(t, d, c)

	folder, opened, err := db.Open(db.Config{Dir: filepath.Join(dir, folder.ProjectionsDir), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := opened.DB.DB.Delete(rows.Number(rows.Records.Key(), 4), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := folder.Close(opened.DB, true); err != nil {
		t.Fatal(err)
	}
	ends := recordEnds(t, dir, jetstream.StreamName)
	change(t, largest(t, dir, jetstream.StreamName), func(b []byte) []byte { b[ends[3]-20] ^= 1; return b }) // the third turn

	out := must[mend.Repaired](t)(mend.Repair(t.Context(), mend.RepairConfig{Data: dir, AcceptLoss: true}))
	if len(out.Streams[0].Lost) != 1 || out.Streams[0].Lost[0].Seq != 4 || out.NewLog != "" {
		t.Fatalf("%+v", out)
	}
	d, c = start(t, dir)
	now, rekeyed := remembers(t, c, known)
	if rekeyed || now.Origin != was.Origin || now.Key != was.Key || d.signer.Inconsistent() != nil {
		t.Errorf("%+v, was %+v: %v", now, was, d.signer.Inconsistent())
	}
	v := must[*api.Verified](t)(c.As(api.Operator).VerifyCheckpoint(t.Context(), note.Note))
	if v.OK || v.Covered < note.Size {
		t.Errorf("%+v", v)
	}
	for _, p := range v.Problems {
		if strings.Contains(p.Message, "history") || strings.Contains(p.Message, "rolled back") || strings.Contains(p.Message, "no checkpoint") {
			t.Errorf("%+v", p)
		}
	}
	p := must[*api.TurnProof](t)(c.As(api.Operator).Proof(t.Context(), s.ID, api.GetProof{Turn: last.ID})) // behind the loss
	proof := must[*tlog.Proof](t)(tlog.ParseProof([]byte(p.Proof)))
	if _, err := proof.Verify(must[*tlog.Event](t)(tlog.ParseEvent([]byte(p.Event))).Entry(), was.Key); err != nil {
		t.Error(err)
	}
}

// A ledger that was restored from a backup signs under another origin and key, and shows that it has all that its original signed
// before the backup; not what that signed since.
func TestARestoredLedgerContinuesWhatItsOriginalSigned(t *testing.T) {
	dir, known, out := t.TempDir(), t.TempDir(), t.TempDir()
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	turn := extend(t, c, s.ID, 5)
	must[*api.Checkpoint](t)(c.As(api.Operator).Checkpoint(t.Context()))
	was, _ := remembers(t, c, known)
	cfg := backup.Config{File: filepath.Join(out, "a.nexus"), Keys: filepath.Join(out, "a.keys"), Now: time.Now}
	must[backup.Result](t)(backup.Run(t.Context(), c.As(api.Operator), cfg))
	extend(t, c, s.ID, 2)
	since := must[*api.Checkpoint](t)(c.As(api.Operator).Checkpoint(t.Context()))
	later := t.TempDir()
	remembers(t, c, later)
	stop(t, d, c)

	restored := filepath.Join(t.TempDir(), "data")
	if _, err := mend.Restore(t.Context(), mend.RestoreConfig{Data: restored, File: cfg.File, Keys: cfg.Keys}); err != nil {
		t.Fatal(err)
	}
	d, c = start(t, restored)
	extend(t, c, s.ID, 1)
	must[*api.Checkpoint](t)(c.As(api.Operator).Checkpoint(t.Context()))
	now, rekeyed := remembers(t, c, known)
	if !rekeyed || now.Origin == was.Origin || now.Key == was.Key || tlog.LedgerOf(now.Origin) != tlog.LedgerOf(was.Origin) || now.From != was.Size {
		t.Errorf("%+v, was %+v", now, was)
	}
	if again, rekeyed := remembers(t, c, known); rekeyed || again.From != now.Size {
		t.Errorf("%+v", again)
	}
	if v := must[*api.Verified](t)(c.As(api.Operator).VerifyCheckpoint(t.Context(), was.Note)); !v.OK || v.Covered < was.Size {
		t.Errorf("%+v", v)
	}
	if v := must[*api.Verified](t)(c.As(api.Operator).VerifyCheckpoint(t.Context(), since.Note)); v.OK {
		t.Errorf("%+v", v)
	}
	rolledBack := (*client.RolledBackError)(nil)
	if _, _, err := c.As(api.Operator).CheckKnown(t.Context(), later); !errors.As(err, &rolledBack) || rolledBack.Known.Size != uint64(since.Size) {
		t.Errorf("who saw more of the original: %v", err)
	}
	p := must[*api.TurnProof](t)(c.As(api.Operator).Proof(t.Context(), s.ID, api.GetProof{Turn: turn.ID}))
	proof := must[*tlog.Proof](t)(tlog.ParseProof([]byte(p.Proof)))
	entry := must[*tlog.Event](t)(tlog.ParseEvent([]byte(p.Event))).Entry()
	if _, err := proof.Verify(entry, now.Key); err != nil {
		t.Error(err)
	}
	if _, err := proof.Verify(entry, was.Key); err == nil {
		t.Error("it is under the key of the original")
	}
	if d.signer.Inconsistent() != nil {
		t.Error(d.signer.Inconsistent())
	}
}
