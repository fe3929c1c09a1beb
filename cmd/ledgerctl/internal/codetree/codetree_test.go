package codetree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// The test binary is also the process that is killed.
func TestMain(m *testing.M) {
	if os.Getenv("NEXUS_TEST_CHILD") == "record" {
		childRecord()
	}
	os.Exit(m.Run())
}

// childRecord records a folder and kills its process at its NEXUS_TEST_KILL-th step.
func childRecord() {
	at, _ := strconv.Atoi(os.Getenv("NEXUS_TEST_KILL"))
	c, err := dial(os.Getenv("NEXUS_TEST_URL"), os.Getenv("NEXUS_TEST_CREDS"))
	if err == nil {
		r := NewRecorder(c, Limits{Time: time.Minute})
		n := 0
		r.step = func(string) {
			if n++; n == at {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
		session, _ := turns.ParseID(os.Getenv("NEXUS_TEST_SESSION"))
		turn, _ := turns.ParseID(os.Getenv("NEXUS_TEST_TURN"))
		_, err = record(context.Background(), r, os.Getenv("NEXUS_TEST_DIR"), turns.Ref{Session: session, Turn: turn})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func dial(url, creds string) (*client.Client, error) {
	nc, err := client.Dial(url, creds)
	if err != nil {
		return nil, err
	}
	return client.New(nc, "default", "main"), nil
}

type ledger struct {
	url, creds string
	*client.Client
}

func openLedger(t *testing.T) *ledger {
	t.Helper()
	dir := t.TempDir()
	d, err := daemon.Open(t.Context(), config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off"})
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{url: d.ClientURL(), creds: filepath.Join(dir, "users", "operator.nk")}
	if l.Client, err = dial(l.url, l.creds); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Conn().Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = d.Close(ctx)
	})
	return l
}

// run runs git as its user does, with the user's settings.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	c := exec.Command("git", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@x", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@x", "GIT_CONFIG_GLOBAL="+os.DevNull)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// folderOf returns all that is in a folder but .git: modes, contents, targets of links.
func folderOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		rel, _ := filepath.Rel(dir, p)
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(p)
			all[rel] = "→ " + to
			return err
		}
		b, err := os.ReadFile(p)
		all[rel] = fmt.Sprintf("%o %s", info.Mode().Perm()&0o111, b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// gitFolder returns the hash of each file of a git folder that is no object and no ref of
// ours.
func gitFolder(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		if err != nil || d.IsDir() {
			if rel == "objects" || rel == filepath.Join("refs", "nexus") {
				return filepath.SkipDir
			}
			return err
		}
		b, err := os.ReadFile(p)
		all[rel] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	return all
}

func yes() bool { return true }

// at returns a new turn of a new session.
func at() turns.Ref { return turns.Ref{Session: api.NewID(), Turn: api.NewID()} }

func record(ctx context.Context, r *Recorder, dir string, at turns.Ref) (*Recorded, error) {
	c, err := r.Capture(ctx, dir, yes)
	if err != nil {
		return nil, err
	}
	return c.Record(ctx, at)
}

func mustRecord(t *testing.T, r *Recorder, dir string, at turns.Ref) *Recorded {
	t.Helper()
	rec, err := record(t.Context(), r, dir, at)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// restored returns what a restoration of a recording puts into a new folder.
func restored(t *testing.T, rec *Recorded) (string, map[string]string) {
	t.Helper()
	repo, err := Open(t.Context(), rec.Folder)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "restored")
	w, err := repo.AddWorktree(t.Context(), dir, rec.Tree, rec.Head)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Remove(context.Background()) })
	return dir, folderOf(t, dir)
}

func TestFilesOfEachTurnAreRestoredAsTheyWere(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			l, dir := openLedger(t), t.TempDir()
			run(t, dir, "init", "-q", "-b", "trunk", "--object-format="+format)
			r := NewRecorder(l.Client, Limits{Time: time.Minute})
			session := api.NewID()
			var recs []*Recorded
			var want []map[string]string
			record := func() {
				recs = append(recs, mustRecord(t, r, dir, turns.Ref{Session: session, Turn: api.NewID()}))
				want = append(want, folderOf(t, dir))
			}
			record() // an empty repository
			write(t, dir, map[string]string{"a": "one\n", "a.b": "x", "a-b/c": "y", "deep/er/file": "z", "crlf": "1\r\n2\r\n", "empty": "", "näme with\tblank": "q"})
			record() // nothing is committed yet
			run(t, dir, "add", "-A")
			run(t, dir, "commit", "-qm", "first")
			write(t, dir, map[string]string{"a": "two\n", "new": "untracked"})
			if err := errors.Join(os.Chmod(filepath.Join(dir, "new"), 0o755), os.Symlink("a", filepath.Join(dir, "link")), os.Symlink("../outside", filepath.Join(dir, "deep", "out")), os.Remove(filepath.Join(dir, "crlf"))); err != nil {
				t.Fatal(err)
			}
			record()
			if err := errors.Join(os.RemoveAll(filepath.Join(dir, "deep")), os.Remove(filepath.Join(dir, "a-b", "c"))); err != nil {
				t.Fatal(err)
			}
			write(t, dir, map[string]string{"deep": "now a file"})
			record()
			run(t, dir, "commit", "-qam", "second")
			run(t, dir, "gc", "-q", "--prune=now")
			record()
			for i, rec := range recs {
				got, files := restored(t, rec)
				if !reflect.DeepEqual(files, want[i]) {
					t.Errorf("recording %d is restored as %q, want %q", i, files, want[i])
				}
				if rec.Head != "" && run(t, got, "rev-parse", "HEAD") != rec.Head {
					t.Errorf("recording %d: HEAD is not the one that was recorded", i)
				}
			}
			run(t, dir, "fsck", "--strict", "--no-dangling")
			if n := run(t, dir, "rev-list", "--count", "--first-parent", Ref(session)+"~4"); n != "1" {
				t.Errorf("%s commits before the last four, want 1", n)
			}
			look := NewLookup(l.Client)
			for i, rec := range recs {
				got, ok, err := look.Of(t.Context(), &api.Turn{ID: rec.Turn, Session: session})
				if err != nil || !ok || !reflect.DeepEqual(got, *rec) {
					t.Errorf("recording %d is looked up as %+v, %v, want %+v", i, got, err, *rec)
				}
			}
		})
	}
}

