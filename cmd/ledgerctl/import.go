package main

import (
	"github.com/spf13/cobra"

	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/cmd/ledgerctl/internal/imports"
)

func importCmd(e *env) *cobra.Command {
	o := imports.Options{Importer: transcripts.Importer{Stdin: e.In}}
	c := verb("import FILE|DIR…", "import transcripts; again stores nothing twice", 0, -1, func(cmd *cobra.Command, args []string) error {
		o.FinalGiven = cmd.Flags().Changed("final")
		return imports.Run(cmd.Context(), e.Env, args, &o)
	})
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "report what would be stored; store nothing")
	c.Flags().StringVar(&o.Undo, "undo", "", "hide the sessions that an import opened")
	c.Flags().StringVar(&o.Redo, "redo", "", "show the sessions again that an import opened")
	c.Flags().BoolVar(&o.List, "list", false, "list the imports, with their ids")
	c.Flags().BoolVar(&o.Final, "final", false, "the files will not grow: import the last turns too")
	c.Flags().BoolVar(&o.Refresh, "refresh", false, "read files again that an older reader imported, or that were changed")
	c.Flags().BoolVar(&o.Losses, "losses", false, "list each loss")
	c.Flags().StringVar(&o.Format, "format", "auto", transcriptfile.FormatNames())
	return c
}
