package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"nexus/ledger/api"
	"nexus/turns"
)

func contextCmd(e *env) *cobra.Command {
	var format, policy string
	var budget uint64
	var explain bool
	c := verb("context SESSION|TURN", "what the model would see at the head, or at a turn", "ledgerctl context 01J8 --explain", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, s, at, err := e.place(cmd, args[0])
		if err != nil {
			return err
		}
		if e.agent == "" {
			c = c.As(api.Operator) // a look commits nothing
		}
		r := api.GetContext{At: at, Format: format, Budget: budget, Explain: explain}
		if policy != "" {
			r.Policy = &api.Policy{Name: policy}
		}
		cx, err := c.Context(cmd.Context(), s.ID, r)
		if err != nil {
			return err
		}
		if e.json || format != "" {
			return e.print(cx)
		}
		printContext(e.out, cx)
		return nil
	})
	c.Flags().StringVar(&format, "format", "", "print the messages as JSON: otel, openai, anthropic, gemini")
	c.Flags().StringVar(&policy, "policy", "", "look with another policy")
	c.Flags().Uint64Var(&budget, "budget", 0, "look with another budget, in tokens")
	c.Flags().BoolVar(&explain, "explain", false, "say for each half turn why it is in, shortened or out")
	return c
}

func printContext(w io.Writer, cx *api.Context) {
	used := cx.Tokens + cx.Overhead
	width := 40
	fill := min(width, int(uint64(width)*used/max(cx.Budget, 1)))
	fmt.Fprintf(w, "[%s%s] %d of %d tokens (%d of system and tools), estimated\n", strings.Repeat("█", fill), strings.Repeat("·", width-fill), used, cx.Budget, cx.Overhead)
	fmt.Fprintf(w, "%-8s  %-11s  %-9s %7s\n", "turn", "half", "status", "tokens")
	const head, tail = 6, 12
	for i, s := range cx.Sources {
		if i == head && len(cx.Sources) > head+tail+1 {
			fmt.Fprintf(w, "   … %d more …\n", len(cx.Sources)-head-tail)
		}
		if i >= head && i < len(cx.Sources)-tail && len(cx.Sources) > head+tail+1 && s.Why == "" {
			continue
		}
		fmt.Fprintf(w, "%s  %-11s  %-9s %7d  %s\n", short(s.Turn), s.Half, s.Status, s.Tokens, s.Why)
	}
	fmt.Fprintf(w, "%d messages, fingerprint %s\n", len(cx.Messages), cx.Fingerprint)
}

func compactCmd(e *env) *cobra.Command {
	var r api.RunCompaction
	var policy string
	c := verb("compact SESSION", "compact now, or say what would be done", "ledgerctl compact 01J8 --dry-run", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, s, err := e.session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if policy != "" {
			r.Policy = &api.Policy{Name: policy}
		}
		k, err := c.Compact(cmd.Context(), s.ID, r)
		if err != nil {
			return err
		}
		if e.json {
			return e.print(k)
		}
		if p := k.Plan; p != nil {
			fmt.Fprintf(e.out, "would cover %d turns through %s and keep %d half turns (%d tokens) from %s; %d tokens now, at most %d after\n", p.Covered, opt(p.Through), p.Kept, p.TokensKept, opt(p.FirstKept), p.TokensBefore, p.TokensKept+p.SummaryMax)
			return nil
		}
		x := k.Compaction.Compaction
		fmt.Fprintf(e.out, "compaction %s: %d turns covered by a summary (%s), %d → %d tokens\n", k.Compaction.ID, x.Covered, x.Tier, x.TokensBefore, x.TokensAfter)
		return nil
	})
	c.Flags().StringVar(&policy, "policy", "", "another policy")
	c.Flags().StringVar(&r.Focus, "focus", "", "what to keep in view")
	c.Flags().BoolVar(&r.DryRun, "dry-run", false, "plan only")
	c.Flags().BoolVar(&r.FromOriginals, "from-originals", false, "summarize from the turns themselves, not from the summary in force")
	return c
}

