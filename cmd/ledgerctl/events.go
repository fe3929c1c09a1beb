package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"nexus/ledger/api"
	"nexus/turns"
)

// The agent of these verbs is main unless one is named: a channel belongs to an agent.

func eventsCmd(e *env) *cobra.Command {
	c := verb("events list CHANNEL", "channels of external events: mails, webhook calls", 0, 0, func(cmd *cobra.Command, _ []string) error { return cmd.Help() })
	c.AddCommand(appendEventCmd(e), listEventsCmd(e), getEventCmd(e), channelsCmd(e), tailEventsCmd(e), exportEventsCmd(e))
	return c
}

func appendEventCmd(e *env) *cobra.Command {
	var kind, body, at, id, meta string
	c := verb("append CHANNEL", "store an external event", 1, 1, func(cmd *cobra.Command, args []string) error {
		if kind == "" {
			return usageError{errors.New("--kind says what the event is, as --kind mail.received")}
		}
		r := api.AppendEvent{Channel: args[0], Kind: kind, Body: turns.Raw(body), Meta: turns.Raw(meta)}
		if body == "" {
			b, err := e.readFile("-")
			if err != nil {
				return err
			}
			r.Body = b
		}
		var err error
		if r.Time, err = dayFlag("time", at); err != nil {
			return err
		}
		if id != "" {
			if r.ID, err = turns.ParseID(id); err != nil {
				return usageError{fmt.Errorf("--id: %w", err)}
			}
		}
		if err := jsonFlag("the body", r.Body); err != nil {
			return err
		}
		if meta == "" {
			r.Meta = nil
		} else if err := jsonFlag("--meta", r.Meta); err != nil {
			return err
		}
		c, err := e.client("main")
		if err != nil {
			return err
		}
		a, err := c.AppendEvent(cmd.Context(), r)
		if err != nil {
			return err
		}
		if a.Duplicate {
			e.say("the event was stored before")
		}
		return e.result(a, "%s", a.ID)
	})
	c.Flags().StringVar(&kind, "kind", "", "what the event is, such as mail.received")
	c.Flags().StringVar(&body, "body", "", "the body, JSON (else: stdin)")
	c.Flags().StringVar(&meta, "meta", "", "a JSON object")
	c.Flags().StringVar(&at, "time", "", "when it happened: a day or a time")
	c.Flags().StringVar(&id, "id", "", "id of the event: the same one stores it once")
	return c
}

// jsonFlag checks that a value is JSON as the ledger takes it.
func jsonFlag(what string, v turns.Raw) error {
	var x turns.Raw
	if err := turns.DecodeJSON(v, &x); err != nil {
		return usageError{fmt.Errorf("%s: %w", what, err)}
	}
	return nil
}

// eventFilter is the flags that choose events.
type eventFilter struct {
	kind, from, to string
}

func (f *eventFilter) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.kind, "kind", "", "events of this kind")
	c.Flags().StringVar(&f.from, "from", "", "from this day or time on")
	c.Flags().StringVar(&f.to, "to", "", "before this day or time")
}

func (f *eventFilter) request(channel string) (r api.ListEvents, err error) {
	r = api.ListEvents{Channel: channel, Kind: f.kind}
	if r.From, err = dayFlag("from", f.from); err == nil {
		r.To, err = dayFlag("to", f.to)
	}
	return r, err
}

func listEventsCmd(e *env) *cobra.Command {
	var f eventFilter
	var n int
	var desc bool
	c := verb("list CHANNEL", "the events of a channel", 1, 1, func(cmd *cobra.Command, args []string) error {
		r, err := f.request(args[0])
		if err != nil {
			return err
		}
		if desc {
			r.Order = "desc"
		}
		c, err := e.client("main")
		if err != nil {
			return err
		}
		any := false
		err = printEach(e, c.Events(cmd.Context(), r), n, func(ev *api.Event) string {
			any = true
			return eventLine(ev, e.width)
		})
		if err == nil && !any && !e.json {
			e.say("the channel has no such event")
		}
		return err
	})
	f.flags(c)
	c.Flags().IntVarP(&n, "limit", "n", 0, "at most so many events")
	c.Flags().BoolVar(&desc, "newest-first", false, "the newest events first")
	return c
}

// eventLine is an event on one line: id, ordinal, time, kind, and the beginning of its body.
func eventLine(ev *api.Event, width int) string {
	at := time.Time(ev.Recorded)
	if ev.Time != nil {
		at = time.Time(*ev.Time)
	}
	text := clip(string(ev.Body), 400)
	switch {
	case ev.Error != "":
		text = bad.Render(unread("event", ev.Error, ev.MissingKey))
	case ev.Ref != nil && ev.Body == nil:
		text = fmt.Sprintf("(%s bytes; events get has them)", grouped(ev.Ref.Size))
	}
	line := fmt.Sprintf("%s %6d  %s  %s  %s", idStyle.Render(ev.ID.String()), ev.Index, at.UTC().Format(time.DateTime), tool.Render(printable(ev.Kind)), text)
	if width > 0 {
		line = cut(line, width)
	}
	return line
}

