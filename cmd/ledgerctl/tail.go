package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/turnview"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// poll is how often a follower looks by itself: notifications are hints, and
// one can be lost.
const poll = 5 * time.Second

func tailCmd(e *env) *cobra.Command {
	var follow bool
	var n int
	var after string
	c := verb("tail SESSION", "the newest turns; -f waits for more", 1, 1, func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		c, s, err := e.Session(ctx, args[0])
		if err != nil {
			return err
		}
		hints := make(chan *nats.Msg, 64)
		if follow {
			// Before the first read, so that nothing falls between.
			sub, err := c.Conn().ChanSubscribe(c.NotifySubject(s.ID, ">"), hints)
			if err != nil {
				return err
			}
			defer sub.Unsubscribe()
		}
		var last turns.ID
		if after != "" {
			var p names.Place
			if p, err = e.TurnIn(ctx, c, s, after); err == nil {
				last, err = e.since(ctx, c, s.ID, p.Turn)
			}
		} else {
			last, err = e.newest(ctx, c, s.ID, n)
		}
		for err == nil && follow {
			select {
			case <-ctx.Done():
				return nil
			case <-hints:
			case <-time.After(poll):
			}
			last, err = e.since(ctx, c, s.ID, last)
		}
		return err
	})
	c.Flags().StringVar(&after, "after", "", "begin after this turn")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "continue until interrupted")
	c.Flags().IntVarP(&n, "lines", "n", 10, "how many turns to begin with")
	return c
}

// newest prints the last n turns of the path and returns the id of the last, also of none.
func (e *env) newest(ctx context.Context, c *client.Client, s turns.ID, n int) (last turns.ID, err error) {
	var page []api.Turn
	for t, err := range c.Turns(ctx, s, api.ListTurns{Order: "desc", Full: true, Page: api.Page{Limit: min(max(n, 1), 1000)}}) {
		if err != nil {
			return last, err
		}
		if page = append(page, t); len(page) >= max(n, 1) {
			break
		}
	}
	for i := len(page) - 1; i >= 0; i-- {
		last = page[i].ID
		if n == 0 { // only what comes
			continue
		}
		if err := e.printTurn(&page[i]); err != nil {
			return last, err
		}
	}
	return last, nil
}

// since prints what follows last on the path. After a head move to before it,
// it begins again at the new head.
func (e *env) since(ctx context.Context, c *client.Client, s, last turns.ID) (turns.ID, error) {
	r := api.ListTurns{Full: true}
	if !last.IsZero() {
		r.After = last.String()
	}
	for t, err := range c.Turns(ctx, s, r) {
		if isOffPath(err) {
			e.Say("the head moved to another branch")
			now, nerr := e.newest(ctx, c, s, 1)
			if nerr == nil && now == last { // it did not: the daemon takes no such request
				return last, err
			}
			return now, nerr
		}
		if err != nil {
			return last, err
		}
		if err := e.printTurn(&t); err != nil {
			return last, err
		}
		last = t.ID
	}
	return last, nil
}

// isOffPath reports whether a list was refused since the turn that it goes on from is not on
// the path any more.
func isOffPath(err error) bool {
	var refused *api.Error
	return errors.As(err, &refused) && refused.Code == api.Malformed && refused.Details["field"] == "/after"
}

func (e *env) printTurn(t *api.Turn) error {
	if e.JSON {
		return e.Print(t)
	}
	_, err := fmt.Fprintln(e.Out, turnview.Line(t, e.Width))
	return err
}
