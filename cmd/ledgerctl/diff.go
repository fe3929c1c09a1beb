package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"nexus/ledger/api"
	"nexus/turns"
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
	var text, contexts, secrets bool
	c := verb("diff SESSION|TURN SESSION|TURN", "what each has since they parted", 2, 2, func(cmd *cobra.Command, args []string) error {
		if text && contexts || (text || contexts) && e.json {
			return usageError{errors.New("one of --text, --context and --json")}
		}
		if contexts {
			return e.diffContexts(cmd, args, secrets)
		}
		a, b, base, err := e.ends(cmd, args)
		if err != nil {
			return err
		}
		if text {
			return e.diffTexts(cmd.Context(), args, a, b, base, secrets)
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
		if err := e.printSince(cmd.Context(), a, base, bad.Render("<"), secrets); err != nil {
			return err
		}
		return e.printSince(cmd.Context(), b, base, good.Render(">"), secrets)
	})
	c.Flags().BoolVar(&text, "text", false, "their texts, line by line")
	c.Flags().BoolVar(&contexts, "context", false, "what the model sees at each, line by line")
	c.Flags().BoolVar(&secrets, "show-secrets", false, "show credentials of known shapes")
	return c
}

// diffTexts prints the lines of the turns that only one path has, compared.
func (e *env) diffTexts(ctx context.Context, names []string, a, b place, base *api.Base, secrets bool) error {
	var texts [2]comparedText
	for i, x := range []place{a, b} {
		w := texts[i].writer(secrets)
		for t, err := range x.c.Turns(ctx, x.s.ID, since(x, base)) {
			if err != nil {
				return err
			}
			if t.Compaction != nil && t.Compaction.Summary != nil {
				fmt.Fprintf(w, "%s\n%s\n", did(t.Compaction), *t.Compaction.Summary)
			}
			plainMessages(w, shown(&t))
		}
	}
	return e.printDiff(names, &texts)
}

// diffContexts prints the lines of two contexts, compared. It changes nothing.
func (e *env) diffContexts(cmd *cobra.Command, names []string, secrets bool) error {
	var texts [2]comparedText
	for i, name := range names {
		w := texts[i].writer(secrets)
		p, err := e.place(cmd, name)
		if err != nil {
			return err
		}
		cx, err := p.c.As(api.Operator).Context(cmd.Context(), p.s.ID, api.GetContext{At: p.turn})
		if err != nil {
			return err
		}
		if len(cx.System) > 0 && string(cx.System) != "null" {
			fmt.Fprintf(w, "system\n%s\n", jsonText(cx.System))
		}
		for _, raw := range cx.Messages {
			var m turns.Message
			if err := turns.DecodeJSON(raw, &m); err != nil {
				return err
			}
			plainMessages(w, []turns.Message{m})
		}
	}
	return e.printDiff(names, &texts)
}

// comparedText is a text to compare, with its credentials masked. whole is all of it: two
// texts can differ in a credential alone.
type comparedText struct{ text, whole bytes.Buffer }

// writer returns what writes to the text. Each write is masked on its own, unless secrets
// are shown.
func (c *comparedText) writer(secrets bool) io.Writer {
	if secrets {
		return io.MultiWriter(&c.text, &c.whole)
	}
	return io.MultiWriter(masker{&c.text}, &c.whole)
}

// plainMessages writes messages as lines that can be compared: no numbers, no ids.
func plainMessages(w io.Writer, ms []turns.Message) {
	for _, m := range ms {
		fmt.Fprintf(w, "%s\n", m.Role)
		for _, p := range m.Parts {
			fmt.Fprintf(w, "%s\n", ansi.Strip(partText(&p)))
		}
	}
}

// printDiff prints what differs between two texts, as diff -u does.
func (e *env) printDiff(names []string, texts *[2]comparedText) error {
	out := diff.Diff(names[0], texts[0].text.Bytes(), names[1], texts[1].text.Bytes())
	if len(out) == 0 && bytes.Equal(texts[0].whole.Bytes(), texts[1].whole.Bytes()) {
		e.say("no line differs")
	} else if len(out) == 0 {
		e.say("they differ in credentials alone: --show-secrets shows them")
	}
	for line := range strings.Lines(string(out)) {
		line = printable(strings.TrimSuffix(line, "\n"))
		switch {
		case strings.HasPrefix(line, "-"):
			line = bad.Render(line)
		case strings.HasPrefix(line, "+"):
			line = good.Render(line)
		}
		if _, err := fmt.Fprintln(e.out, line); err != nil {
			return err
		}
	}
	return nil
}

// since asks for the turns of a path below the base, whole.
func since(x place, base *api.Base) api.ListTurns {
	r := api.ListTurns{At: x.turn, Full: true}
	if base.Base != nil {
		r.After = base.Base.ID.String()
	}
	return r
}

// printSince prints the turns of a path below the base, each marked.
func (e *env) printSince(ctx context.Context, x place, base *api.Base, mark string, secrets bool) error {
	ts := x.c.Turns(ctx, x.s.ID, since(x, base))
	if !secrets {
		ts = masked(ts)
	}
	return e.printTurns(ts, 0, mark+" ")
}
