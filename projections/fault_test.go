package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.uber.org/goleak"

	"nexus/ledger"
	"nexus/projections/apply"
	"nexus/projections/db"
	"nexus/projections/rows"
)

// gapped is a log that is followed for ever, and lacks its first record.
type gapped struct{ ledger.Log }

func (l gapped) Read(ctx context.Context, from uint64, follow bool) iter.Seq2[ledger.Record, error] {
	return l.Log.Read(ctx, from+1, follow)
}

// Run leaves no goroutine behind when a record can't be applied, whether its
// reader waits for the log or for Run.
func TestRunEndsItsReaderAfterAnApplyError(t *testing.T) {
	for name, n := range map[string]int{"reader waits for the log": 10, "reader waits for Run": 3 * apply.BatchRecords} {
		t.Run(name, func(t *testing.T) {
			a := newAuthor(t, 3)
			a.write(n)
			s := openStore(t, vfs.NewMem())
			defer s.Close()
			before := goleak.IgnoreCurrent()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if err := s.Run(ctx, gapped{a.log}); !errors.Is(err, ledger.ErrCorrupt) {
				t.Errorf("Run: %v, want corrupt", err)
			}
			goleak.VerifyNone(t, before)
		})
	}
}

// After Run was asked to end, a wait for what is not applied ends at once.
func TestWaitForAfterACleanStopIsUnavailable(t *testing.T) {
	a := newAuthor(t, 4)
	a.write(20)
	s := openStore(t, vfs.NewMem())
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()

	// A wait that is there when Run ends.
	running, stop := context.WithCancel(ctx)
	ended, waited := make(chan error, 1), make(chan error, 1)
	go func() { ended <- s.Run(running, a.log) }()
	if err := s.WaitFor(ctx, last(t, a.log)); err != nil {
		t.Fatal(err)
	}
	go func() { waited <- s.WaitFor(ctx, last(t, a.log)+1) }()
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"a wait before the end": <-waited, "a wait after it": s.WaitFor(ctx, last(t, a.log)+1)} {
		if !errors.Is(err, ledger.ErrUnavailable) || ctx.Err() != nil {
			t.Errorf("%s: %v, want unavailable at once", name, err)
		}
	}
	if err := s.WaitFor(ctx, last(t, a.log)); err != nil {
		t.Errorf("a wait for what is applied: %v", err)
	}
	// Run again: it goes on, and waits wait.
	a.write(20)
	run(t, s, a.log, last(t, a.log))
	if err := s.WaitFor(ctx, last(t, a.log)); err != nil {
		t.Errorf("after a second Run: %v", err)
	}
}

// faults are disks that fail under a running store. Each runs in a process of its
// own, since Pebble's goroutines never end after a fault.
var faults = map[string]struct {
	fail func(op errorfs.Op) bool // once the disk is bad
	want error
	text string
}{
	"the log of Pebble can't be written": {func(op errorfs.Op) bool {
		return op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".log")
	}, ledger.ErrUnavailable, "no space left on device"},
	"a new log of Pebble can't be made": {func(op errorfs.Op) bool {
		return (op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpReuseForWrite) && strings.HasSuffix(op.Path, ".log")
	}, ledger.ErrUnavailable, "no space left on device"},
	"the manifest can't be written": {func(op errorfs.Op) bool {
		return (op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileSync) && strings.Contains(op.Path, "MANIFEST")
	}, ledger.ErrUnavailable, "no space left on device"},
}

// A disk that fails ends Run with an error, which a wait gets too, and Close does
// not wait for Pebble: nothing panics, and the process can end.
func TestAFaultOfPebbleEndsRun(t *testing.T) {
	if name := os.Getenv("PROJECTIONS_FAULT"); name != "" {
		runIntoFault(t, name)
		os.Exit(0) // the goroutines that the fault stopped are no leak
	}
	for name := range faults {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAFaultOfPebbleEndsRun$", "-test.timeout=10m")
			cmd.Env = append(os.Environ(), "PROJECTIONS_FAULT="+name)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%.2000s", err, out)
			}
		})
	}
}

func runIntoFault(t *testing.T, name string) {
	tc, bad := faults[name], new(atomic.Bool)
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if bad.Load() && tc.fail(op) {
			return syscall.ENOSPC
		}
		return nil
	}))
	fatal := func(format string, args ...any) {
		fmt.Printf(format+"\n", args...)
		os.Exit(1)
	}
	a := newAuthor(t, 5)
	a.write(100)
	s, err := Open(Config{Dir: "p", FS: fs})
	if err != nil {
		fatal("open: %v", err)
	}
	run(t, s, a.log, last(t, a.log))
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, a.log) }()
	bad.Store(true)
	for {
		a.write(2000)
		if err := s.WaitFor(ctx, last(t, a.log)); err != nil {
			if !errors.Is(err, ledger.ErrUnavailable) || !strings.Contains(err.Error(), tc.text) {
				fatal("wait: %v, want %v that says %q", err, tc.want, tc.text)
			}
			break
		}
	}
	if err := <-ended; !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) || strings.Contains(err.Error(), "goroutine ") {
		fatal("Run: %v, want %v that says %q", err, tc.want, tc.text)
	}
	if err := s.Close(); err != nil {
		fatal("close: %v, want nil: Run has said it", err)
	}
}

