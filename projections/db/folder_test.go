package db

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/ledger"
)

// A failed database changes no file any more, whoever has its place.
func TestAFailedDatabaseChangesNoFile(t *testing.T) {
	fs := vfs.NewMem()
	f, d, err := Open(Config{Dir: "p", FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	go d.fault.park(errors.New("no space left on device"))
	<-d.fault.parked
	returned := make(chan string, 3)
	for name, change := range map[string]func() error{
		"create": func() error { _, err := d.fs.Create("p/new", vfs.WriteCategoryUnspecified); return err },
		"rename": func() error { return d.fs.Rename("p/LOCK", "p/new") },
		"remove": func() error { return d.fs.Remove("p/LOCK") },
	} {
		go func() {
			_ = change()
			returned <- name
		}()
	}
	next, err := f.Replace(d.DB)
	if err != nil {
		t.Fatal(err)
	}
	d.Replaced()
	if err := f.Close(next.DB, true); err != nil {
		t.Fatal(err)
	}
	select {
	case name := <-returned:
		t.Errorf("%s returned", name)
	default:
	}
	if _, err := fs.Stat("p/new"); err == nil {
		t.Error("the failed database made a file")
	}
	if _, err := fs.Stat("p/LOCK"); err != nil {
		t.Errorf("the failed database removed a file: %v", err)
	}
}

// A process leaves no more failed databases behind than it may.
func TestReplaceEndsAfterTooManyFaults(t *testing.T) {
	f, d, err := Open(Config{Dir: "p", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	for range maxAbandoned {
		d.fault.raise(errors.New("a fault"))
		next, err := f.Replace(d.DB)
		if err != nil {
			t.Fatal(err)
		}
		d.Replaced()
		d = next
	}
	d.fault.raise(errors.New("a fault"))
	if _, err := f.Replace(d.DB); !errors.Is(err, ErrAbandoned) || !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("%v, want %v", err, ErrAbandoned)
	}
	_ = f.Close(d.DB, true) // it returns the fault
}

// Damage that Pebble meets in the background while the store is opened closes it again,
// so that it can be set aside.
func TestDamageMetWhileOpeningLeavesNoLock(t *testing.T) {
	dir := t.TempDir()
	fs := &raising{FS: vfs.Default}
	f := newFault(dir)
	fs.met = func() {
		f.corruption(pebble.DataCorruptionInfo{Path: "x", Details: errors.New("a wrong checksum")})
	}
	folder := &Folder{config: Config{Dir: dir, FS: fs}, cache: pebble.NewCache(1 << 20), logger: slog.New(slog.DiscardHandler)}
	defer folder.cache.Unref()
	if _, err := folder.open(f); !errors.As(err, new(*DamagedError)) {
		t.Fatalf("%v, want damage", err)
	}
	if err := os.Remove(filepath.Join(dir, noteFile)); err != nil {
		t.Fatal(err)
	}
	again, d, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(d.DB, true); err != nil {
		t.Fatal(err)
	}
}

// raising is a file system that calls met when a file is created.
type raising struct {
	vfs.FS
	met func()
}

func (r *raising) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if met := r.met; met != nil && !strings.HasSuffix(name, noteFile) {
		r.met = nil
		met()
	}
	return r.FS.Create(name, c)
}
