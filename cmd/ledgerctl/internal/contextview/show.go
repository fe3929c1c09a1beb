package contextview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/cmd/ledgerctl/internal/turnview"
	"nexus/ledger/api"
	"nexus/turns"
)

// Options are the flags of the command.
type Options struct {
	Format, Query                    string
	Policy                           names.PolicyFlags
	Budget, QueryTokens              uint64
	Explain, SVG, Before, Next, Diff bool
	Secrets                          bool
}

// Simulates reports whether the flags ask for what another policy or request would show.
func (f *Options) Simulates() bool { return f.Policy.Name != "" || f.Budget > 0 || f.Query != "" }

// Check says which flags do not go together.
func (f *Options) Check(term *terminal.Terminal) error {
	switch {
	case f.SVG && (term.JSON || f.Format != ""):
		return fault.Usage(fault.ErrBothForms)
	case f.QueryTokens > 0 && f.Query == "":
		return fault.Usage(errors.New("--query-tokens goes with --query"))
	case f.Before && (f.Next || f.Simulates()):
		return fault.Usage(errors.New("--before is of what was recorded; it does not go with --next, --policy, --budget and --query"))
	case f.Diff && (f.SVG || f.Format != "" || f.Explain):
		return fault.Usage(errors.New("--diff goes without --svg, --format and --explain"))
	}
	return nil
}

// Show prints what was recorded of a call, or how full the window is, and what each
// half turn of the context says.
func Show(ctx context.Context, term *terminal.Terminal, p names.Place, cx *api.Context, f Options) error {
	if f.Simulates() && !p.Turn.IsZero() {
		term.Tell("A simulation: what the next call at this turn would be given with these flags. Without them you see what the model was given.")
	}
	depths, err := depthsOf(ctx, p)
	if err != nil {
		return err
	}
	if cx.Recorded == "" {
		PrintFullness(term, cx)
	} else if err := printRecorded(ctx, term, p, cx, f); err != nil {
		return err
	}
	return PrintPieces(term, cx, depths, f)
}

// PrintFullness prints how full the window is.
func PrintFullness(term *terminal.Terminal, cx *api.Context) {
	counted := cx.Tokens + cx.Overhead
	used, by := counted, "estimated"
	if cx.Reported > 0 {
		used, by = cx.Reported, "billed"
	}
	share := float64(used) / float64(max(cx.Budget, 1))
	cells := 40
	if term.Width > 0 {
		cells = min(cells, max(10, term.Width-50))
	}
	about := ""
	if cx.Overhead > 0 {
		about = fmt.Sprintf(", %s of them system and tools", prose.Grouped(cx.Overhead))
	}
	counter := prose.Printable(Counter(cx.Recipe))
	if cx.Reported > 0 {
		about = "" // the provider does not say what of its count is system and tools
	} else if counter != DefaultCounter {
		about += ", counted by " + counter
	}
	full := fmt.Sprintf("%s %.0f%%  %s of %s tokens (%s)", terminal.Gauge(share, cells), 100*share, prose.Grouped(used), prose.Grouped(cx.Budget), by)
	if about = Guessed(cx.WindowGuess) + about; term.Width > 0 && lipgloss.Width(full+about) > term.Width {
		full, about = full+"\n  ", terminal.Wrapped(term.Width-2, strings.TrimPrefix(about, ", "), "  ") // below the bar, as a line of its own
	}
	fmt.Fprintln(term.Out, full+about)
	if cx.Reported > 0 {
		fmt.Fprintln(term.Out, terminal.Wrapped(term.Width, fmt.Sprintf("billed: the provider's count of the last call, and an estimate of what came since; the rows below are estimates of %s: %s messages + %s system and tools = %s tokens",
			counter, prose.Grouped(cx.Tokens), prose.Grouped(cx.Overhead), prose.Grouped(counted)), "  "))
	}
}

// printRecorded prints what is known of the call that a turn is.
func printRecorded(ctx context.Context, term *terminal.Terminal, p names.Place, cx *api.Context, f Options) error {
	t, err := p.Client.Turn(ctx, p.Session.ID, p.Turn)
	if err != nil {
		return err
	}
	row := term.Rows(9)
	at, bound := prose.TurnTime(t)
	row("call", "%s@%d, %s, %s", prose.Short(t.Session), t.Depth, cmp.Or(prose.Printable(t.Model), "no model named"), prose.At(at, bound, time.DateTime))
	what := "what the model was given for it, and what it answered"
	if f.Before {
		what = "what the model was given for it"
	}
	if cx.Recorded == "recipe" {
		row("shown", "%s: the context that was served, made again", what)
	} else {
		row("shown", "%s, as far as the source tells", what)
	}
	if k := compactionIn(cx); k.IsZero() && shortenedIn(cx) > 0 {
		row("compacted", "nothing covered, %s shortened", prose.Plural(shortenedIn(cx), "half turn"))
	} else if k.IsZero() {
		row("compacted", "nothing before it")
	} else if c, err := p.Client.Compaction(ctx, p.Session.ID, k); err == nil {
		row("compacted", "%s: %s (%s)", prose.Short(k), turnview.Did(c.Compaction), turnview.By(c.Compaction))
	} else {
		row("compacted", "%s", prose.Short(k))
	}
	row("ours", "%s tokens by %s: %s of messages, %s of system and tools", prose.Grouped(cx.Tokens+cx.Overhead), prose.Printable(Counter(cx.Recipe)), prose.Grouped(cx.Tokens), prose.Grouped(cx.Overhead))
	if u := t.Usage; u != nil && u.InputTokens > 0 {
		row("provider", "%s tokens in (%s read from the cache, %s written to it), %s out", prose.Grouped(u.InputTokens), prose.Grouped(u.CacheRead), prose.Grouped(u.CacheCreation), prose.Grouped(u.OutputTokens))
	} else {
		row("provider", "no count is recorded")
	}
	var lacks []string
	if len(cx.System) == 0 || string(cx.System) == "null" {
		lacks = append(lacks, "the system prompt")
	}
	if len(cx.Tools) == 0 {
		lacks = append(lacks, "the definitions of tools")
	}
	text := strings.Join(lacks, " and ")
	if ours := cx.Tokens + cx.Overhead; text != "" && cx.Reported > ours {
		text += fmt.Sprintf("; the provider counted %s tokens more than are shown", prose.Grouped(cx.Reported-ours))
	}
	row("not known", "%s", text)
	return nil
}

