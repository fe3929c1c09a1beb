package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"nexus/cmd/ledgerctl/internal/codetree"
	"nexus/ledger/api"
	"nexus/turns"
)

// erasable is a machine with a ledger, a repository, and a transcript whose session has files recorded there.
type erasable struct {
	*replay
	id    turns.ID
	state string // the folder of all that ledgerctl keeps
}

// newErasable has the file "secret" of the repository recorded after the one turn of a transcript.
func newErasable(t *testing.T, secret string) *erasable {
	r := &erasable{replay: newReplay(t, map[string]string{"a": "1"})}
	r.replay.write("secret", secret)
	r.state = filepath.Join(r.home, "state", "nexus")
	text := fmt.Sprintf(`{"type":"user","uuid":"u","parentUuid":null,"sessionId":"s-2","version":"2.1.0","cwd":%q,"timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":"go"}}
{"type":"assistant","uuid":"a","parentUuid":"u","sessionId":"s-2","version":"2.1.0","cwd":%q,"timestamp":"2026-01-01T00:00:01Z","message":{"id":"m","role":"assistant","model":"m","stop_reason":"end_turn","content":[{"type":"text","text":"done"}]}}
`, r.repo, r.repo)
	for r.refs() == "" { // a watch that is too late records nothing
		if err := os.WriteFile(r.transcript, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r.must("watch", "--once", "--code")
	}
	r.end()
	var err error
	if r.id, err = turns.ParseID(r.session); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *erasable) must(args ...string) string {
	r.t.Helper()
	out, said, exit := r.ledgerctl("", args...)
	if exit != 0 {
		r.t.Fatalf("ledgerctl %v: exit %d, %s", args, exit, said)
	}
	return out
}

func (r *erasable) git(args ...string) string {
	r.t.Helper()
	out, err := exec.Command("git", append([]string{"-C", r.repo}, args...)...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

// refs returns the refs of sessions.
func (r *erasable) refs() string { return r.git("for-each-ref", "--format=%(refname)", "refs/nexus/") }

// mentions returns the files below the state of ledgerctl that name the session or its transcript.
func (r *erasable) mentions() (where []string) {
	r.t.Helper()
	err := filepath.WalkDir(r.state, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(p)
		for _, w := range []string{r.session, filepath.Base(r.transcript), r.repo} {
			if strings.Contains(filepath.Base(p)+string(b), w) {
				where = append(where, p)
				break
			}
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return where
}

// storesOf returns the stores of a receipt, by their names.
func (r *erasable) storesOf(args ...string) (done bool, stores map[string]api.ErasedStore) {
	r.t.Helper()
	var x api.Receipt
	if err := json.Unmarshal([]byte(r.must(append([]string{"erase", r.session, "--json"}, args...)...)), &x); err != nil {
		r.t.Fatal(err)
	}
	stores = make(map[string]api.ErasedStore)
	for _, s := range x.Stores {
		stores[s.Store] = s
	}
	return x.Done, stores
}

// What the machine has of a session goes with its erasure: its refs of git, and what the state of the watch names. Other refs stay, a
// dry run changes nothing, and the receipt says what is left for the user.
func TestEraseRemovesWhatItsMachineHas(t *testing.T) {
	const secret = "vermilion-recorded-word"
	r := newErasable(t, secret)
	other := codetree.Ref(api.NewID())
	r.git("update-ref", other, "HEAD")
	if r.mentions() == nil {
		t.Fatal("the state names nothing before")
	}
	before := r.refs()

	_, stores := r.storesOf("--dry-run")
	if s := stores["git refs"]; s.State != api.StorePending || s.Count != 1 || !strings.Contains(s.Note, r.repo) || !strings.Contains(s.Note, codetree.Ref(r.id)) {
		t.Errorf("the dry run: %+v", s)
	}
	if s := stores["watch"]; s.State != api.StorePending || s.Count != 1 {
		t.Errorf("the dry run: %+v", s)
	}
	if s := stores["transcripts"]; s.State != api.StoreOutside || !strings.Contains(s.Note, r.transcript) {
		t.Errorf("the dry run: %+v", s)
	}
	if r.refs() != before || len(r.mentions()) == 0 {
		t.Error("the dry run changed something")
	}

	out := r.must("erase", r.session)
	for _, want := range []string{"is erased\n", "done     git refs              1  " + codetree.Ref(r.id) + " in " + r.repo, "git gc --prune=now", "done     watch                 1  ", "outside  transcripts           1  ", r.transcript} {
		if !strings.Contains(out, want) {
			t.Errorf("the receipt lacks %q:\n%s", want, out)
		}
	}
	if got := strings.TrimSpace(r.refs()); got != other {
		t.Errorf("the refs are %s, want %s", got, other)
	}
	if where := r.mentions(); len(where) > 0 {
		t.Errorf("it is named in %v", where)
	}
	if err := os.Remove(filepath.Join(r.repo, "secret")); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.objects(), secret) {
		t.Error("the file was not in the repository")
	}
	r.git("gc", "-q", "--prune=now")
	if strings.Contains(r.objects(), secret) {
		t.Error("after gc --prune=now the file is in the repository still")
	}
	if done, stores := r.storesOf(); !done || stores["git refs"].Count != 0 {
		t.Errorf("again: %v, %+v", done, stores)
	}
	// A watch stores nothing of it, records no files of it, and does not name it.
	for _, args := range [][]string{{"watch", "--once", "--code"}, {"import", r.transcript}, {"watch", "--once", "--code"}} {
		r.must(args...)
		if got := strings.TrimSpace(r.refs()); got != other {
			t.Errorf("after %v the refs are %s", args, got)
		}
		if where := r.mentions(); len(where) > 0 {
			t.Errorf("after %v it is named in %v", args, where)
		}
	}
}

// objects returns all that the repository has, as text.
func (r *erasable) objects() string {
	return r.git("cat-file", "--batch-all-objects", "--batch", "--unordered")
}

// A ref that could not be removed, as when the command was killed before, goes with the same command again, though nobody can
// read any more in which repository it is.
func TestEraseAgainRemovesTheRefsThatAreLeft(t *testing.T) {
	r := newErasable(t, "x")
	locked := filepath.Join(r.repo, ".git", filepath.FromSlash(codetree.Ref(r.id))+".lock")
	if err := os.WriteFile(locked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	done, stores := r.storesOf()
	if s := stores["git refs"]; done || s.State != api.StorePending || !strings.Contains(s.Note, r.repo) {
		t.Errorf("with a lock: %v, %+v", done, s)
	}
	if err := os.Remove(locked); err != nil {
		t.Fatal(err)
	}
	if s, err := r.client.Session(t.Context(), r.id); err != nil || s.State != turns.Erased.String() || r.refs() == "" {
		t.Fatalf("the session: %+v, %v, refs %q", s, err, r.refs())
	}
	if s := func() api.ErasedStore { _, s := r.storesOf("--dry-run"); return s["git refs"] }(); s.State != api.StorePending || r.refs() == "" {
		t.Errorf("the dry run: %+v", s)
	}
	if done, stores := r.storesOf(); !done || stores["git refs"].State != api.StoreDone || r.refs() != "" {
		t.Errorf("again: %v, %+v, refs %q", done, stores["git refs"], r.refs())
	}
	if where := r.mentions(); len(where) > 0 {
		t.Errorf("it is named in %v", where)
	}
}

// A session whose folder is not here any more is erased all the same, and the receipt names the folder. Whoever stands in a repository has its refs
// removed.
func TestEraseNamesFoldersThatAreNotHere(t *testing.T) {
	r := newErasable(t, "x")
	moved := r.repo + "-moved"
	if err := os.Rename(r.repo, moved); err != nil {
		t.Fatal(err)
	}
	gone := r.repo
	r.repo = moved
	if _, stores := r.storesOf(); stores["git refs"].State != api.StoreOutside || !strings.Contains(stores["git refs"].Note, gone) {
		t.Errorf("%+v", stores["git refs"])
	}
	t.Chdir(moved)
	if done, stores := r.storesOf(); !done || stores["git refs"].State != api.StoreDone || r.refs() != "" {
		t.Errorf("in the repository: %v, %+v", done, stores["git refs"])
	}
	if left, _ := filepath.Glob(filepath.Join(r.state, "erase", "*")); !slices.Equal(left, nil) {
		t.Errorf("it left %v", left)
	}
}
