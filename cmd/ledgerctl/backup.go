package main

import (
	"errors"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/daemon/mend"
	"nexus/cmd/ledgerctl/internal/backups"
	"nexus/cmd/ledgerctl/internal/fault"
)

func backupCmd(e *env) *cobra.Command {
	var o backups.Options
	c := verb("backup FILE", "back up everything to one file", 1, 1, func(cmd *cobra.Command, args []string) error {
		return backups.Make(cmd.Context(), e.Env, args[0], o)
	})
	c.Flags().StringVar(&o.Keys, "keys", "", "file for the content keys")
	c.Flags().BoolVar(&o.WithoutKeys, "without-keys", false, "back up a sealed ledger without its content keys")
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
		return backups.Verify(cmd.Context(), e.Env, args[0], digest)
	})
	c.Flags().StringVar(&digest, "digest", "", "the digest that the backup printed")
	return c
}

func restoreCmd(e *env) *cobra.Command {
	var c mend.RestoreConfig
	cmd := verb("restore FILE DIR", "create a data folder from a backup", 1, 2, func(cmd *cobra.Command, args []string) error {
		if len(args) == 2 {
			if c.Data != "" {
				return fault.Usage(errors.New("DIR and --data both name the folder to make"))
			}
			c.Data = args[1]
		}
		return backups.Restore(cmd.Context(), e.Env, args[0], c)
	})
	cmd.Flags().StringVar(&c.Keys, "keys", "", "the content keys")
	cmd.Flags().StringVar(&c.Data, "data", "", "folder to create")
	cmd.Flags().BoolVar(&c.AcceptIncomplete, "accept-incomplete", false, "restore the sound records of an incomplete or damaged file")
	cmd.Flags().BoolVar(&c.AcceptMissingKeys, "accept-missing-keys", false, "restore without content keys that the file of the keys lacks")
	return cmd
}
