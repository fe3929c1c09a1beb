package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/bisect"
	"nexus/cmd/ledgerctl/internal/codetree"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/turnview"
	"nexus/turns"
)

// bisectResult is what bisect says as JSON.
type bisectResult struct {
	Good    *bisectTurn  `json:"good,omitempty"` // the last turn before bad after which the command passes
	Bad     *bisectTurn  `json:"bad"`
	Between []bisectTurn `json:"between,omitempty"` // turns of which it is not known
	Turned  []bisectTurn `json:"turned,omitempty"`
	Runs    int          `json:"runs"`
	Diff    string       `json:"diff,omitempty"` // from good to bad, as git diff --stat
}

type bisectTurn struct {
	Depth   uint64   `json:"depth"`
	ID      turns.ID `json:"id"`
	Session turns.ID `json:"session"`
	Tree    string   `json:"tree,omitempty"`
}

func bisectCmd(e *env) *cobra.Command {
	var every bool
	var repo string
	c := verb("bisect SESSION|TURN -- COMMAND…", "the turn after which a command fails", 2, -1, func(cmd *cobra.Command, args []string) error {
		if cmd.ArgsLenAtDash() != 1 {
			return fault.Usage(errors.New("the command stands after --, as in: ledgerctl bisect SESSION -- make test"))
		}
		p, err := e.Find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		path, err := codetree.Path(cmd.Context(), p.Client, p.Session.ID, p.Turn)
		if err != nil {
			return err
		}
		return e.bisect(cmd.Context(), p, path, every, repo, args[1:])
	})
	c.Flags().BoolVar(&every, "every", false, "run the command on the files of all turns")
	c.Flags().StringVar(&repo, "repo", "", "the git repository that has the files")
	return c
}

// maxExit is the highest exit status that says that a command failed; shells use those
// above for signals.
const skipExit, maxExit = 125, 127

// bisect runs a command on the files of a path's turns.
func (e *env) bisect(ctx context.Context, p names.Place, path []codetree.PathTurn, every bool, repo string, command []string) error {
	list := make([]bisect.Turn, len(path))
	var newest *codetree.Recorded
	var from *codetree.Repository
	for i, t := range path {
		list[i] = bisect.Turn{Name: fmt.Sprintf("@%d", t.Depth), Still: t.Type == "compaction"}
		if t.Files != nil {
			newest = t.Files
		}
	}
	if newest != nil {
		var err error
		if from, err = codeRepository(ctx, repo, newest); err != nil {
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
	r, err := bisect.Search(ctx, list, every, func(ctx context.Context, t bisect.Turn) (bisect.Outcome, error) {
		var err error
		if w == nil {
			w, err = from.AddWorktree(ctx, dir, t.Tree, trees[t.Tree].Head)
		} else {
			err = w.Reset(ctx, t.Tree)
		}
		if err != nil {
			return bisect.Unknown, err
		}
		o, err := e.runOn(ctx, w.Dir, command)
		if err == nil {
			e.Say("%s %s", t.Name, o)
		}
		return o, err
	})
	switch {
	case errors.Is(err, bisect.ErrNoTrees):
		return fault.WithHint(err, "ledgerctl watch --code records the files from now on")
	case err != nil:
		return err
	}
	return e.printBisect(ctx, p, from, path, r)
}

// runOn runs the command in a folder. What it prints goes to stderr.
func (e *env) runOn(ctx context.Context, dir string, command []string) (bisect.Outcome, error) {
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
		return bisect.Pass, nil
	case ctx.Err() != nil:
		return bisect.Unknown, ctx.Err()
	case !errors.As(err, &ended):
		return bisect.Unknown, fmt.Errorf("the command can't be run: %w", err)
	case ended.ExitCode() == skipExit:
		return bisect.Skip, nil
	case ended.ExitCode() < 0 || ended.ExitCode() > maxExit:
		return bisect.Unknown, fmt.Errorf("the command ended with %w", err)
	}
	return bisect.Fail, nil
}

func (e *env) printBisect(ctx context.Context, p names.Place, from *codetree.Repository, path []codetree.PathTurn, r *bisect.Result) error {
	turn := func(i int) bisectTurn {
		t := bisectTurn{Depth: path[i].Depth, ID: path[i].ID, Session: path[i].Session}
		if f := path[i].Files; f != nil {
			t.Tree = f.Tree
		}
		return t
	}
	bad := turn(r.Bad)
	out := bisectResult{Bad: &bad, Runs: r.Ran}
	if r.Good >= 0 {
		good := turn(r.Good)
		out.Good = &good
		var err error
		if out.Diff, err = from.DiffStat(ctx, good.Tree, bad.Tree); err != nil {
			return err
		}
	}
	for _, i := range r.Between {
		out.Between = append(out.Between, turn(i))
	}
	for _, i := range r.Turned {
		out.Turned = append(out.Turned, turn(i))
	}
	if e.JSON {
		return e.Print(out)
	}
	switch {
	case r.Good >= 0 && len(r.Between) == 0:
		e.Tell("The command fails after turn @%d (%s), and passes after @%d.", bad.Depth, bad.ID, out.Good.Depth)
	case r.Good >= 0:
		e.Tell("The command fails after turn @%d (%s), and passes after @%d. Of %s between it is not known: the failure came with one of @%d to @%d.", bad.Depth, bad.ID, out.Good.Depth, prose.Plural(uint64(len(r.Between)), "turn"), path[r.Between[0]].Depth, bad.Depth)
	case len(r.Between) == 0:
		e.Tell("The command fails after turn @%d (%s) already, the first of the session.", bad.Depth, bad.ID)
	default:
		e.Tell("The command fails after turn @%d (%s) already, the first with known files. Of %s before it is not known.", bad.Depth, bad.ID, prose.Plural(uint64(len(r.Between)), "turn"))
	}
	if len(r.Turned) > 1 {
		var names []string
		for _, t := range out.Turned {
			names = append(names, fmt.Sprintf("@%d", t.Depth))
		}
		e.Tell("It begins to fail more than once: with %s.", strings.Join(names, ", "))
	}
	for _, i := range append(r.Between, r.Bad) {
		const most = 20
		if i != r.Bad && len(r.Between) > most {
			continue
		}
		if err := e.printDid(ctx, p, path[i].ID); err != nil {
			return err
		}
	}
	if out.Diff != "" {
		e.Tell("")
		_, err := fmt.Fprint(e.Out, prose.Printable(out.Diff))
		return err
	}
	return nil
}

// printDid prints the tool calls of a turn, or its words if it has none.
func (e *env) printDid(ctx context.Context, p names.Place, id turns.ID) error {
	t, err := p.Client.Turn(ctx, p.Session.ID, id)
	if err != nil {
		return err
	}
	turnview.Mask(t)
	e.Tell("")
	_, err = fmt.Fprintln(e.Out, turnview.Line(t, e.Width))
	if err != nil || t.Response == nil {
		return err
	}
	for i := range t.Response.Parts {
		if x := &t.Response.Parts[i]; x.Type == turns.ToolCall {
			e.Tell("  %s(%s)", prose.Printable(x.Name), prose.FirstArgument(x.Arguments))
		}
	}
	return nil
}
