package sessions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
)

// Title gives a session a title, or with none takes it away; without either it prints the title.
func Title(ctx context.Context, e *cli.Env, name, title string, none bool) error {
	c, s, err := e.Session(ctx, name)
	if err != nil {
		return err
	}
	switch {
	case none && title != "":
		return fault.Usage(errors.New("--none takes the title away; leave TITLE out"))
	case !none && title == "":
		full, err := c.GetSession(ctx, s.ID, api.GetSession{About: api.About{About: true}})
		if err != nil {
			return err
		}
		return e.Result(full, "%s", prose.Clip(full.Title, 1000))
	}
	if s, err = c.Describe(ctx, s.ID, api.DescribeSession{Title: &title}); err != nil {
		return err
	}
	if none {
		return e.Result(s, "session %s has no title of yours", s.ID)
	}
	return e.Result(s, "session %s: %s", s.ID, prose.Clip(s.Title, 1000))
}

// Tag changes the tags of a session and the project that it belongs to, if r says so, and prints the tags.
func Tag(ctx context.Context, e *cli.Env, name string, r api.DescribeSession) error {
	c, s, err := e.Session(ctx, name)
	if err != nil {
		return err
	}
	if len(r.Tag) > 0 || len(r.Untag) > 0 || r.Project != nil {
		if s, err = c.Describe(ctx, s.ID, r); err != nil {
			return err
		}
	} else if len(s.Tags) == 0 && !e.JSON {
		e.Say("session %s has no tags", s.ID)
		return nil
	}
	if e.JSON {
		return e.Print(s)
	}
	for _, tag := range s.Tags {
		if _, err := fmt.Fprintln(e.Out, prose.Printable(tag)); err != nil {
			return err
		}
	}
	return nil
}

// Note puts a note on a turn, or with none takes it away; without either it prints the note. The text - is the input.
func Note(ctx context.Context, e *cli.Env, turn, text string, none bool) error {
	p, err := e.Find(ctx, turn)
	if err != nil {
		return err
	}
	if p.Turn.IsZero() {
		if p.Session.Head == nil {
			return fault.Usage(fmt.Errorf("session %s has no turn yet", p.Session.ID))
		}
		p.Turn = *p.Session.Head
	}
	if text == "-" {
		b, err := io.ReadAll(io.LimitReader(e.In, 1<<20))
		if err != nil {
			return err
		}
		text = strings.TrimRight(string(b), "\n")
	}
	switch {
	case none && text != "":
		return fault.Usage(errors.New("--none takes the note away; leave TEXT out"))
	case !none && text == "":
		t, err := p.Client.Turn(ctx, p.Session.ID, p.Turn)
		if err != nil {
			return err
		}
		if t.Note == nil {
			e.Say("there is no note on turn %s", p.Turn)
			return nil
		}
		return e.Result(t.Note, "%s", prose.Printable(t.Note.Text))
	}
	t, err := p.Client.Note(ctx, p.Session.ID, api.NoteTurn{Turn: p.Turn, Text: text})
	if err != nil {
		return err
	}
	if none {
		return e.Result(t, "turn %s has no note", t.ID)
	}
	return e.Result(t, "noted on turn %s", t.ID)
}