// A file that does not hold what was written ends the store, and the error says
// what to do. Nothing panics, whether Open finds the damage or a read does.
func TestADamagedFileIsAnErrorThatSaysWhatToDo(t *testing.T) {
	for name, tc := range map[string]struct {
		step        int // between damaged bytes
		opened, run bool
	}{"found by Open": {64, false, false}, "found by a read while it runs": {1 << 30, true, true}, "found by a read while it does not run": {1 << 30, true, false}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a := newAuthor(t, 6)
			a.write(2000)
			for range 2 { // the second opening makes tables of the first one's log
				s, err := Open(Config{Dir: dir})
				if err != nil {
					t.Fatal(err)
				}
				run(t, s, a.log, last(t, a.log))
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			damage(t, dir, tc.step)
			s, err := Open(Config{Dir: dir})
			if (err == nil) != tc.opened {
				t.Fatalf("open: %v", err)
			}
			if err == nil {
				ended := make(chan error, 1)
				if tc.run {
					go func() { ended <- s.Run(t.Context(), a.log) }()
				} else {
					ended <- nil
				}
				for _, c := range "0123456789ABCDEFGHJKMNPQRSTVWXYZ" { // ids by their ends, which stand in the first block
					for _, rerr := range s.Named("default", "main", string(c)) {
						err = cmp.Or(rerr, err)
					}
				}
				if err == nil {
					t.Fatal("a damaged block is read without an error")
				}
				first := <-ended
				if err = s.Close(); tc.run {
					if err != nil {
						t.Errorf("close: %v, want nil: Run has said it", err)
					}
					if err = first; !errors.Is(s.WaitFor(t.Context(), 1<<40), ledger.ErrUnavailable) {
						t.Error("a wait goes on")
					}
				}
			}
			if damaged := (*db.DamagedError)(nil); !errors.As(err, &damaged) || !errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "goroutine ") {
				t.Errorf("%v, want that the projections are damaged", err)
			}
			if _, err := Open(Config{Dir: dir}); !errors.As(err, new(*db.DamagedError)) {
				t.Errorf("opened again: %v, want that the projections are damaged", err)
			}
		})
	}
}

// A record whose session or parent stands in a damaged row ends Run. Its chain is sound, and
// is not set aside.
func TestADamagedRowSetsNoChainAside(t *testing.T) {
	for name, damage := range map[string]func(*Store, *flipped, *session) error{
		"a table": func(_ *Store, fs *flipped, _ *session) error { fs.bad.Store(true); return nil },
		"a row that is no session": func(s *Store, _ *flipped, x *session) error {
			return s.db().Set(rows.Sessions.Key(x.ID), []byte{0xff}, nil)
		},
		"a row that is no turn": func(s *Store, _ *flipped, x *session) error {
			return s.db().Set(rows.Turns.Key(x.Head.Session, x.Head.Turn), []byte{1, 2, 3}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := &flipped{FS: vfs.NewMem()}
			a := newAuthor(t, 7)
			x := a.open(nil)
			a.turn(x)
			a.write(300)
			for range 2 { // the second opening makes tables of the first one's log
				s := openStore(t, fs)
				run(t, s, a.log, last(t, a.log))
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			s := openStore(t, fs)
			aside := s.SetAside()
			if err := damage(s, fs, x); err != nil {
				t.Fatal(err)
			}
			a.turn(x)
			err := s.Run(t.Context(), a.log)
			if !errors.As(err, new(*db.DamagedError)) {
				t.Errorf("run: %v, want that the projections are damaged", err)
			}
			if n := s.SetAside() - aside; n != 0 {
				t.Errorf("%d sound chains are set aside", n)
			}
			fs.bad.Store(false)
			if why, err := s.WhyAside(x.Subject()); why != "" {
				t.Errorf("the chain is set aside: %s, %v", why, err)
			}
			s.Close()
			if _, err := Open(Config{Dir: "p", FS: fs}); !errors.As(err, new(*db.DamagedError)) {
				t.Errorf("opened again: %v, want that the projections are damaged", err)
			}
		})
	}
}

// flipped is a file system whose tables are read with wrong bytes while it is bad.
type flipped struct {
	vfs.FS
	bad atomic.Bool
}

func (fs *flipped) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.Open(name, opts...)
	if err == nil && strings.HasSuffix(name, ".sst") {
		f = flippedFile{f, fs}
	}
	return f, err
}

type flippedFile struct {
	vfs.File
	of *flipped
}

func (f flippedFile) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	if f.of.bad.Load() && n > 0 {
		b[n/2] ^= 1
	}
	return n, err
}

// damage changes bytes of each table, from the first one on: it is in the rows
// of sessions by their changes, which Open does not read.
func damage(t *testing.T, dir string, step int) {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables: %v, %v", tables, err)
	}
	for _, name := range tables {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(b)/2; i += step {
			b[i] ^= 1
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Projections that another store of this process has open are not damaged.
func TestAnOpenStoreIsNotDamaged(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: dir}); err == nil || errors.As(err, new(*db.DamagedError)) {
		t.Errorf("opened twice: %v, want an error that is not damage", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
