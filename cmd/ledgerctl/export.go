package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/export"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/turns/transcript/formats"
)

func exportCmd(e *env) *cobra.Command {
	var format, file string
	var beforeLoss, all, shown, keys bool
	c := verb("export SESSION | --all DIR", "write a session to a file: raw events, a page, a transcript, or messages for an API", 1, 1, func(cmd *cobra.Command, args []string) error {
		if all {
			if args[0] == "" {
				return fault.Usage(errors.New("--all takes a folder, and its name is empty"))
			}
			if beforeLoss || file != "" || format != "jsonl" && format != "html" {
				return fault.Usage(errors.New("--all takes a folder, and neither --output nor --before-loss; its format is jsonl or html"))
			}
			c, err := e.Client(api.Operator)
			if err != nil {
				return err
			}
			if format == "html" {
				out, err := export.AllPages(cmd.Context(), c, args[0], shown)
				if err != nil {
					return err
				}
				return export.PrintPages(e.Terminal, out)
			}
			out, err := export.All(cmd.Context(), c, args[0])
			if err != nil {
				if cmd.Context().Err() != nil {
					e.Say("stopped; the same command goes on from here")
				}
				return err
			}
			return export.PrintAll(e.Terminal, out)
		}
		if as := export.FormatOfFile(file); as != "" && !cmd.Flags().Changed("format") {
			format = as
		}
		c, s, err := e.Session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		write := func(w io.Writer) error {
			if beforeLoss && format != "jsonl" {
				return fault.Usage(fmt.Errorf("--before-loss goes with the format jsonl, not %s", format))
			}
			switch format {
			case "jsonl":
				records := c.Export(cmd.Context(), s.ID)
				if beforeLoss {
					records = c.ExportBeforeLoss(cmd.Context(), s.ID)
				}
				return export.Events(records, w)
			case "html", "markdown":
				return export.Page(cmd.Context(), c, s, format, shown, w)
			}
			if slices.Contains(formats.Written(), format) {
				if !shown {
					w = export.Masked(w)
				}
				return export.Transcript(cmd.Context(), c, s, format, w)
			}
			if !slices.Contains(export.ContextForms, format) {
				return fault.Usage(fmt.Errorf("format %q is none of %s", format, strings.Join(export.Forms, ", ")))
			}
			if !shown {
				w = export.Masked(w)
			}
			return export.Context(cmd.Context(), c, s.ID, format, w)
		}
		if file == "" && format == "jsonl" && e.OutIsTerminal && !keys {
			return fault.WithHint(fault.Usage(errors.New("raw events come with the keys of their content, which a terminal keeps in its history; --with-keys shows them")), fmt.Sprintf("ledgerctl export %s -o session.jsonl, or --format markdown to read it here", prose.ShellWord(args[0])))
		}
		if file == "" {
			return write(e.Lines())
		}
		if err := export.WriteFile(file, write); err != nil {
			return err
		}
		if st, err := os.Stat(file); err == nil && e.ErrIsTerminal {
			with := ""
			if format == "jsonl" {
				with = ", with its content keys: whoever has the file can read it"
			}
			e.Say("%s: %s bytes of session %s%s", file, prose.Grouped(uint64(st.Size())), prose.Short(s.ID), with)
		}
		return nil
	})
	c.Flags().StringVar(&format, "format", "jsonl", strings.Join(export.Forms, ", "))
	c.Flags().StringVarP(&file, "output", "o", "", "file to write")
	c.Flags().BoolVar(&keys, "with-keys", false, "print jsonl to a terminal, too: its keys decrypt the session")
	c.Flags().BoolVar(&all, "all", false, "export everything of the tenant to a folder")
	c.Flags().BoolVar(&shown, "show-secrets", false, "show credentials of known shapes; jsonl always has all bytes")
	c.Flags().BoolVar(&beforeLoss, "before-loss", false, "of a session that lost an event: what is before it")
	return c
}
