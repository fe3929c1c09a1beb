package textdiff

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/rogpeppe/go-internal/diff"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/export"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/cmd/ledgerctl/internal/turnview"
	"nexus/ledger/api"
	"nexus/turns"
)

// Turns prints the lines of the turns that only one path has, compared.
func Turns(ctx context.Context, term *terminal.Terminal, args []string, a, b names.Place, base *api.Base, secrets bool) error {
	var texts [2]comparedText
	for i, x := range []names.Place{a, b} {
		w := texts[i].writer(secrets)
		for t, err := range x.Client.Turns(ctx, x.Session.ID, since(x, base)) {
			if err != nil {
				return err
			}
			if t.Compaction != nil && t.Compaction.Summary != nil {
				fmt.Fprintf(w, "%s\n%s\n", turnview.Did(t.Compaction), *t.Compaction.Summary)
			}
			plainMessages(w, turnview.Messages(&t))
		}
	}
	return printDiff(term, args, &texts)
}

// Contexts prints the lines of two contexts, compared. It changes nothing.
func Contexts(ctx context.Context, term *terminal.Terminal, find names.Finder, args []string, secrets bool) error {
	var texts [2]comparedText
	for i, name := range args {
		w := texts[i].writer(secrets)
		p, err := find.Find(ctx, name)
		if err != nil {
			return err
		}
		cx, err := p.Client.As(api.Operator).Context(ctx, p.Session.ID, api.GetContext{At: p.Turn})
		if err != nil {
			return err
		}
		if len(cx.System) > 0 && string(cx.System) != "null" {
			fmt.Fprintf(w, "system\n%s\n", prose.JSONText(cx.System))
		}
		for _, raw := range cx.Messages {
			var m turns.Message
			if err := turns.DecodeJSON(raw, &m); err != nil {
				return err
			}
			plainMessages(w, []turns.Message{m})
		}
	}
	return printDiff(term, args, &texts)
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
	return io.MultiWriter(export.Masked(&c.text), &c.whole)
}

// plainMessages writes messages as lines that can be compared: no numbers, no ids.
func plainMessages(w io.Writer, ms []turns.Message) {
	for _, m := range ms {
		fmt.Fprintf(w, "%s\n", m.Role)
		for _, p := range m.Parts {
			fmt.Fprintf(w, "%s\n", ansi.Strip(turnview.PartText(&p)))
		}
	}
}

// printDiff prints what differs between two texts, as diff -u does.
func printDiff(term *terminal.Terminal, args []string, texts *[2]comparedText) error {
	out := diff.Diff(args[0], texts[0].text.Bytes(), args[1], texts[1].text.Bytes())
	if len(out) == 0 && bytes.Equal(texts[0].whole.Bytes(), texts[1].whole.Bytes()) {
		term.Say("no line differs")
	} else if len(out) == 0 {
		term.Say("they differ in credentials alone: --show-secrets shows them")
	}
	for line := range strings.Lines(string(out)) {
		line = prose.Printable(strings.TrimSuffix(line, "\n"))
		switch {
		case strings.HasPrefix(line, "-"):
			line = terminal.Bad.Render(line)
		case strings.HasPrefix(line, "+"):
			line = terminal.Good.Render(line)
		}
		if _, err := fmt.Fprintln(term.Out, line); err != nil {
			return err
		}
	}
	return nil
}

// since asks for the turns of a path below the base, whole.
func since(x names.Place, base *api.Base) api.ListTurns {
	r := api.ListTurns{At: x.Turn, Full: true}
	if base.Base != nil {
		r.After = base.Base.ID.String()
	}
	return r
}

// PrintSince prints the turns of a path below the base, each marked.
func PrintSince(ctx context.Context, term *terminal.Terminal, x names.Place, base *api.Base, mark string, secrets bool) error {
	ts := x.Client.Turns(ctx, x.Session.ID, since(x, base))
	if !secrets {
		ts = turnview.Masked(ts)
	}
	return turnview.Print(term, ts, 0, mark+" ")
}
