package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/fault"
	"nexus/cmd/ledgerctl/names"
	"nexus/cmd/ledgerctl/prose"
	"nexus/ledger/api"
	"nexus/turns"
)

func appendCmd(e *env) *cobra.Command {
	var user, assistant, policy string
	c := verb("append SESSION", "add a turn", 1, 1, func(cmd *cobra.Command, args []string) error {
		var r api.AppendTurn
		var opened api.CreateSession
		if policy != "" {
			if args[0] != "new" {
				return fault.Usage(errors.New("--policy is for append new; sessions set SESSION --policy changes a session"))
			}
			var err error
			if opened.Policy, err = names.Policy(policy); err != nil {
				return err
			}
		}
		if user == "" && assistant == "" {
			b, err := io.ReadAll(e.In)
			if err != nil {
				return err
			}
			if err := turns.DecodeJSON(b, &r); err != nil {
				return err
			}
		}
		if user != "" {
			r.Messages = []turns.Message{turns.TextMessage(turns.User, user)}
		}
		if assistant != "" {
			m := turns.TextMessage(turns.Assistant, assistant)
			r.Response = &m
		}
		var c *api.Client
		var s *api.Session
		var err error
		if args[0] == "new" {
			if c, err = e.Client("main"); err != nil {
				return err
			}
			s, err = c.Create(cmd.Context(), opened)
		} else {
			c, s, err = e.Session(cmd.Context(), args[0])
		}
		if err != nil {
			return err
		}
		a, err := c.Append(cmd.Context(), s.ID, r)
		if err != nil {
			return err
		}
		if e.JSON {
			return e.Print(a)
		}
		if r.Response == nil && len(r.Messages) > 0 && e.ErrIsTerminal {
			e.Say("the turn waits for its answer: ledgerctl append %s --assistant TEXT", prose.Short(a.Session))
		}
		e.Tell("turn %s at depth %d of session %s, %s of %s tokens", a.ID, a.Depth, a.Session, prose.Grouped(a.Context.Tokens), prose.Grouped(a.Context.Budget))
		return nil
	})
	c.Flags().StringVar(&user, "user", "", "the user's text")
	c.Flags().StringVar(&assistant, "assistant", "", "the assistant's text")
	c.Flags().StringVar(&policy, "policy", "", "the compaction policy of the new session")
	return c
}
