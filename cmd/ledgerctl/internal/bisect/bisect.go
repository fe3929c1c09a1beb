// Package bisect finds the turn of a session after which a command fails, by a binary
// search over the turns whose files are known.
//
// ledgerctl bisect calls it. bisect.go decides, and runs nothing itself: its caller supplies the
// run of the command on the files of a turn, which is run.go, in a worktree of git.
//
// Begin at [InSession]; [Search] is the search.
package bisect

import (
	"context"
	"errors"
	"fmt"
)

// Outcome is what the command said of the files of a turn.
type Outcome int

// The outcomes of a run.
const (
	Unknown Outcome = iota // it was not run
	Pass
	Fail
	Skip // the command can't tell: exit status 125
)

func (o Outcome) String() string { return [...]string{"not run", "passes", "fails", "skipped"}[o] }

// Turn is a turn on the path of a session, in its order.
type Turn struct {
	Name  string
	Tree  string // its files; empty: not known
	Still bool   // it changes no files: a compaction
}

// Run runs the command on a tree.
type Run func(ctx context.Context, t Turn) (Outcome, error)

// Result is what a search found. Indices are of the turns.
type Result struct {
	Good int // the last turn that is known to pass before Bad; -1: none does
	Bad  int // the first turn that is known to fail
	// Between are the turns after Good and before Bad of which it is not known whether they
	// pass: their files are not known, or the command skipped them. The failure came after one
	// of them or after Bad.
	Between []int
	Ran     int   // runs of the command
	Turned  []int // with every: each turn that fails after one that passes
}

// Errors of a search that finds no turn.
var (
	ErrNoTrees   = errors.New("no turn of the session has known files")
	ErrNeverFail = errors.New("the command does not fail")
	ErrSkipped   = errors.New("the command could be run on no tree at the end")
)

// Search finds where the command begins to fail. It assumes, as git bisect does, that the
// command passes up to some turn and fails from there on; with every it runs the command on
// all trees instead, and finds each place where a failure begins. Equal trees are run once.
func Search(ctx context.Context, path []Turn, every bool, run Run) (*Result, error) {
	s := &search{path: path, run: run, had: make(map[string]Outcome)}
	for i, t := range path {
		if t.Tree != "" {
			s.known = append(s.known, i)
		}
	}
	if len(s.known) == 0 {
		return nil, ErrNoTrees
	}
	var err error
	if every {
		err = s.all(ctx)
	} else {
		err = s.halve(ctx)
	}
	s.Ran = len(s.had)
	if err != nil {
		return nil, err
	}
	for i := s.Good + 1; i < s.Bad; i++ {
		if !path[i].Still {
			s.Between = append(s.Between, i)
		}
	}
	return &s.Result, nil
}

type search struct {
	Result
	path  []Turn
	known []int // of path: those with files
	run   Run
	had   map[string]Outcome // by tree
}

// at runs the command on the k-th known tree.
func (s *search) at(ctx context.Context, k int) (Outcome, error) {
	t := s.path[s.known[k]]
	if o, ok := s.had[t.Tree]; ok {
		return o, nil
	}
	o, err := s.run(ctx, t)
	if err == nil {
		s.had[t.Tree] = o
	}
	return o, err
}

// halve is the binary search.
func (s *search) halve(ctx context.Context) error {
	bad := len(s.known) - 1
	for ; bad >= 0; bad-- { // trees at the end may be skipped
		o, err := s.at(ctx, bad)
		if err != nil {
			return err
		}
		if o == Pass {
			return fmt.Errorf("%w after %s", ErrNeverFail, s.path[s.known[bad]].Name)
		}
		if o == Fail {
			break
		}
	}
	if bad < 0 {
		return ErrSkipped
	}
	good := -1
	for k := 0; k < bad; k++ { // and at the beginning
		o, err := s.at(ctx, k)
		if err != nil {
			return err
		}
		if o == Fail {
			bad = k
			break
		}
		if o == Pass {
			good = k
			break
		}
	}
	for good >= 0 && bad-good > 1 {
		k, o, err := s.middle(ctx, good, bad)
		if err != nil {
			return err
		}
		switch o {
		case Pass:
			good = k
		case Fail:
			bad = k
		default: // all between are skipped
			s.Good, s.Bad = s.known[good], s.known[bad]
			return nil
		}
	}
	s.Good, s.Bad = -1, s.known[bad]
	if good >= 0 {
		s.Good = s.known[good]
	}
	return nil
}

// middle runs the tree nearest to the middle of (good, bad) that is not skipped; Skip if
// there is none.
func (s *search) middle(ctx context.Context, good, bad int) (int, Outcome, error) {
	mid := (good + bad) / 2
	for d := 0; mid-d > good || mid+d < bad; d++ {
		for _, k := range []int{mid - d, mid + d} {
			if k <= good || k >= bad {
				continue
			}
			if o, err := s.at(ctx, k); err != nil || o != Skip {
				return k, o, err
			}
		}
	}
	return 0, Skip, nil
}

// all runs the command on every tree. Good and Bad are of the first failure.
func (s *search) all(ctx context.Context) error {
	s.Good, s.Bad = -1, -1
	last, lastPass := Unknown, -1
	for k, i := range s.known {
		o, err := s.at(ctx, k)
		if err != nil {
			return err
		}
		switch o {
		case Pass:
			lastPass = i
		case Fail:
			if last != Fail {
				s.Turned = append(s.Turned, i)
				if s.Bad < 0 {
					s.Good, s.Bad = lastPass, i
				}
			}
		default:
			continue
		}
		last = o
	}
	switch {
	case s.Bad >= 0:
		return nil
	case last == Unknown:
		return ErrSkipped
	}
	return fmt.Errorf("%w on any of %d known trees", ErrNeverFail, len(s.known))
}
