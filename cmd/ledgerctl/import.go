package main

import (
	"errors"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/fault"
	"nexus/cmd/ledgerctl/importreport"
	"nexus/cmd/ledgerctl/prose"
	"nexus/cmd/ledgerctl/transcripts"
	"nexus/ledger/api"
)

func importCmd(e *env) *cobra.Command {
	im := transcripts.Importer{Stdin: e.In}
	var losses bool
	c := verb("import FILE|DIR…", "bring transcripts in; again stores nothing twice", 1, -1, func(cmd *cobra.Command, args []string) (err error) {
		if err := transcripts.CheckFormat(im.Format); err != nil {
			return err
		}
		files, size, err := transcripts.Find(args)
		if err != nil {
			return err
		}
		if im.Client, err = e.Client("main"); err != nil {
			return err
		}
		if !cmd.Flags().Changed("final") {
			im.Settle = transcripts.SettleTime
		}
		bar := e.Progress(size, "importing", progressbar.OptionShowBytes(true))
		im.Read = func(n int) { _ = bar.Add(n) }
		defer bar.Close()
		all := importreport.Report{Terminal: e.Terminal, Each: losses, Files: len(files)}
		for i, o := range im.Files(cmd.Context(), files) {
			f, r, err := files[i], o.Report, o.Err
			if f.Special {
				all.Special = append(all.Special, f.Name)
				all.Files--
				continue
			}
			_ = bar.Clear()
			var unknown transcripts.UnknownFormat
			switch {
			case cmd.Context().Err() != nil, fault.HasCode(err, api.Unavailable) && len(files) > 1:
				e.Say("stopped after %s of %s; the same command goes on from here", prose.Grouped(uint64(i)), prose.Plural(uint64(len(files)), "file"))
				return err
			case f.Searched && errors.As(err, &unknown):
				all.Unrecognized, err = append(all.Unrecognized, f.Name), nil
			case err != nil:
				err = all.Fail(f.Name, r, err, fault.Plainly(cmd, err))
			default:
				err = all.Add(r, im.Final || im.IsSettled(f.Name))
			}
			if err != nil {
				return err
			}
		}
		return all.End()
	})
	c.Flags().BoolVar(&im.Final, "final", false, "the files will not grow: take the turns at their ends too")
	c.Flags().BoolVar(&losses, "losses", false, "list each loss")
	c.Flags().StringVar(&im.Format, "format", "auto", transcripts.FormatNames())
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(strings.Split(transcripts.FormatNames(), ", "), cobra.ShellCompDirectiveNoFileComp))
	return c
}
