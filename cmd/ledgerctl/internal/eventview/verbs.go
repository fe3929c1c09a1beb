package eventview

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

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Appending is an event to store, as a person types it.
type Appending struct {
	Kind, Body, Meta, Time, ID string // without a body the input has it
}

// Append stores an event in a channel.
func Append(ctx context.Context, e *cli.Env, channel string, o Appending) error {
	if o.Kind == "" {
		return fault.Usage(errors.New("--kind says what the event is, as --kind mail.received"))
	}
	r := api.AppendEvent{Channel: channel, Kind: o.Kind, Body: turns.Raw(o.Body), Meta: turns.Raw(o.Meta)}
	if o.Body == "" {
		b, err := e.ReadFile("-")
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(b)) == 0 {
			return fault.WithHint(fault.Usage(errors.New("stdin is empty: without --body the event's body is read there, as JSON")),
				fmt.Sprintf(`echo '{"subject":"hello"}' | ledgerctl event append %s --kind %s`, prose.ShellWord(channel), prose.ShellWord(o.Kind)))
		}
		r.Body = b
	}
	var err error
	if r.Time, err = names.Day("time", o.Time); err != nil {
		return err
	}
	if o.ID != "" {
		if r.ID, err = turns.ParseID(o.ID); err != nil {
			return fault.Usage(fmt.Errorf("--id: %w", err))
		}
	}
	if err := cli.JSONValue("the body", r.Body); err != nil {
		return err
	}
	if o.Meta == "" {
		r.Meta = nil
	} else if err := cli.JSONValue("--meta", r.Meta); err != nil {
		return err
	}
	c, err := e.Client("main")
	if err != nil {
		return err
	}
	a, err := c.AppendEvent(ctx, r)
	if err != nil {
		return err
	}
	if a.Duplicate {
		e.Say("the event was stored before")
	}
	return e.Result(a, "%s", a.ID)
}

// Filter says which events of a channel are meant, as a person types it.
type Filter struct {
	Kind, Since, Until string
}

func (f *Filter) request(channel string) (r api.ListEvents, err error) {
	r = api.ListEvents{Channel: channel, Kind: f.Kind}
	if r.From, err = names.Day("since", f.Since); err == nil {
		r.To, err = names.Until("until", f.Until)
	}
	return r, err
}

// List lists the events of a channel, at most limit; 0: all.
func List(ctx context.Context, e *cli.Env, channel string, f Filter, limit int, newestFirst bool) error {
	r, err := f.request(channel)
	if err != nil {
		return err
	}
	if newestFirst {
		r.Order = "desc"
	}
	e.SayTimes(r.From, r.To)
	c, err := e.Client("main")
	if err != nil {
		return err
	}
	any := false
	err = terminal.PrintEach(e.Terminal, c.Events(ctx, r), limit, func(ev *api.Event) string {
		any = true
		return Line(ev, e.Width)
	})
	if err == nil && !any && !e.JSON {
		e.Say("the channel has no such event")
	}
	return err
}

// Get prints an event, and the turns that name it.
func Get(ctx context.Context, e *cli.Env, channel, name string) error {
	c, err := e.Client("main")
	if err != nil {
		return err
	}
	id, err := find(ctx, e, c, channel, name)
	if err != nil {
		return err
	}
	ev, err := c.Event(ctx, api.GetEvent{Channel: channel, ID: id})
	if err != nil {
		return err
	}
	if e.JSON {
		return e.Print(ev)
	}
	Show(e.Terminal, ev)
	_, err = fmt.Fprintf(e.Out, "\n%s\n", prose.Printable(string(ev.Body)))
	return err
}

// find finds an event of a channel by its id or by its number.
func find(ctx context.Context, e *cli.Env, c *client.Client, channel, name string) (turns.ID, error) {
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
		if api.HasCode(err, api.Malformed) {
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

// Channels lists the channels of an agent, or of all agents.
func Channels(ctx context.Context, e *cli.Env) error {
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	var rows [][]string
	for ch, err := range c.Channels(ctx) {
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
}
