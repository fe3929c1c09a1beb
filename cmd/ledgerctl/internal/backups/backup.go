package backups

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"nexus/cmd/internal/daemon/mend"
	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/ledger/jetstream/backup"
	"nexus/turns"
)

// Options are what backup was asked for.
type Options struct {
	Keys        string // file for the content keys
	WithoutKeys bool   // a sealed ledger without its content keys
}

// Make backs everything up to a file, or goes on with one.
func Make(ctx context.Context, e *cli.Env, file string, o Options) error {
	if o.Keys != "" && o.WithoutKeys {
		return fault.Usage(errors.New("--keys and --without-keys exclude each other"))
	}
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	var size int64
	if st, err := os.Stat(file); err == nil {
		size = st.Size()
	}
	checking, copying := e.Progress(size, "checking", progressbar.OptionShowBytes(true)), (*progressbar.ProgressBar)(nil)
	out, err := backup.Run(ctx, c, backup.Config{File: file, Keys: o.Keys, WithoutKeys: o.WithoutKeys, Now: time.Now,
		Opened: func(n int) { _ = checking.Add(n) },
		Progress: func(done, total uint64) {
			if copying == nil {
				_ = checking.Finish()
				copying = e.Progress(int64(total), "backing up records")
			}
			_ = copying.Set64(int64(done))
		}})
	_ = checking.Finish()
	if copying != nil {
		_ = copying.Finish()
	}
	if errors.Is(err, backup.ErrNoKeys) {
		return fault.WithHint(fault.Usage(err), "--keys FILE writes the content keys, into a file of their own; --without-keys makes the backup all the same, for who keeps the keys elsewhere")
	}
	if err != nil {
		if ctx.Err() != nil {
			e.Say("%s is not complete: the same command goes on with it", file)
		}
		return failure("backup", err)
	}
	if out.Sealed && o.Keys == "" {
		e.Say("the content keys are not in it: without them nobody reads it. --keys FILE writes them, into a file of their own")
	}
	if out.KeysKept > 0 {
		e.Say("the ledger has lost %s: %s keeps them", prose.Plural(uint64(out.KeysKept), "content key"), o.Keys)
	}
	if out.KeysMissing > 0 {
		e.Say("%s missing: neither the ledger nor %s has them, and what they seal can't be read", prose.Plural(uint64(out.KeysMissing), "content key"), o.Keys)
	}
	return e.Result(out, "%s: run %d, %s new, through position %d; %s, %s", file, out.Run, prose.Plural(out.Records, "record"), out.Totals.Log.Seq,
		prose.Plural(uint64(out.Keys), "content key"), out.Digest)
}

// Verify checks a backup; with a digest also that it is the one that the backup printed.
func Verify(ctx context.Context, e *cli.Env, file, digest string) error {
	f, err := os.Open(file)
	if err != nil {
		return fault.Usage(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	bar := e.Progress(st.Size(), "checking", progressbar.OptionShowBytes(true))
	report, err := backup.Verify(ctx, f, st.Size(), func(n int) { _ = bar.Add(n) })
	_ = bar.Finish()
	if err != nil {
		return failure("backup", fmt.Errorf("%s: %w", file, err))
	}
	if want, err := turns.ParseHash(digest); digest != "" && err != nil {
		return fault.Usage(fmt.Errorf("--digest: %w", err))
	} else if digest != "" && report.State == backup.Complete && report.Digest != want {
		report.State, report.Problem = backup.Damaged, "its digest is "+report.Digest.String()+", not "+digest
	}
	if e.JSON {
		err = e.Print(verified{File: file, Report: report})
	} else {
		printReport(e.Terminal, file, &report)
	}
	if err == nil && report.Err() != nil {
		err = failure("backup", report.Err())
	}
	return err
}

// Restore makes a data folder from a backup.
func Restore(ctx context.Context, e *cli.Env, file string, c mend.RestoreConfig) error {
	if c.Data == "" {
		return fault.Usage(errors.New("the folder to make is missing: ledgerctl restore FILE DIR --keys FILE"))
	}
	size := int64(-1)
	if st, err := os.Stat(file); err == nil {
		size = st.Size()
	}
	bar := e.Progress(size, "restoring", progressbar.OptionShowBytes(true))
	c.File, c.Logger = file, slog.New(slog.NewTextHandler(e.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	c.Progress = func(n int) { _ = bar.Add(n) }
	out, err := mend.Restore(ctx, c)
	_ = bar.Finish()
	if err != nil {
		return failure("restore", err)
	}
	if e.JSON {
		return e.Print(out)
	}
	_, err = fmt.Fprint(e.Out, out.Text())
	return err
}