// A repository whose settings and attributes name programs for everything: none may run.
func TestRecordingAndRestoringRunNoProgramOfTheRepositoryAndChangeNothingElse(t *testing.T) {
	l, dir, ran := openLedger(t), t.TempDir(), filepath.Join(t.TempDir(), "ran")
	run(t, dir, "init", "-q")
	write(t, dir, map[string]string{"a.txt": "one\n", ".gitignore": "ignored\n"})
	run(t, dir, "add", "-A")
	run(t, dir, "commit", "-qm", "first")
	write(t, dir, map[string]string{"stashed": "s"})
	run(t, dir, "stash", "-q", "-u")
	write(t, dir, map[string]string{"a.txt": "staged\n"})
	run(t, dir, "add", "a.txt")
	write(t, dir, map[string]string{"a.txt": "changed\r\n", "b.bin": "big", "ignored": "i"})
	hook := "#!/bin/sh\necho \"$0\" >> '" + ran + "'\ncat\n"
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"reference-transaction", "post-checkout", "post-index-change", "pre-auto-gc", "post-rewrite"} {
		if err := os.WriteFile(filepath.Join(dir, ".git", "hooks", name), []byte(hook), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"filter.x.clean", "filter.x.smudge", "filter.lfs.clean", "filter.lfs.smudge", "filter.lfs.process", "core.fsmonitor", "diff.x.command", "diff.x.textconv", "diff.external", "core.sshCommand", "core.pager", "gpg.program", "core.editor"} {
		run(t, dir, "config", key, program)
	}
	run(t, dir, "config", "filter.x.required", "true")
	run(t, dir, "config", "core.autocrlf", "true")
	run(t, dir, "config", "commit.gpgSign", "true")
	run(t, dir, "config", "core.hooksPath", filepath.Join(dir, ".git", "hooks"))
	write(t, dir, map[string]string{".gitattributes": "*.txt filter=x diff=x\n*.bin filter=lfs diff=lfs -text\n"})
	t.Setenv("GIT_DIR", "/nonexistent") // as in an agent that a hook of git started
	t.Setenv("GIT_EXTERNAL_DIFF", program)
	before, files := gitFolder(t, filepath.Join(dir, ".git")), folderOf(t, dir)
	r := NewRecorder(l.Client, Limits{Time: time.Minute})
	first := at()
	one := mustRecord(t, r, dir, first)
	write(t, dir, map[string]string{"a.txt": "again\r\n"})
	two := mustRecord(t, r, dir, turns.Ref{Session: first.Session, Turn: api.NewID()})
	write(t, dir, map[string]string{"a.txt": "changed\r\n"})
	if now := gitFolder(t, filepath.Join(dir, ".git")); !reflect.DeepEqual(now, before) {
		t.Errorf("the git folder is another: %v, was %v", now, before)
	}
	if now := folderOf(t, dir); !reflect.DeepEqual(now, files) {
		t.Errorf("the working files are others: %v, were %v", now, files)
	}
	repo, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if stat, err := repo.DiffStat(t.Context(), one.Tree, two.Tree); err != nil || !strings.Contains(stat, "a.txt | 2 +-") {
		t.Errorf("diff: %q, %v", stat, err)
	}
	delete(files, "ignored")
	got, is := restored(t, one)
	if !reflect.DeepEqual(is, files) {
		t.Errorf("restored %q, want %q", is, files)
	}
	if _, err := os.Stat(got); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(ran); err == nil {
		t.Errorf("programs of the repository ran: %s", b)
	}
}

