package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/daemon/mend"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/backup"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/embed"
	"nexus/turns"
)

// backUp runs one backup of what c's daemon has into files in dir.
func backUp(t *testing.T, c backup.Source, dir string) (backup.Config, backup.Result) {
	t.Helper()
	cfg := backup.Config{File: filepath.Join(dir, "nexus.backup"), Keys: filepath.Join(dir, "nexus.keys"), Now: time.Now}
	return cfg, must[backup.Result](t)(backup.Run(t.Context(), c, cfg))
}

// restoreTo restores the files in from into a new folder.
func restoreTo(t *testing.T, cfg backup.Config) (string, mend.Restored) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "restored")
	return dir, must[mend.Restored](t)(mend.Restore(t.Context(), mend.RestoreConfig{File: cfg.File, Keys: cfg.Keys, Data: dir}))
}

// logRecords returns what the log of a folder holds up to a position, and its blobs by subject.
func logRecords(t *testing.T, dir string, last uint64) (log []string, blobs map[string]string) {
	t.Helper()
	blobs = make(map[string]string)
	for _, stream := range must[[]string](t)(filepath.Glob(embed.StreamDir(dir, "NEXUS_*"))) {
		name := filepath.Base(stream)
		for r, err := range blocks.Records(t.Context(), stream, 0) {
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprintf("%s %v %q %q", r.Subject, r.Stored, r.Header, r.Payload)
			switch _, isBlobs := jetstream.BlobStreamNumber(name); {
			case name == jetstream.StreamName && r.Seq <= last:
				log = append(log, text)
			case isBlobs && !strings.HasSuffix(name, "_COPY"):
				blobs[must[string](t)(jetstream.FirstSubject(r.Subject))] = string(r.Payload)
			}
		}
	}
	return log, blobs
}

// codeOf returns the code that a caller gets of an error.
func codeOf(err error) api.Code {
	if err == nil {
		return ""
	}
	return api.FromError(err).Code
}

func TestARestoredLedgerIsWhatWasBackedUp(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	d, c := start(t, dir)
	populate(t, c)
	cfg, first := backUp(t, c.As(api.Operator), out)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, s.ID, 3)
	_, second := backUp(t, c.As(api.Operator), out) // goes on in the same file
	if first.Run != 1 || second.Run != 2 || second.Records == 0 || second.Records > 10 {
		t.Errorf("first %+v, second %+v", first, second)
	}
	size := must[os.FileInfo](t)(os.Stat(cfg.File)).Size()
	if _, third := backUp(t, c.As(api.Operator), out); third.Records != 0 || third.Digest != second.Digest || must[os.FileInfo](t)(os.Stat(cfg.File)).Size() != size {
		t.Errorf("a run with nothing new: %+v", third)
	}
	before := observe(t, c, nil)
	stop(t, d, c)

	restored, report := restoreTo(t, cfg)
	if report.KeysStored == 0 || report.KeysMissing != 0 || report.Digest != second.Digest {
		t.Errorf("%+v", report)
	}
	wantLog, wantBlobs := logRecords(t, dir, 1<<62)
	gotLog, gotBlobs := logRecords(t, restored, 1<<62)
	if len(wantBlobs) == 0 || !reflect.DeepEqual(gotLog, wantLog) || !reflect.DeepEqual(gotBlobs, wantBlobs) {
		t.Fatalf("%d records and %d chunks, want %d and %d, or they differ", len(gotLog), len(gotBlobs), len(wantLog), len(wantBlobs))
	}
	r, rc := start(t, restored)
	if after := observe(t, rc, nil); !reflect.DeepEqual(after, before) {
		t.Error("the restored ledger answers otherwise")
	}
	verified(t, rc)
	extend(t, rc, s.ID, 2)
	verified(t, rc)
	stop(t, r, rc)
	r, rc = start(t, restored)
	verified(t, rc)
	stop(t, r, rc)
}

