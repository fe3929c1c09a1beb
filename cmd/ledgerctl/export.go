package main

import (
	"strings"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/export"
)

func exportCmd(e *env) *cobra.Command {
	var o export.Options
	c := verb("export SESSION | --all DIR", "write a session to a file: raw events, a page, a transcript, or messages for an API", 1, 1, func(cmd *cobra.Command, args []string) error {
		o.FormatGiven = cmd.Flags().Changed("format")
		return export.Run(cmd.Context(), e.Env, args[0], o)
	})
	c.Flags().StringVar(&o.Format, "format", "jsonl", strings.Join(export.Forms, ", "))
	c.Flags().StringVarP(&o.File, "output", "o", "", "file to write")
	c.Flags().BoolVar(&o.WithKeys, "with-keys", false, "print jsonl to a terminal, too: its keys decrypt the session")
	c.Flags().BoolVar(&o.All, "all", false, "export everything of the tenant to a folder")
	c.Flags().BoolVar(&o.ShowSecrets, "show-secrets", false, "show credentials of known shapes; jsonl always has all bytes")
	c.Flags().BoolVar(&o.BeforeLoss, "before-loss", false, "of a session that lost an event: what is before it")
	return c
}
