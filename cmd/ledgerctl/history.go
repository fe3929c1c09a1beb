package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/contextview"
	"nexus/cmd/ledgerctl/internal/eventview"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/searchview"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/cmd/ledgerctl/internal/turnview"
	"nexus/ledger/api"
)

func logCmd(e *env) *cobra.Command {
	var limit int
	var words, since, until string
	var shown bool
	c := verb("log SESSION|TURN", "the turns of a session, newest first", 1, 1, func(cmd *cobra.Command, args []string) error {
		p, err := e.Find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if words != "" && !p.Turn.IsZero() {
			return fault.Usage(errors.New("--grep goes with a session, not with a turn"))
		}
		from, err := names.Day("since", since)
		if err != nil {
			return err
		}
		to, err := names.Until("until", until)
		if err != nil {
			return err
		}
		if words != "" && (from != nil || to != nil) {
			return fault.WithHint(fault.Usage(errors.New("--since and --until go without --grep")), "ledgerctl search TEXT --session SESSION --since DAY")
		}
		e.SayTimes(from, to)
		if words != "" {
			return searchview.InLog(cmd.Context(), e.Terminal, p, words, limit, shown)
		}
		ts := p.Client.Turns(cmd.Context(), p.Session.ID, api.ListTurns{At: p.Turn, Order: "desc", Full: true, Page: api.Page{Limit: min(limit, 1000)}})
		if !shown {
			ts = turnview.Masked(ts)
		}
		if from != nil || to != nil {
			ts = turnview.Between(ts, from, to)
		}
		if err := turnview.Print(e.Terminal, ts, limit, ""); err != nil {
			return err
		}
		if p.Session.Head == nil && p.Session.Error == "" {
			return sayNoTurn(cmd.Context(), e, p)
		}
		if p.Session.Error != "" {
			return nil // its policy is not known
		}
		if by := contextview.PolicyCounter(p.Session.Policy.Name, p.Session.Policy.Set); e.ErrIsTerminal && !e.JSON && by != contextview.DefaultCounter {
			e.Say("tokens of turns are counted by %s, those of the context by %s, as policy %s says", contextview.DefaultCounter, by, p.Session.Policy.Name)
		}
		return nil
	})
	c.Flags().IntVarP(&limit, "limit", "n", 0, "at most N; 0: all")
	c.Flags().StringVar(&since, "since", "", "from a time on: "+names.DayHelp)
	c.Flags().StringVar(&until, "until", "", names.UntilHelp)
	c.Flags().BoolVar(&shown, "show-secrets", false, "show credentials of known shapes")
	c.Flags().StringVar(&words, "grep", "", "those with these words, as search finds them")
	return c
}

// sayNoTurn says that a session has no turn, and which session a reset made it from.
func sayNoTurn(ctx context.Context, e *env, p names.Place) error {
	for s, err := range p.Client.Sessions(ctx) {
		if err != nil {
			return err
		}
		if s.Successor == p.Session.ID {
			e.Say("session %s has no turn yet; before its reset it was session %s: ledgerctl log %s", prose.Short(p.Session.ID), s.ID, s.ID)
			return nil
		}
	}
	e.Say("session %s has no turn yet", prose.Short(p.Session.ID))
	return nil
}

func showCmd(e *env) *cobra.Command {
	var part int
	c := verb("show TURN | SESSION N", "one turn in full, or one part of it", 1, 2, func(cmd *cobra.Command, args []string) error {
		name := args[0]
		if len(args) == 2 { // as people write it: the session, then the number of the turn
			if strings.ContainsAny(name, "@/") {
				return fault.Usage(fmt.Errorf("%s names a turn already; show takes one turn, or a session and a number", prose.Printable(name)))
			}
			name += "@" + args[1]
		}
		p, err := e.Turn(cmd.Context(), name)
		if err != nil {
			return err
		}
		t, err := p.Client.Turn(cmd.Context(), p.Session.ID, p.Turn)
		if (fault.HasCode(err, api.Corrupt) || fault.HasCode(err, api.Erased)) && !cmd.Flags().Changed("part") {
			return turnview.ShowHeader(cmd.Context(), e.Terminal, p, err)
		}
		if err != nil {
			return err
		}
		if t.Compaction != nil { // which tells of the calls since, too
			if t, err = p.Client.Compaction(cmd.Context(), t.Session, t.ID); err != nil {
				return err
			}
		}
		switch {
		case cmd.Flags().Changed("part"):
			return turnview.ShowPart(cmd.Context(), e.Terminal, p.Client, t, part)
		case e.JSON:
			return e.Print(t)
		}
		turnview.Show(e.Terminal, t)
		return eventview.ShowAnswered(cmd.Context(), e.Terminal, p, t)
	})
	c.Flags().IntVar(&part, "part", 0, "the content of one part, as it is")
	return c
}

func pathCmd(e *env) *cobra.Command {
	return verb("path SESSION|TURN", "the ids of its turns, from the first one", 1, 1, func(cmd *cobra.Command, args []string) error {
		p, err := e.Find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return terminal.PrintEach(e.Terminal, p.Client.Path(cmd.Context(), p.Session.ID, api.GetPath{At: p.Turn}), 0, func(t *api.PathTurn) string {
			return fmt.Sprintf("%6d  %s  %s", t.Depth, t.ID, t.Type)
		})
	})
}
