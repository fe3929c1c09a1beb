package imports

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"nexus/cmd/internal/agents"
	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/repository"
	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/cmd/internal/watch"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/follow"
	"nexus/cmd/ledgerctl/internal/importreport"
	"nexus/cmd/ledgerctl/internal/services"
	"nexus/ledger/api"
	"nexus/turns"
)

// Options are what import was asked for: how files are read, and what else than storing them.
type Options struct {
	transcripts.Importer
	DryRun, List bool
	Undo, Redo   string // an import
	Losses       bool   // list each
	FinalGiven   bool   // else a file will not grow either that is not written to for long
}

// Run imports transcripts, or lists imports and takes them back.
func Run(ctx context.Context, e *cli.Env, args []string, o *Options) error {
	if err := transcriptfile.CheckFormat(o.Format); err != nil {
		return err
	}
	if o.Undo+o.Redo != "" || o.List {
		return o.units(ctx, e, args)
	}
	if len(args) == 0 {
		return fault.WithHint(fault.Usage(errors.New("usage: ledgerctl import FILE|DIR…")), "ledgerctl watch --once brings in what "+agents.Titles()+" have on this machine")
	}
	files, size, err := transcriptfile.Find(args)
	if err != nil {
		return err
	}
	if o.Client, err = e.Client("main"); err != nil {
		return err
	}
	if !o.FinalGiven {
		o.Settle = transcripts.SettleTime
	}
	if o.DryRun {
		return preview(ctx, e, &o.Importer, files, o.Losses)
	}
	if o.Unit, err = turns.NewID(time.Now(), rand.Reader); err != nil {
		return err
	}
	o.Projects = new(repository.Cache)
	var bar sync.Mutex // of the bar: 24 workers add to it, and Clear reads what Add writes
	shown := e.Progress(size, "importing", progressbar.OptionShowBytes(true))
	o.Read = func(n int) {
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
	all := importreport.Report{Terminal: e.Terminal, Unit: o.Unit, Each: o.Losses, Refresh: o.Refresh, Files: len(files)}
	var stopped error
	before, stored := statFiles(files), make(map[string]watch.Imported)
	for i, x := range o.Files(ctx, files) {
		f, r, err := files[i], x.Report, x.Err
		if f.Special {
			all.Special = append(all.Special, f.Name)
			all.Files--
			continue
		}
		bar.Lock()
		_ = shown.Clear()
		bar.Unlock()
		var unknown transcriptfile.UnknownFormat
		switch {
		case stopped != nil, ctx.Err() != nil, api.HasCode(err, api.Unavailable) && len(files) > 1:
			if stopped == nil {
				stopped = cmp.Or(err, ctx.Err())
				o.Stop()
			}
			all.Stopped(r, err)
			err = nil
		case f.Searched && errors.As(err, &unknown):
			all.Unrecognized, err = append(all.Unrecognized, f.Name), nil
		case err != nil:
			err = all.Fail(f.Name, r, err, fault.Plainly(nil, err))
		default:
			none := false // of the file is here any more: then the state of the watch does not name it
			if r.Erased || r.Orphaned {
				none, err = transcripts.NoneReadable(ctx, o.Client, r.Sessions)
			}
			if st := before[f.Name]; st != nil && !none && err == nil {
				stored[f.Name] = watch.Imported{Before: st, Sessions: r.Sessions}
			}
			err = cmp.Or(err, all.Add(r, o.Final || o.IsSettled(f.Name)))
		}
		if err != nil {
			return err
		}
	}
	follow.NoteImported(e, services.Watch(), stored)
	if stopped != nil {
		e.Say("%s; the same command goes on from here", all.StoppedText())
		all.SayUnit()
		return stopped
	}
	return all.End()
}

// statFiles returns the files that are there, by name.
func statFiles(files []transcriptfile.File) map[string]fs.FileInfo {
	out := make(map[string]fs.FileInfo, len(files))
	for _, f := range files {
		if st, err := os.Stat(f.Name); err == nil && f.Name != "-" {
			out[f.Name] = st
		}
	}
	return out
}
