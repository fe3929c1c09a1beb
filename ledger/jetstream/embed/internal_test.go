package embed

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// An ack means an fsync, unless a benchmark asks for the opposite.
func TestTheServerSyncsEveryWrite(t *testing.T) {
	for _, noSync := range []bool{false, true} {
		s, err := Start(Config{DataDir: t.TempDir(), MaxStore: 1 << 30, NoSync: noSync})
		if err != nil {
			t.Fatal(err)
		}
		v, err := s.srv.Varz(nil)
		if err != nil || v.JetStream.Config == nil {
			t.Fatalf("%+v, %v", v, err)
		}
		if c := v.JetStream.Config; c.SyncAlways == noSync || c.MaxStore != 1<<30 || filepath.Base(filepath.Dir(c.StoreDir)) != storeDir && filepath.Base(c.StoreDir) != storeDir || v.MaxPayload != MaxPayload {
			t.Errorf("NoSync %v: %+v, messages of %d", noSync, c, v.MaxPayload)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSizeIsTheBytesOfAllFiles(t *testing.T) {
	dir := t.TempDir()
	for name, n := range map[string]int{"a": 3, "b/c": 40, "b/d/e": 500, "b/empty": 0} {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, make([]byte, n), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := size(dir); err != nil || got != 543 {
		t.Errorf("%d bytes, %v; want 543", got, err)
	}
	if got, err := size(filepath.Join(dir, "missing")); err != nil || got != 0 {
		t.Errorf("a folder that does not exist: %d bytes, %v; want 0", got, err)
	}
}

// The default limit of the store is a share of what is free and used, so that a
// store which has grown is not over it at the next start.
func TestTheDefaultLimitCountsWhatTheFolderUses(t *testing.T) {
	dir := t.TempDir()
	before, err := defaultStore(dir)
	if err != nil || before <= 0 {
		t.Fatalf("%d, %v", before, err)
	}
	// A sparse file: its size counts, and it takes nothing of what is free.
	const sparse = 1 << 40
	f, err := os.Create(filepath.Join(dir, "blocks"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(sparse), f.Close()); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	after, err := defaultStore(dir)
	if more := after - before; err != nil || more < sparse/100*40 || more > sparse/100*50 {
		t.Errorf("%d more for %d bytes that are used, %v; want about 45 %%", more, sparse, err)
	}
}

// The server reports a failed disk in its log only: its store first, then the stream.
func TestAFailedDiskIsReported(t *testing.T) {
	var failures []string
	var log bytes.Buffer
	s := &serverLog{l: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), failed: func(err error) {
		if !errors.Is(err, ErrDisk) {
			t.Errorf("%v is no %v", err, ErrDisk)
		}
		failures = append(failures, err.Error())
	}}
	s.Errorf("something else: %v", "no space")
	s.Errorf("Filestore [S] Critical write error: %v", "write 1.blk: no space left on device")
	s.Errorf("JetStream stream 'A > S' critical write error: %v", "again")
	if want := []string{ErrDisk.Error() + ": write 1.blk: no space left on device", ErrDisk.Error() + ": again"}; !slices.Equal(failures, want) {
		t.Errorf("%q, want %q", failures, want)
	}
	s.Noticef("a notice")
	s.Warnf("Plaintext passwords detected")
	s.Warnf("a warning")
	s.Fatalf("can't %s", "listen")
	s.Fatalf("then this")
	if why := s.fatal.Load(); why == nil || *why != "can't listen" {
		t.Errorf("the first reason is %v", why)
	}
	for line, want := range map[string]bool{"level=DEBUG msg=nats msg=\"a notice\"": true, "level=WARN msg=nats msg=\"a warning\"": true, "Plaintext": false, "level=ERROR": true} {
		if strings.Contains(log.String(), line) != want {
			t.Errorf("the log has %q: %v, want %v:\n%s", line, !want, want, log.String())
		}
	}
	(&serverLog{l: s.l}).Errorf("critical write error: x") // nobody listens
}
