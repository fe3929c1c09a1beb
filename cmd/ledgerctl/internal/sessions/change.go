package sessions

import (
	"context"
	"errors"
	"strings"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/codeview"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/turnview"
	"nexus/ledger/api"
)

// waitForModel is how long one request waits for a summary, in milliseconds.
const waitForModel = 20_000

// Compacting is what compact was asked for.
type Compacting struct {
	api.RunCompaction
	Policy   names.PolicyFlags // another policy than the session's
	IfNeeded bool              // nothing to compact is no error
}

// Compact replaces older turns in the context of a session by a summary.
func Compact(ctx context.Context, e *cli.Env, name string, o Compacting) error {
	c, s, err := e.Session(ctx, name)
	if err != nil {
		return err
	}
	r := o.RunCompaction
	if r.Policy, err = o.Policy.Policy(); err != nil {
		return err
	}
	r.ID, r.WaitMS = api.NewID(), waitForModel
	k, err := c.Compact(ctx, s.ID, r)
	for err == nil && k.State == "running" { // a model writes the summary
		e.Say("the summary is being written …")
		k, err = c.Compact(ctx, s.ID, r)
	}
	if o.IfNeeded && errors.Is(err, api.ErrNothing) {
		return e.Result(map[string]string{"state": "nothing"}, "nothing to do")
	}
	if err != nil {
		return err
	}
	if s.WindowGuess {
		e.Say("no model is named whose window is known: %s tokens are a guess; session set --window states it", prose.Grouped(s.Budget))
	}
	if p := k.Plan; p != nil {
		if p.Covered == 0 && p.Shortened > 0 {
			return e.Result(k, "would shorten %s and cover nothing; %s tokens now, at most %s after", prose.Plural(p.Shortened, "part"), prose.Grouped(p.TokensBefore), prose.Grouped(p.TokensKept+p.SummaryMax))
		}
		return e.Result(k, "would cover %s through %s and keep %s tokens from %s on; %s tokens now, at most %s after", prose.Plural(p.Covered, "turn"), turnview.Opt(p.Through), prose.Grouped(p.TokensKept), turnview.Opt(p.FirstKept), prose.Grouped(p.TokensBefore), prose.Grouped(p.TokensKept+p.SummaryMax))
	}
	x := k.Compaction.Compaction
	return e.Result(k, "compaction %s: %s (%s), %s", k.Compaction.ID, turnview.Did(x), turnview.Tier(x), turnview.Change(x))
}

// Rewind moves the head of a session to a turn, back or forward.
func Rewind(ctx context.Context, e *cli.Env, name, turn string, dry bool) error {
	c, s, err := e.Session(ctx, name)
	if err != nil {
		return err
	}
	var p names.Place
	if strings.LastIndexAny(turn, "@/") > 0 {
		p, err = e.Turn(ctx, turn)
	} else {
		p, err = e.TurnIn(ctx, c, s, turn)
	}
	if n, ok := names.TurnNumber("t" + strings.TrimPrefix(strings.TrimPrefix(turn, "@"), "t")); ok && n > s.Depth && err != nil {
		p, err = names.LaterTurn(ctx, c, s, n, turn)
	}
	if err != nil {
		return err
	}
	was := s.Head
	if dry {
		return e.Result(map[string]any{"session": s.ID, "head": was, "to": p.Turn}, "would move the head of %s from %s to %s", prose.Short(s.ID), turnview.Opt(was), p.Turn)
	}
	if s, err = c.Move(ctx, s.ID, api.MoveSession{To: &p.Turn}); err != nil {
		return err
	}
	if e.JSON {
		return e.Print(s)
	}
	e.Tell("head is %s at depth %d", *s.Head, s.Depth)
	if was != nil && *was != *s.Head {
		e.Say("forward again: ledgerctl rewind %s %s", prose.Short(s.ID), *was)
	}
	return nil
}

// Forking is what fork was asked for.
type Forking struct {
	Mode, Label    string
	Policy         names.PolicyFlags // of the new session
	Worktree, Repo string            // the folder for the files of the turn, and the repository that has them
}

// Fork opens a session that starts at a turn of another.
func Fork(ctx context.Context, e *cli.Env, name string, o Forking) error {
	p, err := e.Find(ctx, name)
	if err != nil {
		return err
	}
	c, s, at := p.Client, p.Session, p.Turn
	if at.IsZero() {
		if s.Head == nil {
			return api.Errorf(api.NotFound, nil, "session %s has no turn to fork from", s.ID)
		}
		at = *s.Head
	}
	r := api.CreateFork{Turn: at, Mode: o.Mode}
	if o.Label != "" {
		r.Label = &o.Label
	}
	if r.Policy, err = o.Policy.Policy(); err != nil {
		return err
	}
	if o.Worktree != "" {
		return codeview.Fork(ctx, e, p, r, o.Worktree, o.Repo)
	}
	if o.Repo != "" {
		return fault.Usage(errors.New("--repo goes with --worktree"))
	}
	f, err := c.Fork(ctx, s.ID, r)
	if err != nil {
		return err
	}
	return e.Result(f, "session %s, forked from %s at depth %d (%s)", f.ID, at, f.Depth, f.Mode)
}