func TestFilesThatCantOrMustNotBeKeptAreLeftOutByName(t *testing.T) {
	l, dir := openLedger(t), t.TempDir()
	run(t, dir, "init", "-q")
	token := "gh" + "p_" + strings.Repeat("Ab3dE7gH", 5)
	write(t, dir, map[string]string{"tracked.env": "IT=is committed\n"})
	run(t, dir, "add", "-A")
	run(t, dir, "commit", "-qm", "x")
	write(t, dir, map[string]string{".env": "A=b", "sub/.env.local": "x", ".env.example": "A=", "id_rsa": "k", "notes.txt": "token " + token, "large": strings.Repeat("x", 2000), "ok.go": "package ok", "nested/f": "n"})
	run(t, filepath.Join(dir, "nested"), "init", "-q")
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := NewRecorder(l.Client, Limits{FileSize: 1000, Time: time.Minute})
	for range 2 { // with and without remembered hashes
		rec := mustRecord(t, r, dir, at())
		var left []string
		for _, x := range rec.Left {
			left = append(left, x.Path)
		}
		if want := []string{".env", "id_rsa", "large", "nested", "notes.txt", "sub/.env.local"}; !slices.Equal(left, want) || rec.LeftOut != len(want) {
			t.Errorf("left out %q, want %q", left, want)
		}
		_, files := restored(t, rec)
		if want := (map[string]string{".env.example": "0 A=", "ok.go": "0 package ok", "tracked.env": "0 IT=is committed\n"}); !reflect.DeepEqual(files, want) {
			t.Errorf("restored %q, want %q", files, want)
		}
	}
	out, _ := exec.Command("git", "-C", dir, "cat-file", "--batch-all-objects", "--batch").Output()
	if bytes.Contains(out, []byte(token)) {
		t.Error("git has the credential")
	}
}

func TestAFolderOverTheLimitsIsNotRecordedAndLeavesNothing(t *testing.T) {
	l, dir := openLedger(t), t.TempDir()
	run(t, dir, "init", "-q")
	write(t, dir, map[string]string{"a": strings.Repeat("a", 600), "b": strings.Repeat("b", 600), "c": "c"})
	for _, limits := range []Limits{{Files: 2, Time: time.Minute}, {Bytes: 1000, Time: time.Minute}} {
		if _, err := NewRecorder(l.Client, limits).Capture(t.Context(), dir, yes); !errors.Is(err, ErrTooMuch) {
			t.Errorf("%+v: %v, want %v", limits, err, ErrTooMuch)
		}
	}
	if _, err := NewRecorder(l.Client, Limits{Time: time.Nanosecond}).Capture(t.Context(), dir, yes); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want %v", err, context.DeadlineExceeded)
	}
	if _, err := NewRecorder(l.Client, Limits{Time: time.Minute}).Capture(t.Context(), dir, func() bool { return false }); !errors.Is(err, ErrMoved) {
		t.Errorf("%v, want %v", err, ErrMoved)
	}
	if refs := run(t, dir, "for-each-ref"); refs != "" {
		t.Errorf("refs: %s", refs)
	}
}

