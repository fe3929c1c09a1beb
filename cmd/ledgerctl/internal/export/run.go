package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/turns/transcript/formats"
)

// Options are what export was asked for.
type Options struct {
	Format      string
	FormatGiven bool   // else the name of the file may say it
	File        string // "": the output
	All         bool   // everything of the tenant, to a folder
	BeforeLoss  bool   // what is before an event that is lost
	ShowSecrets bool
	WithKeys    bool // raw events to a terminal too
}

// Run writes a session to a file, or everything of the tenant to a folder.
func Run(ctx context.Context, e *cli.Env, name string, o Options) error {
	if o.All {
		if name == "" {
			return fault.Usage(errors.New("--all takes a folder, and its name is empty"))
		}
		if o.BeforeLoss || o.File != "" || o.Format != "jsonl" && o.Format != "html" {
			return fault.Usage(errors.New("--all takes a folder, and neither --output nor --before-loss; its format is jsonl or html"))
		}
		c, err := e.Client(api.Operator)
		if err != nil {
			return err
		}
		if o.Format == "html" {
			out, err := AllPages(ctx, c, name, o.ShowSecrets)
			if err != nil {
				return err
			}
			return PrintPages(e.Terminal, out)
		}
		out, err := All(ctx, c, name)
		if err != nil {
			if ctx.Err() != nil {
				e.Say("stopped; the same command goes on from here")
			}
			return err
		}
		return PrintAll(e.Terminal, out)
	}
	if as := FormatOfFile(o.File); as != "" && !o.FormatGiven {
		o.Format = as
	}
	if o.Format == "md" {
		o.Format = "markdown"
	}
	c, s, err := e.Session(ctx, name)
	if err != nil {
		return err
	}
	write := func(w io.Writer) error {
		if o.BeforeLoss && o.Format != "jsonl" {
			return fault.Usage(fmt.Errorf("--before-loss goes with the format jsonl, not %s", o.Format))
		}
		switch o.Format {
		case "jsonl":
			records := c.Export(ctx, s.ID)
			if o.BeforeLoss {
				records = c.ExportBeforeLoss(ctx, s.ID)
			}
			return Events(records, w)
		case "html", "markdown":
			return Page(ctx, c, s, o.Format, o.ShowSecrets, w)
		}
		if slices.Contains(formats.Written(), o.Format) {
			if !o.ShowSecrets {
				w = Masked(w)
			}
			return Transcript(ctx, c, s, o.Format, w)
		}
		if !slices.Contains(ContextForms, o.Format) {
			return fault.Usage(fmt.Errorf("format %q is none of %s", o.Format, strings.Join(Forms, ", ")))
		}
		if !o.ShowSecrets {
			w = Masked(w)
		}
		return Context(ctx, c, s.ID, o.Format, w)
	}
	if o.File == "" && o.Format == "jsonl" && e.OutIsTerminal && !o.WithKeys {
		return fault.WithHint(fault.Usage(errors.New("raw events come with the keys of their content, which a terminal keeps in its history; --with-keys shows them")), fmt.Sprintf("ledgerctl export %s -o session.jsonl, or --format markdown to read it here", prose.ShellWord(name)))
	}
	if o.File == "" {
		return write(e.Lines())
	}
	if err := WriteFile(o.File, write); err != nil {
		return err
	}
	if st, err := os.Stat(o.File); err == nil && e.ErrIsTerminal {
		with := ""
		if o.Format == "jsonl" {
			with = ", with its content keys: whoever has the file can read it"
		}
		e.Say("%s: %s bytes of session %s%s", o.File, prose.Grouped(uint64(st.Size())), prose.Short(s.ID), with)
	}
	return nil
}
