package main

import (
	"strings"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/searchview"
	"nexus/ledger/api"
)

// searchCmd is the command search.
func searchCmd(e *env) *cobra.Command {
	var r api.Search
	var session, since, until string
	c := verb("search TEXT", "find turns, memories and events by words", 1, -1, func(cmd *cobra.Command, args []string) error {
		c, err := e.Client(api.Operator)
		if err != nil {
			return err
		}
		if r.Session, err = e.SessionFlag(cmd.Context(), &c, session); err != nil {
			return err
		}
		if r.From, err = names.Day("since", since); err != nil {
			return err
		}
		if r.To, err = names.Until("until", until); err != nil {
			return err
		}
		if r.Cwd, err = names.Folder(r.Cwd); err != nil {
			return err
		}
		r.Text, r.Project = strings.Join(args, " "), names.Project(r.Project)
		e.SayTimes(r.From, r.To)
		hits, more, err := searchview.Find(cmd.Context(), e.Terminal, c.Search, r, false)
		if err != nil {
			return err
		}
		if more {
			defer e.Say("there are more; name more words, or raise --limit")
		}
		if e.JSON {
			return searchview.PrintJSON(e.Terminal, hits)
		}
		if len(hits) == 0 {
			if !more {
				e.Say("nothing found%s", searched(&r))
			}
			return nil
		}
		if err := searchview.Print(e.Terminal, hits); err != nil {
			return err
		}
		searchview.SayNext(e.Terminal, hits)
		return nil
	})
	f := c.Flags()
	f.StringVar(&session, "session", "", "in this session, and what it inherits")
	f.BoolVar(&r.BranchOnly, "branch-only", false, "only the path of the session's head")
	f.StringVar(&since, "since", "", "from a time on: "+names.DayHelp)
	f.StringVar(&until, "until", "", names.UntilHelp)
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
	f.StringVar(&r.AsOf, "as-of", "", "a position: only what was stored then")
	f.StringSliceVar(&r.Kinds, "kind", nil, "turn, memory or event")
	f.IntVarP(&r.Limit, "limit", "n", 20, "at most N; 0: all")
	return c
}

// searched says where a search looked, where a flag may mean something else than it seems.
func searched(r *api.Search) string {
	note := names.SourceNote(r.Source)
	if r.Cwd == "" {
		return note
	}
	return " in " + prose.Printable(r.Cwd) + note
}
