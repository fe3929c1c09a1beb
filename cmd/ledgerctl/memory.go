package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/memoryview"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

func memoryCmd(e *env) *cobra.Command {
	c := verb("memory", "what an agent remembers: save, list, search, document, withdraw, promote", 0, 0, func(cmd *cobra.Command, _ []string) error { return cmd.Help() })
	c.AddCommand(memorySaveCmd(e), memoryListCmd(e), memorySearchCmd(e), memoryDocumentCmd(e), memoryWithdrawCmd(e), memoryPromoteCmd(e))
	return c
}

// memorySaveCmd is the command memory save.
func memorySaveCmd(e *env) *cobra.Command {
	var r api.SaveMemory
	var session, supersedes string
	var sources []string
	c := verb("save TEXT|-", "remember something", 1, 1, func(cmd *cobra.Command, args []string) (err error) {
		if r.Text = args[0]; args[0] == "-" {
			b, err := e.ReadFile("-")
			if err != nil {
				return err
			}
			r.Text = string(b)
		}
		c, err := e.Client("main")
		if err != nil {
			return err
		}
		if r.Session, err = e.SessionFlag(cmd.Context(), &c, session); err != nil {
			return err
		}
		for _, name := range sources {
			if session != "" { // a number is a turn of it
				pair, err := e.Pair(cmd.Context(), session, name)
				if err != nil {
					return err
				}
				name = pair[1]
			}
			p, err := e.Turn(cmd.Context(), name)
			if err != nil {
				return err
			}
			c = p.Client
			r.Sources = append(r.Sources, api.TurnName{Session: p.Session.ID, Turn: p.Turn})
		}
		if supersedes != "" {
			if _, r.Supersedes, err = e.memory(cmd.Context(), c, supersedes); err != nil {
				return err
			}
		}
		m, err := c.SaveMemory(cmd.Context(), r)
		if err != nil {
			return err
		}
		if m.Known {
			e.Say("the agent knew it: %s is said %s now", prose.Short(m.ID), prose.Plural(m.Repeated+1, "time"))
		}
		return e.Result(m, "%s %s, %s, seen by %s", terminal.Whole(m.ID), m.Kind, m.State, memoryview.SeenBy(m))
	})
	f := c.Flags()
	f.StringVar(&r.Kind, "kind", "semantic", "daily, long_term, episodic or semantic")
	f.StringVar(&session, "session", "", "the session that it comes from")
	f.StringArrayVar(&sources, "source", nil, "a turn that it comes from")
	f.StringVar(&supersedes, "supersedes", "", "the memory that it replaces")
	f.StringVar(&r.Trust, "trust", "person", "who states it: person, agent or tool")
	f.StringVar(&r.State, "state", "", "proposed or accepted")
	f.StringVar(&r.Visibility, "visibility", "", "main, all or branch")
	return c
}

// memoryListCmd is the command memory list.
func memoryListCmd(e *env) *cobra.Command {
	var r api.ListMemories
	var session, since string
	var most int
	c := verb("list", "the memories, newest first", 0, 0, func(cmd *cobra.Command, _ []string) error {
		c, err := e.Client(api.Operator)
		if err != nil {
			return err
		}
		if r.Session, err = e.SessionFlag(cmd.Context(), &c, session); err != nil {
			return err
		}
		if r.Since, err = names.Day("since", since); err != nil {
			return err
		}
		e.SayTimes(r.Since, nil)
		if most < 0 {
			return fault.Usage(errors.New("--limit is below 0"))
		}
		var list []api.Memory
		for m, err := range c.Memories(cmd.Context(), r) {
			if err != nil {
				return err
			}
			if list = append(list, m); most > 0 && len(list) > most {
				e.Say("there are more; raise --limit, or name what to list")
				list = list[:most]
				break
			}
			if e.JSON {
				if err := e.Print(m); err != nil {
					return err
				}
			}
		}
		if e.JSON {
			return nil
		}
		if len(list) == 0 {
			e.Say("no memory; ledgerctl memory save TEXT stores one")
			return nil
		}
		return memoryview.Print(e.Terminal, list)
	})
	f := c.Flags()
	f.StringVar(&r.Kind, "kind", "", "of this kind only")
	f.StringVar(&r.State, "state", "", "in this state only")
	f.StringVar(&r.Trust, "trust", "", "stated by: person, agent or tool")
	f.StringVar(&session, "session", "", "as this session sees them")
	f.StringVar(&since, "since", "", "from a time on: "+names.DayHelp)
	f.BoolVar(&r.Hidden, "hidden", false, "those of hidden sessions too")
	f.IntVarP(&most, "limit", "n", 100, "at most N; 0: all")
	return c
}

