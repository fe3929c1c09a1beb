package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/eventview"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/turnview"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Tailing is what of a session's end is printed.
type Tailing struct {
	After  string // begin after this turn
	Follow bool   // until interrupted
	Lines  int    // how many turns to begin with
}

// Tail prints the newest turns of a session, and those that come.
func Tail(ctx context.Context, e *cli.Env, name string, o Tailing) error {
	c, s, err := e.Session(ctx, name)
	if err != nil {
		return err
	}
	hints := make(chan *nats.Msg, 64)
	if o.Follow {
		// Before the first read, so that nothing falls between.
		sub, err := c.Conn().ChanSubscribe(c.NotifySubject(s.ID, ">"), hints)
		if err != nil {
			return err
		}
		defer sub.Unsubscribe()
	}
	var last turns.ID
	if o.After != "" {
		var p names.Place
		if p, err = e.TurnIn(ctx, c, s, o.After); err == nil {
			last, err = since(ctx, e, c, s.ID, p.Turn)
		}
	} else {
		last, err = newest(ctx, e, c, s.ID, o.Lines)
	}
	for err == nil && o.Follow {
		select {
		case <-ctx.Done():
			return nil
		case <-hints:
		case <-time.After(eventview.Poll):
		}
		last, err = since(ctx, e, c, s.ID, last)
	}
	return err
}

// newest prints the last n turns of the path and returns the id of the last, also of none.
func newest(ctx context.Context, e *cli.Env, c *client.Client, s turns.ID, n int) (last turns.ID, err error) {
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
		if err := printTurn(e, &page[i]); err != nil {
			return last, err
		}
	}
	return last, nil
}

// since prints what follows last on the path. After a head move to before it,
// it begins again at the new head.
func since(ctx context.Context, e *cli.Env, c *client.Client, s, last turns.ID) (turns.ID, error) {
	r := api.ListTurns{Full: true}
	if !last.IsZero() {
		r.After = last.String()
	}
	for t, err := range c.Turns(ctx, s, r) {
		if isOffPath(err) {
			e.Say("the head moved to another branch")
			now, nerr := newest(ctx, e, c, s, 1)
			if nerr == nil && now == last { // it did not: the daemon takes no such request
				return last, err
			}
			return now, nerr
		}
		if err != nil {
			return last, err
		}
		if err := printTurn(e, &t); err != nil {
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

func printTurn(e *cli.Env, t *api.Turn) error {
	if e.JSON {
		return e.Print(t)
	}
	_, err := fmt.Fprintln(e.Out, turnview.Line(t, e.Width))
	return err
}
