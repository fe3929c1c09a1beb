package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/transcripts"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/importreport"
	"nexus/cmd/ledgerctl/internal/sessions"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// importFlags are the flags of import that store no transcript.
type importFlags struct {
	dry, list bool
	undo      string
	redo      string
}

// importUnits is import --list and import --undo.
func (e *env) importUnits(ctx context.Context, args []string, f importFlags) error {
	switch {
	case len(args) > 0:
		return fault.Usage(errors.New("--list, --undo and --redo take no file"))
	case f.undo != "" && f.redo != "", f.undo+f.redo != "" && f.list:
		return fault.Usage(errors.New("--list, --undo and --redo don't go together"))
	case f.list:
		return e.listImports(ctx)
	}
	unit, err := turns.ParseID(cmp.Or(f.undo, f.redo))
	if err != nil {
		return fault.WithHint(fault.Usage(fmt.Errorf("%.40q is not the id of an import", cmp.Or(f.undo, f.redo))), "ledgerctl import --list lists them")
	}
	return e.undoImport(ctx, unit, f.undo != "", f.dry)
}

// undoImport hides the sessions that an import opened, or shows them again. Those that an earlier import opened stay
// as they are, also where this one added turns to them.
func (e *env) undoImport(ctx context.Context, unit turns.ID, hide, dry bool) error {
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	var of []api.Session
	for s, err := range c.ListSessions(ctx, api.ListSessions{Hidden: true, Superseded: true}) {
		if err != nil {
			return err
		}
		if transcripts.ImportedBy(&s) == unit {
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

// listImports lists the imports that opened sessions, the newest last.
func (e *env) listImports(ctx context.Context) error {
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	by := make(map[turns.ID]*unitRow)
	for s, err := range c.ListSessions(ctx, api.ListSessions{Hidden: true, Superseded: true}) {
		if err != nil {
			return err
		}
		unit := transcripts.ImportedBy(&s)
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
	var list []*unitRow
	for _, r := range by {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *unitRow) int {
		return cmp.Or(time.Time(a.Time).Compare(time.Time(b.Time)), a.Import.Compare(b.Import))
	})
	if e.JSON {
		for _, r := range list {
			if err := e.Print(r); err != nil {
				return err
			}
		}
		return nil
	}
	if len(list) == 0 {
		e.Say("no session was opened by an import that has an id")
		return nil
	}
	var rows [][]string
	for _, r := range list {
		rows = append(rows, []string{terminal.Whole(r.Import), time.Time(r.Time).Local().Format(prose.Stamp), prose.Grouped(r.Sessions), prose.Grouped(r.Turns), prose.Grouped(r.Hidden)})
	}
	cols := []terminal.Column{{Head: "import"}, {Head: "time"}, {Head: "sessions", Right: true}, {Head: "turns", Right: true}, {Head: "hidden", Right: true}}
	_, err = io.WriteString(e.Out, e.Table(cols, rows))
	return err
}

// previewImport is import --dry-run.
func (e *env) previewImport(ctx context.Context, im *transcripts.Importer, files []transcripts.File, losses bool) error {
	p := transcripts.Preview{Losses: nil}
	var skipped []string
	var failed error
	for _, f := range files {
		if f.Special {
			continue
		}
		var unknown transcripts.UnknownFormat
		switch err := im.Preview(ctx, f.Name, &p); {
		case f.Searched && errors.As(err, &unknown):
			skipped = append(skipped, f.Name)
		case ctx.Err() != nil, err != nil && fault.HasCode(err, api.Unavailable):
			return err
		case err != nil:
			e.Say("%s could not be read to its end: %v", prose.Printable(f.Name), err)
			failed = cmp.Or(failed, err)
		}
	}
	if err := im.EndPreview(ctx, &p); err != nil {
		return err
	}
	if e.JSON {
		if err := e.Print(&p); err != nil {
			return err
		}
		return failed
	}
	importreport.PrintSkipped(e.Terminal, skipped, losses, "is no transcript", "are no transcripts")
	var read []string
	for _, name := range slices.Sorted(maps.Keys(p.Formats)) {
		read = append(read, fmt.Sprintf("%s %s", prose.Grouped(uint64(p.Formats[name])), name))
	}
	if len(read) > 0 {
		fmt.Fprintf(e.Out, "read: %s\n", strings.Join(read, ", "))
	}
	fmt.Fprintf(e.Out, "would store of %s: %s of %s, %s of %s; %s\n", prose.Plural(uint64(p.Files), "file"),
		prose.Grouped(uint64(p.NewSessions)), prose.Plural(uint64(p.Sessions), "session"), prose.Grouped(uint64(p.NewTurns)), prose.Plural(uint64(p.Turns), "turn"), prose.Plural(uint64(p.Compactions), "compaction"))
	if n := len(p.Hidden); n > 0 {
		fmt.Fprintf(e.Out, "%s of them hidden in the ledger, and would stay so\n", map[bool]string{true: "1 is", false: prose.Grouped(uint64(n)) + " are"}[n == 1])
	}
	if len(p.Losses) > 0 {
		fmt.Fprintln(e.Out, terminal.Faint.Render("not kept exactly as it stands:"))
		importreport.PrintKinds(e.Terminal, p.Losses)
	}
	e.Say("nothing is stored")
	return failed
}
