package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nexus/ledger/api"
	"nexus/turns"
)

func sessionsCmd(e *env) *cobra.Command {
	return verb("sessions", "the sessions, oldest first", "ledgerctl sessions", 0, 0, func(cmd *cobra.Command, _ []string) error {
		c, err := e.client(api.Operator)
		if err != nil {
			return err
		}
		if !e.json {
			fmt.Fprintf(e.out, "%-26s  %-10s %-7s %6s %5s %8s %5s  %s\n", "session", "agent", "state", "turns", "comp", "tokens", "full", "label")
		}
		for s, err := range c.Sessions(cmd.Context()) {
			if err != nil {
				return err
			}
			if e.json {
				if err := e.print(s); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintf(e.out, "%s  %-10s %-7s %6d %5d %8d %4.0f%%  %s\n", s.ID, s.Agent, s.State, s.Turns, s.Compactions, s.Tokens, 100*s.Pressure, s.Label)
		}
		return nil
	})
}

func appendCmd(e *env) *cobra.Command {
	var user, assistant string
	c := verb("append SESSION", "append a turn: texts by flag, or a turn.append request as JSON on stdin; SESSION new creates one",
		`ledgerctl append new --user "hello" --assistant "hi"`, 1, 1, func(cmd *cobra.Command, args []string) error {
			var r api.AppendTurn
			if user == "" && assistant == "" {
				b, err := io.ReadAll(e.in)
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
				if c, err = e.client("main"); err != nil {
					return err
				}
				s, err = c.Create(cmd.Context(), api.CreateSession{})
			} else {
				c, s, err = e.session(cmd.Context(), args[0])
			}
			if err != nil {
				return err
			}
			a, err := c.Append(cmd.Context(), s.ID, r)
			if err != nil {
				return err
			}
			if e.json {
				return e.print(a)
			}
			fmt.Fprintf(e.out, "turn %s at depth %d of session %s, %d of %d tokens\n", a.ID, a.Depth, a.Session, a.Context.Tokens, a.Context.Budget)
			return nil
		})
	c.Flags().StringVar(&user, "user", "", "the user's text")
	c.Flags().StringVar(&assistant, "assistant", "", "the assistant's text")
	return c
}

func logCmd(e *env) *cobra.Command {
	var limit int
	c := verb("log SESSION", "the path of the head, newest first", "ledgerctl log 01J8", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, s, err := e.session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		n := 0
		for t, err := range c.Turns(cmd.Context(), s.ID, api.ListTurns{Order: "desc", Full: true}) {
			if err != nil {
				return err
			}
			if e.json {
				err = e.print(t)
			} else {
				_, err = fmt.Fprintln(e.out, turnLine(&t))
			}
			if err != nil {
				return err
			}
			if n++; limit > 0 && n >= limit {
				break
			}
		}
		return nil
	})
	c.Flags().IntVarP(&limit, "limit", "n", 0, "at most so many")
	return c
}

func turnLine(t *api.Turn) string {
	at := time.Time(t.Recorded)
	if t.Time != nil {
		at = time.Time(*t.Time)
	}
	what := ""
	switch {
	case t.Compaction != nil:
		what = fmt.Sprintf("◆ compaction (%s, %s): %d turns covered, %d → %d tokens", t.Compaction.Policy, t.Compaction.Tier, t.Compaction.Covered, t.Compaction.TokensBefore, t.Compaction.TokensAfter)
	default:
		what = describe(t.Messages)
		if t.Response != nil {
			what += " ⇒ " + describe([]turns.Message{*t.Response})
		} else {
			what += " ⇒ pending"
		}
	}
	return fmt.Sprintf("%s %5d  %s %7d tok  %s", short(t.ID), t.Depth, at.UTC().Format("2006-01-02 15:04:05"), t.TokenCount, what)
}

// describe is a few words for some messages.
func describe(ms []turns.Message) string {
	var out []string
	results := 0
	for _, m := range ms {
		for _, p := range m.Parts {
			switch p.Type {
			case turns.Text:
				if s := clip(p.Content, 60); s != "" {
					out = append(out, fmt.Sprintf("%q", s))
				}
			case turns.ToolCall:
				out = append(out, p.Name+"()")
			case turns.ToolCallResponse:
				results++
			}
		}
	}
	if results > 0 {
		out = append([]string{fmt.Sprintf("%d results", results)}, out...)
	}
	return strings.Join(out, " ")
}

// clip is the first n characters of s on one line.
func clip(s string, n int) string {
	r := []rune(strings.Join(strings.Fields(s), " "))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n]) + "…"
}

func showCmd(e *env) *cobra.Command {
	return verb("show TURN", "one turn, whole", "ledgerctl show 01J8@head~2", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, s, id, err := e.turn(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		t, err := c.Turn(cmd.Context(), s.ID, id)
		if err != nil {
			return err
		}
		if e.json {
			return e.print(t)
		}
		fmt.Fprintf(e.out, "turn     %s\nsession  %s\ntype     %s, depth %d\nhash     %s\nprev     %s\n", t.ID, t.Session, t.Type, t.Depth, t.Hash, t.PrevHash)
		if k := t.Compaction; k != nil {
			fmt.Fprintf(e.out, "policy   %s, tier %s, trigger %s, %s\ncovers   %d turns, through %s, keeps from %s (split %v)\ntokens   %d → %d\n\n", k.Policy, k.Tier, k.Trigger.Kind, k.Provenance, k.Covered, opt(k.Through), opt(k.FirstKept), k.Split, k.TokensBefore, k.TokensAfter)
			showMessages(e.out, k.Replacement)
			return nil
		}
		fmt.Fprintln(e.out)
		showMessages(e.out, t.Messages)
		if t.Response != nil {
			showMessages(e.out, []turns.Message{*t.Response})
		}
		return nil
	})
}