func TestOnlyAFolderWithWorkingFilesIsRecorded(t *testing.T) {
	bare, none, dir := t.TempDir(), t.TempDir(), t.TempDir()
	run(t, bare, "init", "-q", "--bare")
	run(t, dir, "init", "-q")
	for _, d := range []string{bare, none, filepath.Join(dir, ".git"), filepath.Join(none, "gone")} {
		if _, err := Open(t.Context(), d); !errors.Is(err, ErrNoRepository) {
			t.Errorf("%s: %v, want %v", d, err, ErrNoRepository)
		}
	}
	t.Setenv("PATH", none)
	if _, err := Open(t.Context(), dir); !errors.Is(err, ErrNoGit) {
		t.Errorf("%v, want %v", err, ErrNoGit)
	}
}

// Worktrees, submodules, sparse checkouts and conflicts are recorded as they stand.
func TestUnusualRepositoriesAreRecordedAsTheyStand(t *testing.T) {
	l, dir, other := openLedger(t), t.TempDir(), t.TempDir()
	run(t, other, "init", "-q")
	write(t, other, map[string]string{"in": "sub"})
	run(t, other, "add", "-A")
	run(t, other, "commit", "-qm", "x")
	run(t, dir, "init", "-q", "-b", "trunk")
	write(t, dir, map[string]string{"a": "1\n", "in/b": "b", "out/c": "c"})
	run(t, dir, "-c", "protocol.file.allow=always", "submodule", "add", "-q", other, "module")
	run(t, dir, "add", "-A")
	run(t, dir, "commit", "-qm", "first")
	r := NewRecorder(l.Client, Limits{Time: time.Minute})

	rec := mustRecord(t, r, dir, at())
	if len(rec.Left) != 1 || rec.Left[0].Path != "module" || run(t, dir, "rev-parse", "HEAD^{tree}") != rec.Tree {
		t.Errorf("a clean folder with a submodule: %+v", rec)
	}
	tree := filepath.Join(t.TempDir(), "wt")
	run(t, dir, "worktree", "add", "-q", "-b", "side", tree)
	write(t, tree, map[string]string{"a": "side\n"})
	run(t, tree, "commit", "-qam", "side")
	rec = mustRecord(t, r, filepath.Join(tree, "in"), at())
	if rec.Branch != "side" || rec.Folder != tree || run(t, dir, "rev-parse", "refs/nexus/"+rec.Session.String()) != rec.Commit {
		t.Errorf("a worktree: %+v", rec)
	}
	run(t, tree, "sparse-checkout", "set", "--no-cone", "/in/", "/a")
	if _, err := os.Stat(filepath.Join(tree, "out")); err == nil {
		t.Fatal("the checkout is not sparse")
	}
	if rec = mustRecord(t, r, tree, at()); rec.Tree != run(t, tree, "rev-parse", "HEAD^{tree}") {
		t.Errorf("a sparse checkout: %+v", rec)
	}
	write(t, dir, map[string]string{"a": "trunk\n"})
	run(t, dir, "commit", "-qam", "trunk")
	if err := exec.Command("git", "-C", dir, "-c", "user.name=u", "-c", "user.email=u@x", "merge", "-q", "side").Run(); err == nil {
		t.Fatal("the merge has no conflict")
	}
	rec = mustRecord(t, r, dir, at())
	if got := run(t, dir, "show", rec.Tree+":a"); !strings.Contains(got, "<<<<<<<") {
		t.Errorf("a conflict is recorded as %q", got)
	}
	if err := os.RemoveAll(filepath.Join(dir, "in")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(dir, "in")); err != nil { // in/b is behind a link now
		t.Fatal(err)
	}
	rec = mustRecord(t, r, dir, at())
	if got := run(t, dir, "ls-tree", "-r", "--name-only", rec.Tree); got != ".gitmodules\na\nin\nmodule\nout/c" {
		t.Errorf("a folder that became a link: %q", got)
	}
}

