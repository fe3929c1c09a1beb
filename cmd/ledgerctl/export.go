package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/page"
	"nexus/cmd/ledgerctl/transcripts"
	"nexus/cmd/ledgerctl/wholefile"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/interchange"
	"nexus/turns/secrets"
)

func exportCmd(e *env) *cobra.Command {
	var format, file string
	var beforeLoss, all, shown bool
	c := verb("export SESSION", "take a session out: raw events, a page to show, a transcript, or a provider's form", 1, 1, func(cmd *cobra.Command, args []string) error {
		if all {
			if beforeLoss || file != "" || format != "jsonl" {
				return usageError{errors.New("--all takes a folder, and none of --format, --output and --before-loss")}
			}
			c, err := e.client(api.Operator)
			if err != nil {
				return err
			}
			out, err := exportAll(cmd.Context(), c, args[0])
			if err != nil {
				if cmd.Context().Err() != nil {
					e.say("stopped; the same command goes on from here")
				}
				return err
			}
			return e.printAll(out)
		}
		c, s, err := e.session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		write := func(w io.Writer) error {
			if beforeLoss && format != "jsonl" {
				return usageError{fmt.Errorf("--before-loss goes with the format jsonl, not %s", format)}
			}
			switch format {
			case "jsonl":
				records := c.Export(cmd.Context(), s.ID)
				if beforeLoss {
					records = c.ExportBeforeLoss(cmd.Context(), s.ID)
				}
				return exportEvents(records, w)
			case "claude-code", "codex", "pi", "gemini-cli":
				if !shown {
					w = masker{w}
				}
				return exportTranscript(cmd.Context(), c, s, format, w)
			case "html", "markdown":
				return exportPage(cmd.Context(), c, s, format, shown, w)
			}
			if !slices.Contains(contextForms, format) {
				return usageError{fmt.Errorf("format %q is none of %s", format, strings.Join(exportForms, ", "))}
			}
			if !shown {
				w = masker{w}
			}
			return exportContext(cmd.Context(), c, s.ID, format, w)
		}
		if file == "" {
			return write(e.lines())
		}
		if err := writeFile(file, write); err != nil {
			return err
		}
		if st, err := os.Stat(file); err == nil && e.talks {
			with := ""
			if format == "jsonl" {
				with = ", with its content keys: whoever has the file can read it"
			}
			e.say("%s: %s bytes of session %s%s", file, grouped(uint64(st.Size())), short(s.ID), with)
		}
		return nil
	})
	c.Flags().StringVar(&format, "format", "jsonl", strings.Join(exportForms, ", "))
	c.Flags().StringVarP(&file, "output", "o", "", "file to write")
	c.Flags().BoolVar(&all, "all", false, "everything of the tenant, into a folder")
	c.Flags().BoolVar(&shown, "show-secrets", false, "show credentials of known shapes; jsonl always has all bytes")
	c.Flags().BoolVar(&beforeLoss, "before-loss", false, "of a session that lost an event: what is before it")
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(exportForms, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// masker masks the credentials in each line that is written. A write is a line.
type masker struct{ to io.Writer }

func (m masker) Write(b []byte) (int, error) {
	if _, err := io.WriteString(m.to, secrets.Mask(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// writeFile writes a file as a whole or not at all. Only its owner can read it.
func writeFile(name string, write func(io.Writer) error) error {
	err := wholefile.Write(name, 0o600, write)
	if errors.As(err, new(*wholefile.FolderError)) {
		return usageError{err}
	}
	return err
}

func jsonLine(w io.Writer, v any) error {
	b, err := turns.EncodeJSON(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

// exportEvents writes raw events with their keys and blobs, ancestors first.
func exportEvents(records iter.Seq2[api.ExportRecord, error], w io.Writer) error {
	for r, err := range records {
		if err != nil {
			return err
		}
		if err := jsonLine(w, r); err != nil {
			return err
		}
	}
	return nil
}

// exportPage writes every turn on the path of the head as a page for people.
func exportPage(ctx context.Context, c *api.Client, s *api.Session, format string, shown bool, w io.Writer) error {
	opt := page.Options{ShowSecrets: shown, Forks: make(map[turns.ID][]api.TreeSession),
		Content: func(session turns.ID, ref *turns.BlobRef) ([]byte, error) { return c.Content(ctx, session, ref) }}
	t, err := c.Tree(ctx, s.ID)
	if err != nil {
		return err
	}
	for _, x := range t.Sessions {
		if f := x.ForkedFrom; f != nil && x.ID != s.ID {
			opt.Forks[f.Turn] = append(opt.Forks[f.Turn], x)
		}
	}
	p, err := page.New(s, c.Turns(ctx, s.ID, api.ListTurns{Full: true}), opt)
	if err != nil {
		return err
	}
	if format == "html" {
		return p.HTML(w)
	}
	return p.Markdown(w)
}

// exportContext writes what the model would see at the head. It changes nothing.
func exportContext(ctx context.Context, c *api.Client, s turns.ID, format string, w io.Writer) error {
	cx, err := c.As(api.Operator).Context(ctx, s, api.GetContext{Format: format})
	if err != nil {
		return err
	}
	return jsonLine(w, map[string]any{"system": cx.System, "messages": cx.Messages, "tools": cx.Tools})
}

// exportTranscript writes every turn on the path of the head, as an agent writes its
// sessions.
func exportTranscript(ctx context.Context, c *api.Client, s *api.Session, format string, w io.Writer) error {
	list, to := api.ListTurns{Full: true}, transcripts.WrittenSession(s)
	if s.Head != nil {
		list.At, to.Through = *s.Head, *s.Head
	}
	lines, ok := interchange.NewTranscriptWriter(format, to)
	if !ok {
		return fmt.Errorf("no transcripts of format %q are written", format)
	}
	put := func(out [][]byte, err error) error {
		for _, l := range out {
			if _, err := fmt.Fprintf(w, "%s\n", l); err != nil {
				return err
			}
		}
		return err
	}
	for t, err := range c.Turns(ctx, s.ID, list) {
		if err != nil {
			return err
		}
		written, err := transcripts.WrittenTurn(ctx, c, s.ID, &t)
		if err != nil {
			return err
		}
		if err := put(lines.Turn(written)); err != nil {
			return err
		}
	}
	return put(lines.End())
}
