package main

import (
	"time"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/build"
	"nexus/cmd/ledgerctl/internal/audit"
	"nexus/cmd/ledgerctl/internal/erasure"
	"nexus/cmd/ledgerctl/internal/names"
)

func verifyCmd(e *env) *cobra.Command {
	var o audit.Verifying
	cmd := verb("verify [SESSION…]", "check every event, hash, parent and blob", 0, -1, func(cmd *cobra.Command, args []string) error {
		return audit.Verify(cmd.Context(), e.Env, args, o)
	})
	cmd.Flags().StringVar(&o.Report, "report", "", "write a report, as JSON, to a file or to - (stdout)")
	cmd.Flags().StringVar(&o.Checkpoint, "checkpoint", "", "compare the ledger with a checkpoint in a file, the newest there")
	cmd.Flags().StringVar(&o.Key, "key", "", "public key that signed it")
	return cmd
}

func proveCmd(e *env) *cobra.Command {
	var o audit.Proving
	cmd := verb("prove [TURN | SESSION N] [--disclose none|turn|session|part:N|only:N] -o FILE", "a proof that a turn is in the ledger, which anyone can check", 0, 2, func(cmd *cobra.Command, args []string) error {
		if len(args) == 2 {
			name, err := names.Joined(args, "")
			if err != nil {
				return err
			}
			args = []string{name}
		}
		return audit.Prove(cmd.Context(), e.Env, args, o)
	})
	cmd.Flags().StringVar(&o.Disclose, "disclose", "none", "what of the turn is shown: none, turn, part:N, only:N, or session (gives its key away)")
	cmd.Flags().StringVarP(&o.Out, "output", "o", "", "file of the proof; what is shown is in FILE.event")
	cmd.Flags().BoolVar(&o.Key, "key", false, "print the public key of the checkpoints")
	cmd.Flags().BoolVar(&o.Checkpoint, "checkpoint", false, "sign a checkpoint now, and print it")
	return cmd
}

func secretsCmd(e *env) *cobra.Command {
	var redact bool
	var o erasure.Redacting
	cmd := verb("secrets [SESSION…] [--redact]", "where credentials of known shapes are, without showing them", 0, -1, func(cmd *cobra.Command, args []string) error {
		return erasure.Secrets(cmd.Context(), e.Env, args, redact, o)
	})
	f := cmd.Flags()
	f.BoolVar(&redact, "redact", false, "take them out for ever, as redact does")
	f.StringVar(&o.Ground, "ground", "", "with --redact: a code for the record; it stays")
	f.BoolVar(&o.DryRun, "dry-run", false, "with --redact: report what would be done; change nothing")
	f.BoolVar(&o.Yes, "yes", false, "with --redact: do not ask on a terminal")
	f.DurationVar(&o.Wait, "wait", 30*time.Second, "with --redact: how long to wait for what is done in the background")
	return cmd
}

func versionCmd(e *env) *cobra.Command {
	return verb("version", "the version", 0, 0, func(*cobra.Command, []string) error {
		return e.Result(map[string]string{"version": build.Version()}, "ledgerctl %s", build.Version())
	})
}
