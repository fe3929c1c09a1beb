package imports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/transcripts/sessionmeta"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/sessions"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// units is import --list, --undo and --redo.
func (o Options) units(ctx context.Context, e *cli.Env, args []string) error {
	switch {
	case len(args) > 0:
		return fault.Usage(errors.New("--list, --undo and --redo take no file"))
	case o.Undo != "" && o.Redo != "", o.Undo+o.Redo != "" && o.List:
		return fault.Usage(errors.New("--list, --undo and --redo don't go together"))
	case o.List:
		return list(ctx, e)
	}
	unit, err := turns.ParseID(cmp.Or(o.Undo, o.Redo))
	if err != nil {
		return fault.WithHint(fault.Usage(fmt.Errorf("%.40q is not the id of an import", cmp.Or(o.Undo, o.Redo))), "ledgerctl import --list lists them")
	}
	return undo(ctx, e, unit, o.Undo != "", o.DryRun)
}

// undo hides the sessions that an import opened, or shows them again. Those that an earlier import opened stay
// as they are, also where this one added turns to them.
func undo(ctx context.Context, e *cli.Env, unit turns.ID, hide, dry bool) error {
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	var of []api.Session
	for s, err := range c.ListSessions(ctx, api.ListSessions{Hidden: true, Superseded: true}) {
		if err != nil {
			return err
		}
		if sessionmeta.ImportedBy(&s) == unit {
			of = append(of, s)
		}
	}
	if len(of) == 0 {
		return fault.WithHint(api.Errorf(api.NotFound, nil, "no session was opened by an import %s", unit), "ledgerctl import --list lists the imports")
	}
	result := struct {
		Import   turns.ID   `json:"import"`
		Sessions []turns.ID `json:"sessions"`
		Hidden   int        `json:"hidden"`         // now; the others were before
		Shown    int        `json:"shown,omitzero"` // again, likewise
		Left     []turns.ID `json:"left,omitzero"`  // as they are: somebody went on with them, or hid them by hand
	}{Import: unit, Sessions: []turns.ID{}}
	undone := "import " + unit.String() + " is undone"
	for _, s := range of {
		result.Sessions = append(result.Sessions, s.ID)
		if s.Hidden == hide {
			continue
		}
		leave := !hide && s.HiddenCause != undone
		if hide {
			if leave, err = continuedByHand(ctx, c, &s); err != nil {
				return err
			}
		}
		if leave {
			result.Left = append(result.Left, s.ID)
			continue
		}
		if !dry {
			cause := undone
			if !hide {
				cause = "import " + unit.String() + " is shown again"
			}
			if _, err := sessions.SetHidden(ctx, c.As(s.Agent), s.ID, hide, cause); err != nil {
				return fmt.Errorf("%d of %s done: session %s: %w", result.Hidden+result.Shown, prose.Plural(uint64(len(of)), "session"), s.ID, err)
			}
		}
		if hide {
			result.Hidden++
		} else {
			result.Shown++
		}
	}
	if n := len(result.Left); n > 0 {
		of := prose.Plural(uint64(n), "session")
		pick := func(one, more string) string { return map[bool]string{true: one, false: more}[n == 1] }
		if hide {
			e.Say("somebody went on with %s, which %s left; ledgerctl session hide hides %s:", of, pick("is", "are"), pick("it", "one"))
		} else {
			e.Say("%s %s hidden by hand, and %s so; ledgerctl session unhide shows %s:", of, pick("was", "were"), pick("stays", "stay"), pick("it", "one"))
		}
		for _, id := range result.Left[:min(n, 10)] {
			e.Say("  %s", terminal.Whole(id))
		}
	}
	if !hide {
		would := map[bool]string{true: " would be"}[dry]
		return e.Result(result, "import %s opened %s: %s%s shown again", unit, prose.Plural(uint64(len(of)), "session"), prose.Grouped(uint64(result.Shown)), would)
	}
	if dry {
		return e.Result(result, "import %s opened %s; %s would be hidden", unit, prose.Plural(uint64(len(of)), "session"), prose.Grouped(uint64(result.Hidden)))
	}
	if err := e.Result(result, "import %s is undone: %s hidden", unit, prose.Plural(uint64(result.Hidden), "session")); err != nil {
		return err
	}
	e.Say("nothing is deleted; turns that it added to sessions of earlier imports stay. ledgerctl import --redo %s shows them again, sessions --hidden lists them", unit)
	return nil
}

// continuedByHand reports whether the newest turn of a session that an import opened is no import's: it states no time of
// its own, and its id was made when it was stored.
func continuedByHand(ctx context.Context, c *client.Client, s *api.Session) (bool, error) {
	if s.Head == nil || s.Error != "" {
		return false, nil
	}
	t, err := c.Turn(ctx, s.ID, *s.Head)
	if err != nil {
		return false, err
	}
	if t.Session != s.ID || t.Compaction != nil || t.Time != nil {
		return false, nil
	}
	return time.Time(t.Recorded).Sub(t.ID.Time()).Abs() < time.Minute, nil
}

// unitRow is an import, as the sessions that it opened tell of it.
type unitRow struct {
	Import   turns.ID `json:"import"`
	Time     api.Time `json:"time"`
	Sessions uint64   `json:"sessions"`
	Turns    uint64   `json:"turns"`
	Hidden   uint64   `json:"hidden,omitzero"`
}

// list lists the imports that opened sessions, the newest last.
func list(ctx context.Context, e *cli.Env) error {
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	by := make(map[turns.ID]*unitRow)
	for s, err := range c.ListSessions(ctx, api.ListSessions{Hidden: true, Superseded: true}) {
		if err != nil {
			return err
		}
		unit := sessionmeta.ImportedBy(&s)
		if unit.IsZero() {
			continue
		}
		r := by[unit]
		if r == nil {
			r = &unitRow{Import: unit, Time: api.Time(unit.Time())}
			by[unit] = r
		}
		r.Sessions, r.Turns = r.Sessions+1, r.Turns+s.Turns
		if s.Hidden {
			r.Hidden++
		}
	}
	var all []*unitRow
	for _, r := range by {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *unitRow) int {
		return cmp.Or(time.Time(a.Time).Compare(time.Time(b.Time)), a.Import.Compare(b.Import))
	})
	if e.JSON {
		return terminal.PrintJSON(e.Terminal, all)
	}
	if len(all) == 0 {
		e.Say("no session was opened by an import that has an id")
		return nil
	}
	var rows [][]string
	for _, r := range all {
		rows = append(rows, []string{terminal.Whole(r.Import), time.Time(r.Time).Local().Format(prose.Stamp), prose.Grouped(r.Sessions), prose.Grouped(r.Turns), prose.Grouped(r.Hidden)})
	}
	cols := []terminal.Column{{Head: "import"}, {Head: "time"}, {Head: "sessions", Right: true}, {Head: "turns", Right: true}, {Head: "hidden", Right: true}}
	_, err = io.WriteString(e.Out, e.Table(cols, rows))
	return err
}
