package checkpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nexus/ledger"
	"nexus/ledger/tlog"
	"nexus/turns"
)

// log is a tree in memory that can be cut and changed.
type log struct {
	entries []turns.Hash
	hidden  int // records that the tree lacks
}

func (l *log) Hashes(level int, n, count uint64) (out []turns.Hash, err error) {
	all := map[[2]uint64]turns.Hash{}
	f := tlog.Frontier{}
	for _, e := range l.entries {
		_ = f.Append(e, func(level int, n uint64, h turns.Hash) error { all[[2]uint64{uint64(level), n}] = h; return nil })
	}
	for i := range count {
		out = append(out, all[[2]uint64{uint64(level), n + i}])
	}
	return out, nil
}

func (l *log) grow(n int) {
	for range n {
		var h turns.Hash
		_, _ = rand.Read(h[:])
		l.entries = append(l.entries, h)
	}
}

func (l *log) open(t *testing.T, dir string, out ...string) *Signer {
	t.Helper()
	return l.openWith(t, dir, nil, out...)
}

func (l *log) openWith(t *testing.T, dir string, write func(string, []byte) error, out ...string) *Signer {
	t.Helper()
	s, err := Open(t.Context(), Config{append: write, Data: dir, Origin: "nexus/l/c", Out: out, Logger: slog.New(slog.DiscardHandler), Rand: rand.Reader, Now: time.Now,
		Tree: func() tlog.Hashes { return l }, Applied: func() uint64 { return uint64(len(l.entries) - l.hidden) },
		Last: func(context.Context) (uint64, error) { return uint64(len(l.entries)), nil }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func signed(t *testing.T, s *Signer) tlog.Checkpoint {
	t.Helper()
	n, err := s.Sign(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := tlog.OpenCheckpoint(n, s.Public())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestASignerGoesOnWhereItStopped(t *testing.T) {
	l, dir, out := &log{}, t.TempDir(), t.TempDir()
	s := l.open(t, dir, out)
	l.grow(300)
	if c := signed(t, s); c.Size != 300 {
		t.Errorf("%+v", c)
	}
	key, when := s.Public(), s.When()
	l.grow(5)
	s = l.open(t, dir, out)
	c := signed(t, s)
	if c.Size != 305 || s.Public() != key {
		t.Errorf("%+v, %s", c, s.Public())
	}
	if n, err := s.Elsewhere(); n != 305 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if f := s.Folders(); len(f) != 1 || f[0] != (Folder{Dir: out, Size: 305}) || when.IsZero() || s.When().Before(when) {
		t.Errorf("%+v, %v, %v", f, when, s.When())
	}
	b, err := os.ReadFile(filepath.Join(out, OutFile("nexus/l/c", time.Now())))
	if err != nil {
		t.Fatal(err)
	}
	var sizes []uint64
	for _, n := range tlog.Notes(b) {
		c, err := tlog.OpenCheckpoint(n, key)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, c.Size)
	}
	if len(sizes) < 2 || sizes[len(sizes)-1] != 305 {
		t.Errorf("elsewhere: %v", sizes)
	}
	for _, name := range []string{KeyFile, NoteFile} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
}

// A tree that is made anew is no rollback; one that stays short is.
func TestASignerStopsForARollbackAndForAnotherHistory(t *testing.T) {
	for what, tc := range map[string]struct {
		change func(l *log, dir string)
		why    string
	}{
		"a shorter log":         {func(l *log, _ string) { l.entries = l.entries[:299] }, "rolled back: 300 events were signed, it has 299"},
		"a changed event":       {func(l *log, _ string) { l.entries[17] = turns.Hash{1} }, "another history"},
		"a dropped event":       {func(l *log, _ string) { l.entries = append(l.entries[:17], l.entries[18:]...); l.grow(9) }, "another history"},
		"two events exchanged":  {func(l *log, _ string) { l.entries[3], l.entries[4] = l.entries[4], l.entries[3] }, "another history"},
		"a forged continuation": {func(l *log, _ string) { l.entries = l.entries[:290]; l.grow(50) }, "another history"},
		"no note":               {func(_ *log, dir string) { _ = os.Remove(filepath.Join(dir, NoteFile)) }, "is missing"},
		"a note of another key": {func(_ *log, dir string) {
			k, _ := tlog.NewKey(rand.Reader, "nexus/l/c")
			n, _ := k.Sign(tlog.Checkpoint{Origin: "nexus/l/c", Root: tlog.EmptyRoot})
			_ = os.WriteFile(filepath.Join(dir, NoteFile), n, 0o600)
		}, "has not signed"},
	} {
		t.Run(what, func(t *testing.T) {
			l, dir := &log{}, t.TempDir()
			l.grow(10)
			s := l.open(t, dir)
			l.grow(290)
			signed(t, s)
			tc.change(l, dir)
			for range 2 { // a restart finds it again
				s = l.open(t, dir)
				_, err := s.Sign(t.Context())
				if why := (*InconsistentError)(nil); !errors.As(err, &why) || !strings.Contains(why.Why, tc.why) || !errors.Is(s.Inconsistent(), ledger.ErrCorrupt) {
					t.Errorf("%v", err)
				}
			}
		})
	}
	l, dir := &log{}, t.TempDir()
	s := l.open(t, dir)
	l.grow(300)
	signed(t, s)
	l.hidden = 100
	if _, err := s.Sign(t.Context()); !errors.Is(err, ledger.ErrUnavailable) || s.Inconsistent() != nil {
		t.Errorf("while the tree is made: %v", err)
	}
	l.hidden = 0
	signed(t, s)
}

// Yesterday's folder, key and note included, is found by who kept a note of today; a claim of a size is not enough.
func TestALargerNoteOfItsOwnKeyStopsASigner(t *testing.T) {
	l, dir := &log{}, t.TempDir()
	l.grow(10)
	s := l.open(t, dir)
	yesterday := map[string][]byte{}
	for _, name := range []string{KeyFile, NoteFile} {
		yesterday[name], _ = os.ReadFile(filepath.Join(dir, name))
	}
	l.grow(10)
	signed(t, s)
	today, _ := s.Newest()
	l.entries = l.entries[:10]
	for name, b := range yesterday {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = l.open(t, dir)
	signed(t, s) // nothing on this disk says it
	foreign, _ := tlog.NewKey(rand.Reader, "nexus/l/c")
	n, _ := foreign.Sign(tlog.Checkpoint{Origin: "nexus/l/c", Size: 1000})
	if err := s.Shown(t.Context(), n); err != nil || s.Inconsistent() != nil {
		t.Errorf("a foreign note: %v", err)
	}
	if err := s.Shown(t.Context(), today); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("%v", err)
	}
	if s = l.open(t, dir); s.Inconsistent() == nil {
		t.Error("a restart has forgotten it")
	}
	if _, why, err := Broken(dir); !strings.Contains(why, "larger note") || err != nil {
		t.Errorf("%s, %v", why, err)
	}
	if err := Retire(dir, "aside"); err != nil {
		t.Fatal(err)
	}
	if s = l.open(t, dir); s.Inconsistent() != nil {
		t.Errorf("%v", s.Inconsistent())
	}
	signed(t, s)
}

// A folder elsewhere that hangs, as of a network disk, holds up neither a signature nor who asks for one, nor another folder;
// what is missing there is written when it answers again.
func TestAFolderThatHangsHoldsUpNothing(t *testing.T) {
	l, dir := &log{}, t.TempDir()
	sound, hangs, answers := t.TempDir(), t.TempDir(), make(chan struct{})
	begun := make(chan struct{}, 100)
	l.grow(3)
	s := l.openWith(t, dir, func(name string, note []byte) error {
		if filepath.Dir(name) == hangs {
			begun <- struct{}{}
			<-answers
		}
		return appendNote(name, note)
	}, hangs, sound)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nobody waits for the folders
	for range 3 {
		l.grow(5)
		note, err := s.Sign(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if newest, c := s.Newest(); string(newest) != string(note) || c.Size != uint64(len(l.entries)) {
			t.Errorf("%+v of %d", c, len(l.entries))
		}
		if n, err := s.Elsewhere(); n != 0 || !errors.Is(err, errHangs) {
			t.Errorf("%d, %v", n, err)
		}
	}
	for has := uint64(0); has < 18; { // the other one has all
		s.mu.Lock()
		has = s.out[1].written
		s.mu.Unlock()
		if _, err := s.Sign(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(begun) != 1 {
		t.Errorf("%d writes are under way in a folder that hangs", len(begun))
	}
	close(answers)
	for n, err := uint64(0), error(nil); n < 18 || err != nil; n, err = s.Elsewhere() {
		if _, err := s.Sign(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(hangs, OutFile("nexus/l/c", time.Now())))
	if err != nil {
		t.Fatal(err)
	}
	last := tlog.Checkpoint{}
	for _, n := range tlog.Notes(b) {
		if last, err = tlog.OpenCheckpoint(n, s.Public()); err != nil {
			t.Error(err)
		}
	}
	if last.Size != 18 {
		t.Errorf("%+v", last)
	}
}
