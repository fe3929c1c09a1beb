package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"nexus/ledger/api"
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
			b, err := e.readFile("-")
			if err != nil {
				return err
			}
			r.Text = string(b)
		}
		c, err := e.client("main")
		if err != nil {
			return err
		}
		if r.Session, err = e.sessionFlag(cmd.Context(), &c, session); err != nil {
			return err
		}
		for _, name := range sources {
			p, err := e.turn(cmd.Context(), name)
			if err != nil {
				return err
			}
			c = p.c
			r.Sources = append(r.Sources, api.TurnName{Session: p.s.ID, Turn: p.turn})
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
			e.say("the agent knew it: %s is said %s now", short(m.ID), plural(m.Repeated+1, "time"))
		}
		return e.result(m, "%s %s, %s, seen by %s", whole(m.ID), m.Kind, m.State, seenBy(m))
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

// seenBy says who sees a memory.
func seenBy(m *api.Memory) string {
	switch m.Visibility {
	case "main":
		return "main sessions"
	case "branch":
		return "its branch"
	}
	return "all sessions"
}

// memoryListCmd is the command memory list.
func memoryListCmd(e *env) *cobra.Command {
	var r api.ListMemories
	var session, since string
	var most int
	c := verb("list", "the memories, newest first", 0, 0, func(cmd *cobra.Command, _ []string) error {
		c, err := e.client(api.Operator)
		if err != nil {
			return err
		}
		if r.Session, err = e.sessionFlag(cmd.Context(), &c, session); err != nil {
			return err
		}
		if r.Since, err = dayFlag("since", since); err != nil {
			return err
		}
		if most < 1 {
			return usageError{errors.New("--limit takes a number from 1 on")}
		}
		var list []api.Memory
		for m, err := range c.Memories(cmd.Context(), r) {
			if err != nil {
				return err
			}
			if list = append(list, m); len(list) > most {
				e.say("there are more; raise --limit, or name what to list")
				list = list[:most]
				break
			}
			if e.json {
				if err := e.print(m); err != nil {
					return err
				}
			}
		}
		if e.json {
			return nil
		}
		if len(list) == 0 {
			e.say("no memory; ledgerctl memory save TEXT stores one")
			return nil
		}
		return e.printMemories(list)
	})
	f := c.Flags()
	f.StringVar(&r.Kind, "kind", "", "of this kind only")
	f.StringVar(&r.State, "state", "", "in this state only")
	f.StringVar(&r.Trust, "trust", "", "stated by: person, agent or tool")
	f.StringVar(&session, "session", "", "as this session sees them")
	f.StringVar(&since, "since", "", "from this day or time on")
	f.IntVar(&most, "limit", 100, "at most so many")
	return c
}

// printMemories prints a line for each memory.
func (e *env) printMemories(list []api.Memory) error {
	rows := make([][]string, len(list))
	for i, m := range list {
		said := strings.Join(strings.Fields(printable(m.Text)), " ")
		if m.Error != "" {
			said = faint.Render("unreadable: " + string(m.Error))
		}
		rows[i] = []string{idStyle.Render(short(m.ID)), time.Time(m.Time).Format(time.DateOnly), m.Agent, m.Kind, m.State, m.Trust, m.Visibility, sourceOf(&m), said}
	}
	cols := []column{{head: "memory"}, {head: "day", drop: 2}, {head: "agent", drop: 5}, {head: "kind", drop: 1}, {head: "state", drop: 1}, {head: "by", drop: 3}, {head: "seen by", drop: 4}, {head: "turn", drop: 6}, {head: "text"}}
	_, err := io.WriteString(e.out, e.table(cols, rows))
	return err
}

// sourceOf names the first turn that a memory comes from, as show takes it, and how many
// more there are.
func sourceOf(m *api.Memory) string {
	switch n := len(m.Sources); n {
	case 0:
		return ""
	case 1:
		return short(m.Sources[0].Turn)
	default:
		return fmt.Sprintf("%s +%d", short(m.Sources[0].Turn), n-1)
	}
}

// memorySearchCmd is the command memory search.
func memorySearchCmd(e *env) *cobra.Command {
	var r api.SearchMemories
	var session string
	var halfLife uint64
	c := verb("search TEXT", "the memories in force that have words of a text", 1, -1, func(cmd *cobra.Command, args []string) error {
		c, err := e.client("main")
		if err != nil {
			return err
		}
		if r.Session, err = e.sessionFlag(cmd.Context(), &c, session); err != nil {
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
			if list = append(list, h.Memory); e.json {
				if err := e.print(h); err != nil {
					return err
				}
			}
		}
		if got.Cut {
			e.say("older memories were not searched")
		}
		if e.json || len(list) == 0 {
			switch {
			case len(list) > 0:
			case e.agent == "" && session == "":
				e.say("nothing found: agent main has no memory in force with such words; --agent names another agent")
			default:
				e.say("nothing found")
			}
			return nil
		}
		return e.printMemories(list)
	})
	f := c.Flags()
	f.StringVar(&r.Kind, "kind", "", "of this kind only")
	f.StringVar(&r.Trust, "trust", "", "stated by: person, agent or tool")
	f.StringVar(&session, "session", "", "as this session sees them")
	f.IntVar(&r.Limit, "limit", 10, "at most so many")
	f.Uint64Var(&halfLife, "half-life", 30, "days after which a memory counts half; 0: never")
	return c
}

