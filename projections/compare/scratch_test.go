package compare

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"nexus/ledger"
	"nexus/projections/apply"
	"nexus/projections/db"
	"nexus/turns"
)

// openRows returns rows of no record, in the folder p of a file system. Comparisons of real logs are
// tested with the store that begins them, in package projections.
func openRows(t *testing.T, fs vfs.FS) Rows {
	t.Helper()
	folder, d, err := db.Open(db.Config{Dir: "p", FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := folder.Close(d.DB, true); err != nil {
			t.Error(err)
		}
	})
	return Rows{Database: apply.NewDatabase(d.DB), Folder: folder}
}

// scratches returns the folders of comparisons.
func scratches(t *testing.T, fs vfs.FS) (found []string) {
	t.Helper()
	names, err := fs.List("p")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "verify-") {
			found = append(found, name)
		}
	}
	return found
}

// Where the disk has no room for a second copy, a comparison says so and begins nothing; one
// that needs the last room ends.
func TestAComparisonThatLacksRoomIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	r := openRows(t, fs)
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 64<<20 - 1, TotalBytes: 1 << 40})
	if _, err := All(r, "log"); !errors.Is(err, db.ErrNoRoom) || !errors.Is(err, ledger.ErrUnavailable) || !strings.Contains(err.Error(), "MiB free") {
		t.Errorf("begun without room: %v", err)
	}
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 40, TotalBytes: 1 << 40})
	c, err := All(r, "log")
	if err != nil {
		t.Fatal(err)
	}
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 64<<20 - 1, TotalBytes: 1 << 40})
	c.anew.since = checkRoomEvery
	bad := ledger.Record{Seq: 1, Subject: ledger.Subject("default", "x", turns.Chain{Entity: turns.LabelEntity, ID: "x"}), Payload: []byte("x")}
	if _, _, err = c.Apply(bad, nil, ledger.ErrCorrupt); !errors.Is(err, db.ErrNoRoom) {
		t.Errorf("it used the last room: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if left := scratches(t, fs); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

// A disk that fails under a comparison ends it. The database goes on, and its rows are not called
// damaged.
func TestADiskThatFailsUnderAComparisonEndsIt(t *testing.T) {
	if os.Getenv("COMPARE_FAULT") == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestADiskThatFailsUnderAComparisonEndsIt$", "-test.timeout=10m")
		cmd.Env = append(os.Environ(), "COMPARE_FAULT=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%.2000s", err, out)
		}
		return
	}
	var failing sync.Map
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if _, bad := failing.Load("now"); bad && strings.Contains(op.Path, "verify-") && (op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpCreate) {
			return syscall.ENOSPC
		}
		return nil
	}))
	r := openRows(t, fs)
	const most = 4 // databases that a process leaves behind
	for n := range most + 1 {
		failing.Delete("now")
		c, err := All(r, "log")
		if n == most {
			if err == nil || !strings.Contains(err.Error(), "start it again") {
				t.Errorf("after %d failures: %v", n, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		failing.Store("now", true)
		err = c.anew.Guard(c.anew.Flush)
		if !errors.Is(err, ledger.ErrUnavailable) || errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("the disk failed: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if fault := r.Database.Fault(); fault != nil {
		t.Errorf("the database has the fault %v", fault)
	}
	if err := r.Database.Set([]byte{0xff}, nil, pebble.NoSync); err != nil {
		t.Errorf("the database takes no row: %v", err)
	}
	if left := scratches(t, fs); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}
