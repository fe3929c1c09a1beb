package erasure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/transcripts/sessionmeta"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Erasing is what erase was asked for.
type Erasing struct {
	Ground                string // a code for the record
	User, Project, Import string // all sessions of these
	DryRun                bool
	WithForks, WithEvents bool
	Alone                 bool // not the sub-agents that they started
	Yes                   bool // nobody is asked
	Wait                  time.Duration
}

// Erase makes the content of sessions unreadable for ever.
func Erase(ctx context.Context, e *cli.Env, args []string, o Erasing) error {
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	list, err := toErase(ctx, e, c, args, o)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return noneToErase(ctx, c, o)
	}
	if !o.DryRun && !o.Yes {
		if err := e.Confirm(ctx, fmt.Sprintf("%s will be unreadable for ever; ledgerctl erase --dry-run says what that reaches", prose.Plural(uint64(len(list)), "session"))); err != nil {
			return err
		}
	}
	pending, m := 0, newMachine(e, c)
	for _, id := range list {
		here, err := m.find(ctx, id)
		if err != nil {
			return err
		}
		if !o.DryRun {
			if err := m.write(here); err != nil { // the erasure matters more
				e.Say("where refs of %s are can't be written down, for a command again after a kill: %v", id, err)
			}
		}
		r, err := c.Erase(ctx, id, o.request())
		if err != nil {
			return err
		}
		own := m.clean(ctx, here, o.DryRun, o.Wait)
		if !r.Done && !o.DryRun {
			if r, err = erased(ctx, c, id, o); err != nil {
				return err
			}
		}
		for _, s := range own {
			r.Done = r.Done && s.State != api.StorePending
		}
		r.Stores = append(r.Stores, own...)
		if !r.Done {
			pending++
		}
		if e.JSON {
			err = e.Print(r)
		} else {
			printReceipt(e, r)
		}
		if err != nil {
			return err
		}
	}
	if pending > 0 && !o.DryRun {
		e.Say("%s not done everywhere yet: the same command says what is left", prose.Plural(uint64(pending), "session"))
	}
	return nil
}

// noneToErase is the error where no session is selected. What looks like a user may be an agent: it is what most people
// see of who spoke.
func noneToErase(ctx context.Context, c *client.Client, o Erasing) error {
	switch {
	case o.User+o.Project+o.Import == "":
		return fault.Usage(errors.New("nothing is selected: name sessions, or --user, --project or --import"))
	case o.User == "":
		return fault.Usage(errors.New("nothing is selected: no session has that project and import"))
	}
	err := fault.Usage(fmt.Errorf("nothing is selected: no session has the user %q. A user is who the conversation is with, as session.create or the import named it, not the user of NATS and not the agent", o.User))
	of := 0
	for s, listErr := range c.ListSessions(ctx, api.ListSessions{Hidden: true, Superseded: true}) {
		if listErr != nil {
			return err // what was found is said all the same
		}
		if s.Agent == o.User {
			of++
		}
	}
	if of == 0 {
		return err
	}
	return fault.WithHint(err, fmt.Sprintf("agent %s has %s: ledgerctl sessions --agent %s --hidden lists them; name them to erase", o.User, prose.Plural(uint64(of), "session"), o.User))
}

// toErase returns the sessions that args and the flags name, each once, with their sub-agents and forks as asked.
func toErase(ctx context.Context, e *cli.Env, c *client.Client, args []string, o Erasing) (out []turns.ID, err error) {
	seen := make(map[turns.ID]bool)
	add := func(s *api.Session) {
		if !seen[s.ID] {
			seen[s.ID], out = true, append(out, s.ID)
		}
	}
	for _, name := range args {
		_, s, err := e.Session(ctx, name)
		if err != nil {
			return nil, err
		}
		add(s)
	}
	if o.User+o.Project+o.Import != "" {
		for s, err := range c.ListSessions(ctx, api.ListSessions{Hidden: true, Superseded: true, Project: o.Project}) {
			if err != nil {
				return nil, err
			}
			if (o.User == "" || s.User == o.User) && (o.Import == "" || strings.EqualFold(sessionmeta.ImportedBy(&s).String(), o.Import)) {
				add(&s)
			}
		}
	}
	var kin client.Kin
	if !o.Alone {
		kin |= client.SubAgents
	}
	if o.WithForks {
		kin |= client.Forks
	}
	more, err := c.Descendants(ctx, out, kin)
	for i := range more {
		add(&more[i])
	}
	return out, err
}

// erased erases a session, and waits until every store says so, for a while.
func erased(ctx context.Context, c *client.Client, id turns.ID, o Erasing) (r *api.Receipt, err error) {
	return pollUntilDone(ctx, o.Wait, func() (r *api.Receipt, done bool, err error) { // a receipt looks at all that the session has
		r, err = c.Erase(ctx, id, o.request())
		return r, err != nil || r.Done, err
	})
}

func (o Erasing) request() api.EraseSession {
	return api.EraseSession{Ground: o.Ground, DryRun: o.DryRun, WithEvents: o.WithEvents}
}

// pollUntilDone calls ask until it is done, for a while. What is left when the command ends goes by itself.
func pollUntilDone[T any](ctx context.Context, wait time.Duration, ask func() (answer T, done bool, err error)) (T, error) {
	until := time.Now().Add(wait)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		answer, done, err := ask()
		if done || time.Now().After(until) {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, nil
		case <-time.After(pause):
		}
	}
}

func printReceipt(e *cli.Env, r *api.Receipt) {
	what := "is erased"
	switch {
	case r.DryRun && r.Erased == nil:
		what = "would be erased"
	case !r.Done && !r.DryRun:
		what = "is erased; not everything is done"
	}
	fmt.Fprintf(e.Out, "session %s %s\n", r.Session, what)
	for _, s := range r.Stores {
		count := ""
		if s.Count > 0 {
			count = fmt.Sprint(s.Count)
		}
		fmt.Fprintf(e.Out, "  %-8s %-16s %6s  %s\n", s.State, s.Store, count, s.Note)
	}
	if !r.DryRun {
		fmt.Fprintln(e.Out, "agents' own transcripts stay")
	}
}