// memorySearchCmd is the command memory search.
func memorySearchCmd(e *env) *cobra.Command {
	var r api.SearchMemories
	var session string
	var halfLife uint64
	c := verb("search TEXT", "the memories in force that have words of a text", 1, -1, func(cmd *cobra.Command, args []string) error {
		c, err := e.Client("main")
		if err != nil {
			return err
		}
		if r.Session, err = e.SessionFlag(cmd.Context(), &c, session); err != nil {
			return err
		}
		if r.Text = strings.Join(args, " "); cmd.Flags().Changed("half-life") {
			r.HalfLife = &halfLife
		}
		got, err := c.SearchMemories(cmd.Context(), r)
		if err != nil {
			return err
		}
		var list []api.Memory
		for _, h := range got.Hits {
			if list = append(list, h.Memory); e.JSON {
				if err := e.Print(h); err != nil {
					return err
				}
			}
		}
		if got.Cut {
			e.Say("older memories were not searched")
		}
		if e.JSON || len(list) == 0 {
			switch {
			case len(list) > 0:
			case e.Agent == "" && session == "":
				e.Say("nothing found: agent main has no memory in force with such words; --agent names another agent")
			default:
				e.Say("nothing found")
			}
			return nil
		}
		return memoryview.Print(e.Terminal, list)
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
		c, err := e.Client("main")
		if err != nil {
			return err
		}
		if !cmd.Flags().Changed("replace") {
			if version != "" {
				return fault.Usage(errors.New("--if goes with --replace FILE"))
			}
			d, err := c.Document(cmd.Context(), api.MemoryDocument{})
			if err != nil {
				return err
			}
			if e.JSON {
				return e.Print(d)
			}
			if d.Version == 0 {
				e.Say("agent %s has no document; memory document --replace FILE --if 0 stores the first", d.Agent)
				return nil
			}
			e.Say("version %d of the document of agent %s", d.Version, d.Agent)
			_, err = io.WriteString(e.Out, strings.TrimSuffix(prose.Printable(d.Text), "\n")+"\n")
			return err
		}
		if version == "" {
			return fault.Usage(errors.New("--replace needs --if VERSION, the version that you read; 0 if there is none"))
		}
		b, err := e.ReadFile(replace)
		if err != nil {
			return err
		}
		text, err := memoryview.Edited(replace, b)
		if err != nil {
			return err
		}
		d, err := c.ReplaceDocument(cmd.Context(), api.MemoryDocument{Text: &text, If: version})
		if fault.HasCode(err, api.Conflict) {
			return fault.WithHint(err, "ledgerctl memory document prints it and its version: take your change over to it, and replace that version")
		}
		if err != nil {
			return err
		}
		return e.Result(d, "version %d of the document of agent %s", d.Version, d.Agent)
	})
	c.Flags().StringVar(&replace, "replace", "", "replace it with this file")
	c.Flags().StringVar(&version, "if", "", "the version or digest that it replaces")
	return c
}

// memoryWithdrawCmd is the command memory withdraw.
func memoryWithdrawCmd(e *env) *cobra.Command {
	var reason string
	c := verb("withdraw MEMORY", "take a memory out of later contexts", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, err := e.Client(api.Operator)
		if err != nil {
			return err
		}
		c, id, err := e.memory(cmd.Context(), c, args[0])
		if err != nil {
			return err
		}
		m, err := c.WithdrawMemory(cmd.Context(), api.WithdrawMemory{Memory: id, Reason: reason})
		if err != nil {
			return err
		}
		if n := len(m.Replaced); n > 0 {
			e.Say("it superseded %s, which %s superseded", memoryview.Shorts(m.Replaced), memoryview.Stays(n))
		}
		if n := len(m.Later); n > 0 {
			e.Say("%s superseded it, and %s in force", memoryview.Shorts(m.Later), memoryview.Stays(n))
		}
		with := "1 memory"
		if n := len(m.Derived); n != 1 {
			with = prose.Grouped(uint64(n)) + " memories"
		}
		return e.Result(m, "%s is withdrawn, and %s with it", terminal.Whole(m.ID), with)
	})
	c.Flags().StringVar(&reason, "reason", "", "why")
	return c
}

// memoryPromoteCmd is the command memory promote.
func memoryPromoteCmd(e *env) *cobra.Command {
	var visibility string
	c := verb("promote MEMORY", "accept a memory, and show it on all branches", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, err := e.Client(api.Operator)
		if err != nil {
			return err
		}
		c, id, err := e.memory(cmd.Context(), c, args[0])
		if err != nil {
			return err
		}
		m, err := c.PromoteMemory(cmd.Context(), api.PromoteMemory{Memory: id, Visibility: visibility})
		if err != nil {
			return err
		}
		return e.Result(m, "%s is %s, and seen by %s", terminal.Whole(m.ID), m.State, memoryview.SeenBy(m))
	})
	c.Flags().StringVar(&visibility, "visibility", "", "main or all")
	return c
}

// memory finds a memory by its id, or by the beginning or end of one, among those that c
// lists. The client that it returns speaks for the agent whose memory it is.
func (e *env) memory(ctx context.Context, c *client.Client, name string) (*client.Client, turns.ID, error) {
	if len(name) < 4 {
		return nil, turns.ID{}, fault.Usage(fmt.Errorf("%q is too short to name a memory; take four characters or more", name))
	}
	id, unparsed := turns.ParseID(strings.ToUpper(name))
	if unparsed == nil && e.Agent != "" {
		return c, id, nil // whose it is is known
	}
	var found []api.Memory
	var lines []string
	for m, err := range c.Memories(ctx, api.ListMemories{Hidden: true}) {
		if err != nil {
			return nil, turns.ID{}, err
		}
		if names.Named(m.ID, name) {
			found, lines = append(found, m), append(lines, m.ID.String())
		}
		if unparsed == nil && len(found) == 1 {
			break // a whole id names no other
		}
	}
	switch len(found) {
	case 0:
		return nil, turns.ID{}, &api.Error{Code: api.NotFound, Message: fmt.Sprintf("no memory is called %q", name)}
	case 1:
		return c.As(found[0].Agent), found[0].ID, nil
	}
	return nil, turns.ID{}, names.Ambiguous("memories", name, lines)
}
