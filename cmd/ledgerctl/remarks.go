package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// hideSessionCmd is session hide, and session unhide with hidden unset.
func hideSessionCmd(e *env, hidden bool) *cobra.Command {
	use, short, done := "unhide SESSION…", "show sessions in lists again", "shown again"
	if hidden {
		use, short, done = "hide SESSION…", "leave sessions out of lists, search and cost", "hidden"
	}
	var cause string
	var dry, alone bool
	c := verb(use, short, 1, -1, func(cmd *cobra.Command, args []string) error {
		type chosen struct {
			c *client.Client
			s *api.Session
		}
		var list []chosen
		for _, name := range args { // before anything is changed
			c, s, err := e.Session(cmd.Context(), name)
			if err != nil {
				return err
			}
			list = append(list, chosen{c, s})
			if alone {
				continue
			}
			parts, err := subAgents(cmd.Context(), c, s.ID)
			if err != nil {
				return err
			}
			for i := range parts {
				list = append(list, chosen{c, &parts[i]})
			}
		}
		if dry {
			for _, x := range list {
				if err := e.Result(x.s, "session %s would be %s", x.s.ID, done); err != nil {
					return err
				}
			}
			return nil
		}
		for _, x := range list {
			s, err := setHidden(cmd.Context(), x.c, x.s.ID, hidden, cause)
			if err != nil {
				return err
			}
			if err := e.Result(s, "session %s is %s", s.ID, done); err != nil {
				return err
			}
		}
		if hidden {
			e.Say("nothing is deleted; ledgerctl session unhide %s shows it again, sessions --hidden lists it", prose.Short(list[0].s.ID))
		}
		return nil
	})
	c.Flags().StringVar(&cause, "cause", "", "why, for the record")
	c.Flags().BoolVar(&dry, "dry-run", false, "report what would be done; change nothing")
	c.Flags().BoolVar(&alone, "without-sub-agents", false, "leave the sub-agents that it started as they are")
	return c
}

func setHidden(ctx context.Context, c *client.Client, id turns.ID, hidden bool, cause string) (*api.Session, error) {
	if hidden {
		return c.Hide(ctx, id, api.HideSession{Cause: cause})
	}
	return c.Unhide(ctx, id, api.HideSession{Cause: cause})
}

// subAgents returns the sessions that a session started, and those that they started.
func subAgents(ctx context.Context, c *client.Client, id turns.ID) ([]api.Session, error) {
	return descendants(ctx, c, []turns.ID{id}, spawner)
}

// spawner is the session that started s.
func spawner(s *api.Session) (id turns.ID) {
	if s.SpawnedBy != nil {
		id = s.SpawnedBy.Session
	}
	return id
}

// descendants returns the sessions that come from some, and those that come from them; each of from says whom one comes from.
func descendants(ctx context.Context, c *client.Client, of []turns.ID, from ...func(*api.Session) turns.ID) (out []api.Session, err error) {
	children := make(map[turns.ID][]api.Session)
	for s, err := range c.ListSessions(ctx, api.ListSessions{Hidden: true, Superseded: true}) {
		if err != nil {
			return nil, err
		}
		for _, f := range from {
			if id := f(&s); !id.IsZero() {
				children[id] = append(children[id], s)
			}
		}
	}
	seen := make(map[turns.ID]bool)
	for _, id := range of {
		seen[id] = true
	}
	for next := slices.Clone(of); len(next) > 0; next = next[1:] {
		for _, s := range children[next[0]] {
			if !seen[s.ID] {
				seen[s.ID], out, next = true, append(out, s), append(next, s.ID)
			}
		}
	}
	return out, nil
}

func titleSessionCmd(e *env) *cobra.Command {
	var none bool
	c := verb("title SESSION [TITLE]", "give it a title of your own; without TITLE: print it", 1, -1, func(cmd *cobra.Command, args []string) error {
		c, s, err := e.Session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		title := strings.Join(args[1:], " ")
		switch {
		case none && title != "":
			return fault.Usage(errors.New("--none takes the title away; leave TITLE out"))
		case !none && title == "":
			full, err := c.GetSession(cmd.Context(), s.ID, api.GetSession{About: api.About{About: true}})
			if err != nil {
				return err
			}
			return e.Result(full, "%s", prose.Clip(full.Title, 1000))
		}
		if s, err = c.Describe(cmd.Context(), s.ID, api.DescribeSession{Title: &title}); err != nil {
			return err
		}
		if none {
			return e.Result(s, "session %s has no title of yours", s.ID)
		}
		return e.Result(s, "session %s: %s", s.ID, prose.Clip(s.Title, 1000))
	})
	c.Flags().BoolVar(&none, "none", false, "take the title away: the session's own shows again")
	return c
}

func tagSessionCmd(e *env) *cobra.Command {
	var remove []string
	var project string
	c := verb("tag SESSION [TAG…]", "give it tags; without TAG: print them", 1, -1, func(cmd *cobra.Command, args []string) error {
		c, s, err := e.Session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if len(args) > 1 || len(remove) > 0 || cmd.Flags().Changed("project") {
			r := api.DescribeSession{Tag: args[1:], Untag: remove}
			if cmd.Flags().Changed("project") {
				r.Project = &project
			}
			if s, err = c.Describe(cmd.Context(), s.ID, r); err != nil {
				return err
			}
		} else if len(s.Tags) == 0 && !e.JSON {
			e.Say("session %s has no tags", s.ID)
			return nil
		}
		if e.JSON {
			return e.Print(s)
		}
		for _, tag := range s.Tags {
			if _, err := fmt.Fprintln(e.Out, prose.Printable(tag)); err != nil {
				return err
			}
		}
		return nil
	})
	c.Flags().StringArrayVar(&remove, "remove", nil, "take a tag away; may be repeated")
	c.Flags().StringVar(&project, "project", "", "the project that it belongs to; \"\": that of its folder")
	return c
}

func noteTurnCmd(e *env) *cobra.Command {
	var none bool
	c := verb("note TURN [TEXT]", "put a note on a turn; without TEXT: print it", 1, -1, func(cmd *cobra.Command, args []string) error {
		p, err := e.Find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if p.Turn.IsZero() {
			if p.Session.Head == nil {
				return fault.Usage(fmt.Errorf("session %s has no turn yet", p.Session.ID))
			}
			p.Turn = *p.Session.Head
		}
		text := strings.Join(args[1:], " ")
		if text == "-" {
			b, err := io.ReadAll(io.LimitReader(e.In, 1<<20))
			if err != nil {
				return err
			}
			text = strings.TrimRight(string(b), "\n")
		}
		switch {
		case none && text != "":
			return fault.Usage(errors.New("--none takes the note away; leave TEXT out"))
		case !none && text == "":
			t, err := p.Client.Turn(cmd.Context(), p.Session.ID, p.Turn)
			if err != nil {
				return err
			}
			if t.Note == nil {
				e.Say("there is no note on turn %s", p.Turn)
				return nil
			}
			return e.Result(t.Note, "%s", prose.Printable(t.Note.Text))
		}
		t, err := p.Client.Note(cmd.Context(), p.Session.ID, api.NoteTurn{Turn: p.Turn, Text: text})
		if err != nil {
			return err
		}
		if none {
			return e.Result(t, "turn %s has no note", t.ID)
		}
		return e.Result(t, "noted on turn %s", t.ID)
	})
	c.Flags().BoolVar(&none, "none", false, "take the note away")
	return c
}
