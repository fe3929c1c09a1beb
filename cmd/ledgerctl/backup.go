package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"nexus/cmd/nexusd/daemon"
	"nexus/ledger/api"
	"nexus/ledger/jetstream/backup"
	"nexus/turns"
)

func backupCmd(e *env) *cobra.Command {
	var keys string
	c := verb("backup FILE", "everything that is stored, into one file", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, err := e.client(api.Operator)
		if err != nil {
			return err
		}
		var size int64
		if st, err := os.Stat(args[0]); err == nil {
			size = st.Size()
		}
		checking, copying := e.progress(size, "checking", progressbar.OptionShowBytes(true)), (*progressbar.ProgressBar)(nil)
		out, err := backup.Run(cmd.Context(), c, backup.Config{File: args[0], Keys: keys, Now: time.Now,
			Opened: func(n int) { _ = checking.Add(n) },
			Progress: func(done, total uint64) {
				if copying == nil {
					_ = checking.Finish()
					copying = e.progress(int64(total), "backing up records")
				}
				_ = copying.Set64(int64(done))
			}})
		_ = checking.Finish()
		if copying != nil {
			_ = copying.Finish()
		}
		if err != nil {
			if cmd.Context().Err() != nil {
				e.say("%s is not complete: the same command goes on with it", args[0])
			}
			return backupError(err)
		}
		if out.Sealed && keys == "" {
			e.say("the content keys are not in it: without them nobody reads it. --keys FILE writes them, into a file of their own")
		}
		if out.KeysKept > 0 {
			e.say("the ledger has lost %s: %s keeps them", plural(uint64(out.KeysKept), "content key"), keys)
		}
		if out.KeysMissing > 0 {
			e.say("%s missing: neither the ledger nor %s has them, and what they seal can't be read", plural(uint64(out.KeysMissing), "content key"), keys)
		}
		return e.result(out, "%s: run %d, %s new, through position %d; %s, %s", args[0], out.Run, plural(out.Records, "record"), out.Totals.Log.Seq,
			plural(uint64(out.Keys), "content key"), out.Digest)
	})
	c.Flags().StringVar(&keys, "keys", "", "file for the content keys")
	c.AddCommand(backupVerifyCmd(e))
	// A file may be called as anything but "verify".
	c.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usageError{errors.New("usage: ledgerctl backup FILE [--keys FILE], ledgerctl backup verify FILE")}
		}
		return nil
	}
	return c
}

// backupReport is what backup verify prints.
type backupReport struct {
	File string `json:"file"`
	backup.Report
}

func backupVerifyCmd(e *env) *cobra.Command {
	var digest string
	c := verb("verify FILE", "check a backup: no daemon, no keys", 1, 1, func(cmd *cobra.Command, args []string) error {
		f, err := os.Open(args[0])
		if err != nil {
			return usageError{err}
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil {
			return err
		}
		bar := e.progress(st.Size(), "checking", progressbar.OptionShowBytes(true))
		in := progressbar.NewReader(f, bar)
		report, _, err := backup.Check(cmd.Context(), &in, nil)
		_ = bar.Finish()
		if err != nil {
			return backupError(fmt.Errorf("%s: %w", args[0], err))
		}
		if want, err := turns.ParseHash(digest); digest != "" && err != nil {
			return usageError{fmt.Errorf("--digest: %w", err)}
		} else if digest != "" && report.State == backup.Complete && report.Digest != want {
			report.State, report.Problem = backup.Damaged, "its digest is "+report.Digest.String()+", not "+digest
		}
		if e.json {
			err = e.print(backupReport{args[0], report})
		} else {
			e.printBackup(args[0], &report)
		}
		if err == nil && report.Err() != nil {
			err = backupError(report.Err())
		}
		return err
	})
	c.Flags().StringVar(&digest, "digest", "", "the digest that the backup printed")
	return c
}

func (e *env) printBackup(name string, r *backup.Report) {
	state := good.Render(r.State)
	if r.State != backup.Complete {
		state = bad.Render(r.State)
	}
	t := r.Totals
	e.tell("%s: %s: %s, %s and %s of blobs, %s; ledger %s, through position %d", printable(name), state, plural(r.Runs, "run"), plural(t.LogRecords, "event"), plural(t.BlobRecords, "chunk"),
		humanize.IBytes(uint64(r.Bytes)), r.Ledger, t.Log.Seq)
	if !r.Digest.IsZero() {
		e.tell("  %s", r.Digest)
	}
	if t.Lost+t.Broken > 0 {
		e.tell("  the ledger had lost %s, and %s after that", plural(t.Lost, "event"), plural(t.Broken, "event"))
	}
}

// backupError gives an error of a backup its code.
func backupError(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return usageError{err}
	}
	if x := (*api.Error)(nil); errors.As(err, &x) {
		return err
	}
	if x := api.FromError(err); x.Code != api.Internal {
		return hinted{x, "ledgerctl help backup"}
	}
	return err
}

func restoreCmd(e *env) *cobra.Command {
	var c daemon.RestoreConfig
	cmd := verb("restore FILE --data DIR", "make a data folder of a backup", 1, 1, func(cmd *cobra.Command, args []string) error {
		if c.Data == "" {
			return usageError{errors.New("--data names the folder to make")}
		}
		size := int64(-1)
		if st, err := os.Stat(args[0]); err == nil {
			size = st.Size()
		}
		bar := e.progress(size, "restoring", progressbar.OptionShowBytes(true))
		c.File, c.Logger = args[0], slog.New(slog.NewTextHandler(e.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
		c.Progress = func(n int) { _ = bar.Add(n) }
		out, err := daemon.Restore(cmd.Context(), c)
		_ = bar.Finish()
		if err != nil {
			return backupError(err)
		}
		if e.json {
			return e.print(out)
		}
		_, err = fmt.Fprint(e.out, out.Text())
		return err
	})
	cmd.Flags().StringVar(&c.Keys, "keys", "", "the content keys")
	cmd.Flags().StringVar(&c.Data, "data", "", "folder to make")
	cmd.Flags().BoolVar(&c.AcceptIncomplete, "accept-incomplete", false, "of a file that is incomplete or damaged, restore the complete runs")
	cmd.Flags().BoolVar(&c.AcceptMissingKeys, "accept-missing-keys", false, "restore without content keys that the file of the keys lacks")
	return cmd
}
