package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/transcripts"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/sessions"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// erasing is what erase was asked for.
type erasing struct {
	ground                string
	user, project, unit   string
	dry, withForks, alone bool
	withEvents, yes       bool
	wait                  time.Duration
}

func eraseCmd(e *env) *cobra.Command {
	var o erasing
	c := verb("erase SESSION…", "make the content of sessions unreadable for ever", 0, -1, func(cmd *cobra.Command, args []string) error {
		c, err := e.Client(api.Operator)
		if err != nil {
			return err
		}
		list, err := e.toErase(cmd.Context(), c, args, o)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return fault.Usage(errors.New("nothing is selected: name sessions, or --user, --project or --import"))
		}
		if !o.dry && !o.yes {
			if err := e.Confirm(cmd.Context(), fmt.Sprintf("%s will be unreadable for ever; ledgerctl erase --dry-run says what that reaches", prose.Plural(uint64(len(list)), "session"))); err != nil {
				return err
			}
		}
		pending := 0
		for _, id := range list {
			r, err := erased(cmd.Context(), c, id, o)
			if err != nil {
				return err
			}
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
		if pending > 0 && !o.dry {
			e.Say("%s not done everywhere yet: the same command says what is left", prose.Plural(uint64(pending), "session"))
		}
		return nil
	})
	f := c.Flags()
	f.StringVar(&o.ground, "ground", "", "a code for the record, as a number of a request; it stays")
	f.StringVar(&o.user, "user", "", "all sessions of a user")
	f.StringVar(&o.project, "project", "", "all sessions of a project")
	f.StringVar(&o.unit, "import", "", "all sessions that an import opened")
	f.BoolVar(&o.dry, "dry-run", false, "report what would be done; change nothing")
	f.BoolVar(&o.withForks, "with-forks", false, "erase the sessions that were forked from them too")
	f.BoolVar(&o.withEvents, "with-events", false, "erase the external events too that their turns answered")
	f.BoolVar(&o.alone, "without-sub-agents", false, "leave the sub-agents that they started as they are")
	f.BoolVar(&o.yes, "yes", false, "do not ask on a terminal")
	f.DurationVar(&o.wait, "wait", 30*time.Second, "how long to wait for what is done in the background")
	return c
}

// toErase returns the sessions that args and the flags name, each once, with their sub-agents and forks as asked.
func (e *env) toErase(ctx context.Context, c *client.Client, args []string, o erasing) (out []turns.ID, err error) {
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
	if o.user+o.project+o.unit != "" {
		for s, err := range c.ListSessions(ctx, api.ListSessions{Hidden: true, Superseded: true, Project: o.project}) {
			if err != nil {
				return nil, err
			}
			if (o.user == "" || s.User == o.user) && (o.unit == "" || strings.EqualFold(transcripts.ImportedBy(&s).String(), o.unit)) {
				add(&s)
			}
		}
	}
	var from []func(*api.Session) turns.ID
	if !o.alone {
		from = append(from, sessions.Spawner)
	}
	if o.withForks {
		from = append(from, func(s *api.Session) (id turns.ID) {
			if s.ForkedFrom != nil {
				id = s.ForkedFrom.Session
			}
			return id
		})
	}
	if len(out) == 0 || len(from) == 0 {
		return out, nil
	}
	more, err := sessions.Descendants(ctx, c, out, from...)
	for i := range more {
		add(&more[i])
	}
	return out, err
}

// erased erases a session, and waits until every store says so, for a while.
func erased(ctx context.Context, c *client.Client, id turns.ID, o erasing) (r *api.Receipt, err error) {
	until := time.Now().Add(o.wait)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) { // a receipt looks at all that the session has
		r, err = c.Erase(ctx, id, api.EraseSession{Ground: o.ground, DryRun: o.dry, WithEvents: o.withEvents})
		if err != nil || r.Done || o.dry || time.Now().After(until) {
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, nil // it is erased; what is left goes by itself
		case <-time.After(pause):
		}
	}
}

func printReceipt(e *env, r *api.Receipt) {
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
		fmt.Fprintf(e.Out, "on this machine: agents' own transcripts stay, and recorded files (git update-ref -d refs/nexus/%s, then git gc --prune=now)\n", r.Session)
	}
}
