package main

import (
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/policies"
)

func policyCmd(e *env) *cobra.Command {
	list := verb("list", "the compaction policies", 0, 0, func(cmd *cobra.Command, _ []string) error {
		return policies.List(cmd.Context(), e.Env)
	})
	c := verb("policy", "the compaction policies: list, show, put one of your own", 0, 0, list.RunE)
	c.Aliases = []string{"policies"}
	c.AddCommand(list, policyShowCmd(e), policyPutCmd(e))
	return c
}

// policyShowCmd is the command policy show.
func policyShowCmd(e *env) *cobra.Command {
	var n uint64
	c := verb("show POLICY|DIGEST", "a policy with its settings", 1, 1, func(cmd *cobra.Command, args []string) error {
		var version *uint64
		if cmd.Flags().Changed("version") {
			version = &n
		}
		return policies.Show(cmd.Context(), e.Env, args[0], version)
	})
	c.Flags().Uint64Var(&n, "version", 0, "an older version of a name")
	return c
}

// policyPutCmd is the command policy put.
func policyPutCmd(e *env) *cobra.Command {
	var name string
	c := verb("put FILE", "the next version of a policy of your own", 1, 1, func(cmd *cobra.Command, args []string) error {
		return policies.Put(cmd.Context(), e.Env, args[0], name)
	})
	c.Flags().StringVar(&name, "name", "", "name of the policy (else: that of the file)")
	return c
}
