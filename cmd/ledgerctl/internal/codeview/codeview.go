package codeview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/codetree"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/ledger/api"
	"nexus/turns"
)

// shown is what code says as JSON.
type shown struct {
	Turn     turns.ID           `json:"turn"`
	Depth    uint64             `json:"depth"`
	Recorded *codetree.Recorded `json:"recorded"`
}

// Show prints the recorded files after a turn.
func Show(ctx context.Context, e *cli.Env, name string) error {
	p, err := e.Find(ctx, name)
	if err != nil {
		return err
	}
	path, err := codetree.Path(ctx, p.Client, p.Session.ID, p.Turn)
	if err != nil {
		return err
	}
	if len(path) == 0 || path[len(path)-1].Files == nil {
		return notRecorded(path, p.Turn)
	}
	t := path[len(path)-1]
	if err := e.Result(shown{Turn: t.ID, Depth: t.Depth, Recorded: t.Files}, "@%d: %s recorded, tree %s in %s", t.Depth, prose.Plural(uint64(t.Files.Files), "file"), t.Files.Tree, prose.Printable(t.Files.Folder)); err != nil || e.JSON {
		return err
	}
	for _, x := range t.Files.Left {
		e.Tell("left out: %s (%s)", prose.Printable(x.Path), x.Why)
	}
	if more := t.Files.LeftOut - len(t.Files.Left); more > 0 {
		e.Tell("left out: %s more", prose.Plural(uint64(more), "file"))
	}
	return nil
}

// filesAfter returns the files that were recorded after a turn, and the repository that has them.
func filesAfter(ctx context.Context, p names.Place, at turns.ID, repo string) (*codetree.Recorded, *codetree.Repository, error) {
	path, err := codetree.Path(ctx, p.Client, p.Session.ID, at)
	if err != nil {
		return nil, nil, err
	}
	if n := len(path); n > 0 && path[n-1].Files != nil {
		from, err := Repository(ctx, repo, path[n-1].Files)
		return path[n-1].Files, from, err
	}
	return nil, nil, notRecorded(path, at)
}

// notRecorded is the error for a turn at the end of a path whose files nobody recorded.
func notRecorded(path []codetree.PathTurn, at turns.ID) error {
	if n := len(path); at.IsZero() && n > 0 {
		at = path[n-1].ID
	}
	err := api.Errorf(api.NotFound, nil, "the files after turn %s were not recorded", at)
	for _, t := range slices.Backward(path) {
		if t.Files != nil {
			return fault.WithHint(err, fmt.Sprintf("the last turn before it that has files is @%d", t.Depth))
		}
	}
	return fault.WithHint(err, "ledgerctl watch --code, or hook install --code, records them from now on")
}

// Repository opens the repository that has recorded files: repo, else the one that
// they were recorded in.
func Repository(ctx context.Context, repo string, rec *codetree.Recorded) (*codetree.Repository, error) {
	r, err := codetree.Open(ctx, cmp.Or(repo, rec.Folder))
	if err != nil {
		return nil, fault.WithHint(err, "--repo DIR is the repository that has the files")
	}
	if !r.Has(ctx, rec.Tree) {
		return nil, fault.WithHint(fmt.Errorf("%w: tree %s is not in %s", codetree.ErrNoTree, rec.Tree, prose.Printable(r.Top)), "--repo DIR is the repository that has the files; a clone has them after: git fetch ORIGIN 'refs/nexus/*:refs/nexus/*'")
	}
	return r, nil
}

// Fork forks a session at a turn, with the files of that turn in dir. Nothing stays
// of either if the other fails.
func Fork(ctx context.Context, e *cli.Env, p names.Place, r api.CreateFork, dir, repo string) error {
	rec, from, err := filesAfter(ctx, p, r.Turn, repo)
	if err != nil {
		return err
	}
	w, err := from.AddWorktree(ctx, dir, rec.Tree, rec.Head)
	if err != nil {
		if errors.Is(err, codetree.ErrNotEmpty) {
			return fault.Usage(err)
		}
		return err
	}
	var f *api.Session
	r.Meta, err = turns.EncodeJSON(map[string]any{"source": "nexus", "cwd": w.Dir, "code": map[string]string{"tree": rec.Tree, "head": rec.Head, "repository": from.Top}})
	if err == nil {
		f, err = p.Client.Fork(ctx, p.Session.ID, r)
	}
	if err != nil {
		return errors.Join(err, w.Remove(context.WithoutCancel(ctx)))
	}
	for _, x := range rec.Left {
		e.Say("not there: %s (%s)", prose.Printable(x.Path), x.Why)
	}
	if more := rec.LeftOut - len(rec.Left); more > 0 {
		e.Say("not there: %s more", prose.Plural(uint64(more), "file"))
	}
	if e.JSON {
		return e.Print(map[string]any{"session": f, "dir": w.Dir, "tree": rec.Tree, "head": rec.Head, "files": rec.Files, "left_out": rec.LeftOut})
	}
	e.Tell("session %s, forked from %s at depth %d (%s); %s in %s", f.ID, r.Turn, f.Depth, f.Mode, prose.Plural(uint64(rec.Files), "file"), prose.Printable(w.Dir))
	return nil
}
