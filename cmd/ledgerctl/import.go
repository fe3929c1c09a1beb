package main

import (
	"errors"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/transcripts"
	"nexus/ledger/api"
)

func importCmd(e *env) *cobra.Command {
	im := transcripts.Importer{Stdin: e.in}
	var losses bool
	c := verb("import FILE|DIR…", "bring transcripts in; again stores nothing twice", 1, -1, func(cmd *cobra.Command, args []string) (err error) {
		files, size, err := transcripts.Find(args)
		if err != nil {
			return err
		}
		if im.Client, err = e.client("main"); err != nil {
			return err
		}
		if !cmd.Flags().Changed("final") {
			im.Settle = transcripts.SettleTime
		}
		bar := e.progress(size, "importing", progressbar.OptionShowBytes(true))
		im.Read = func(n int) { _ = bar.Add(n) }
		defer bar.Close()
		all := importReport{e: e, each: losses, files: len(files)}
		for i, o := range im.Files(cmd.Context(), files) {
			f, r, err := files[i], o.Report, o.Err
			if f.Special {
				all.special = append(all.special, f.Name)
				all.files--
				continue
			}
			_ = bar.Clear()
			var unknown transcripts.UnknownFormat
			switch {
			case cmd.Context().Err() != nil, coded(err, api.Unavailable) && len(files) > 1:
				e.say("stopped after %s of %s; the same command goes on from here", grouped(uint64(i)), plural(uint64(len(files)), "file"))
				return err
			case f.Searched && errors.As(err, &unknown):
				all.unrecognized, err = append(all.unrecognized, f.Name), nil
			case err != nil:
				err = all.fail(f.Name, r, err, plainly(cmd, err))
			default:
				err = all.add(r, im.Final || im.IsSettled(f.Name))
			}
			if err != nil {
				return err
			}
		}
		return all.end()
	})
	c.Flags().BoolVar(&im.Final, "final", false, "the files will not grow: take the turns at their ends too")
	c.Flags().BoolVar(&losses, "losses", false, "list each loss")
	c.Flags().StringVar(&im.Format, "format", "auto", transcripts.FormatNames())
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(strings.Split(transcripts.FormatNames(), ", "), cobra.ShellCompDirectiveNoFileComp))
	return c
}
