package projections

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"nexus/ledger"
	"nexus/turns"
)

// A store whose disk failed goes on serving what it has applied, and has everything once the
// disk takes writes again.
func TestReopenAfterAFaultHasEverything(t *testing.T) {
	if name := os.Getenv("PROJECTIONS_REOPEN"); name != "" {
		reopenAfterFault(t, name)
		os.Exit(0) // the goroutines that the fault stopped are no leak
	}
	for name := range faults {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReopenAfterAFaultHasEverything$", "-test.timeout=5m")
			cmd.Env = append(os.Environ(), "PROJECTIONS_REOPEN="+name)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%.2000s", err, out)
			}
		})
	}
}

func reopenAfterFault(t *testing.T, name string) {
	tc, bad := faults[name], new(atomic.Bool)
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if bad.Load() && tc.fail(op) {
			return syscall.ENOSPC
		}
		return nil
	}))
	a := newAuthor(t, 7)
	a.write(100)
	s := openStore(t, fs)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	rounds := 1
	if strings.HasPrefix(name, "the log") { // the one that is quick to provoke
		rounds = 3
	}
	for range rounds {
		ended := make(chan error, 1)
		s.start() // a wait must not see the end of the Run before
		go func() { ended <- s.Run(ctx, a.log) }()
		a.write(50)
		if err := s.WaitFor(ctx, last(t, a.log)); err != nil {
			t.Fatal(err)
		}
		bad.Store(true)
		for s.WaitFor(ctx, last(t, a.log)) == nil {
			a.write(2000)
		}
		if err := <-ended; !errors.Is(err, ledger.ErrUnavailable) || s.Fault() == nil {
			t.Fatalf("Run: %v, fault %v; want unavailable", err, s.Fault())
		}
		seen := 0
		for _, err := range s.Sessions("default", "", turns.ID{}) {
			if err != nil {
				t.Fatal(err)
			}
			seen++
		}
		if seen == 0 {
			t.Error("the failed store serves nothing")
		}
		if s.Reopen() == nil { // the failure may not hinder an opening, but the next write
			t.Log("opened on the bad disk")
		}
		bad.Store(false)
		if err := s.Reopen(); err != nil || s.Fault() != nil {
			t.Fatalf("Reopen: %v, fault %v", err, s.Fault())
		}
		run(t, s, a.log, last(t, a.log))
		fresh := openStore(t, vfs.NewMem())
		run(t, fresh, a.log, last(t, a.log))
		if !bytes.Equal(dump(t, s), dump(t, fresh)) {
			t.Fatal("the store differs from one that never failed")
		}
		if err := fresh.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if t.Failed() {
		os.Exit(1)
	}
}

// After a clean stop, the next start has no log of the store to apply again.
func TestStartAfterACleanStopReplaysNothing(t *testing.T) {
	var reads atomic.Int64 // of logs of the store
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileRead && strings.HasSuffix(op.Path, ".log") {
			reads.Add(1)
		}
		return nil
	}))
	a := newAuthor(t, 11)
	a.write(2000)
	s := openStore(t, fs)
	run(t, s, a.log, last(t, a.log))
	want := dump(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	reads.Store(0)
	s = openStore(t, fs)
	defer s.Close()
	if n := reads.Load(); n > 2 { // the head of the log that the next writes go to
		t.Errorf("the start read %d blocks of the store's log; want 2 at most", n)
	}
	if !bytes.Equal(dump(t, s), want) {
		t.Error("the start has other rows than before the stop")
	}
}

// A disk that refuses the writes of a stop does not hold it up, and takes nothing: the next
// start has every row.
func TestStopOnADiskThatRefusesWritesLosesNothing(t *testing.T) {
	if os.Getenv("PROJECTIONS_STOP") == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStopOnADiskThatRefusesWritesLosesNothing$", "-test.timeout=5m")
		cmd.Env = append(os.Environ(), "PROJECTIONS_STOP=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%.2000s", err, out)
		}
		return
	}
	bad := new(atomic.Bool)
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if bad.Load() && op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			return syscall.ENOSPC
		}
		return nil
	}))
	a := newAuthor(t, 12)
	a.write(500)
	s := openStore(t, fs)
	run(t, s, a.log, last(t, a.log))
	want := dump(t, s)
	bad.Store(true)
	if err := s.Close(); !errors.Is(err, ledger.ErrUnavailable) {
		t.Fatalf("Close: %v; want unavailable", err)
	}
	bad.Store(false)
	if got := dump(t, openStore(t, fs)); !bytes.Equal(got, want) {
		t.Error("the start has other rows than before the stop")
	}
	os.Exit(0) // the goroutines that the fault stopped are no leak
}
