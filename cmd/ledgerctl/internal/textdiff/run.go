package textdiff

import (
	"context"
	"errors"
	"fmt"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/contextview"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
)

// ends are where the two paths that a person named end, and their last common turn.
func ends(ctx context.Context, e *cli.Env, args []string) (a, b names.Place, base *api.Base, err error) {
	if a, err = e.Find(ctx, args[0]); err != nil {
		return
	}
	if b, err = e.Find(ctx, args[1]); err != nil {
		return
	}
	// The two may be of different agents: the operator reads both.
	base, err = a.Client.As(api.Operator).Base(ctx, a.Session.ID, api.GetBase{At: a.Turn, Other: api.Place{Session: b.Session.ID, Turn: b.Turn}})
	return
}

// Base prints the last turn that two sessions or turns share.
func Base(ctx context.Context, e *cli.Env, args []string) error {
	args, err := e.Pair(ctx, args[0], args[1])
	if err != nil {
		return err
	}
	_, _, base, err := ends(ctx, e, args)
	if err != nil {
		return err
	}
	if base.Base == nil {
		return fault.WithHint(api.Errorf(api.NotFound, nil, "%s and %s have no turn in common", args[0], args[1]), "ledgerctl tree SESSION draws what was forked from what")
	}
	return e.Result(base, "%s  depth %d of session %s", terminal.ID.Render(base.Base.ID.String()), base.Base.Depth, base.Base.Session)
}

// Options are what diff was asked for.
type Options struct {
	Text     bool // their texts, line by line
	Contexts bool // what the model sees at each
	Secrets  bool
}

// Run prints the turns that two sessions or turns do not share.
func Run(ctx context.Context, e *cli.Env, args []string, o Options) error {
	if o.Text && e.JSON {
		return fault.Usage(errors.New("one of --text and --json"))
	}
	args, err := e.Pair(ctx, args[0], args[1])
	if err != nil {
		return err
	}
	if o.Contexts && !o.Text {
		return contextview.PrintDiff(ctx, e.Terminal, args, contextview.Options{Secrets: o.Secrets}, func(name string, f contextview.Options) (names.Place, *api.Context, error) {
			return contextview.Of(ctx, e, name, f)
		})
	}
	if o.Contexts {
		return Contexts(ctx, e.Terminal, e.Finder, args, o.Secrets)
	}
	a, b, base, err := ends(ctx, e, args)
	if err != nil {
		return err
	}
	if o.Text {
		return Turns(ctx, e.Terminal, args, a, b, base, o.Secrets)
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
	if err := PrintSince(ctx, e.Terminal, a, base, terminal.Bad.Render("<"), o.Secrets); err != nil {
		return err
	}
	return PrintSince(ctx, e.Terminal, b, base, terminal.Good.Render(">"), o.Secrets)
}
