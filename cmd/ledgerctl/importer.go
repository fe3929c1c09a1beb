package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/interchange"
)

// report is what an import did.
type report struct {
	File        string             `json:"file"`
	Sessions    []turns.ID         `json:"sessions"`
	Turns       int                `json:"turns"`
	Forks       int                `json:"forks"`
	Compactions int                `json:"compactions"`
	Stored      int                `json:"stored"`
	Existing    int                `json:"existing"`
	KeptFirst   int                `json:"kept_first"`
	Losses      []interchange.Loss `json:"losses"`
}

func importCmd(e *env) *cobra.Command {
	var final bool
	var format string
	c := verb("import FILE…", "bring transcripts into the ledger; doing it again stores nothing twice", "ledgerctl import ~/.claude/projects/*/*.jsonl", 1, -1,
		func(cmd *cobra.Command, args []string) error {
			cl, err := e.client("main")
			if err != nil {
				return err
			}
			for _, name := range args {
				r, err := importFile(cmd.Context(), cl, name, e.in, format, final, 0)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				if e.json {
					if err := e.print(r); err != nil {
						return err
					}
					continue
				}
				printReport(e.out, r)
			}
			return nil
		})
	c.Flags().BoolVar(&final, "final", false, "the file will not grow: take its unfinished last turn too")
	c.Flags().StringVar(&format, "format", "auto", "auto, claude-code, jsonl (an export of ours)")
	return c
}

func importFile(ctx context.Context, c *api.Client, name string, stdin io.Reader, format string, final bool, window uint64) (*report, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usageError{err}
		}
		defer f.Close()
		in = f
	}
	br := bufio.NewReaderSize(in, 1<<20)
	head, err := br.Peek(64 << 10)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, err
	}
	if format == "auto" {
		switch {
		case len(head) > 16 && string(head[:16]) == `{"nexus_export":`:
			format = "jsonl"
		case interchange.SniffClaudeCode(head):
			format = "claude-code"
		default:
			return nil, usageError{errors.New("the format is none of claude-code, jsonl")}
		}
	}
	r := &report{File: name, Losses: []interchange.Loss{}}
	switch format {
	case "jsonl":
		return r, importExport(ctx, c, br, r)
	case "claude-code":
		return r, importSteps(ctx, c, interchange.ClaudeCode(br, interchange.ClaudeOptions{Final: final}), window, r)
	}
	return nil, usageError{fmt.Errorf("format %q is none of auto, claude-code, jsonl", format)}
}

func importSteps(ctx context.Context, c *api.Client, r *interchange.ClaudeReader, window uint64, rep *report) error {
	for st, err := range r.Steps() {
		if err != nil {
			return err
		}
		dup, err := doStep(ctx, c, st, window, rep)
		switch {
		case errors.Is(err, api.Errorf(api.IDReused, nil, "").Unwrap()):
			rep.KeptFirst++
		case err != nil:
			return err
		case dup:
			rep.Existing++
		default:
			rep.Stored++
		}
	}
	rep.Losses = append(rep.Losses, r.Losses()...)
	return nil
}

// doStep does one step; dup says that it had been done before.
func doStep(ctx context.Context, c *api.Client, st interchange.Step, window uint64, rep *report) (dup bool, err error) {
	switch {
	case st.Open != nil:
		r := api.CreateSession{ID: st.Open.ID}
		r.Meta, r.Model = st.Open.Meta, &st.Open.Model
		if window > 0 {
			r.Limits = &turns.Limits{ContextWindow: window}
		}
		if sp := st.Open.SpawnedBy; !sp.IsZero() {
			r.SpawnedBy = &api.SpawnedBy{Session: sp.Session, Turn: sp.Turn}
		}
		rep.Sessions = append(rep.Sessions, st.Open.ID)
		s, err := c.Create(ctx, r)
		return err == nil && s.Turns > 0, err
	case st.Fork != nil:
		rep.Forks++
		rep.Sessions = append(rep.Sessions, st.Fork.ID)
		s, err := c.Fork(ctx, st.Fork.At.Session, api.CreateFork{ID: st.Fork.ID, Turn: st.Fork.At.Turn, Meta: st.Fork.Meta})
		return err == nil && s.Turns > 0, err
	case st.Append != nil:
		rep.Turns++
		a := st.Append
		at := api.Time(a.Time)
		ack, err := c.Append(ctx, a.Session, api.AppendTurn{ID: a.ID, Parent: a.Parent, Messages: a.Messages, Response: a.Response,
			Model: a.Model, Usage: a.Usage, Time: &at, Meta: a.Meta})
		return err == nil && ack.Duplicate, err
	case st.Compaction != nil:
		rep.Compactions++
		k := st.Compaction
		at := api.Time(k.Time)
		r := api.RecordCompaction{ID: k.ID, Parent: k.Parent, Time: &at, Trigger: k.Trigger, Replacement: k.Replacement, Summary: k.Summary,
			FirstKept: k.FirstKept, TokensBefore: k.TokensBefore, Dropped: k.Dropped, Meta: k.Meta}
		for _, x := range k.Cleared {
			r.Cleared = append(r.Cleared, api.ClearedResult{Turn: x.Turn, Call: x.Call})
		}
		_, err := c.Record(ctx, k.Session, r)
		if errors.Is(err, api.ErrNothing) {
			rep.Losses = append(rep.Losses, interchange.Loss{What: "skipped", Reason: "a recorded compaction that covers nothing", Record: k.ID.String()})
			err = nil
		}
		return false, err
	}
	return false, nil
}

