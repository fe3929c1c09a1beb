package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"nexus/cmd/internal/daemon/mend"
	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/audit"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/ledger/jetstream/backup"
	"nexus/turns"
)

func backupCmd(e *env) *cobra.Command {
	var keys string
	var withoutKeys bool
	c := verb("backup FILE", "back up everything to one file", 1, 1, func(cmd *cobra.Command, args []string) error {
		if keys != "" && withoutKeys {
			return fault.Usage(errors.New("--keys and --without-keys exclude each other"))
		}
		c, err := e.Client(api.Operator)
		if err != nil {
			return err
		}
		var size int64
		if st, err := os.Stat(args[0]); err == nil {
			size = st.Size()
		}
		checking, copying := e.Progress(size, "checking", progressbar.OptionShowBytes(true)), (*progressbar.ProgressBar)(nil)
		out, err := backup.Run(cmd.Context(), c, backup.Config{File: args[0], Keys: keys, WithoutKeys: withoutKeys, Now: time.Now,
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
			if cmd.Context().Err() != nil {
				e.Say("%s is not complete: the same command goes on with it", args[0])
			}
			return audit.BackupError("backup", err)
		}
		if out.Sealed && keys == "" {
			e.Say("the content keys are not in it: without them nobody reads it. --keys FILE writes them, into a file of their own")
		}
		if out.KeysKept > 0 {
			e.Say("the ledger has lost %s: %s keeps them", prose.Plural(uint64(out.KeysKept), "content key"), keys)
		}
		if out.KeysMissing > 0 {
			e.Say("%s missing: neither the ledger nor %s has them, and what they seal can't be read", prose.Plural(uint64(out.KeysMissing), "content key"), keys)
		}
		return e.Result(out, "%s: run %d, %s new, through position %d; %s, %s", args[0], out.Run, prose.Plural(out.Records, "record"), out.Totals.Log.Seq,
			prose.Plural(uint64(out.Keys), "content key"), out.Digest)
	})
	c.Flags().StringVar(&keys, "keys", "", "file for the content keys")
	c.Flags().BoolVar(&withoutKeys, "without-keys", false, "back up a sealed ledger without its content keys")
	c.AddCommand(backupVerifyCmd(e))
	// A file may be called as anything but "verify".
	c.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fault.Usage(errors.New("usage: ledgerctl backup FILE --keys KEYS, ledgerctl backup verify FILE"))
		}
		return nil
	}
	return c
}

func backupVerifyCmd(e *env) *cobra.Command {
	var digest string
	c := verb("verify FILE", "check a backup: no daemon, no keys", 1, 1, func(cmd *cobra.Command, args []string) error {
		f, err := os.Open(args[0])
		if err != nil {
			return fault.Usage(err)
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil {
			return err
		}
		bar := e.Progress(st.Size(), "checking", progressbar.OptionShowBytes(true))
		report, err := backup.Verify(cmd.Context(), f, st.Size(), func(n int) { _ = bar.Add(n) })
		_ = bar.Finish()
		if err != nil {
			return audit.BackupError("backup", fmt.Errorf("%s: %w", args[0], err))
		}
		if want, err := turns.ParseHash(digest); digest != "" && err != nil {
			return fault.Usage(fmt.Errorf("--digest: %w", err))
		} else if digest != "" && report.State == backup.Complete && report.Digest != want {
			report.State, report.Problem = backup.Damaged, "its digest is "+report.Digest.String()+", not "+digest
		}
		if e.JSON {
			err = e.Print(audit.BackupReport{File: args[0], Report: report})
		} else {
			audit.PrintBackup(e.Terminal, args[0], &report)
		}
		if err == nil && report.Err() != nil {
			err = audit.BackupError("backup", report.Err())
		}
		return err
	})
	c.Flags().StringVar(&digest, "digest", "", "the digest that the backup printed")
	return c
}

func restoreCmd(e *env) *cobra.Command {
	var c mend.RestoreConfig
	cmd := verb("restore FILE --data DIR", "create a data folder from a backup", 1, 1, func(cmd *cobra.Command, args []string) error {
		if c.Data == "" {
			return fault.Usage(errors.New("--data DIR is missing: the folder to make"))
		}
		size := int64(-1)
		if st, err := os.Stat(args[0]); err == nil {
			size = st.Size()
		}
		bar := e.Progress(size, "restoring", progressbar.OptionShowBytes(true))
		c.File, c.Logger = args[0], slog.New(slog.NewTextHandler(e.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
		c.Progress = func(n int) { _ = bar.Add(n) }
		out, err := mend.Restore(cmd.Context(), c)
		_ = bar.Finish()
		if err != nil {
			return audit.BackupError("restore", err)
		}
		if e.JSON {
			return e.Print(out)
		}
		_, err = fmt.Fprint(e.Out, out.Text())
		return err
	})
	cmd.Flags().StringVar(&c.Keys, "keys", "", "the content keys")
	cmd.Flags().StringVar(&c.Data, "data", "", "folder to create")
	cmd.Flags().BoolVar(&c.AcceptIncomplete, "accept-incomplete", false, "restore the sound records of an incomplete or damaged file")
	cmd.Flags().BoolVar(&c.AcceptMissingKeys, "accept-missing-keys", false, "restore without content keys that the file of the keys lacks")
	return cmd
}
