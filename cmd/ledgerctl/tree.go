package main

import (
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/sessions"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

func treeCmd(e *env) *cobra.Command {
	var svg bool
	var file string
	v := e.sessionVerb("tree SESSION", "a drawing of forks and compactions", func(cmd *cobra.Command, c *client.Client, s *api.Session) error {
		return sessions.Tree(cmd.Context(), e.Env, c, s, svg, file)
	})
	v.Flags().BoolVar(&svg, "svg", false, "print a picture, as SVG")
	v.Flags().StringVarP(&file, "output", "o", "", "file to write")
	return v
}
