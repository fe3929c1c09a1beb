package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"nexus/ledger/api"
	"nexus/turns"
)

func exportCmd(e *env) *cobra.Command {
	var format, file string
	c := verb("export SESSION", "take a session out: raw events, or a provider's form", 1, 1,
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