// compactionIn returns the compaction whose summary a context shows first, zero for none.
func compactionIn(cx *api.Context) turns.ID {
	for i := range cx.Sources {
		if cx.Sources[i].Status == "summary" {
			return cx.Sources[i].Turn
		}
	}
	return turns.ID{}
}

// shortenedIn returns how many half turns a context shows with shortened parts.
func shortenedIn(cx *api.Context) (n uint64) {
	for i := range cx.Sources {
		switch cx.Sources[i].Status {
		case "elided", "trimmed", "cleared":
			n++
		}
	}
	return n
}

// depthsOf returns the numbers of the turns on a path.
func depthsOf(ctx context.Context, p names.Place) (map[turns.ID]uint64, error) {
	out := make(map[turns.ID]uint64)
	for t, err := range p.Client.As(api.Operator).Path(ctx, p.Session.ID, api.GetPath{At: p.Turn}) {
		if err != nil {
			return nil, err
		}
		out[t.ID] = t.Depth
	}
	return out, nil
}

// PrintPieces prints what each half turn of a context says. Long runs are folded, unless
// all is asked for.
func PrintPieces(term *terminal.Terminal, cx *api.Context, depths map[turns.ID]uint64, f Options) error {
	pieces, err := PiecesOf(cx)
	if err != nil {
		return err
	}
	if f.Explain && len(cx.Preamble) > 0 {
		var rows [][]string
		for _, p := range cx.Preamble {
			rows = append(rows, []string{p.Type, prose.Grouped(p.Tokens), prose.Printable(p.Name)})
		}
		fmt.Fprint(term.Out, term.Table([]terminal.Column{{Head: "part"}, {Head: "tokens", Right: true}, {Head: "name", Least: 20}}, rows))
	}
	const head, tail = 6, 10
	text := "says"
	if f.Explain {
		text = "why"
	}
	var rows [][]string
	for i := range pieces {
		s := &pieces[i]
		if last := len(pieces) - tail; !f.Explain && len(pieces) > head+tail+1 && i >= head && i < last {
			if i == head {
				sum := uint64(0)
				for _, r := range pieces[head:last] {
					sum += r.Tokens
				}
				rows = append(rows, []string{"", terminal.Faint.Render("…"), terminal.Faint.Render(fmt.Sprintf("%s more", prose.Grouped(uint64(last-head)))), "", prose.Grouped(sum), terminal.Faint.Render("--explain lists all")})
			}
			continue
		}
		text := prose.Printable(s.Why)
		if !f.Explain {
			text = says(term, s, f.Secrets)
		}
		rows = append(rows, []string{numberOf(depths, s), turnOf(s), halfOf(s), status(s.Status), prose.Grouped(s.Tokens), text})
	}
	fmt.Fprint(term.Out, term.Table([]terminal.Column{{Head: "n", Right: true, Drop: 2}, {Head: "turn"}, {Head: "half", Drop: 1}, {Head: "shown", Drop: 3}, {Head: "tokens", Right: true}, {Head: text, Wraps: f.Explain, Least: 20}}, rows))
	_, err = fmt.Fprintf(term.Out, "%s, fingerprint %s\n", prose.Plural(uint64(len(cx.Messages)), "message"), terminal.Faint.Render(shortHash(cx.Fingerprint, term.Width)))
	return err
}

// numberOf is the number of a piece's turn, as SESSION@N names it.
func numberOf(depths map[turns.ID]uint64, s *Piece) string {
	if n := depths[s.Turn]; n > 0 && s.Half != "memory" {
		return fmt.Sprint(n)
	}
	return ""
}

// turnOf is the turn of a piece, for a table.
func turnOf(s *Piece) string {
	switch {
	case s.Status == "dropped" && s.Half == "recalled":
		return terminal.Faint.Render("query")
	case s.Half == "memory" && s.Turn.IsZero():
		return terminal.Faint.Render("system")
	case s.Turn.IsZero():
		return terminal.Faint.Render("not stored")
	}
	return terminal.ID.Render(prose.Short(s.Turn))
}

// halfOf is the half of a piece, for a table.
func halfOf(s *Piece) string {
	if s.Status == "summary" {
		return "stands for many"
	}
	return s.Half
}

// says is the beginning of what a piece says, with its credentials masked unless they are
// shown.
func says(term *terminal.Terminal, s *Piece, secrets bool) string {
	if !secrets {
		turnview.MaskMessages(s.Messages)
	}
	most := 90
	if term.Width > 0 {
		most = term.Width // the table cuts what is too long
	}
	return prose.Clip(cmp.Or(turnview.Describe(s.Messages), s.Why), most)
}

// shortHash is a hash, cut where a terminal has no room for all of it.
func shortHash(h string, width int) string {
	if width > 0 && width < 110 && len(h) > 23 {
		return h[:23] + "…"
	}
	return h
}

// status styles the status of a part: every status but verbatim is highlighted.
func status(s string) string {
	switch s {
	case "verbatim":
		return s
	case "summary", "memory", "recalled":
		return terminal.Folded.Render(s)
	}
	return terminal.Tool.Render(s)
}
