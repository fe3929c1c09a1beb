package main

import (
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/audit"
)

func proveCmd(e *env) *cobra.Command {
	var o audit.Proving
	cmd := verb("prove [TURN] [--disclose none|turn|session|part:N] -o FILE", "a proof that a turn is in the ledger, which anyone can check", 0, 1, func(cmd *cobra.Command, args []string) error {
		return audit.Prove(cmd.Context(), e.Env, args, o)
	})
	cmd.Flags().StringVar(&o.Disclose, "disclose", "none", "what of the turn is shown: none, turn, part:N, or session (gives its key away)")
	cmd.Flags().StringVarP(&o.Out, "output", "o", "", "file of the proof; what is shown is in FILE.event")
	cmd.Flags().BoolVar(&o.Key, "key", false, "print the public key of the checkpoints")
	cmd.Flags().BoolVar(&o.Checkpoint, "checkpoint", false, "sign a checkpoint now, and print it")
	return cmd
}
