package turnview

import (
	"cmp"
	"fmt"
	"iter"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/turns"
)

// Masked returns turns with their credentials masked.
func Masked(ts iter.Seq2[api.Turn, error]) iter.Seq2[api.Turn, error] {
	return func(yield func(api.Turn, error) bool) {
		for t, err := range ts {
			if err == nil {
				Mask(&t)
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// Print prints turns, each behind mark. On a terminal the columns of a list without a mark have
// their names above them.
func Print(term *terminal.Terminal, ts iter.Seq2[api.Turn, error], limit int, mark string) error {
	head := ""
	if mark == "" && term.OutIsTerminal {
		head = heads(term.Width) + "\n"
	}
	return terminal.PrintEach(term, ts, limit, func(t *api.Turn) string {
		line := head + mark + Line(t, max(0, term.Width-lipgloss.Width(mark)))
		head = ""
		return line
	})
}

// narrowTurn is how wide a line has to be for the time and the tokens of a turn.
const narrowTurn = 70

// isNarrow reports whether a line of a width, 0 for any, has no room for the time and the tokens.
func isNarrow(width int) bool { return width > 0 && width < narrowTurn }

// heads is the line above those of [Line], cut to width if that is not 0.
func heads(width int) string {
	text := fmt.Sprintf("%-8s %5s  ", "turn", "no.")
	if !isNarrow(width) {
		text += fmt.Sprintf("%-19s %7s  ", "time", "tokens")
	}
	if text += "messages ⇒ response"; width > 0 {
		text = terminal.Cut(text, width)
	}
	return terminal.Faint.Render(text)
}

// Line is a turn on one line: id, depth, time, tokens, and a few words of
// its text, cut to width if that is not 0.
func Line(t *api.Turn, width int) string {
	at, bound := prose.TurnTime(t)
	where := fmt.Sprintf("%s %5d  ", terminal.ID.Render(prose.Short(t.ID)), t.Depth)
	size := fmt.Sprintf("%s %7s  ", terminal.Faint.Render(fmt.Sprintf("%-19s", prose.At(at, bound, "2006-01-02 15:04:05"))), prose.Grouped(t.TokenCount))
	if isNarrow(width) { // what was said tells more
		size = ""
	}
	room := 100
	if width > 0 {
		room = max(20, width-lipgloss.Width(where+size))
	}
	var what string
	if t.Error != "" {
		what = terminal.Faint.Render(prose.Clip(prose.Unreadable(t.Type, t.Error, t.MissingKey), room))
	} else if k := t.Compaction; k != nil {
		what = terminal.Folded.Render(prose.Clip(fmt.Sprintf("◆ %s (%s), %s", Did(k), By(k), Change(k)), room))
	} else {
		asked, answer := Describe(t.Messages), "pending"
		if r := t.Response; r != nil {
			answer = Describe([]turns.Message{*r})
			if answer == "" && len(r.Parts) > 0 {
				answer = "(reasoning only)"
			}
			answer = cmp.Or(answer, "(empty)")
		}
		asked = prose.Clip(asked, room*2/3)
		what = asked + terminal.Faint.Render(" ⇒ ") + prose.Clip(answer, max(10, room-3-len([]rune(asked))))
	}
	if t.Note != nil {
		note := "✎ " + prose.Clip(t.Note.Text, max(12, room/3)) + "  "
		what = terminal.Bold.Render(note) + terminal.Cut(what, max(10, room-len([]rune(note))))
	}
	text := where + size + what
	if width > 0 {
		text = terminal.Cut(text, width)
	}
	return text
}

// Change is how many tokens a context had before a compaction and has after it.
// That before may be another system's count, which says nothing next to ours where
// it is the smaller one.
func Change(k *api.Compaction) string {
	if k.TokensBefore < k.TokensAfter {
		return prose.Grouped(k.TokensAfter) + " tokens left"
	}
	return fmt.Sprintf("%s → %s tokens", prose.Grouped(k.TokensBefore), prose.Grouped(k.TokensAfter))
}

// Did is what a compaction did, in a few words.
func Did(k *api.Compaction) string {
	switch parts := prose.Plural(uint64(len(k.Elisions)), "part"); {
	case k.Covered > 0 && len(k.Elisions) > 0:
		return prose.Plural(k.Covered, "turn") + " covered by a summary, " + parts + " shortened"
	case k.Covered == 0 && len(k.Elisions) > 0:
		return parts + " shortened"
	}
	return prose.Plural(k.Covered, "turn") + " covered by a summary"
}

// By is the policy of a compaction, and who wrote its summary. One that another
// system made names no policy.
func By(k *api.Compaction) string {
	who := Tier(k)
	if k.Model != "" {
		who += " " + prose.Printable(k.Model)
	}
	if k.Policy == "" {
		return who
	}
	return prose.Printable(k.Policy) + ", " + who
}

// Tier is who wrote a summary.
func Tier(k *api.Compaction) string {
	if k.Tier == "" {
		return prose.Printable(k.Provenance)
	}
	return prose.Printable(k.Tier)
}

// Describe is a few words for some messages: texts, calls with their first argument, and
// the beginning of the first result.
func Describe(ms []turns.Message) string {
	var out []string
	results, first := 0, ""
	for _, m := range ms {
		for i := range m.Parts {
			p := &m.Parts[i]
			switch p.Type {
			case turns.Text:
				if s := prose.Clip(prose.PartBeginning(p), 200); s != "" {
					out = append(out, "“"+s+"”")
				}
			case turns.ToolCall:
				out = append(out, prose.Printable(p.Name)+"("+prose.FirstArgument(p.Arguments)+")")
			case turns.ToolCallResponse:
				if results++; results == 1 {
					first = prose.Clip(prose.PartBeginning(p), 100)
				}
			}
		}
	}
	if results > 0 {
		text := "← " + cmp.Or(first, "(empty)")
		if results > 1 {
			text = fmt.Sprintf("← %d results: %s", results, cmp.Or(first, "(empty)"))
		}
		out = append([]string{text}, out...)
	}
	return strings.Join(out, " ")
}

// Between yields the turns that were said in [from, to), by the nearest time that their source
// states. nil: no end.
func Between(ts iter.Seq2[api.Turn, error], from, to *api.Time) iter.Seq2[api.Turn, error] {
	return func(yield func(api.Turn, error) bool) {
		for t, err := range ts {
			if err == nil {
				at, _ := prose.TurnTime(&t)
				if from != nil && at.Before(time.Time(*from)) || to != nil && !at.Before(time.Time(*to)) {
					continue
				}
			}
			if !yield(t, err) {
				return
			}
		}
	}
}
