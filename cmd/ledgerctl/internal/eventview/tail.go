package eventview

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

// Tailing is what of a channel's end is printed.
type Tailing struct {
	Filter
	After  string // begin after this event
	Lines  int    // how many to begin with
	Follow bool   // until interrupted
}

// Poll is how often a follower looks by itself: notifications are hints, and one can be lost.
const Poll = 5 * time.Second

// Tail prints the newest events of a channel, and those that come.
func Tail(ctx context.Context, e *cli.Env, channel string, o Tailing) error {
	r, err := o.request(channel)
	if err != nil {
		return err
	}
	c, err := e.Client("main")
	if err != nil {
		return err
	}
	hints := make(chan *nats.Msg, 64)
	if o.Follow {
		// Before the first read, so that nothing falls between. The channel may not be there yet.
		sub, err := c.Conn().ChanSubscribe(c.NotifyChannelSubject("*"), hints)
		if err != nil {
			return err
		}
		defer sub.Unsubscribe()
	}
	r.After = o.After
	next := func() (err error) {
		r.After, err = since(ctx, e.Terminal, c, r)
		return err
	}
	first := next
	if o.After == "" {
		first = func() (err error) {
			r.After, err = newest(ctx, e.Terminal, c, r, o.Lines)
			return err
		}
	}
	if !o.Follow {
		return first()
	}
	err = Follow(first, next, func() bool {
		select {
		case <-ctx.Done():
			return false
		case <-hints:
		case <-time.After(Poll):
		}
		return true
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// newest prints the last n events and returns where the next call goes on.
func newest(ctx context.Context, term *terminal.Terminal, c *client.Client, r api.ListEvents, n int) (last string, err error) {
	r.Order, r.Limit = "desc", min(max(n, 1), 1000)
	var list []api.Event
	for ev, err := range c.Events(ctx, r) {
		if err != nil {
			return "", err
		}
		if list = append(list, ev); len(list) >= max(n, 1) {
			break
		}
	}
	if len(list) == 0 {
		return "", nil
	}
	last = strconv.FormatUint(list[0].Index, 10)
	for _, ev := range slices.Backward(list[:min(len(list), max(n, 0))]) {
		if err := printEvent(term, &ev); err != nil {
			return last, err
		}
	}
	return last, nil
}

// since prints the events after r.After and returns where the next call goes on. An
// event is behind that place once it is printed, whatever follows.
func since(ctx context.Context, term *terminal.Terminal, c *client.Client, r api.ListEvents) (after string, err error) {
	for {
		page, err := c.EventPage(ctx, r)
		if err != nil {
			return r.After, err
		}
		for _, ev := range page.Events {
			if err := printEvent(term, &ev); err != nil {
				return r.After, err
			}
			r.After = strconv.FormatUint(ev.Index, 10)
		}
		if page.Next == "" {
			return r.After, nil
		}
		r.After = page.Next
	}
}