// Writers append all the while. What was acknowledged before the backup began is in it.
func TestABackupUnderWritersMissesNothingAcknowledged(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	d, c := start(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var mu sync.Mutex
	acked := make(map[turns.ID]turns.Hash)
	begun := make(chan struct{}, 4)
	for w := range 4 {
		s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				text := fmt.Sprint("question ", n)
				if n%16 == 0 {
					text = words(uint64(w*1000+n), 600_000) // a blob
				}
				m := turns.TextMessage(turns.Assistant, "answer")
				a, err := c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, text)}, Response: &m})
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("append: %v", err)
					}
					return
				}
				mu.Lock()
				acked[a.ID] = a.Hash
				mu.Unlock()
				if n == 20 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range 4 {
		<-begun
	}
	var before map[turns.ID]turns.Hash
	var cfg backup.Config
	for range 3 {
		mu.Lock()
		before = make(map[turns.ID]turns.Hash, len(acked))
		for id, h := range acked {
			before[id] = h
		}
		mu.Unlock()
		cfg, _ = backUp(t, c.As(api.Operator), out)
	}
	cancel()
	wg.Wait()
	restored, report := restoreTo(t, cfg)
	stop(t, d, c)
	want, wantBlobs := logRecords(t, dir, report.Totals.Log.Seq)
	got, gotBlobs := logRecords(t, restored, 1<<62)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%d records, want %d, or they differ", len(got), len(want))
	}
	for subject, chunk := range gotBlobs {
		if wantBlobs[subject] != chunk {
			t.Errorf("chunk %s differs", subject)
		}
	}
	stored := make(map[turns.ID]turns.Hash)
	for r, err := range blocks.Records(t.Context(), embed.StreamDir(restored, jetstream.StreamName), 0) {
		if err != nil {
			t.Fatal(err)
		}
		stored[must[*turns.Event](t)(turns.Decode(r.Payload)).ID] = turns.HashEvent(r.Payload)
	}
	for id, h := range before {
		if stored[id] != h {
			t.Errorf("turn %s was acknowledged before the backup began, and has hash %v there, want %v", id, stored[id], h)
		}
	}
	r, rc := start(t, restored)
	verified(t, rc)
	stop(t, r, rc)
}

// stepSource does something before a page of the blobs.
type stepSource struct {
	backup.Source
	before func()
}

func (s *stepSource) ReadBackup(ctx context.Context, r api.ReadBackup) (*api.BackupRecords, error) {
	if r.Stream == "blobs" {
		s.before()
	}
	return s.Source.ReadBackup(ctx, r)
}

func TestACollectionUnderABackupLosesNothing(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	kept := turns.TextMessage(turns.User, words(1, 700_000))
	must[*api.Appended](t)(c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{kept}}))
	must[*api.BlobInfo](t)(c.PutBlob(t.Context(), api.PutBlob{Session: s.ID, Data: []byte(words(2, 300_000))}))
	backUp(t, c.As(api.Operator), out) // of the first stream of the blobs
	stop(t, d, c)
	d, c = start(t, dir) // no request relies on the other blob
	before := sync.OnceFunc(func() {
		if collected := collectLater(t, d, nil); collected.Collected == 0 {
			t.Errorf("%+v", collected)
		}
	})
	must[*api.BlobInfo](t)(c.PutBlob(t.Context(), api.PutBlob{Session: s.ID, Data: []byte(words(3, 1_000))})) // so that there is something new
	cfg, result := backUp(t, &stepSource{c.As(api.Operator), before}, out)
	if result.Totals.BlobStream != 1 {
		t.Fatalf("%+v", result)
	}
	restored, _ := restoreTo(t, cfg)
	stop(t, d, c)
	_, want := logRecords(t, dir, 0)
	if _, got := logRecords(t, restored, 0); !reflect.DeepEqual(got, want) {
		t.Errorf("%d chunks, want %d, or they differ", len(got), len(want))
	}
	r, rc := start(t, restored)
	verified(t, rc)
	restoredHead := must[*api.Session](t)(rc.Session(t.Context(), s.ID)).Head
	if got := must[*api.Turn](t)(rc.Turn(t.Context(), s.ID, *restoredHead)); len(got.Messages) != 1 {
		t.Errorf("%+v", got)
	}
	stop(t, r, rc)
}