func importExport(ctx context.Context, c *api.Client, r *bufio.Reader, rep *report) error {
	const batchBytes = 256 << 10
	var batch []api.ExportRecord
	size := 0
	send := func() error {
		if len(batch) == 0 {
			return nil
		}
		got, err := c.Import(ctx, batch)
		if err == nil {
			rep.Stored += int(got.Stored)
			rep.Existing += int(got.Existing)
		}
		batch, size = nil, 0
		return err
	}
	for line := 1; ; line++ {
		b, err := r.ReadBytes('\n')
		if len(b) > 1 {
			var x api.ExportRecord
			if err := turns.DecodeJSON(b, &x); err != nil {
				return fmt.Errorf("line %d: %w", line, err)
			}
			if x.Ledger != nil {
				rep.Sessions = append(rep.Sessions, x.Ledger.Session)
			}
			if size > 0 && size+len(b) > batchBytes {
				if err := send(); err != nil {
					return err
				}
			}
			batch, size = append(batch, x), size+len(b)
		}
		if err == io.EOF {
			return send()
		}
		if err != nil {
			return err
		}
	}
}

func printReport(w io.Writer, r *report) {
	fmt.Fprintf(w, "%s: %d sessions, %d turns, %d forks, %d compactions: %d stored, %d were there already", r.File, len(r.Sessions), r.Turns, r.Forks, r.Compactions, r.Stored, r.Existing)
	if r.KeptFirst > 0 {
		fmt.Fprintf(w, ", %d kept as first stored", r.KeptFirst)
	}
	fmt.Fprintln(w)
	for _, s := range r.Sessions {
		fmt.Fprintf(w, "  session %s\n", s)
	}
	for _, l := range r.Losses {
		n := max(l.Count, 1)
		fmt.Fprintf(w, "  %-10s %4d× %s\n", l.What, n, l.Reason)
	}
}

func exportCmd(e *env) *cobra.Command {
	var format, file string
	c := verb("export SESSION", "a session as raw events (jsonl: byte-exact, keys included) or in a provider's form", "ledgerctl export 01J8 -o session.jsonl", 1, 1,
		func(cmd *cobra.Command, args []string) error {
			c, s, err := e.session(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var out io.Writer = e.out
			write := func(v any) error {
				b, err := turns.EncodeJSON(v)
				if err != nil {
					return err
				}
				if file != "" && out == e.out {
					f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
					if err != nil {
						return usageError{err}
					}
					defer f.Sync()
					out = f
				}
				_, err = fmt.Fprintf(out, "%s\n", b)
				return err
			}
			if format != "jsonl" {
				cx, err := c.Context(cmd.Context(), s.ID, api.GetContext{Format: format})
				if err != nil {
					return err
				}
				return write(map[string]any{"system": cx.System, "messages": cx.Messages, "tools": cx.Tools})
			}
			for r, err := range c.Export(cmd.Context(), s.ID) {
				if err != nil {
					return err
				}
				if err := write(r); err != nil {
					return err
				}
			}
			if f, ok := out.(*os.File); ok && file != "" {
				return f.Close()
			}
			return nil
		})
	c.Flags().StringVar(&format, "format", "jsonl", "jsonl, otel, openai, anthropic, gemini")
	c.Flags().StringVarP(&file, "output", "o", "", "file to write")
	return c
}
