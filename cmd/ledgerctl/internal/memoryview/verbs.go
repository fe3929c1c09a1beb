package memoryview

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Saving is a memory to save, and what it names as a person types it.
type Saving struct {
	api.SaveMemory          // its text may be -, the input
	Origin         string   // the session that it comes from
	Turns          []string // that it comes from
	Replaces       string   // the memory that it supersedes
}

// Save remembers something.
func Save(ctx context.Context, e *cli.Env, r Saving) (err error) {
	if r.Text == "-" {
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
	if r.Session, err = e.SessionFlag(ctx, &c, r.Origin); err != nil {
		return err
	}
	for _, name := range r.Turns {
		if r.Origin != "" { // a number is a turn of it
			pair, err := e.Pair(ctx, r.Origin, name)
			if err != nil {
				return err
			}
			name = pair[1]
		}
		p, err := e.Turn(ctx, name)
		if err != nil {
			return err
		}
		c = p.Client
		r.Sources = append(r.Sources, api.TurnName{Session: p.Session.ID, Turn: p.Turn})
	}
	if r.Replaces != "" {
		if _, r.Supersedes, err = find(ctx, e, c, r.Replaces); err != nil {
			return err
		}
	}
	m, err := c.SaveMemory(ctx, r.SaveMemory)
	if err != nil {
		return err
	}
	if m.Known {
		e.Say("the agent knew it: %s is said %s now", prose.Short(m.ID), prose.Plural(m.Repeated+1, "time"))
	}
	return e.Result(m, "%s %s, %s, seen by %s", terminal.Whole(m.ID), m.Kind, m.State, SeenBy(m))
}

// Listing is which memories are listed.
type Listing struct {
	api.ListMemories
	As, From string // as a session sees them; from a time on
	Most     int    // 0: all
}

// List lists memories, newest first.
func List(ctx context.Context, e *cli.Env, r Listing) error {
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	if r.Session, err = e.SessionFlag(ctx, &c, r.As); err != nil {
		return err
	}
	if r.Since, err = names.Day("since", r.From); err != nil {
		return err
	}
	e.SayTimes(r.Since, nil)
	if r.Most < 0 {
		return fault.Usage(errors.New("--limit is below 0"))
	}
	var list []api.Memory
	for m, err := range c.Memories(ctx, r.ListMemories) {
		if err != nil {
			return err
		}
		if list = append(list, m); r.Most > 0 && len(list) > r.Most {
			e.Say("there are more; raise --limit, or name what to list")
			list = list[:r.Most]
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
	return Print(e.Terminal, list)
}

// Search lists the memories in force that have words of a text, as the session as sees them.
func Search(ctx context.Context, e *cli.Env, r api.SearchMemories, as string) error {
	c, err := e.Client("main")
	if err != nil {
		return err
	}
	if r.Session, err = e.SessionFlag(ctx, &c, as); err != nil {
		return err
	}
	got, err := c.SearchMemories(ctx, r)
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
		case e.Agent == "" && as == "":
			e.Say("nothing found: agent main has no memory in force with such words; --agent names another agent")
		default:
			e.Say("nothing found")
		}
		return nil
	}
	return Print(e.Terminal, list)
}

// Withdraw takes a memory out of later contexts.
func Withdraw(ctx context.Context, e *cli.Env, name, reason string) error {
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	c, id, err := find(ctx, e, c, name)
	if err != nil {
		return err
	}
	m, err := c.WithdrawMemory(ctx, api.WithdrawMemory{Memory: id, Reason: reason})
	if err != nil {
		return err
	}
	if n := len(m.Replaced); n > 0 {
		e.Say("it superseded %s, which %s superseded", shorts(m.Replaced), stays(n))
	}
	if n := len(m.Later); n > 0 {
		e.Say("%s superseded it, and %s in force", shorts(m.Later), stays(n))
	}
	with := "1 memory"
	if n := len(m.Derived); n != 1 {
		with = prose.Grouped(uint64(n)) + " memories"
	}
	return e.Result(m, "%s is withdrawn, and %s with it", terminal.Whole(m.ID), with)
}

// Promote accepts a memory, and shows it on all branches.
func Promote(ctx context.Context, e *cli.Env, name, visibility string) error {
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	c, id, err := find(ctx, e, c, name)
	if err != nil {
		return err
	}
	m, err := c.PromoteMemory(ctx, api.PromoteMemory{Memory: id, Visibility: visibility})
	if err != nil {
		return err
	}
	return e.Result(m, "%s is %s, and seen by %s", terminal.Whole(m.ID), m.State, SeenBy(m))
}

// find finds a memory by its id, or by the beginning or end of one, among those that c
// lists. The client that it returns speaks for the agent whose memory it is.
func find(ctx context.Context, e *cli.Env, c *client.Client, name string) (*client.Client, turns.ID, error) {
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
