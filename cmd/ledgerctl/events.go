package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/eventview"
	"nexus/cmd/ledgerctl/internal/export"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// The agent of these verbs is main unless one is named: a channel belongs to an agent.

func eventsCmd(e *env) *cobra.Command {
	c := verb("event", "channels of external events: mails, webhook calls", 0, 0, func(cmd *cobra.Command, _ []string) error { return cmd.Help() })
	c.Aliases = []string{"events"}
	c.AddCommand(appendEventCmd(e), listEventsCmd(e), getEventCmd(e), channelsCmd(e), tailEventsCmd(e), exportEventsCmd(e))
	return c
}

func appendEventCmd(e *env) *cobra.Command {
	var kind, body, at, id, meta string
	c := verb("append CHANNEL", "store an external event", 1, 1, func(cmd *cobra.Command, args []string) error {
		if kind == "" {
			return fault.Usage(errors.New("--kind says what the event is, as --kind mail.received"))
		}
		r := api.AppendEvent{Channel: args[0], Kind: kind, Body: turns.Raw(body), Meta: turns.Raw(meta)}
		if body == "" {
			b, err := e.ReadFile("-")
			if err != nil {
				return err
			}
			if len(bytes.TrimSpace(b)) == 0 {
				return fault.WithHint(fault.Usage(errors.New("stdin is empty: without --body the event's body is read there, as JSON")),
					fmt.Sprintf(`echo '{"subject":"hello"}' | ledgerctl event append %s --kind %s`, prose.ShellWord(args[0]), prose.ShellWord(kind)))
			}
			r.Body = b
		}
		var err error
		if r.Time, err = names.Day("time", at); err != nil {
			return err
		}
		if id != "" {
			if r.ID, err = turns.ParseID(id); err != nil {
				return fault.Usage(fmt.Errorf("--id: %w", err))
			}
		}
		if err := cli.JSONValue("the body", r.Body); err != nil {
			return err
		}
		if meta == "" {
			r.Meta = nil
		} else if err := cli.JSONValue("--meta", r.Meta); err != nil {
			return err
		}
		c, err := e.Client("main")
		if err != nil {
			return err
		}
		a, err := c.AppendEvent(cmd.Context(), r)
		if err != nil {
			return err
		}
		if a.Duplicate {
			e.Say("the event was stored before")
		}
		return e.Result(a, "%s", a.ID)
	})
	c.Flags().StringVar(&kind, "kind", "", "what the event is, such as mail.received")
	c.Flags().StringVar(&body, "body", "", "the body, JSON (else: stdin)")
	c.Flags().StringVar(&meta, "meta", "", "a JSON object")
	c.Flags().StringVar(&at, "time", "", "when it happened: a day or a time")
	c.Flags().StringVar(&id, "id", "", "id of the event: the same one stores it once")
	return c
}

// eventFilter is the flags that choose events.
type eventFilter struct {
	kind, since, until string
}

func (f *eventFilter) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.kind, "kind", "", "events of this kind")
	c.Flags().StringVar(&f.since, "since", "", "from a time on: "+names.DayHelp)
	c.Flags().StringVar(&f.until, "until", "", names.UntilHelp)
	c.Flags().StringVar(&f.since, "from", "", "as --since")
	c.Flags().StringVar(&f.until, "to", "", "as --until")
	_, _ = c.Flags().MarkHidden("from"), c.Flags().MarkHidden("to") // what these were called
}

func (f *eventFilter) request(channel string) (r api.ListEvents, err error) {
	r = api.ListEvents{Channel: channel, Kind: f.kind}
	if r.From, err = names.Day("since", f.since); err == nil {
		r.To, err = names.Until("until", f.until)
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
		e.SayTimes(r.From, r.To)
		c, err := e.Client("main")
		if err != nil {
			return err
		}
		any := false
		err = terminal.PrintEach(e.Terminal, c.Events(cmd.Context(), r), n, func(ev *api.Event) string {
			any = true
			return eventview.Line(ev, e.Width)
		})
		if err == nil && !any && !e.JSON {
			e.Say("the channel has no such event")
		}
		return err
	})
	f.flags(c)
	c.Flags().IntVarP(&n, "limit", "n", 0, "at most N events")
	c.Flags().BoolVar(&desc, "newest-first", false, "the newest events first")
	return c
}