func getEventCmd(e *env) *cobra.Command {
	return verb("get CHANNEL EVENT", "one event, whole, and the turns that name it", 2, 2, func(cmd *cobra.Command, args []string) error {
		c, err := e.client("main")
		if err != nil {
			return err
		}
		id, err := e.eventID(cmd.Context(), c, args[0], args[1])
		if err != nil {
			return err
		}
		ev, err := c.Event(cmd.Context(), api.GetEvent{Channel: args[0], ID: id})
		if err != nil {
			return err
		}
		if e.json {
			return e.print(ev)
		}
		e.showEvent(ev)
		_, err = fmt.Fprintf(e.out, "\n%s\n", printable(string(ev.Body)))
		return err
	})
}

// eventID finds an event of a channel by its id or by its number.
func (e *env) eventID(ctx context.Context, c *api.Client, channel, name string) (turns.ID, error) {
	if id, err := turns.ParseID(strings.ToUpper(name)); err == nil {
		return id, nil
	}
	n, err := strconv.ParseUint(name, 10, 63)
	if err != nil {
		return turns.ID{}, usageError{errors.New("an event is named by its whole id, or its number: events list shows both")}
	}
	r := api.ListEvents{Channel: channel, Page: api.Page{Limit: 1}}
	if n > 0 {
		r.After = strconv.FormatUint(n-1, 10)
	}
	for ev, err := range c.Events(ctx, r) {
		if coded(err, api.Malformed) {
			break // no event has the number before
		}
		if err != nil {
			return turns.ID{}, err
		}
		if ev.Index == n {
			return ev.ID, nil
		}
		break
	}
	return turns.ID{}, hinted{api.Errorf(api.NotFound, nil, "channel %s of agent %s has no event %d", channel, cmp.Or(e.agent, "main"), n), "ledgerctl events list " + channel + " lists them"}
}

// showEvent shows what an event has beside its body.
func (e *env) showEvent(ev *api.Event) {
	row := e.rows(8)
	row("event", "%s", idStyle.Render(ev.ID.String()))
	row("channel", "%s, index %d", printable(ev.Channel), ev.Index)
	row("kind", "%s", printable(ev.Kind))
	if ev.Time != nil {
		row("time", "%s", time.Time(*ev.Time).UTC().Format(time.DateTime))
	}
	row("recorded", "%s", time.Time(ev.Recorded).UTC().Format(time.DateTime))
	if ev.Meta != nil {
		row("meta", "%s", printable(string(ev.Meta)))
	}
	row("hash", "%s", ev.Hash)
	if ev.Index > 0 {
		row("previous", "%s", ev.PrevHash)
	}
	for _, t := range ev.Turns {
		row("turn", "%s of session %s", t.Turn, t.Session)
	}
}

// showEventOf shows the external event that a turn's meta names, if it names one.
func (e *env) showEventOf(ctx context.Context, p place, t *api.Turn) error {
	channel, id, ok := turns.ExternalEvent(t.Meta)
	if !ok {
		return nil
	}
	fmt.Fprintf(e.out, "\n%s\n", title.Render("answers event"))
	ev, err := p.c.As(p.s.Agent).Event(ctx, api.GetEvent{Channel: channel, ID: id})
	if coded(err, api.NotFound) {
		e.tell("event %s of channel %s is not stored here", id, printable(channel))
		return nil
	}
	if err != nil {
		return err
	}
	e.showEvent(ev)
	_, err = fmt.Fprintf(e.out, "%s\n", clip(string(ev.Body), 4*max(e.width, 80)))
	return err
}

func channelsCmd(e *env) *cobra.Command {
	return verb("channels", "the channels of an agent, or of all agents", 0, 0, func(cmd *cobra.Command, _ []string) error {
		c, err := e.client(api.Operator)
		if err != nil {
			return err
		}
		var rows [][]string
		for ch, err := range c.Channels(cmd.Context()) {
			if err != nil {
				return err
			}
			if e.json {
				if err := e.print(ch); err != nil {
					return err
				}
				continue
			}
			name := bold.Render(printable(ch.Channel))
			if ch.Error != "" {
				name = bad.Render(unread("channel", ch.Error, ch.MissingKey))
			}
			rows = append(rows, []string{name, printable(ch.Agent), grouped(ch.Count), time.Time(ch.Updated).UTC().Format(time.DateTime)})
		}
		if e.json {
			return nil
		}
		cols := []column{{head: "channel"}, {head: "agent", drop: 1}, {head: "events", right: true}, {head: "newest", drop: 2}}
		_, err = io.WriteString(e.out, e.table(cols, rows))
		return err
	})
}

