package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"nexus/ledger/api"
)

// waitForModel is how long one request waits for a summary, in milliseconds.
const waitForModel = 20_000

func compactCmd(e *env) *cobra.Command {
	var r api.RunCompaction
	var policy string
	var lost bool
	var l api.ListLost
	var limit int
	c := verb("compact SESSION", "let a summary stand for the older turns", 1, 1, func(cmd *cobra.Command, args []string) error {
		if lost {
			return e.printLost(cmd, args[0], l, limit)
		}
		if cmd.Flags().Changed("kind") || cmd.Flags().Changed("limit") {
			return usageError{errors.New("--kind and --limit go with --lost")}
		}
		c, s, err := e.session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if policy != "" {
			if r.Policy, err = policyArg(policy); err != nil {
				return err
			}
		}
		r.ID, r.WaitMS = api.NewID(), waitForModel
		k, err := c.Compact(cmd.Context(), s.ID, r)
		for err == nil && k.State == "running" { // a model writes the summary
			e.say("the summary is being written …")
			k, err = c.Compact(cmd.Context(), s.ID, r)
		}
		if err != nil {
			return err
		}
		if p := k.Plan; p != nil {
			if p.Covered == 0 && p.Shortened > 0 {
				return e.result(k, "would shorten %s and cover nothing; %s tokens now, at most %s after", plural(p.Shortened, "part"), grouped(p.TokensBefore), grouped(p.TokensKept+p.SummaryMax))
			}
			return e.result(k, "would cover %s through %s and keep %s tokens from %s on; %s tokens now, at most %s after", plural(p.Covered, "turn"), opt(p.Through), grouped(p.TokensKept), opt(p.FirstKept), grouped(p.TokensBefore), grouped(p.TokensKept+p.SummaryMax))
		}
		x := k.Compaction.Compaction
		return e.result(k, "compaction %s: %s (%s), %s", k.Compaction.ID, did(x), tier(x), change(x))
	})
	c.Flags().StringVar(&policy, "policy", "", "another policy")
	c.Flags().StringVar(&r.Focus, "focus", "", "what to keep in view")
	c.Flags().BoolVar(&r.DryRun, "dry-run", false, "plan only")
	c.Flags().BoolVar(&lost, "lost", false, "list what the context does not hold any more; compact nothing")
	c.Flags().StringSliceVar(&l.Kinds, "kind", nil, "with --lost: paths, identifiers, numbers, commands, errors")
	c.Flags().IntVarP(&limit, "limit", "n", 50, "with --lost: at most so many; 0: all")
	c.Flags().BoolVar(&r.FromOriginals, "from-originals", false, "summarize from the turns themselves, not from the summary in force")
	return c
}

func rewindCmd(e *env) *cobra.Command {
	return verb("rewind SESSION TURN", "move the head, back or forward", 2, 2, func(cmd *cobra.Command, args []string) error {
		c, s, err := e.session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		name := args[1]
		switch {
		case strings.HasPrefix(name, "@"):
			name = s.ID.String() + name
		case !strings.ContainsAny(name, "@/"):
			name = s.ID.String() + "/" + name
		}
		p, err := e.turn(cmd.Context(), name)
		if n, ok := turnNumber("t" + strings.TrimPrefix(strings.TrimPrefix(args[1], "@"), "t")); ok && n > s.Depth && err != nil {
			p, err = e.laterTurn(cmd.Context(), c, s, n)
		}
		if err != nil {
			return err
		}
		was := s.Head
		if s, err = c.Move(cmd.Context(), s.ID, api.MoveSession{To: &p.turn}); err != nil {
			return err
		}
		if e.json {
			return e.print(s)
		}
		e.tell("head is %s at depth %d", *s.Head, s.Depth)
		if was != nil {
			e.say("forward again: ledgerctl rewind %s %s", short(s.ID), *was)
		}
		return nil
	})
}

// laterTurn finds a turn by its number below a head that was moved back: on the branches
// of the session that go so deep.
func (e *env) laterTurn(ctx context.Context, c *api.Client, s *api.Session, n uint64) (place, error) {
	t, err := c.Tree(ctx, s.ID)
	if err != nil {
		return place{}, err
	}
	var found []place
	for _, x := range t.Sessions {
		for _, b := range x.Branches {
			if x.ID != s.ID || b.From > n || b.To < n {
				continue
			}
			for turn, err := range c.Turns(ctx, s.ID, api.ListTurns{At: b.Tip, Order: "desc", Page: api.Page{Limit: int(min(b.To-n+1, 1000))}}) {
				if err != nil {
					return place{}, err
				}
				if turn.Depth == n {
					found = append(found, place{c, s, turn.ID, n})
					break
				}
			}
		}
	}
	return oneTurn(found, fmt.Sprintf("t%d", n), " in session "+short(s.ID))
}

func forkCmd(e *env) *cobra.Command {
	var mode, label, policy, worktree, repo string
	c := verb("fork SESSION|TURN", "a new session from the head of another, or any turn", 1, 1, func(cmd *cobra.Command, args []string) error {
		p, err := e.place(cmd, args[0])
		if err != nil {
			return err
		}
		c, s, at := p.c, p.s, p.turn
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
		if policy != "" {
			if r.Policy, err = policyArg(policy); err != nil {
				return err
			}
		}
		if worktree != "" {
			return e.forkWithCode(cmd, p, r, worktree, repo)
		}
		if repo != "" {
			return usageError{errors.New("--repo goes with --worktree")}
		}
		f, err := c.Fork(cmd.Context(), s.ID, r)
		if err != nil {
			return err
		}
		return e.result(f, "session %s, forked from %s at depth %d (%s)", f.ID, at, f.Depth, f.Mode)
	})
	c.Flags().StringVar(&mode, "mode", "as_seen", "as_seen, full, summary")
	c.Flags().StringVar(&label, "label", "", "label of the new session")
	c.Flags().StringVar(&policy, "policy", "", "another policy for the new session")
	c.Flags().StringVar(&worktree, "worktree", "", "put the files of the turn into this folder")
	c.Flags().StringVar(&repo, "repo", "", "the git repository that has the files")
	return c
}
