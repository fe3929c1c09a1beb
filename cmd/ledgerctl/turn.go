package main

import "github.com/spf13/cobra"

// turnCmd is the group of what is done with turns. Each of them is a verb of its own, too.
func turnCmd(e *env) *cobra.Command {
	c := verb("turn", "turns: list, show, append, path, expand, note", 0, 0, func(cmd *cobra.Command, _ []string) error { return cmd.Help() })
	list := e.Paged(logCmd(e))
	list.Use = "list SESSION|TURN"
	list.Aliases = []string{"log"}
	c.AddCommand(list, showCmd(e), appendCmd(e), pathCmd(e), expandCmd(e), noteTurnCmd(e))
	return c
}
