package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/codeview"
	"nexus/cmd/ledgerctl/internal/expansion"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/turnview"
	"nexus/ledger/api"
)

// waitForModel is how long one request waits for a summary, in milliseconds.
const waitForModel = 20_000

func compactCmd(e *env) *cobra.Command {
	var r api.RunCompaction
	var policy names.PolicyFlags
	var ifNeeded bool
	c := verb("compact SESSION", "replace older turns in the context by a summary", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, s, err := e.Session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if r.Policy, err = policy.Policy(); err != nil {
			return err
		}
		r.ID, r.WaitMS = api.NewID(), waitForModel
		k, err := c.Compact(cmd.Context(), s.ID, r)
		for err == nil && k.State == "running" { // a model writes the summary
			e.Say("the summary is being written …")
			k, err = c.Compact(cmd.Context(), s.ID, r)
		}
		if ifNeeded && errors.Is(err, api.ErrNothing) {
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
	})
	policy.Add(c.Flags(), "another policy")
	c.Flags().BoolVar(&ifNeeded, "if-needed", false, "exit with 0 if there is nothing to compact")
	c.Flags().StringVar(&r.Focus, "focus", "", "what the summary should concentrate on")
	c.Flags().BoolVar(&r.DryRun, "dry-run", false, "plan only")
	c.Flags().BoolVar(&r.FromOriginals, "from-originals", false, "summarize the turns themselves, not the previous summary")
	return c
}

func lostCmd(e *env) *cobra.Command {
	var l api.ListLost
	var limit int
	c := verb("lost SESSION|COMPACTION", "the facts that compactions left out of the context", 1, 1, func(cmd *cobra.Command, args []string) error {
		return expansion.PrintLost(cmd.Context(), e.Terminal, e.Finder, args[0], l, limit)
	})
	c.Flags().StringSliceVar(&l.Kinds, "kind", nil, "user, errors, commands, paths, identifiers, numbers")
	c.Flags().IntVarP(&limit, "limit", "n", 50, "at most N; 0: all")
	return c
}

func rewindCmd(e *env) *cobra.Command {
	var dry bool
	c := verb("rewind SESSION TURN", "move the head, back or forward", 2, 2, func(cmd *cobra.Command, args []string) error {
		c, s, err := e.Session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		var p names.Place
		if strings.LastIndexAny(args[1], "@/") > 0 {
			p, err = e.Turn(cmd.Context(), args[1])
		} else {
			p, err = e.TurnIn(cmd.Context(), c, s, args[1])
		}
		if n, ok := names.TurnNumber("t" + strings.TrimPrefix(strings.TrimPrefix(args[1], "@"), "t")); ok && n > s.Depth && err != nil {
			p, err = names.LaterTurn(cmd.Context(), c, s, n, args[1])
		}
		if err != nil {
			return err
		}
		was := s.Head
		if dry {
			return e.Result(map[string]any{"session": s.ID, "head": was, "to": p.Turn}, "would move the head of %s from %s to %s", prose.Short(s.ID), turnview.Opt(was), p.Turn)
		}
		if s, err = c.Move(cmd.Context(), s.ID, api.MoveSession{To: &p.Turn}); err != nil {
			return err
		}
		if e.JSON {
			return e.Print(s)
		}
		e.Tell("head is %s at depth %d", *s.Head, s.Depth)
		if was != nil {
			e.Say("forward again: ledgerctl rewind %s %s", prose.Short(s.ID), *was)
		}
		return nil
	})
	c.Flags().BoolVar(&dry, "dry-run", false, "report where the head would be; change nothing")
	return c
}

func forkCmd(e *env) *cobra.Command {
	var mode, label, worktree, repo string
	var policy names.PolicyFlags
	c := verb("fork SESSION|TURN", "a new session that starts at a turn of another", 1, 1, func(cmd *cobra.Command, args []string) error {
		p, err := e.Find(cmd.Context(), args[0])
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
		r := api.CreateFork{Turn: at, Mode: mode}
		if label != "" {
			r.Label = &label
		}
		if r.Policy, err = policy.Policy(); err != nil {
			return err
		}
		if worktree != "" {
			return codeview.Fork(cmd.Context(), e.Env, p, r, worktree, repo)
		}
		if repo != "" {
			return fault.Usage(errors.New("--repo goes with --worktree"))
		}
		f, err := c.Fork(cmd.Context(), s.ID, r)
		if err != nil {
			return err
		}
		return e.Result(f, "session %s, forked from %s at depth %d (%s)", f.ID, at, f.Depth, f.Mode)
	})
	c.Flags().StringVar(&mode, "mode", "as_seen", "as_seen, full, summary")
	c.Flags().StringVar(&label, "label", "", "label of the new session")
	policy.Add(c.Flags(), "another policy for the new session")
	c.Flags().StringVar(&worktree, "worktree", "", "put the files of the turn into this folder")
	c.Flags().StringVar(&repo, "repo", "", "the git repository that has the files")
	return c
}
