package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"

	"nexus/cmd/internal/page"
	"nexus/cmd/internal/transcripts/written"
	"nexus/cmd/internal/wholefile"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/transcript/formats"

	"nexus/turns/secrets"
)

// ContextForms are the forms that a context is rendered in.
var ContextForms = []string{"otel", "openai", "anthropic", "gemini"}

// Forms lists the values of --format for an export.
var Forms = slices.Concat([]string{"jsonl", "html", "markdown"}, formats.Written(), ContextForms)

// FormatOfFile returns the format that the name of a file asks for; "": none.
func FormatOfFile(name string) string {
	return map[string]string{".html": "html", ".htm": "html", ".md": "markdown"}[filepath.Ext(name)]
}

// Masked returns a writer to w that masks the credentials in each line. A write is a line.
func Masked(w io.Writer) io.Writer { return masker{w} }

type masker struct{ to io.Writer }

func (m masker) Write(b []byte) (int, error) {
	if _, err := io.WriteString(m.to, secrets.Mask(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// WriteFile writes a file as a whole or not at all. Only its owner can read it.
func WriteFile(name string, write func(io.Writer) error) error {
	err := wholefile.Write(name, 0o600, write)
	if errors.As(err, new(*wholefile.FolderError)) {
		return fault.Usage(err)
	}
	return err
}

// WriteJSON writes v as one line of JSON.
func WriteJSON(w io.Writer, v any) error {
	b, err := turns.EncodeJSON(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

// Events writes raw events with their keys and blobs, ancestors first.
func Events(records iter.Seq2[api.ExportRecord, error], w io.Writer) error {
	for r, err := range records {
		if err != nil {
			return err
		}
		if err := WriteJSON(w, r); err != nil {
			return err
		}
	}
	return nil
}

// Page writes every turn on the path of the head as a page for people.
func Page(ctx context.Context, c *client.Client, s *api.Session, format string, shown bool, w io.Writer) error {
	return pageOf(ctx, c, s, format, page.Options{ShowSecrets: shown}, w)
}

func pageOf(ctx context.Context, c *client.Client, s *api.Session, format string, opt page.Options, w io.Writer) error {
	opt.Forks = make(map[turns.ID][]api.TreeSession)
	opt.Content = func(session turns.ID, ref *turns.BlobRef) ([]byte, error) { return c.Content(ctx, session, ref) }
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

// Context writes what the model would see at the head. It changes nothing.
func Context(ctx context.Context, c *client.Client, s turns.ID, format string, w io.Writer) error {
	cx, err := c.As(api.Operator).Context(ctx, s, api.GetContext{Format: format})
	if err != nil {
		return err
	}
	return WriteJSON(w, map[string]any{"system": cx.System, "messages": cx.Messages, "tools": cx.Tools})
}

// Transcript writes every turn on the path of the head, as an agent writes its
// sessions.
func Transcript(ctx context.Context, c *client.Client, s *api.Session, format string, w io.Writer) error {
	list, to := api.ListTurns{Full: true}, written.Session(s)
	if s.Head != nil {
		list.At, to.Through = *s.Head, *s.Head
	}
	lines, ok := formats.NewWriter(format, to)
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
		line, err := written.Turn(ctx, c, s.ID, &t)
		if err != nil {
			return err
		}
		if err := put(lines.Turn(line)); err != nil {
			return err
		}
	}
	return put(lines.End())
}
