package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"nexus/ledger/api"
)

// ends are where the two paths that a person named end, and their last common turn.
func (e *env) ends(cmd *cobra.Command, args []string) (a, b place, base *api.Base, err error) {
	if a, err = e.place(cmd, args[0]); err != nil {
		return
	}
	if b, err = e.place(cmd, args[1]); err != nil {
		return
	}
	// The two may be of different agents: the operator reads both.
	base, err = a.c.As(api.Operator).Base(cmd.Context(), a.s.ID, api.GetBase{At: a.turn, Other: api.Place{Session: b.s.ID, Turn: b.turn}})
	return
}

func mergeBaseCmd(e *env) *cobra.Command {
	return verb("merge-base SESSION|TURN SESSION|TURN", "where two sessions or turns part", 2, 2, func(cmd *cobra.Command, args []string) error {
		_, _, base, err := e.ends(cmd, args)
		if err != nil {
			return err
		}
		if base.Base == nil {
			return hinted{api.Errorf(api.NotFound, nil, "%s and %s have no turn in common", args[0], args[1]), "ledgerctl tree SESSION draws what was forked from what"}
		}
		return e.result(base, "%s  depth %d of session %s", idStyle.Render(base.Base.ID.String()), base.Base.Depth, base.Base.Session)
	})
}

func diffCmd(e *env) *cobra.Command {
	return verb("diff SESSION|TURN SESSION|TURN", "what each has since they parted", 2, 2, func(cmd *cobra.Command, args []string) error {
		a, b, base, err := e.ends(cmd, args)
		if err != nil {
			return err
		}
		if e.json {
			err = e.print(base)
		} else if base.Base == nil {
			fmt.Fprintln(e.out, "no turn in common")
		} else {
			fmt.Fprintf(e.out, "  in common through %s at depth %d\n", idStyle.Render(short(base.Base.ID)), base.Base.Depth)
		}
		if err != nil {
			return err
		}
		if err := e.printSince(cmd.Context(), a, base, bad.Render("<")); err != nil {
			return err
		}
		return e.printSince(cmd.Context(), b, base, good.Render(">"))
	})
}

// printSince prints the turns of a path below the base, each marked.
func (e *env) printSince(ctx context.Context, x place, base *api.Base, mark string) error {
	r := api.ListTurns{At: x.turn, Full: true}
	if base.Base != nil {
		r.After = base.Base.ID.String()
	}
	return e.printTurns(x.c.Turns(ctx, x.s.ID, r), 0, mark+" ")
}