func getEventCmd(e *env) *cobra.Command {
	return verb("get CHANNEL EVENT", "one event, and the turns that name it", 2, 2, func(cmd *cobra.Command, args []string) error {
		c, err := e.Client("main")
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
		if e.JSON {
			return e.Print(ev)
		}
		eventview.Show(e.Terminal, ev)
		_, err = fmt.Fprintf(e.Out, "\n%s\n", prose.Printable(string(ev.Body)))
		return err
	})
}

// eventID finds an event of a channel by its id or by its number.
func (e *env) eventID(ctx context.Context, c *client.Client, channel, name string) (turns.ID, error) {
	if id, err := turns.ParseID(strings.ToUpper(name)); err == nil {
		return id, nil
	}
	n, err := strconv.ParseUint(name, 10, 63)
	if err != nil {
		return turns.ID{}, fault.Usage(errors.New("an event is named by its whole id, or its number: event list shows both"))
	}
	r := api.ListEvents{Channel: channel, Page: api.Page{Limit: 1}}
	if n > 0 {
		r.After = strconv.FormatUint(n-1, 10)
	}
	for ev, err := range c.Events(ctx, r) {
		if fault.HasCode(err, api.Malformed) {
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
	return turns.ID{}, fault.WithHint(api.Errorf(api.NotFound, nil, "channel %s of agent %s has no event %d", channel, cmp.Or(e.Agent, "main"), n), "ledgerctl event list "+channel+" lists them")
}

func channelsCmd(e *env) *cobra.Command {
	return verb("channels", "the channels of an agent, or of all agents", 0, 0, func(cmd *cobra.Command, _ []string) error {
		c, err := e.Client(api.Operator)
		if err != nil {
			return err
		}
		var rows [][]string
		for ch, err := range c.Channels(cmd.Context()) {
			if err != nil {
				return err
			}
			if e.JSON {
				if err := e.Print(ch); err != nil {
					return err
				}
				continue
			}
			name := terminal.Bold.Render(prose.Printable(ch.Channel))
			if ch.Error != "" {
				name = terminal.Bad.Render(prose.Unreadable("channel", ch.Error, ch.MissingKey))
			}
			rows = append(rows, []string{name, prose.Printable(ch.Agent), prose.Grouped(ch.Count), time.Time(ch.Updated).Local().Format(time.DateTime)})
		}
		if e.JSON {
			return nil
		}
		cols := []terminal.Column{{Head: "channel"}, {Head: "agent", Drop: 1}, {Head: "events", Right: true}, {Head: "newest", Drop: 2}}
		_, err = io.WriteString(e.Out, e.Table(cols, rows))
		return err
	})
}

func tailEventsCmd(e *env) *cobra.Command {
	var f eventFilter
	var follow bool
	var n int
	var after string
	c := verb("tail CHANNEL", "the newest events; -f waits for more", 1, 1, func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		r, err := f.request(args[0])
		if err != nil {
			return err
		}
		c, err := e.Client("main")
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
			r.After, err = eventview.EventsSince(ctx, e.Terminal, c, r)
			return err
		}
		first := since
		if after == "" {
			first = func() (err error) {
				r.After, err = eventview.NewestEvents(ctx, e.Terminal, c, r, n)
				return err
			}
		}
		if !follow {
			return first()
		}
		err = eventview.Follow(first, since, func() bool {
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
	c.Flags().BoolVarP(&follow, "follow", "f", false, "continue until interrupted")
	c.Flags().IntVarP(&n, "lines", "n", 10, "how many events to begin with")
	return c
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
		c, err := e.Client("main")
		if err != nil {
			return err
		}
		write := func(w io.Writer) error { return eventview.Export(cmd.Context(), c, r, w) }
		if file == "" {
			return write(e.Lines())
		}
		return export.WriteFile(file, write)
	})
	f.flags(c)
	c.Flags().StringVarP(&file, "output", "o", "", "file to write")
	return c
}
