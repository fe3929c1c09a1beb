package daemon

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/daemon/mend"
	"nexus/ledger/api"
	"nexus/ledger/jetstream/backup"
	"nexus/turns"
)

var (
	restoreFlips = flag.Int("restore-flips", 6, "damaged backups that TestADamagedBackupIsNotRestored tries to restore")
	backupMB     = flag.Int("backup-mb", 4, "size of the ledger of TestBackupThroughput, in MiB")
)

// A backup with a changed byte, or one that is cut off, is restored nowhere: the folder
// starts no daemon. The sound file is then restored into the same folder.
func TestADamagedBackupIsNotRestored(t *testing.T) {
	out := t.TempDir()
	d, c := start(t, t.TempDir())
	populate(t, c)
	cfg, _ := backUp(t, c.As(api.Operator), out)
	stop(t, d, c)
	sound := must[[]byte](t)(os.ReadFile(cfg.File))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	where, bad := filepath.Join(t.TempDir(), "restored"), filepath.Join(out, "bad")
	for n := range *restoreFlips {
		changed, at := bytes.Clone(sound), rng.IntN(len(sound))
		if n%3 == 2 {
			changed = changed[:at]
		} else {
			changed[at] ^= 1 << rng.IntN(8)
		}
		if err := os.WriteFile(bad, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := mend.Restore(t.Context(), mend.RestoreConfig{File: bad, Keys: cfg.Keys, Data: where}); codeOf(err) != api.Corrupt && codeOf(err) != api.Unsupported {
			t.Fatalf("byte %d of %d: %v", at, len(sound), err)
		}
		if entries, err := os.ReadDir(where); err == nil && len(entries) > 0 {
			if _, err := Open(t.Context(), config.Config{Data: where, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30}); codeOf(err) != api.Corrupt {
				t.Fatalf("byte %d of %d: a daemon starts there: %v", at, len(sound), err)
			}
		}
	}
	must[mend.Restored](t)(mend.Restore(t.Context(), mend.RestoreConfig{File: cfg.File, Keys: cfg.Keys, Data: where}))
	r, rc := start(t, where)
	verified(t, rc)
	stop(t, r, rc)
}

// A restore that ends at any place leaves a folder that starts no daemon, and the next
// restore makes it whole.
func TestAnInterruptedRestoreIsBegunAgain(t *testing.T) {
	out := t.TempDir()
	d, c := start(t, t.TempDir())
	populate(t, c)
	cfg, result := backUp(t, c.As(api.Operator), out)
	stop(t, d, c)
	where := filepath.Join(t.TempDir(), "restored")
	for _, share := range []int64{0, 3, 1} { // of the file, in thirds
		ctx, cancel := context.WithCancel(t.Context())
		read := int64(0)
		_, err := mend.Restore(ctx, mend.RestoreConfig{File: cfg.File, Keys: cfg.Keys, Data: where, Progress: func(n int) {
			if read += int64(n); read >= result.Bytes*share/3 {
				cancel()
			}
		}})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("after %d of %d bytes: %v", read, result.Bytes, err)
		}
		if _, err := Open(t.Context(), config.Config{Data: where, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30}); codeOf(err) != api.Corrupt {
			t.Fatalf("a daemon starts after %d of %d bytes: %v", read, result.Bytes, err)
		}
	}
	must[mend.Restored](t)(mend.Restore(t.Context(), mend.RestoreConfig{File: cfg.File, Keys: cfg.Keys, Data: where}))
	r, rc := start(t, where)
	verified(t, rc)
	stop(t, r, rc)
}

// An event that takes more than a message can carry with its coding comes in pieces.
func TestABackupHasEventsLargerThanAPage(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, s.ID, 3)
	op := c.As(api.Operator)
	cfg, _ := backUp(t, &smallPages{op, 100}, out)
	stop(t, d, c)
	restored, _ := restoreTo(t, cfg)
	want, _ := logRecords(t, dir, 1<<62)
	if got, _ := logRecords(t, restored, 1<<62); len(got) != len(want) || got[len(got)-1] != want[len(want)-1] {
		t.Errorf("%d records, want %d, or they differ", len(got), len(want))
	}
}

// smallPages answers as a daemon does whose messages hold so many bytes.
type smallPages struct {
	backup.Source
	room int
}

func (p *smallPages) ReadBackup(ctx context.Context, r api.ReadBackup) (*api.BackupRecords, error) {
	one := r
	one.Last, one.Offset = r.First, 0
	out, err := p.Source.ReadBackup(ctx, one)
	if err != nil {
		return nil, err
	}
	if out.Frames = out.Frames[r.Offset:]; len(out.Frames) > p.room {
		out.Frames, out.Next, out.NextOffset = out.Frames[:p.room], r.First, r.Offset+p.room
	}
	return out, nil
}

// TestBackupThroughput measures a backup, its verification, and a restore beside raw
// copies of the same bytes with a fsync, in turns. It holds nothing but that they succeed.
func TestBackupThroughput(t *testing.T) {
	d, c := start(t, t.TempDir())
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	for n := range *backupMB { // half of it is in blobs, which barely compress
		large := turns.TextMessage(turns.User, words(uint64(2*n), 1<<19))
		must[*api.Appended](t)(c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{large}}))
		for k := range 32 {
			m := turns.TextMessage(turns.Assistant, words(uint64(1000*n+k), 1<<14))
			must[*api.Appended](t)(c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "go on")}, Response: &m}))
		}
	}
	var spent [4]time.Duration
	names := [4]string{"raw copy", "backup", "verify", "restore"}
	var size int64
	for round := range 3 {
		out := t.TempDir()
		cfg := backup.Config{File: filepath.Join(out, "b"), Keys: filepath.Join(out, "k"), Now: time.Now}
		for i, step := range []func(){
			1: func() { must[backup.Result](t)(backup.Run(t.Context(), c.As(api.Operator), cfg)) },
			0: func() {},
			2: func() {
				f := must[*os.File](t)(os.Open(cfg.File))
				defer f.Close()
				if r, _, err := backup.Check(t.Context(), f, nil); err != nil || r.Err() != nil {
					t.Fatal(r, err)
				}
			},
			3: func() {
				must[mend.Restored](t)(mend.Restore(t.Context(), mend.RestoreConfig{File: cfg.File, Keys: cfg.Keys, Data: filepath.Join(out, "restored")}))
			},
		} {
			began := time.Now()
			step()
			spent[i] += time.Since(began)
			began = time.Now()
			if i > 0 { // a raw copy after each
				copyRaw(t, cfg.File, filepath.Join(out, fmt.Sprint("copy", i)))
				spent[0] += time.Since(began)
			}
		}
		if size = must[os.FileInfo](t)(os.Stat(cfg.File)).Size(); round == 0 {
			t.Logf("%d bytes", size)
		}
	}
	raw := spent[0] / 3
	for i, name := range names[1:] {
		t.Logf("%s: %.1f of a raw copy's time (%v, %v)", name, float64(spent[i+1])/float64(raw), spent[i+1]/3, raw/3)
	}
	stop(t, d, c)
}

func copyRaw(t *testing.T, from, to string) {
	t.Helper()
	in := must[*os.File](t)(os.Open(from))
	defer in.Close()
	f := must[*os.File](t)(os.Create(to))
	_, err := io.Copy(struct{ io.Writer }{f}, struct{ io.Reader }{in}) // no copy by the kernel
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}
