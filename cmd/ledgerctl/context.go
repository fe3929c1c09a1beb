package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/contextview"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/plot"
	"nexus/ledger/api"
)

func contextCmd(e *env) *cobra.Command {
	var f contextview.Options
	var at string
	c := verb("context SESSION|TURN | --diff SESSION|TURN SESSION|TURN", "what the model would see, or was given", 1, 2, func(cmd *cobra.Command, args []string) error {
		if err := f.Check(e.Terminal); err != nil {
			return err
		}
		if !f.Diff && (at != "" || len(args) == 2 && names.IsPlace(args[1])) {
			name, err := names.Joined(args, at)
			if err != nil {
				return err
			}
			args = []string{name}
		}
		switch {
		case f.Diff && len(args) < 2:
			return fault.WithHint(fault.Usage(errors.New("--diff compares two contexts, and only one is named")),
				fmt.Sprintf("ledgerctl diff --context %s %s, or two turns of one session: SESSION@10 SESSION@20", prose.ShellWord(args[0]), "OTHER"))
		case !f.Diff && len(args) == 2:
			return fault.WithHint(fault.Usage(errors.New("context takes one session or turn")), fmt.Sprintf("ledgerctl diff --context %s %s compares two", prose.ShellWord(args[0]), prose.ShellWord(args[1])))
		}
		if f.Diff {
			args, err := e.Pair(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return contextview.PrintDiff(cmd.Context(), e.Terminal, args, f, func(name string, f contextview.Options) (names.Place, *api.Context, error) {
				return contextview.Of(cmd.Context(), e.Env, name, f)
			})
		}
		p, cx, err := contextview.Of(cmd.Context(), e.Env, args[0], f)
		if err != nil {
			return err
		}
		if f.SVG {
			name := cmp.Or(p.Session.Label, prose.Short(p.Session.ID))
			if !p.Turn.IsZero() {
				name += ", turn " + prose.Short(p.Turn)
			}
			return plot.Context(e.Raw, name, cx)
		}
		if e.JSON || f.Format != "" {
			return e.Print(cx)
		}
		return contextview.Show(cmd.Context(), e.Terminal, p, cx, f)
	})
	atFlag(c, &at)
	c.Flags().StringVar(&f.Format, "format", "", "print the messages as JSON: otel, openai, anthropic, gemini")
	f.Policy.Add(c.Flags(), "simulate another policy")
	c.Flags().Uint64Var(&f.Budget, "budget", 0, "simulate another budget, in tokens")
	c.Flags().StringVar(&f.Query, "query", "", "add pieces of older turns that match this text")
	c.Flags().Uint64Var(&f.QueryTokens, "query-tokens", 0, "with --query: at most N tokens")
	c.Flags().BoolVar(&f.SVG, "svg", false, "print a picture, as SVG")
	c.Flags().BoolVar(&f.Explain, "explain", false, "list each message, and why it is in the context, shortened or left out")
	c.Flags().BoolVar(&f.Before, "before", false, "without the turn's response")
	c.Flags().BoolVar(&f.Next, "next", false, "the context of the call after the turn")
	c.Flags().BoolVar(&f.Diff, "diff", false, "as ledgerctl diff --context")
	_ = c.Flags().MarkHidden("diff") // the verb that compares is diff
	c.Flags().BoolVar(&f.Secrets, "show-secrets", false, "show credentials of known shapes")
	return c
}