func tailEventsCmd(e *env) *cobra.Command {
	var f eventFilter
	var follow bool
	var n int
	var after string
	c := verb("tail CHANNEL", "the newest events, and those that come", 1, 1, func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		r, err := f.request(args[0])
		if err != nil {
			return err
		}
		c, err := e.client("main")
		if err != nil {
			return err
		}
		hints := make(chan *nats.Msg, 64)
		if follow {
			// Before the first read, so that nothing falls between. The channel may not be there yet.
			sub, err := c.Conn().ChanSubscribe(c.NotifyChannelSubject("*"), hints)
			if err != nil {
				return err
			}
			defer sub.Unsubscribe()
		}
		r.After = after
		since := func() (err error) {
			r.After, err = e.eventsSince(ctx, c, r)
			return err
		}
		first := since
		if after == "" {
			first = func() (err error) {
				r.After, err = e.newestEvents(ctx, c, r, n)
				return err
			}
		}
		if !follow {
			return first()
		}
		err = followReads(first, since, func() bool {
			select {
			case <-ctx.Done():
				return false
			case <-hints:
			case <-time.After(poll):
			}
			return true
		})
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
	f.flags(c)
	c.Flags().StringVar(&after, "after", "", "begin after this event")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until interrupted")
	c.Flags().IntVarP(&n, "lines", "n", 10, "how many events to begin with")
	return c
}

// followReads calls first, then next again and again. Before each call but the first it
// waits, and it ends if wait says so. A call that fails because the daemon does not answer
// now is repeated: first is the one that chooses where to begin. A channel that is not
// there yet has no events, so next begins with its first one.
func followReads(first, next func() error, wait func() bool) error {
	for read := first; ; {
		switch err := read(); {
		case err == nil || coded(err, api.NotFound):
			read = next
		case !isTransient(err):
			return err
		}
		if !wait() {
			return nil
		}
	}
}

// isTransient reports whether an error is of a daemon that may answer later.
func isTransient(err error) bool {
	return coded(err, api.Unavailable) || coded(err, api.Busy) || coded(err, api.Indeterminate)
}

// newestEvents prints the last n events and returns where the next call goes on.
func (e *env) newestEvents(ctx context.Context, c *api.Client, r api.ListEvents, n int) (last string, err error) {
	r.Order, r.Limit = "desc", min(max(n, 1), 1000)
	var newest []api.Event
	for ev, err := range c.Events(ctx, r) {
		if err != nil {
			return "", err
		}
		if newest = append(newest, ev); len(newest) >= max(n, 1) {
			break
		}
	}
	if len(newest) == 0 {
		return "", nil
	}
	last = strconv.FormatUint(newest[0].Index, 10)
	for _, ev := range slices.Backward(newest[:min(len(newest), max(n, 0))]) {
		if err := e.printEvent(&ev); err != nil {
			return last, err
		}
	}
	return last, nil
}

// eventsSince prints the events after r.After and returns where the next call goes on. An
// event is behind that place once it is printed, whatever follows.
func (e *env) eventsSince(ctx context.Context, c *api.Client, r api.ListEvents) (after string, err error) {
	for {
		page, err := c.EventPage(ctx, r)
		if err != nil {
			return r.After, err
		}
		for _, ev := range page.Events {
			if err := e.printEvent(&ev); err != nil {
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

func (e *env) printEvent(ev *api.Event) error {
	if e.json {
		return e.print(ev)
	}
	_, err := fmt.Fprintln(e.out, eventLine(ev, e.width))
	return err
}

func exportEventsCmd(e *env) *cobra.Command {
	var f eventFilter
	var file string
	c := verb("export CHANNEL", "the events with stored bytes and hashes, as JSON lines", 1, 1, func(cmd *cobra.Command, args []string) error {
		r, err := f.request(args[0])
		if err != nil {
			return err
		}
		r.Raw = true
		c, err := e.client("main")
		if err != nil {
			return err
		}
		write := func(w io.Writer) error { return exportChannel(cmd.Context(), c, r, w) }
		if file == "" {
			return write(e.lines())
		}
		return writeFile(file, write)
	})
	f.flags(c)
	c.Flags().StringVarP(&file, "output", "o", "", "file to write")
	return c
}

// exportChannel writes events as JSON lines, each with its whole body. It checks that the
// stored bytes of each have its hash.
func exportChannel(ctx context.Context, c *api.Client, r api.ListEvents, w io.Writer) error {
	for ev, err := range c.Events(ctx, r) {
		if err == nil && (ev.Error != "" || ev.Body == nil) {
			var whole *api.Event
			if whole, err = c.Event(ctx, api.GetEvent{Channel: r.Channel, ID: ev.ID, Raw: true}); err == nil {
				ev = *whole
			}
		}
		if err != nil {
			return err
		}
		if got := turns.HashEvent(ev.Payload); got != ev.Hash {
			return api.Errorf(api.Corrupt, nil, "event %s has the hash %s, its bytes have %s", ev.ID, ev.Hash, got)
		}
		ev.Turns = nil
		b, err := turns.EncodeJSON(ev)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(b, '\n')); err != nil {
			return err
		}
	}
	return nil
}