// memoryDocumentCmd is the command memory document.
func memoryDocumentCmd(e *env) *cobra.Command {
	var replace, version string
	c := verb("document", "the agent's document, MEMORY.md", 0, 0, func(cmd *cobra.Command, _ []string) error {
		c, err := e.client("main")
		if err != nil {
			return err
		}
		if !cmd.Flags().Changed("replace") {
			if version != "" {
				return usageError{errors.New("--if goes with --replace FILE")}
			}
			d, err := c.Document(cmd.Context(), api.MemoryDocument{})
			if err != nil {
				return err
			}
			if e.json {
				return e.print(d)
			}
			if d.Version == 0 {
				e.say("agent %s has no document; memory document --replace FILE --if 0 stores the first", d.Agent)
				return nil
			}
			e.say("version %d of the document of agent %s", d.Version, d.Agent)
			_, err = io.WriteString(e.out, strings.TrimSuffix(printable(d.Text), "\n")+"\n")
			return err
		}
		if version == "" {
			return usageError{errors.New("--replace needs --if VERSION, the version that you read; 0 if there is none")}
		}
		b, err := e.readFile(replace)
		if err != nil {
			return err
		}
		text, err := editedText(replace, b)
		if err != nil {
			return err
		}
		d, err := c.ReplaceDocument(cmd.Context(), api.MemoryDocument{Text: &text, If: version})
		if coded(err, api.Conflict) {
			return hinted{err, "ledgerctl memory document prints it and its version: take your change over to it, and replace that version"}
		}
		if err != nil {
			return err
		}
		return e.result(d, "version %d of the document of agent %s", d.Version, d.Agent)
	})
	c.Flags().StringVar(&replace, "replace", "", "replace it with this file")
	c.Flags().StringVar(&version, "if", "", "the version or digest that it replaces")
	return c
}

// editedText returns a file as a text of the ledger: what editors write on some systems, a
// mark of the byte order and line ends of two characters, is not part of it.
func editedText(name string, b []byte) (string, error) {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return "", usageError{fmt.Errorf("%s: byte %d is not UTF-8; save the file as UTF-8", name, i)}
		}
		i += n
	}
	return strings.ReplaceAll(strings.TrimPrefix(string(b), "\uFEFF"), "\r\n", "\n"), nil
}

// memoryWithdrawCmd is the command memory withdraw.
func memoryWithdrawCmd(e *env) *cobra.Command {
	var reason string
	c := verb("withdraw MEMORY", "take a memory out of later contexts", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, err := e.client(api.Operator)
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
			e.say("it superseded %s, which %s superseded", shorts(m.Replaced), stays(n))
		}
		if n := len(m.Later); n > 0 {
			e.say("%s superseded it, and %s in force", shorts(m.Later), stays(n))
		}
		with := "1 memory"
		if n := len(m.Derived); n != 1 {
			with = grouped(uint64(n)) + " memories"
		}
		return e.result(m, "%s is withdrawn, and %s with it", whole(m.ID), with)
	})
	c.Flags().StringVar(&reason, "reason", "", "why")
	return c
}

func stays(n int) string {
	if n == 1 {
		return "stays"
	}
	return "stay"
}

func shorts(ids []turns.ID) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = short(id)
	}
	return strings.Join(names, ", ")
}

// memoryPromoteCmd is the command memory promote.
func memoryPromoteCmd(e *env) *cobra.Command {
	var visibility string
	c := verb("promote MEMORY", "accept a memory, and show it on every path", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, err := e.client(api.Operator)
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
		return e.result(m, "%s is %s, and seen by %s", whole(m.ID), m.State, seenBy(m))
	})
	c.Flags().StringVar(&visibility, "visibility", "", "main or all")
	return c
}

// memory finds a memory by its id, or by the beginning or end of one, among those that c
// lists. The client that it returns speaks for the agent whose memory it is.
func (e *env) memory(ctx context.Context, c *api.Client, name string) (*api.Client, turns.ID, error) {
	if len(name) < 4 {
		return nil, turns.ID{}, usageError{fmt.Errorf("%q is too short to name a memory; take four characters or more", name)}
	}
	id, unparsed := turns.ParseID(strings.ToUpper(name))
	if unparsed == nil && e.agent != "" {
		return c, id, nil // whose it is is known
	}
	var found []api.Memory
	var lines []string
	for m, err := range c.Memories(ctx, api.ListMemories{}) {
		if err != nil {
			return nil, turns.ID{}, err
		}
		if named(m.ID, name) {
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
	return nil, turns.ID{}, manyNamed("memories", name, lines)
}

// sessionFlag finds the session that a flag names, and makes c speak for its agent.
func (e *env) sessionFlag(ctx context.Context, c **api.Client, name string) (turns.ID, error) {
	if name == "" {
		return turns.ID{}, nil
	}
	own, s, err := e.session(ctx, name)
	if err != nil {
		return turns.ID{}, err
	}
	*c = own
	return s.ID, nil
}

// ageUnits are those of an age such as 3d.
var ageUnits = map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}

// dayFlag reads a day, a time, or an age (3d: three days ago); nil if the flag is empty.
func dayFlag(flag, value string) (*api.Time, error) {
	if value == "" {
		return nil, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, value); err == nil {
			t := api.Time(at)
			return &t, nil
		}
	}
	last := len(value) - 1
	n, err := strconv.ParseUint(value[:last], 10, 32)
	if unit := ageUnits[value[last]]; err == nil && unit > 0 && n <= uint64(100*365*24*time.Hour/unit) {
		t := api.Time(time.Now().Add(-time.Duration(n) * unit).UTC())
		return &t, nil
	}
	return nil, usageError{fmt.Errorf("--%s takes a day, a time or an age, as 2026-11-22, 2026-11-22T14:00:00Z, 3d, 12h or 2w", flag)}
}
