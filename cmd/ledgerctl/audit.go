package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/build"
	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/audit"
	"nexus/cmd/ledgerctl/internal/erasure"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
)

func verifyCmd(e *env) *cobra.Command {
	var file, checkpoint, key string
	cmd := verb("verify [SESSION…]", "check every event, hash, parent and blob", 0, -1, func(cmd *cobra.Command, args []string) error {
		c, err := e.Client(api.Operator)
		if err != nil {
			return err
		}
		ids, err := e.SessionIDs(cmd.Context(), args)
		if err != nil {
			return err
		}
		var note []byte
		if checkpoint != "" || key != "" {
			if checkpoint == "" || key == "" || len(args) > 0 {
				return fault.Usage(errors.New("--checkpoint and --key go together, and compare the whole ledger: name no sessions"))
			}
			var skipped error
			if note, _, skipped, err = readCheckpoint(checkpoint, key); err != nil {
				return err
			}
			if skipped != nil {
				e.Tell("%s has a note that is torn, or of another key, and was skipped: %v", checkpoint, skipped)
			}
		}
		began := time.Now()
		var v *api.Verified
		switch {
		case note != nil:
			v, err = c.VerifyCheckpoint(cmd.Context(), string(note))
		case len(ids) > 0:
			v, err = audit.VerifySessions(cmd.Context(), e.Terminal, c, ids)
		default:
			v, err = c.Verify(cmd.Context())
		}
		if err != nil {
			return err
		}
		if file != "" {
			if err := audit.WriteReport(e.Terminal, file, audit.New(cmd.Context(), c, ids, began, v)); err != nil {
				return err
			}
		}
		if file == "-" {
			err = nil // it is what stdout has
		} else if e.JSON {
			err = e.Print(v)
		} else {
			audit.Print(e.Terminal, v)
		}
		if err == nil && !v.OK {
			err = api.Errorf(api.Corrupt, nil, "%s", prose.Plural(max(v.Count, uint64(len(v.Problems))), "problem"))
		}
		return err
	})
	cmd.Flags().StringVar(&file, "report", "", "write a report, as JSON, to a file or to - (stdout)")
	cmd.Flags().StringVar(&checkpoint, "checkpoint", "", "compare the ledger with a checkpoint in a file, the newest there")
	cmd.Flags().StringVar(&key, "key", "", "public key that signed it")
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
