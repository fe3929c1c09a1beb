package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/codetree"
	"nexus/cmd/ledgerctl/watch"
	"nexus/ledger/api"
	"nexus/turns"
)

// recordCode makes a watch record the files of the folder that an agent works in, after
// each turn. A folder that can't be recorded is logged once for each reason.
func recordCode(cfg *watch.Config, limits codetree.Limits) {
	connect, log := cfg.Connect, cfg.Log
	var r *codetree.Recorder
	cfg.Connect = func(ctx context.Context) (*api.Client, error) {
		c, err := connect(ctx)
		if err == nil {
			r = codetree.NewRecorder(c, limits)
		}
		return c, err
	}
	var said sync.Map
	failed := func(ctx context.Context, folder string, err error) {
		if ctx.Err() != nil || errors.Is(err, codetree.ErrMoved) || log == nil {
			return
		}
		text := plainly(nil, err)
		if before, _ := said.Swap(folder, text); before != text {
			log("the files of %s are not recorded: %s", folder, text)
		}
	}
	cfg.Closed = func(ctx context.Context, x watch.Closed) watch.Keep {
		files, err := r.Capture(ctx, x.Folder, x.Same)
		if err != nil {
			failed(ctx, x.Folder, err)
			return nil
		}
		return func(ctx context.Context, at turns.Ref) {
			if _, err := files.Record(ctx, at); err != nil {
				failed(ctx, x.Folder, err)
			}
		}
	}
}

// codeAt returns the files that were there after a turn.
func codeAt(ctx context.Context, p place, at turns.ID) (*codetree.Recorded, error) {
	path, err := codetree.Path(ctx, p.c, p.s.ID, at)
	if err != nil {
		return nil, err
	}
	if n := len(path); n > 0 && path[n-1].Files != nil {
		return path[n-1].Files, nil
	}
	err = fmt.Errorf("the files after turn %s are not known: none were recorded", at)
	for i := len(path) - 1; i >= 0; i-- {
		if path[i].Files != nil {
			return nil, hinted{err, fmt.Sprintf("the last turn before it that has files is @%d", path[i].Depth)}
		}
	}
	return nil, hinted{err, "ledgerctl watch --code records them from now on"}
}

// codeRepository opens the repository that has recorded files: repo, else the one that
// they were recorded in.
func codeRepository(ctx context.Context, repo string, rec *codetree.Recorded) (*codetree.Repository, error) {
	r, err := codetree.Open(ctx, cmp.Or(repo, rec.Folder))
	if err != nil {
		return nil, hinted{err, "--repo DIR is the repository that has the files"}
	}
	if !r.Has(ctx, rec.Tree) {
		return nil, hinted{fmt.Errorf("%w: tree %s is not in %s", codetree.ErrNoTree, rec.Tree, printable(r.Top)), "--repo DIR is the repository that has the files; a clone has them after: git fetch ORIGIN 'refs/nexus/*:refs/nexus/*'"}
	}
	return r, nil
}

// forkWithCode forks a session at a turn, with the files of that turn in dir. Nothing stays
// of either if the other fails.
func (e *env) forkWithCode(cmd *cobra.Command, p place, r api.CreateFork, dir, repo string) error {
	ctx := cmd.Context()
	rec, err := codeAt(ctx, p, r.Turn)
	if err != nil {
		return err
	}
	from, err := codeRepository(ctx, repo, rec)
	if err != nil {
		return err
	}
	w, err := from.AddWorktree(ctx, dir, rec.Tree, rec.Head)
	if err != nil {
		if errors.Is(err, codetree.ErrNotEmpty) {
			return usageError{err}
		}
		return err
	}
	var f *api.Session
	r.Meta, err = turns.EncodeJSON(map[string]any{"source": "nexus", "cwd": w.Dir, "code": map[string]string{"tree": rec.Tree, "head": rec.Head, "repository": from.Top}})
	if err == nil {
		f, err = p.c.Fork(ctx, p.s.ID, r)
	}
	if err != nil {
		return errors.Join(err, w.Remove(context.WithoutCancel(ctx)))
	}
	for _, x := range rec.Left {
		e.say("not there: %s (%s)", printable(x.Path), x.Why)
	}
	if more := rec.LeftOut - len(rec.Left); more > 0 {
		e.say("not there: %s more", plural(uint64(more), "file"))
	}
	if e.json {
		return e.print(map[string]any{"session": f, "dir": w.Dir, "tree": rec.Tree, "head": rec.Head, "files": rec.Files, "left_out": rec.LeftOut})
	}
	e.tell("session %s, forked from %s at depth %d (%s); %s in %s", f.ID, r.Turn, f.Depth, f.Mode, plural(uint64(rec.Files), "file"), printable(w.Dir))
	return nil
}

// tempFolder returns a folder that is not there yet, and what removes its parent.
func tempFolder() (dir string, remove func(), err error) {
	parent, err := os.MkdirTemp("", "nexus-bisect-")
	return parent + string(os.PathSeparator) + "files", func() { _ = os.RemoveAll(parent) }, err
}
