package audit

import (
	"fmt"
	"strings"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
)

func Print(term *terminal.Terminal, v *api.Verified) {
	verdict := terminal.Good.Render("verified")
	if !v.OK {
		verdict = terminal.Bad.Render("NOT SOUND")
	}
	term.Tell("%s: %s, %s, %s, %s, %s in %s ms", verdict, prose.Plural(v.Events, "event"), prose.Plural(v.Sessions, "session"), prose.Plural(v.Turns, "turn"), prose.Plural(v.Compactions, "compaction"), prose.Plural(v.Blobs, "blob"), prose.Grouped(v.DurationMS))
	if v.Duplicates > 0 {
		term.Tell("  %s of an id that was taken, which is no problem", prose.Plural(v.Duplicates, "opening"))
	}
	if v.Erased > 0 {
		term.Tell("  %s can't be read, since they were erased or redacted, which is no problem", prose.Plural(v.Erased, "event"))
	}
	for _, p := range v.Problems {
		printProblem(term, &p)
	}
	if n := v.Count - min(v.Count, uint64(len(v.Problems))); n > 0 {
		fmt.Fprintf(term.Out, "  and %s that %s not listed\n", prose.Plural(n, "more problem"), map[bool]string{true: "is", false: "are"}[n == 1])
	}
}

// printProblem prints a problem: where it is, and below that what it is. An id that
// stands in the first line is named by its end in the second.
func printProblem(term *terminal.Terminal, p *api.Problem) {
	where := fmt.Sprintf("position %d", p.Seq)
	why := prose.Printable(p.Message)
	if !p.Session.IsZero() {
		where += ", session " + p.Session.String()
		why = strings.ReplaceAll(why, p.Session.String(), prose.Short(p.Session))
	}
	if !p.Event.IsZero() && p.Event != p.Session {
		why = strings.ReplaceAll(why, p.Event.String(), prose.Short(p.Event))
	}
	fmt.Fprintf(term.Out, "  %s at %s\n", terminal.Bad.Render(string(p.Code)), where)
	room := 0
	if term.Width > 0 {
		room = max(20, term.Width-4)
	}
	fmt.Fprintln(term.Out, "    "+strings.ReplaceAll(terminal.Wrapped(room, why, ""), "\n", "\n    "))
}
