package eventview

import (
	"context"
	"fmt"
	"time"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/turns"
)

// Line is an event on one line: id, ordinal, time, kind, and the beginning of its body.
func Line(ev *api.Event, width int) string {
	at := time.Time(ev.Recorded)
	if ev.Time != nil {
		at = time.Time(*ev.Time)
	}
	text := prose.Clip(string(ev.Body), 400)
	switch {
	case ev.Error != "":
		text = terminal.Bad.Render(prose.Unreadable("event", ev.Error, ev.MissingKey))
	case ev.Ref != nil && ev.Body == nil:
		text = fmt.Sprintf("(%s bytes; events get has them)", prose.Grouped(ev.Ref.Size))
	}
	line := fmt.Sprintf("%s %6d  %s  %s  %s", terminal.ID.Render(ev.ID.String()), ev.Index, at.Local().Format(time.DateTime), terminal.Tool.Render(prose.Printable(ev.Kind)), text)
	if width > 0 {
		line = terminal.Cut(line, width)
	}
	return line
}

// Show shows what an event has beside its body.
func Show(term *terminal.Terminal, ev *api.Event) {
	row := term.Rows(8)
	row("event", "%s", terminal.ID.Render(ev.ID.String()))
	row("channel", "%s, index %d", prose.Printable(ev.Channel), ev.Index)
	row("kind", "%s", prose.Printable(ev.Kind))
	if ev.Time != nil {
		row("time", "%s", time.Time(*ev.Time).Local().Format(prose.Stamp))
	}
	row("recorded", "%s", time.Time(ev.Recorded).Local().Format(prose.Stamp))
	if ev.Meta != nil {
		row("meta", "%s", prose.Printable(string(ev.Meta)))
	}
	row("hash", "%s", ev.Hash)
	if ev.Index > 0 {
		row("previous", "%s", ev.PrevHash)
	}
	for _, t := range ev.Turns {
		row("turn", "%s of session %s", t.Turn, t.Session)
	}
}

// ShowAnswered shows the external event that a turn's meta names, if it names one.
func ShowAnswered(ctx context.Context, term *terminal.Terminal, p names.Place, t *api.Turn) error {
	channel, id, ok := turns.ExternalEvent(t.Meta)
	if !ok {
		return nil
	}
	fmt.Fprintf(term.Out, "\n%s\n", terminal.Title.Render("answers event"))
	ev, err := p.Client.As(p.Session.Agent).Event(ctx, api.GetEvent{Channel: channel, ID: id})
	if api.HasCode(err, api.NotFound) {
		term.Tell("event %s of channel %s is not stored here", id, prose.Printable(channel))
		return nil
	}
	if err != nil {
		return err
	}
	Show(term, ev)
	_, err = fmt.Fprintf(term.Out, "%s\n", prose.Clip(string(ev.Body), 4*max(term.Width, 80)))
	return err
}

func printEvent(term *terminal.Terminal, ev *api.Event) error {
	if term.JSON {
		return term.Print(ev)
	}
	_, err := fmt.Fprintln(term.Out, Line(ev, term.Width))
	return err
}