// A restored ledger and its original are two: neither goes on with the other's backup, and
// a position that only the original has is refused.
func TestARestoredLedgerIsNotTakenForItsOriginal(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	old := extend(t, c, s.ID, 3)
	cfg, result := backUp(t, c.As(api.Operator), out)
	later := extend(t, c, s.ID, 5) // only the original has it
	exported := collectExport(t, c, s.ID)
	stop(t, d, c)
	restored, _ := restoreTo(t, cfg)
	r, rc := start(t, restored)
	st := must[*api.BackupState](t)(rc.As(api.Operator).BackupState(t.Context()))
	if st.Restored == nil || st.Restored.Digest != result.Digest || st.Restored.Seq != result.Totals.Log.Seq {
		t.Errorf("%+v", st)
	}
	if _, err := rc.Context(t.Context(), s.ID, api.GetContext{Read: api.Read{MinPosition: api.Position(old.Position)}}); err != nil {
		t.Errorf("a position that both have: %v", err)
	}
	if _, err := rc.Context(t.Context(), s.ID, api.GetContext{Read: api.Read{MinPosition: api.Position(later.Position)}}); codeOf(err) != api.Malformed {
		t.Errorf("a position that the original alone has: %v", err)
	}
	if _, err := rc.Append(t.Context(), s.ID, api.AppendTurn{Parent: later.ID, Messages: []turns.Message{turns.TextMessage(turns.User, "go on")}}); codeOf(err) != api.Conflict && codeOf(err) != api.NotFound {
		t.Errorf("a turn after one that the original alone has: %v", err)
	}
	extend(t, rc, s.ID, 1) // it goes its own way
	_, err := rc.As(api.Operator).Import(t.Context(), exported)
	if codeOf(err) != api.Conflict {
		t.Errorf("the session of the original, which went another way: %v, want conflict", err)
	}
	if _, err := backup.Run(t.Context(), rc.As(api.Operator), cfg); codeOf(err) != api.Conflict || !strings.Contains(err.Error(), "another file") {
		t.Errorf("a backup of the restored ledger into the original's file: %v", err)
	}
	stop(t, r, rc)
	// Projections of the original are refused.
	if err := errors.Join(os.RemoveAll(filepath.Join(restored, "projections")), os.CopyFS(filepath.Join(restored, "projections"), os.DirFS(filepath.Join(dir, "projections")))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), config.Config{Data: restored, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30}); codeOf(err) != api.Corrupt {
		t.Errorf("the projections of the original: %v", err)
	}
}

func collectExport(t *testing.T, c *client.Client, s turns.ID) (out []api.ExportRecord) {
	t.Helper()
	for r, err := range c.Export(t.Context(), s) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// An older copy of the folder was put back and went on: its records differ at positions
// that the file has.
func TestABackupOfALedgerThatWentAnotherWayIsRefused(t *testing.T) {
	dir, copied, out := t.TempDir(), t.TempDir(), t.TempDir()
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, s.ID, 2)
	stop(t, d, c)
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	d, c = start(t, dir)
	extend(t, c, s.ID, 2)
	cfg, _ := backUp(t, c.As(api.Operator), out)
	stop(t, d, c)
	d, c = start(t, copied)
	if _, err := backup.Run(t.Context(), c.As(api.Operator), cfg); codeOf(err) != api.Conflict {
		t.Errorf("a shorter ledger: %v", err)
	}
	extend(t, c, s.ID, 4)
	if _, err := backup.Run(t.Context(), c.As(api.Operator), cfg); codeOf(err) != api.Conflict || !strings.Contains(err.Error(), "different ways") {
		t.Errorf("a ledger that went another way: %v", err)
	}
	stop(t, d, c)
}

// failing ends a backup in the middle.
type failing struct {
	backup.Source
	pages int
}

func (f *failing) ReadBackup(ctx context.Context, r api.ReadBackup) (*api.BackupRecords, error) {
	if f.pages--; f.pages < 0 {
		return nil, io.ErrUnexpectedEOF
	}
	if r.First < r.Last { // small pages
		r.Last = min(r.Last, r.First+4)
	}
	page, err := f.Source.ReadBackup(ctx, r)
	return page, err
}