func TestOnlyAFreeFolderIsFilledAndAnErrorLeavesItAsItWas(t *testing.T) {
	l, dir := openLedger(t), t.TempDir()
	run(t, dir, "init", "-q")
	write(t, dir, map[string]string{"a": "1"})
	run(t, dir, "add", "-A")
	run(t, dir, "commit", "-qm", "first")
	rec := mustRecord(t, NewRecorder(l.Client, Limits{Time: time.Minute}), dir, at())
	repo, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	full, empty, free := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "x", "y")
	write(t, full, map[string]string{"mine": "m"})
	if _, err := repo.AddWorktree(t.Context(), full, rec.Tree, rec.Head); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("%v, want %v", err, ErrNotEmpty)
	}
	if _, err := repo.AddWorktree(t.Context(), filepath.Join(full, "mine"), rec.Tree, rec.Head); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a file: %v, want %v", err, ErrNotEmpty)
	}
	if _, err := repo.AddWorktree(t.Context(), free, strings.Repeat("0", 40), rec.Head); !errors.Is(err, ErrNoTree) {
		t.Errorf("%v, want %v", err, ErrNoTree)
	}
	// A tree that git would not make: its file would be the folder's link to the repository.
	objects, bad := repo.trees([]entry{{".GIT/config", modeFile, repo.id(object{"blob", []byte("1")})}})
	pack, err := repo.pack(objects)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := repo.git(t.Context(), bytes.NewReader(pack), "unpack-objects", "-q"); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{free, empty} {
		if _, err := repo.AddWorktree(t.Context(), d, bad, rec.Head); !errors.Is(err, ErrBadPath) {
			t.Errorf("%v, want %v", err, ErrBadPath)
		}
	}
	if _, err := os.Stat(free); err == nil {
		t.Error("the folder stayed after an error")
	}
	if list, err := os.ReadDir(empty); err != nil || len(list) > 0 {
		t.Errorf("the empty folder is %v, %v after an error", list, err)
	}
	if got := folderOf(t, full); len(got) != 1 {
		t.Errorf("the full folder is %v", got)
	}
	if list := run(t, dir, "worktree", "list", "--porcelain"); strings.Count(list, "worktree ") != 1 {
		t.Errorf("worktrees stayed: %s", list)
	}
	w, err := repo.AddWorktree(t.Context(), empty, rec.Tree, rec.Head)
	if err != nil || folderOf(t, empty)["a"] != "0 1" {
		t.Fatalf("%v: %v", folderOf(t, empty), err)
	}
	if st := run(t, empty, "status", "--porcelain"); st != "" {
		t.Errorf("a clean folder is restored with changes: %s", st)
	}
	if err := w.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

// A process that is killed at any step leaves no lock, and a ref only with all that it
// names; the next recording supplies the event.
func TestAKillDuringARecordingLeavesNoLockAndNoRefWithoutAnEvent(t *testing.T) {
	l, dir := openLedger(t), t.TempDir()
	run(t, dir, "init", "-q")
	write(t, dir, map[string]string{"a": "0"})
	run(t, dir, "add", "-A")
	run(t, dir, "commit", "-qm", "first")
	before := gitFolder(t, filepath.Join(dir, ".git"))
	session := api.NewID()
	count := func() (events int) {
		rows, err := NewLookup(l.Client).read(t.Context(), session)
		if err != nil {
			t.Fatal(err)
		}
		return len(rows)
	}
	want := 0
	for step := 1; step <= 6; step++ {
		write(t, dir, map[string]string{"a": fmt.Sprint("step ", step)})
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "NEXUS_TEST_CHILD=record", "NEXUS_TEST_URL="+l.url, "NEXUS_TEST_CREDS="+l.creds, "NEXUS_TEST_KILL="+strconv.Itoa(step), "NEXUS_TEST_DIR="+dir, "NEXUS_TEST_SESSION="+session.String(), "NEXUS_TEST_TURN="+api.NewID().String())
		c.Stderr = os.Stderr
		if err := c.Run(); (err == nil) != (step > 5) {
			t.Fatalf("step %d: %v", step, err)
		}
		if now := gitFolder(t, filepath.Join(dir, ".git")); !reflect.DeepEqual(now, before) {
			t.Errorf("step %d: the git folder is another: %v", step, now)
		}
		_ = filepath.WalkDir(filepath.Join(dir, ".git"), func(p string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(p, ".lock") {
				t.Errorf("step %d left %s", step, p)
			}
			return err
		})
		run(t, dir, "fsck", "--strict", "--no-dangling")
		mustRecord(t, NewRecorder(l.Client, Limits{Time: time.Minute}), dir, turns.Ref{Session: session, Turn: api.NewID()})
		want++
		if step > 3 {
			want++ // the ref had moved: the killed recording is whole now
		}
		if n := count(); n != want {
			t.Errorf("step %d: %d turns have files, want %d", step, n, want)
		}
		if n := run(t, dir, "rev-list", "--count", "--first-parent", Ref(session), "--not", "HEAD"); n != strconv.Itoa(want) {
			t.Errorf("step %d: the ref has %s recordings, want %d", step, n, want)
		}
	}
	lock := filepath.Join(dir, ".git", filepath.FromSlash(Ref(session))+".lock") // of a git that was killed
	old := time.Now().Add(-time.Hour)
	if err := errors.Join(os.WriteFile(lock, nil, 0o600), os.Chtimes(lock, old, old)); err != nil {
		t.Fatal(err)
	}
	mustRecord(t, NewRecorder(l.Client, Limits{Time: time.Minute}), dir, turns.Ref{Session: session, Turn: api.NewID()})
}