func opt(id *turns.ID) string {
	if id == nil {
		return "none"
	}
	return short(*id)
}

func showMessages(w io.Writer, ms []turns.Message) {
	for _, m := range ms {
		fmt.Fprintf(w, "── %s\n", m.Role)
		for _, p := range m.Parts {
			switch p.Type {
			case turns.Text, turns.Reasoning:
				if p.Type == turns.Reasoning {
					fmt.Fprint(w, "(reasoning) ")
				}
				fmt.Fprintln(w, p.Content)
			case turns.ToolCall:
				fmt.Fprintf(w, "→ %s %s\n", p.Name, p.Arguments)
			case turns.ToolCallResponse:
				text, ok := p.Response.Text()
				if !ok {
					text = string(p.Response)
				}
				if p.Ref != nil {
					text = fmt.Sprintf("%s… (%d bytes in blob %s)", p.Ref.Preview, p.Ref.Size, p.Ref.Digest)
				}
				fmt.Fprintf(w, "← %s\n", text)
			default:
				fmt.Fprintf(w, "[%s %s]\n", p.Type, p.MimeType)
			}
		}
	}
}

func pathCmd(e *env) *cobra.Command {
	return verb("path SESSION|TURN", "ids with depth, root first", "ledgerctl path 01J8@head", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, s, at, err := e.place(cmd, args[0])
		if err != nil {
			return err
		}
		for t, err := range c.Path(cmd.Context(), s.ID, api.GetPath{At: at}) {
			if err != nil {
				return err
			}
			if e.json {
				err = e.print(t)
			} else {
				_, err = fmt.Fprintf(e.out, "%6d  %s  %s\n", t.Depth, t.ID, t.Type)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// place is a session, or a turn of one; at is zero for a session.
func (e *env) place(cmd *cobra.Command, name string) (*api.Client, *api.Session, turns.ID, error) {
	if !strings.ContainsAny(name, "@/") {
		if c, s, err := e.session(cmd.Context(), name); err == nil {
			return c, s, turns.ID{}, nil
		}
	}
	return e.turn(cmd.Context(), name)
}

func treeCmd(e *env) *cobra.Command {
	return verb("tree SESSION", "the tree of forks that a session belongs to", "ledgerctl tree 01J8", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, s, err := e.session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		t, err := c.Tree(cmd.Context(), s.ID)
		if err != nil {
			return err
		}
		if e.json {
			return e.print(t)
		}
		printTree(e.out, t, s.ID)
		return nil
	})
}

// printTree draws sessions as branches: each with its depths, its compactions
// and the turn it was forked at.
func printTree(w io.Writer, t *api.Tree, here turns.ID) {
	kids := make(map[turns.ID][]api.TreeSession)
	known := make(map[turns.ID]bool)
	for _, s := range t.Sessions {
		known[s.ID] = true
	}
	var roots []api.TreeSession
	for _, s := range t.Sessions {
		if f := s.ForkedFrom; f != nil && known[f.Session] {
			kids[f.Session] = append(kids[f.Session], s)
		} else {
			roots = append(roots, s)
		}
	}
	var draw func(s api.TreeSession, lead, branch string)
	draw = func(s api.TreeSession, lead, branch string) {
		name := short(s.ID)
		if s.Label != "" {
			name += " " + s.Label
		}
		mark := ""
		if s.ID == here {
			mark = "  ◀"
		}
		from := ""
		if f := s.ForkedFrom; f != nil {
			from = fmt.Sprintf(", forked at depth %d (%s)", s.ForkDepth, f.Mode)
		}
		fmt.Fprintf(w, "%s%s● %s  %d turns, depth %d, %s%s%s\n", lead, branch, name, s.Turns, s.Depth, s.State, from, mark)
		switch branch {
		case "├─":
			lead += "│ "
		case "└─":
			lead += "  "
		}
		under := "  "
		if len(kids[s.ID]) > 0 {
			under = "│ "
		}
		for i, b := range s.Branches {
			if len(s.Branches) > 1 {
				fmt.Fprintf(w, "%s%s─ segment %d: depth %d to %d\n", lead, under, i+1, b.From, b.To)
			}
			for _, k := range b.Compactions {
				fmt.Fprintf(w, "%s%s◆ compaction %s at depth %d\n", lead, under, short(k.ID), k.Depth)
			}
		}
		for i, k := range kids[s.ID] {
			b := "├─"
			if i == len(kids[s.ID])-1 {
				b = "└─"
			}
			draw(k, lead, b)
		}
	}
	for _, r := range roots {
		draw(r, "", "")
	}
}
