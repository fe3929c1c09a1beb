package bisect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/codetree"
	"nexus/cmd/ledgerctl/internal/codeview"
	"nexus/cmd/ledgerctl/internal/fault"
)

// maxExit is the highest exit status that says that a command failed; shells use those
// above for signals.
const skipExit, maxExit = 125, 127

// Options are how a session is searched.
type Options struct {
	Every bool   // on the files of all turns
	Repo  string // the git repository that has the files; "": where they were recorded
}

// InSession runs a command on the files of the turns of a session, or of the path to one, and prints after which it
// fails.
func InSession(ctx context.Context, e *cli.Env, name string, o Options, command []string) error {
	p, err := e.Find(ctx, name)
	if err != nil {
		return err
	}
	path, err := codetree.Path(ctx, p.Client, p.Session.ID, p.Turn)
	if err != nil {
		return err
	}
	list := make([]Turn, len(path))
	var newest *codetree.Recorded
	var from *codetree.Repository
	for i, t := range path {
		list[i] = Turn{Name: fmt.Sprintf("@%d", t.Depth), Still: t.Type == "compaction"}
		if t.Files != nil {
			newest = t.Files
		}
	}
	if newest != nil {
		if from, err = codeview.Repository(ctx, o.Repo, newest); err != nil {
			return err
		}
	}
	lost := 0
	trees := make(map[string]*codetree.Recorded)
	for i, t := range path {
		if t.Files == nil {
			continue
		}
		if trees[t.Files.Tree] == nil && !from.Has(ctx, t.Files.Tree) {
			lost++
			continue
		}
		trees[t.Files.Tree], list[i].Tree = t.Files, t.Files.Tree
	}
	if lost > 0 {
		e.Say("%s recorded in another repository: their files are not known here", prose.Plural(uint64(lost), "turn"))
	}
	dir, remove, err := tempFolder()
	if err != nil {
		return err
	}
	defer remove()
	var w *codetree.Worktree
	defer func() {
		if w != nil {
			_ = w.Remove(context.WithoutCancel(ctx))
		}
	}()
	r, err := Search(ctx, list, o.Every, func(ctx context.Context, t Turn) (Outcome, error) {
		var err error
		if w == nil {
			w, err = from.AddWorktree(ctx, dir, t.Tree, trees[t.Tree].Head)
		} else {
			err = w.Reset(ctx, t.Tree)
		}
		if err != nil {
			return Unknown, err
		}
		o, err := runOn(ctx, e, w.Dir, command)
		if err == nil {
			e.Say("%s %s", t.Name, o)
		}
		return o, err
	})
	switch {
	case errors.Is(err, ErrNoTrees):
		return fault.WithHint(err, "ledgerctl watch --code records the files from now on")
	case err != nil:
		return err
	}
	return printResult(ctx, e, p, from, path, r)
}

// runOn runs the command in a folder. What it prints goes to stderr.
func runOn(ctx context.Context, e *cli.Env, dir string, command []string) (Outcome, error) {
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Dir, c.Stdout, c.Stderr = dir, e.Err, e.Err
	for _, v := range os.Environ() { // a git that the command runs is to see the worktree
		if !strings.HasPrefix(v, "GIT_DIR=") && !strings.HasPrefix(v, "GIT_WORK_TREE=") && !strings.HasPrefix(v, "GIT_INDEX_FILE=") {
			c.Env = append(c.Env, v)
		}
	}
	err := c.Run()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return Pass, nil
	case ctx.Err() != nil:
		return Unknown, ctx.Err()
	case !errors.As(err, &ended):
		return Unknown, fmt.Errorf("the command can't be run: %w", err)
	case ended.ExitCode() == skipExit:
		return Skip, nil
	case ended.ExitCode() < 0 || ended.ExitCode() > maxExit:
		return Unknown, fmt.Errorf("the command ended with %w", err)
	}
	return Fail, nil
}

// tempFolder returns a folder that is not there yet, and what removes its parent.
func tempFolder() (dir string, remove func(), err error) {
	parent, err := os.MkdirTemp("", "nexus-bisect-")
	return parent + string(os.PathSeparator) + "files", func() { _ = os.RemoveAll(parent) }, err
}
