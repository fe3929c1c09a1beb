package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/repository"
	"nexus/cmd/internal/transcripts"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/follow"
	"nexus/cmd/ledgerctl/internal/importreport"
	"nexus/cmd/ledgerctl/internal/services"
	"nexus/ledger/api"
	"nexus/turns"
)

func importCmd(e *env) *cobra.Command {
	im := transcripts.Importer{Stdin: e.In}
	var f importFlags
	var losses bool
	var bar sync.Mutex // of the bar: 24 workers add to it, and Clear reads what Add writes
	c := verb("import FILE|DIR…", "import transcripts; again stores nothing twice", 0, -1, func(cmd *cobra.Command, args []string) (err error) {
		if err := transcripts.CheckFormat(im.Format); err != nil {
			return err
		}
		if f.undo+f.redo != "" || f.list {
			return e.importUnits(cmd.Context(), args, f)
		}
		if len(args) == 0 {
			return fault.WithHint(fault.Usage(errors.New("usage: ledgerctl import FILE|DIR…")), "ledgerctl watch --once brings in what Claude Code, Codex, pi and Gemini CLI have on this machine")
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
		if f.dry {
			return e.previewImport(cmd.Context(), &im, files, losses)
		}
		if im.Unit, err = turns.NewID(time.Now(), rand.Reader); err != nil {
			return err
		}
		im.Projects = new(repository.Cache)
		shown := e.Progress(size, "importing", progressbar.OptionShowBytes(true))
		im.Read = func(n int) {
			bar.Lock()
			defer bar.Unlock()
			_ = shown.Add(n)
		}
		defer shown.Close()
		for _, f := range files {
			if f.Waits() {
				e.Say("%s is no regular file: the import reads it until its writer ends", prose.Printable(f.Name))
			}
		}
		all := importreport.Report{Terminal: e.Terminal, Unit: im.Unit, Each: losses, Refresh: im.Refresh, Files: len(files)}
		var stopped error
		before, stored := statFiles(files), make(map[string]fs.FileInfo)
		for i, o := range im.Files(cmd.Context(), files) {
			f, r, err := files[i], o.Report, o.Err
			if f.Special {
				all.Special = append(all.Special, f.Name)
				all.Files--
				continue
			}
			bar.Lock()
			_ = shown.Clear()
			bar.Unlock()
			var unknown transcripts.UnknownFormat
			switch {
			case stopped != nil, cmd.Context().Err() != nil, fault.HasCode(err, api.Unavailable) && len(files) > 1:
				if stopped == nil {
					stopped = cmp.Or(err, cmd.Context().Err())
					im.Stop()
				}
				all.Stopped(r, err)
				err = nil
			case f.Searched && errors.As(err, &unknown):
				all.Unrecognized, err = append(all.Unrecognized, f.Name), nil
			case err != nil:
				err = all.Fail(f.Name, r, err, fault.Plainly(cmd, err))
			default:
				if st := before[f.Name]; st != nil {
					stored[f.Name] = st
				}
				err = all.Add(r, im.Final || im.IsSettled(f.Name))
			}
			if err != nil {
				return err
			}
		}
		follow.NoteImported(e.Env, services.Watch(), stored)
		if stopped != nil {
			e.Say("%s; the same command goes on from here", all.StoppedText())
			all.SayUnit()
			return stopped
		}
		return all.End()
	})
	c.Flags().BoolVar(&f.dry, "dry-run", false, "report what would be stored; store nothing")
	c.Flags().StringVar(&f.undo, "undo", "", "hide the sessions that an import opened")
	c.Flags().StringVar(&f.redo, "redo", "", "show the sessions again that an import opened")
	c.Flags().BoolVar(&f.list, "list", false, "list the imports, with their ids")
	c.Flags().BoolVar(&im.Final, "final", false, "the files will not grow: import the last turns too")
	c.Flags().BoolVar(&im.Refresh, "refresh", false, "read files again that an older reader imported, or that were changed")
	c.Flags().BoolVar(&losses, "losses", false, "list each loss")
	c.Flags().StringVar(&im.Format, "format", "auto", transcripts.FormatNames())
	return c
}

// statFiles returns the files that are there, by name.
func statFiles(files []transcripts.File) map[string]fs.FileInfo {
	out := make(map[string]fs.FileInfo, len(files))
	for _, f := range files {
		if st, err := os.Stat(f.Name); err == nil && f.Name != "-" {
			out[f.Name] = st
		}
	}
	return out
}
