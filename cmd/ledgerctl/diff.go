package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/contextview"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/cmd/ledgerctl/internal/textdiff"
	"nexus/ledger/api"
)

// ends are where the two paths that a person named end, and their last common turn.
func (e *env) ends(cmd *cobra.Command, args []string) (a, b names.Place, base *api.Base, err error) {
	if a, err = e.Find(cmd.Context(), args[0]); err != nil {
		return
	}
	if b, err = e.Find(cmd.Context(), args[1]); err != nil {
		return
	}
	// The two may be of different agents: the operator reads both.
	base, err = a.Client.As(api.Operator).Base(cmd.Context(), a.Session.ID, api.GetBase{At: a.Turn, Other: api.Place{Session: b.Session.ID, Turn: b.Turn}})
	return
}

func mergeBaseCmd(e *env) *cobra.Command {
	return verb("merge-base SESSION|TURN SESSION|TURN", "the last turn that two sessions or turns share", 2, 2, func(cmd *cobra.Command, args []string) error {
		args, err := e.Pair(cmd.Context(), args[0], args[1])
		if err != nil {
			return err
		}
		_, _, base, err := e.ends(cmd, args)
		if err != nil {
			return err
		}
		if base.Base == nil {
			return fault.WithHint(api.Errorf(api.NotFound, nil, "%s and %s have no turn in common", args[0], args[1]), "ledgerctl tree SESSION draws what was forked from what")
		}
		return e.Result(base, "%s  depth %d of session %s", terminal.ID.Render(base.Base.ID.String()), base.Base.Depth, base.Base.Session)
	})
}

func diffCmd(e *env) *cobra.Command {
	var text, contexts, secrets bool
	c := verb("diff SESSION|TURN SESSION|TURN", "the turns that two sessions or turns do not share", 2, 2, func(cmd *cobra.Command, args []string) error {
		if text && e.JSON {
			return fault.Usage(errors.New("one of --text and --json"))
		}
		args, err := e.Pair(cmd.Context(), args[0], args[1])
		if err != nil {
			return err
		}
		if contexts && !text {
			return contextview.PrintDiff(cmd.Context(), e.Terminal, args, contextview.Options{Secrets: secrets}, func(name string, f contextview.Options) (names.Place, *api.Context, error) {
				return contextview.Of(cmd.Context(), e.Env, name, f)
			})
		}
		if contexts {
			return textdiff.Contexts(cmd.Context(), e.Terminal, e.Finder, args, secrets)
		}
		a, b, base, err := e.ends(cmd, args)
		if err != nil {
			return err
		}
		if text {
			return textdiff.Turns(cmd.Context(), e.Terminal, args, a, b, base, secrets)
		}
		if e.JSON {
			err = e.Print(base)
		} else if base.Base == nil {
			fmt.Fprintln(e.Out, "no turn in common")
		} else {
			fmt.Fprintf(e.Out, "  in common through %s at depth %d\n", terminal.ID.Render(prose.Short(base.Base.ID)), base.Base.Depth)
		}
		if err != nil {
			return err
		}
		if err := textdiff.PrintSince(cmd.Context(), e.Terminal, a, base, terminal.Bad.Render("<"), secrets); err != nil {
			return err
		}
		return textdiff.PrintSince(cmd.Context(), e.Terminal, b, base, terminal.Good.Render(">"), secrets)
	})
	c.Flags().BoolVar(&text, "text", false, "their texts, line by line")
	c.Flags().BoolVar(&contexts, "context", false, "what the model sees at each: which pieces are gone, added or changed; with --text line by line")
	c.Flags().BoolVar(&secrets, "show-secrets", false, "show credentials of known shapes")
	return c
}