func TestAChangeOfEqualLengthIsNotMissed(t *testing.T) {
	l, dir := openLedger(t), t.TempDir()
	run(t, dir, "init", "-q")
	r := NewRecorder(l.Client, Limits{Time: time.Minute})
	session, old := api.NewID(), time.Now().Add(-time.Hour)
	seen := make(map[string]bool)
	for i := range 20 {
		write(t, dir, map[string]string{"a": fmt.Sprintf("%02d", i)})
		if i%2 == 0 { // a tool that sets the time back
			if err := os.Chtimes(filepath.Join(dir, "a"), old, old); err != nil {
				t.Fatal(err)
			}
		}
		seen[mustRecord(t, r, dir, turns.Ref{Session: session, Turn: api.NewID()}).Tree] = true
	}
	if len(seen) != 20 {
		t.Errorf("%d different trees, want 20", len(seen))
	}
}

// The ref of a session goes, and no other: not one that it is a name of, nor that of another session.
func TestOnlyTheRefOfTheSessionIsRemoved(t *testing.T) {
	l, dir := openLedger(t), t.TempDir()
	run(t, dir, "init", "-q", "-b", "trunk")
	write(t, dir, map[string]string{"a": "1"})
	run(t, dir, "add", "-A")
	run(t, dir, "commit", "-qm", "first")
	r := NewRecorder(l.Client, Limits{Time: time.Minute})
	one, two := mustRecord(t, r, dir, at()), mustRecord(t, r, dir, at())
	repo, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if had, err := repo.RemoveRef(t.Context(), one.Session); had != want || err != nil {
			t.Errorf("removed: %v, %v", had, err)
		}
	}
	alias := at().Session
	run(t, dir, "symbolic-ref", Ref(alias), "refs/heads/trunk")
	if had, err := repo.RemoveRef(t.Context(), alias); !had || err != nil {
		t.Errorf("one that names a branch: %v, %v", had, err)
	}
	want := []string{"refs/heads/trunk", Ref(two.Session)}
	if got := strings.Fields(run(t, dir, "for-each-ref", "--format=%(refname)")); !slices.Equal(got, want) {
		t.Errorf("there is %v, want %v", got, want)
	}
}

// A session that is erased while its files are read gets no ref, and has none where an earlier recording was killed.
func TestAnErasedSessionIsNotRecorded(t *testing.T) {
	l, dir := openLedger(t), t.TempDir()
	run(t, dir, "init", "-q")
	write(t, dir, map[string]string{"a": "1"})
	s, err := l.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	ref := turns.Ref{Session: s.ID, Turn: at().Turn}
	r := NewRecorder(l.Client, Limits{Time: time.Minute})
	mustRecord(t, r, dir, ref)
	c, err := r.Capture(t.Context(), dir, yes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.As(api.Operator).Erase(t.Context(), s.ID, api.EraseSession{}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // with a ref from before, and without
		if _, err := c.Record(t.Context(), turns.Ref{Session: s.ID, Turn: at().Turn}); err == nil {
			t.Error("it was recorded")
		}
		if got := run(t, dir, "for-each-ref"); got != "" {
			t.Errorf("there is %s", got)
		}
	}
}