func expandCmd(e *env) *cobra.Command {
	var all bool
	c := verb("expand COMPACTION", "the turns that a compaction stands for", "ledgerctl expand 01J8/4XK2 --all", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, s, id, err := e.turn(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		r := api.ExpandCompaction{ID: id}
		if all {
			r.Levels = turns.Raw(`"all"`)
		}
		for t, err := range c.Expand(cmd.Context(), s.ID, r) {
			if err != nil {
				return err
			}
			if e.json {
				err = e.print(t)
			} else {
				_, err = fmt.Fprintln(e.out, turnLine(&t))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	c.Flags().BoolVar(&all, "all", false, "through every compaction inside it")
	return c
}

func rewindCmd(e *env) *cobra.Command {
	return verb("rewind SESSION TURN", "move the head to another turn; nothing is deleted", "ledgerctl rewind 01J8 01J8@head~3", 2, 2, func(cmd *cobra.Command, args []string) error {
		c, s, err := e.session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		name := args[1]
		if !strings.ContainsAny(name, "@/") {
			name = s.ID.String() + "/" + name
		}
		_, _, to, err := e.turn(cmd.Context(), name)
		if err != nil {
			return err
		}
		was := s.Head
		if s, err = c.Move(cmd.Context(), s.ID, api.MoveSession{To: &to}); err != nil {
			return err
		}
		if e.json {
			return e.print(s)
		}
		fmt.Fprintf(e.out, "head is %s at depth %d\n", *s.Head, s.Depth)
		if was != nil {
			e.say("forward again: ledgerctl rewind %s %s", s.ID, *was)
		}
		return nil
	})
}

func forkCmd(e *env) *cobra.Command {
	var mode, label string
	c := verb("fork TURN", "a new session from a turn", "ledgerctl fork 01J8@head~3 --mode full", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, s, at, err := e.turn(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		r := api.CreateFork{Turn: at, Mode: mode}
		if label != "" {
			r.Label = &label
		}
		f, err := c.Fork(cmd.Context(), s.ID, r)
		if err != nil {
			return err
		}
		if e.json {
			return e.print(f)
		}
		fmt.Fprintf(e.out, "session %s, forked from %s at depth %d (%s)\n", f.ID, at, f.Depth, f.Mode)
		return nil
	})
	c.Flags().StringVar(&mode, "mode", "as_seen", "as_seen, full, summary")
	c.Flags().StringVar(&label, "label", "", "label of the new session")
	return c
}

func verifyCmd(e *env) *cobra.Command {
	return verb("verify [SESSION…]", "check everything that is stored, or some sessions", "ledgerctl verify", 0, -1, func(cmd *cobra.Command, args []string) error {
		c, err := e.client(api.Operator)
		if err != nil {
			return err
		}
		var ids []turns.ID
		for _, a := range args {
			_, s, err := e.session(cmd.Context(), a)
			if err != nil {
				return err
			}
			ids = append(ids, s.ID)
		}
		v, err := c.Verify(cmd.Context(), ids...)
		if err != nil {
			return err
		}
		if e.json {
			err = e.print(v)
		} else {
			printVerified(e.out, v)
		}
		if err == nil && !v.OK {
			err = api.Errorf(api.Corrupt, nil, "%d problems", len(v.Problems))
		}
		return err
	})
}

func printVerified(w io.Writer, v *api.Verified) {
	verdict := "verified"
	if !v.OK {
		verdict = "NOT SOUND"
	}
	fmt.Fprintf(w, "%s: %d events, %d sessions, %d turns, %d compactions, %d blobs in %d ms\n", verdict, v.Events, v.Sessions, v.Turns, v.Compactions, v.Blobs, v.DurationMS)
	for _, p := range v.Problems {
		fmt.Fprintf(w, "  %s at %d, session %s: %s\n", p.Code, p.Seq, p.Session, p.Message)
	}
}

func versionCmd(e *env) *cobra.Command {
	return verb("version", "the version", "ledgerctl version", 0, 0, func(*cobra.Command, []string) error {
		if e.json {
			return e.print(map[string]string{"version": version})
		}
		fmt.Fprintln(e.out, "ledgerctl", version)
		return nil
	})
}

const version = "0.1.0-dev"
