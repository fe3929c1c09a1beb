package main

import (
	"strings"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/memoryview"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/ledger/api"
)

func memoryCmd(e *env) *cobra.Command {
	c := verb("memory", "what an agent remembers: save, list, search, document, withdraw, promote", 0, 0, func(cmd *cobra.Command, _ []string) error { return cmd.Help() })
	c.AddCommand(memorySaveCmd(e), memoryListCmd(e), memorySearchCmd(e), memoryDocumentCmd(e), memoryWithdrawCmd(e), memoryPromoteCmd(e))
	return c
}

// memorySaveCmd is the command memory save.
func memorySaveCmd(e *env) *cobra.Command {
	var r memoryview.Saving
	c := verb("save TEXT|-", "remember something", 1, 1, func(cmd *cobra.Command, args []string) error {
		r.Text = args[0]
		return memoryview.Save(cmd.Context(), e.Env, r)
	})
	f := c.Flags()
	f.StringVar(&r.Kind, "kind", "semantic", "daily, long_term, episodic or semantic")
	f.StringVar(&r.Origin, "session", "", "the session that it comes from")
	f.StringArrayVar(&r.Turns, "source", nil, "a turn that it comes from")
	f.StringVar(&r.Replaces, "supersedes", "", "the memory that it replaces")
	f.StringVar(&r.Trust, "trust", "person", "who states it: person, agent or tool")
	f.StringVar(&r.State, "state", "", "proposed or accepted")
	f.StringVar(&r.Visibility, "visibility", "", "main, all or branch")
	return c
}

// memoryListCmd is the command memory list.
func memoryListCmd(e *env) *cobra.Command {
	var r memoryview.Listing
	c := verb("list", "the memories, newest first", 0, 0, func(cmd *cobra.Command, _ []string) error {
		return memoryview.List(cmd.Context(), e.Env, r)
	})
	f := c.Flags()
	f.StringVar(&r.Kind, "kind", "", "of this kind only")
	f.StringVar(&r.State, "state", "", "in this state only")
	f.StringVar(&r.Trust, "trust", "", "stated by: person, agent or tool")
	f.StringVar(&r.As, "session", "", "as this session sees them")
	f.StringVar(&r.From, "since", "", "from a time on: "+names.DayHelp)
	f.BoolVar(&r.Hidden, "hidden", false, "those of hidden sessions too")
	f.IntVarP(&r.Most, "limit", "n", 100, "at most N; 0: all")
	return c
}

// memorySearchCmd is the command memory search.
func memorySearchCmd(e *env) *cobra.Command {
	var r api.SearchMemories
	var session string
	var halfLife uint64
	c := verb("search TEXT", "the memories in force that have words of a text", 1, -1, func(cmd *cobra.Command, args []string) error {
		if r.Text = strings.Join(args, " "); cmd.Flags().Changed("half-life") {
			r.HalfLife = &halfLife
		}
		return memoryview.Search(cmd.Context(), e.Env, r, session)
	})
	f := c.Flags()
	f.StringVar(&r.Kind, "kind", "", "of this kind only")
	f.StringVar(&r.Trust, "trust", "", "stated by: person, agent or tool")
	f.StringVar(&session, "session", "", "as this session sees them")
	f.BoolVar(&r.Hidden, "hidden", false, "those of hidden sessions too")
	f.IntVarP(&r.Limit, "limit", "n", 10, "at most so many")
	f.Uint64Var(&halfLife, "half-life", 30, "days after which a memory counts half; 0: never")
	return c
}

// memoryDocumentCmd is the command memory document.
func memoryDocumentCmd(e *env) *cobra.Command {
	var replace, version string
	c := verb("document", "the agent's document, MEMORY.md", 0, 0, func(cmd *cobra.Command, _ []string) error {
		if !cmd.Flags().Changed("replace") {
			return memoryview.Document(cmd.Context(), e.Env, version)
		}
		return memoryview.ReplaceDocument(cmd.Context(), e.Env, replace, version)
	})
	c.Flags().StringVar(&replace, "replace", "", "replace it with this file")
	c.Flags().StringVar(&version, "if", "", "the version or digest that it replaces")
	return c
}

// memoryWithdrawCmd is the command memory withdraw.
func memoryWithdrawCmd(e *env) *cobra.Command {
	var reason string
	c := verb("withdraw MEMORY", "take a memory out of later contexts", 1, 1, func(cmd *cobra.Command, args []string) error {
		return memoryview.Withdraw(cmd.Context(), e.Env, args[0], reason)
	})
	c.Flags().StringVar(&reason, "reason", "", "why")
	return c
}

// memoryPromoteCmd is the command memory promote.
func memoryPromoteCmd(e *env) *cobra.Command {
	var visibility string
	c := verb("promote MEMORY", "accept a memory, and show it on all branches", 1, 1, func(cmd *cobra.Command, args []string) error {
		return memoryview.Promote(cmd.Context(), e.Env, args[0], visibility)
	})
	c.Flags().StringVar(&visibility, "visibility", "", "main or all")
	return c
}
