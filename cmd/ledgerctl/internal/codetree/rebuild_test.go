package codetree

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"testing"

	"nexus/cmd/ledgerctl/internal/edits"
	"nexus/turns"
)

// rebuilt returns the state after calls of Codex, each a patch that succeeded.
func rebuilt(t *testing.T, patches ...string) *edits.State {
	t.Helper()
	path := []edits.Turn{{Depth: 1}}
	for i, p := range patches {
		id := fmt.Sprint("c", i)
		path[i].Response = &turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: id, Name: "apply_patch", Arguments: turns.RawText("*** Begin Patch\n" + p + "\n*** End Patch")}}}
		path = append(path, edits.Turn{Depth: uint64(i + 2), Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText("Success. Updated the following files:")}}}}})
	}
	var last *edits.State
	for st, err := range edits.Walk(func(yield func(edits.Turn, error) bool) {
		for _, x := range path {
			if !yield(x, nil) {
				return
			}
		}
	}, edits.Options{Agent: "codex", Folder: "/p"}) {
		if err != nil {
			t.Fatal(err)
		}
		last = st
	}
	return last
}

func TestRebuiltFilesAreLaidOverTheCommit(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, "init", "-q")
	write(t, dir, map[string]string{"keep": "k", "gone": "g", "was-folder/a": "a", "was-file": "f", "tool.sh": "#!", "tracked.env": "K=1"})
	run(t, dir, "update-index", "--add", "--chmod=+x", "tool.sh")
	run(t, dir, "add", "-A")
	run(t, dir, "update-index", "--chmod=+x", "tool.sh")
	run(t, dir, "commit", "-qm", "first")
	repo, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	commit := run(t, dir, "rev-parse", "HEAD")
	st := rebuilt(t, "*** Delete File: gone", "*** Add File: was-folder\n+now a file", "*** Add File: was-file/b\n+b", "*** Add File: tool.sh\n+#!/bin/sh", "*** Add File: .env\n+K=2", "*** Add File: tracked.env\n+K=3", "*** Add File: deep/er/new\n+n")
	trees, err := (&Source{Repo: repo, Base: commit}).NewTrees(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rec, err := trees.Tree(st, false)
	if err != nil {
		t.Fatal(err)
	}
	if repo.Has(t.Context(), rec.Tree) {
		t.Error("git has the tree before it is written")
	}
	if err := trees.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	w, err := repo.AddWorktree(t.Context(), out, rec.Tree, rec.Head)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"keep": "0 k", "was-folder": "0 now a file\n", "was-file/b": "0 b\n", "tool.sh": "111 #!/bin/sh\n", "tracked.env": "0 K=3\n", "deep/er/new": "0 n\n"}
	if got := folderOf(t, out); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if !reflect.DeepEqual(rec.Left, []Left{{".env", "it looks like a secret"}}) || rec.Files != len(want) || rec.Head != commit {
		t.Errorf("%+v", rec)
	}
	if err := w.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	run(t, dir, "fsck", "--strict", "--no-dangling")
}

func TestFilesThatAreNotKnownAreRefusedByType(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, "init", "-q")
	write(t, dir, map[string]string{"a": "a"})
	run(t, dir, "add", "-A")
	run(t, dir, "commit", "-qm", "first")
	repo, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	commit := run(t, dir, "rev-parse", "HEAD")
	known, lost := "*** Add File: new\n+n", "*** Update File: lost\n@@\n-x\n+y"
	for _, x := range []struct {
		base    string
		patches []string
		partial bool
		err     error
	}{
		{commit, []string{known}, false, nil},
		{commit, nil, false, nil}, // the commit itself
		{commit, []string{lost}, false, ErrPartlyKnown},
		{commit, []string{lost}, true, nil},
		{"", []string{known}, false, ErrPartlyKnown},
		{"", []string{known, lost}, true, nil},
		{"", []string{lost}, true, ErrNothingKnown},
		{"", nil, true, ErrNothingKnown},
	} {
		trees, err := (&Source{Repo: repo, Base: x.base}).NewTrees(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := trees.Tree(rebuilt(t, x.patches...), x.partial); !errors.Is(err, x.err) {
			t.Errorf("%+v: %v", x, err)
		}
	}
	if _, err := (&Source{Folder: "/nowhere"}).NewTrees(t.Context()); !errors.Is(err, ErrNoRepository) {
		t.Errorf("without a repository: %v", err)
	}
}