func TestAnInterruptedBackupGoesOn(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	d, c := start(t, dir)
	populate(t, c)
	op := c.As(api.Operator)
	cfg := backup.Config{File: filepath.Join(out, "nexus.backup"), Keys: filepath.Join(out, "nexus.keys"), Now: time.Now}
	small := func(pages int) backup.Source { return &failing{op, pages} }
	if _, err := backup.Run(t.Context(), small(3), cfg); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	partial := cfg.File + ".partial"
	if _, err := os.Stat(cfg.File); !os.IsNotExist(err) {
		t.Errorf("an unfinished file has its name: %v", err)
	}
	check := func(name string) backup.Report {
		f := must[*os.File](t)(os.Open(name))
		defer f.Close()
		report, _, err := backup.Check(t.Context(), f, nil)
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	if r := check(partial); r.State != backup.Incomplete || r.Totals.Log.Seq != 0 {
		t.Errorf("%+v", r)
	}
	if _, err := mend.Restore(t.Context(), mend.RestoreConfig{File: partial, Data: filepath.Join(t.TempDir(), "x"), Keys: ""}); codeOf(err) != api.Malformed {
		t.Errorf("a sealed ledger without its keys: %v", err)
	}
	f := must[*os.File](t)(os.OpenFile(partial, os.O_WRONLY|os.O_APPEND, 0)) // a torn write
	must[int](t)(f.Write([]byte("lx")))
	_ = f.Close()
	first := must[backup.Result](t)(backup.Run(t.Context(), op, cfg))
	if first.Run != 1 || check(cfg.File).State != backup.Complete {
		t.Errorf("%+v", first)
	}
	if _, err := os.Stat(partial); !os.IsNotExist(err) {
		t.Errorf("the unfinished name is still there: %v", err)
	}
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, s.ID, 20)
	if _, err := backup.Run(t.Context(), small(2), cfg); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	if r := check(cfg.File); r.State != backup.Incomplete || r.Digest != first.Digest || r.Err() == nil {
		t.Errorf("%+v", r)
	}
	where := filepath.Join(t.TempDir(), "x")
	if _, err := mend.Restore(t.Context(), mend.RestoreConfig{File: cfg.File, Keys: cfg.Keys, Data: where}); codeOf(err) != api.Corrupt || !strings.Contains(err.Error(), backup.Incomplete) {
		t.Errorf("an incomplete backup: %v", err)
	}
	if _, err := Open(t.Context(), config.Config{Data: where, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30}); codeOf(err) != api.Corrupt {
		t.Errorf("a start in the folder of a restore that failed: %v", err)
	}
	if _, err := mend.Repair(t.Context(), mend.RepairConfig{Data: where}); codeOf(err) != api.Corrupt {
		t.Errorf("a repair there: %v", err)
	}
	if got := must[mend.Restored](t)(mend.Restore(t.Context(), mend.RestoreConfig{File: cfg.File, Keys: cfg.Keys, Data: where, AcceptIncomplete: true})); got.Totals.Log != first.Totals.Log {
		t.Errorf("%+v", got)
	}
	second := must[backup.Result](t)(backup.Run(t.Context(), op, cfg))
	if r := check(cfg.File); second.Run != 2 || r.State != backup.Complete || r.Totals != second.Totals {
		t.Errorf("%+v, %+v", second, r)
	}
	if _, err := mend.Restore(t.Context(), mend.RestoreConfig{File: cfg.File, Keys: cfg.Keys, Data: where}); codeOf(err) != api.Conflict {
		t.Errorf("a restore into a folder with a ledger: %v", err)
	}
	stop(t, d, c)
	restored, _ := restoreTo(t, cfg)
	want, _ := logRecords(t, dir, 1<<62)
	if got, _ := logRecords(t, restored, 1<<62); !reflect.DeepEqual(got, want) {
		t.Error("the restored log differs")
	}
}

func TestOnlyAnOperatorOfEveryTenantBacksUp(t *testing.T) {
	dir := t.TempDir()
	seed, row, err := config.NewUser("theirs", "default", []string{"*"}, true)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := startWith(t, config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30,
		User: []config.UserRow{row}})
	file := filepath.Join(t.TempDir(), "theirs.nk")
	if err := os.WriteFile(file, []byte(seed), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, creds := range []string{file, d.Credentials().Agent} {
		nc, err := client.Dial(d.ClientURL(), creds)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		for _, agent := range []string{api.Operator, "main"} {
			c := client.New(nc, "default", agent)
			_, err1 := c.BackupState(t.Context())
			_, err2 := c.ReadBackup(t.Context(), api.ReadBackup{Stream: "log", First: 1, Last: 1})
			_, err3 := c.BackupKeys(t.Context(), turns.ID{1})
			for _, err := range []error{err1, err2, err3} {
				if codeOf(err) != api.Denied {
					t.Errorf("%s as %s: %v, want denied", creds, agent, err)
				}
			}
		}
	}
}

// A file that holds keys is never in the backup, and the backup holds no key.
func TestABackupHoldsNoContentKey(t *testing.T) {
	out := t.TempDir()
	d, c := start(t, t.TempDir())
	populate(t, c)
	cfg, _ := backUp(t, c.As(api.Operator), out)
	stop(t, d, c)
	keys := must[backup.Keys](t)(backup.ReadKeys(cfg.Keys))
	file := must[[]byte](t)(os.ReadFile(cfg.File))
	for _, r := range keys.Rows {
		if len(r.Key) == 0 || bytes.Contains(file, r.Key) {
			t.Errorf("key of %s: %d bytes, in the backup %v", r.ID, len(r.Key), bytes.Contains(file, r.Key))
		}
	}
	for _, name := range []string{cfg.File, cfg.Keys} {
		if mode := must[os.FileInfo](t)(os.Stat(name)).Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %v", name, mode)
		}
	}
	if err := os.WriteFile(cfg.Keys, []byte("another file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := backup.WriteKeys(cfg.Keys, keys); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("a file that holds no keys is written over: %v", err)
	}
}
