package main

import (
	"strings"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/searchview"
	"nexus/turns"
)

// searchCmd is the command search.
func searchCmd(e *env) *cobra.Command {
	var r searchview.Asking
	c := verb("search TEXT [SESSION]", "find turns, memories and events by words", 1, -1, func(cmd *cobra.Command, args []string) error {
		if last := len(args) - 1; last > 0 && r.In == "" { // as grep has it: the words, then where
			if _, err := turns.ParseID(args[last]); err == nil {
				r.In, args = args[last], args[:last]
			}
		}
		r.Text = strings.Join(args, " ")
		return searchview.Run(cmd.Context(), e.Env, r)
	})
	f := c.Flags()
	f.StringVar(&r.In, "session", "", "in this session, and what it inherits")
	f.BoolVar(&r.BranchOnly, "branch-only", false, "only the path of the session's head")
	f.StringVar(&r.Since, "since", "", "from a time on: "+names.DayHelp)
	f.StringVar(&r.Until, "until", "", names.UntilHelp)
	f.StringVar(&r.Cwd, "cwd", "", "turns in this folder or below; one without a / before it is below the current folder")
	f.StringVar(&r.Branch, "branch", "", "turns on this branch of git")
	f.StringVar(&r.Project, "project", "", "turns of sessions of this repository: its name, or a folder of it")
	f.BoolVar(&r.Hidden, "hidden", false, "turns of hidden sessions too")
	f.StringVar(&r.Source, "source", "", "turns of this program, such as claude-code or codex")
	f.StringVar(&r.Model, "model", "", "turns of this model")
	f.StringVar(&r.Tool, "tool", "", "turns that call this tool")
	f.StringVar(&r.Role, "role", "", "what user, assistant, tool or system says")
	f.BoolVar(&r.Covered, "covered", false, "only what the model no longer sees, or sees shortened")
	f.BoolVar(&r.ShowSecrets, "show-secrets", false, "show credentials of known shapes")
	f.StringVar((*string)(&r.AsOf), "as-of", "", "a position: only what was stored then")
	f.StringSliceVar(&r.Kinds, "kind", nil, "turn, memory or event")
	f.IntVarP(&r.Limit, "limit", "n", 20, "at most N; 0: all")
	return c
}
