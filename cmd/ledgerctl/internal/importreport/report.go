package importreport

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/turns"
	"nexus/turns/transcript"
)

// Report prints the files of an import: a line each, and the losses of all at the
// end, or each loss below its file.
type Report struct {
	Terminal     *terminal.Terminal
	Each         bool     // list each loss
	Refresh      bool     // sessions are read again
	Unit         turns.ID // the import's id; zero: it has none
	Files        int      // to be imported
	done         int
	open         int      // of them: those that have turns which may still grow
	Unrecognized []string // files of a folder that are no transcripts
	Special      []string // files of a folder that are not regular files
	failed       []failure
	sum          tally.Report
	sessions     map[turns.ID]bool // several files may be of one
	stored       map[turns.ID]bool // of those, what something new is stored of
}

// Stopped records what became of a file of an import that stops before its end.
func (a *Report) Stopped(r *tally.Report, err error) {
	if r == nil {
		return
	}
	a.note(r)
	a.sum.Stored, a.sum.Opened = a.sum.Stored+r.Stored, a.sum.Opened+r.Opened
	a.sum.Unacknowledged = a.sum.Unacknowledged || r.Unacknowledged
	if err == nil {
		a.done++
	}
}

// StoppedText says how far an import came that stops before its end.
func (a *Report) StoppedText() string {
	text := fmt.Sprintf("stopped after %s of %s", prose.Grouped(uint64(a.done)), prose.Plural(uint64(a.Files), "file"))
	switch {
	case a.sum.Stored == 0 && a.sum.Unacknowledged:
		return text + "; of some requests the ledger did not say whether they are stored"
	case a.sum.Stored == 0:
		return text + "; nothing new is stored"
	}
	least := ""
	if a.sum.Unacknowledged {
		least = "at least "
	}
	return text + fmt.Sprintf("; %s%s of %s are stored, in files that are whole and in some that are not", least, prose.Plural(uint64(a.sum.Stored), "event"), prose.Plural(uint64(len(a.stored)), "session"))
}

// note notes the sessions of a file, and those that something new is stored of.
func (a *Report) note(r *tally.Report) {
	if a.sessions == nil {
		a.sessions, a.stored = make(map[turns.ID]bool), make(map[turns.ID]bool)
	}
	for _, s := range r.Sessions {
		if a.sessions[s] = true; r.Stored > 0 {
			a.stored[s] = true
		}
	}
}

// failure is a file whose import ended before its end, and why.
type failure struct {
	name, why string
	err       error
}

// Fail records that a file failed; the import goes on. It returns the error of a single
// file.
func (a *Report) Fail(name string, r *tally.Report, err error, why string) error {
	if a.Files == 1 {
		return fmt.Errorf("%s: %w", name, err)
	}
	a.failed = append(a.failed, failure{name, why, err})
	if !a.Terminal.JSON {
		return nil
	}
	if r == nil {
		r = &tally.Report{File: name, Sessions: []turns.ID{}, Losses: []transcript.Loss{}}
	}
	if r.Error = why; r.Opened > 0 {
		r.Import = a.Unit
	}
	return a.Terminal.Print(r)
}

func (a *Report) Add(r *tally.Report, final bool) error {
	a.note(r)
	a.done++
	if r.Unfinished > 0 {
		a.open++
	}
	a.sum.Add(r)
	if r.Opened > 0 {
		r.Import = a.Unit
	}
	if a.Terminal.JSON {
		return a.Terminal.Print(r)
	}
	PrintFile(a.Terminal, r, final)
	if a.Files == 1 {
		PrintSessions(a.Terminal, r)
	}
	if a.Each && len(r.Losses) > 0 {
		printEach(a.Terminal, r.Losses)
		fmt.Fprintln(a.Terminal.Out)
	}
	return nil
}

// End prints the sum of all files. It returns an error if some failed.
func (a *Report) End() error {
	PrintSkipped(a.Terminal, a.Unrecognized, a.Each, "is no transcript", "are no transcripts")
	PrintSpecial(a.Terminal, a.Special, a.Each)
	if !a.Terminal.JSON {
		a.printAll()
	}
	a.sayReread()
	a.SayUnit()
	if len(a.failed) == 0 {
		return nil
	}
	for _, f := range a.failed {
		fmt.Fprintln(a.Terminal.Err, terminal.Wrapped(a.Terminal.Width, fmt.Sprintf("%s %s: %s", terminal.Bad.Render("failed:"), prose.Printable(f.name), prose.Printable(f.why)), "  "))
	}
	err := failed{fmt.Sprintf("%s of %s failed", prose.Grouped(uint64(len(a.failed))), prose.Plural(uint64(a.Files), "file")), a.failed[0].err}
	return fault.WithHint(err, "the other files are in; the same command tries these again")
}

// SayUnit says how to take the import back, if it opened a session, and which were hidden before.
func (a *Report) SayUnit() {
	if n := a.sum.Hidden; n > 0 {
		a.Terminal.Say("%s in the ledger, and stay so; ledgerctl sessions --hidden lists them, import --list the imports, and import --redo IMPORT shows one again", map[bool]string{true: "1 session is hidden", false: prose.Grouped(uint64(n)) + " sessions are hidden"}[n == 1])
	}
	if a.sum.Opened > 0 && !a.Unit.IsZero() {
		a.Terminal.Say("import %s opened %s; ledgerctl import --undo %s hides them", a.Unit, prose.Plural(uint64(a.sum.Opened), "session"), a.Unit)
	}
}

// sayReread says what an older reader read, and what a refresh found.
func (a *Report) sayReread() {
	s := &a.sum
	switch {
	case a.Refresh && s.Renewed == 0:
		a.Terminal.Say("no session reads differently now")
	case a.Refresh:
		a.Terminal.Say("%s differently now: each has a successor, which lists and costs show in its place, and stays (sessions --all)", map[bool]string{true: "1 session reads", false: prose.Grouped(uint64(s.Renewed)) + " sessions read"}[s.Renewed == 1])
	case s.Older > 0:
		a.Terminal.Say("%s read by an older reader; ledgerctl import --refresh FILE reads %s again", map[bool]string{true: "1 session was", false: prose.Grouped(uint64(s.Older)) + " sessions were"}[s.Older == 1], map[bool]string{true: "it", false: "them"}[s.Older == 1])
	case s.KeptFirst > 0:
		a.Terminal.Say("%s was imported before with other content; the ledger keeps the first content. ledgerctl import --refresh FILE stores the new content in a session of its own, which lists show in place of the first", map[bool]string{true: "1 record of the files", false: "each of " + prose.Grouped(uint64(s.KeptFirst)) + " records of the files"}[s.KeptFirst == 1])
	}
}

// failed says that some files of an import failed. Its exit status is that of the first.
type failed struct {
	text  string
	first error
}

func (f failed) Error() string { return f.text }

func (f failed) Unwrap() error { return f.first }

func (a *Report) printAll() {
	if a.Files > 1 && a.done > 0 {
		files := "all " + prose.Plural(uint64(a.Files), "file")
		if a.done < a.Files {
			files = prose.Grouped(uint64(a.done)) + " of " + prose.Plural(uint64(a.Files), "file")
		}
		a.sum.Sessions = make([]turns.ID, len(a.sessions))
		fmt.Fprintln(a.Terminal.Out, terminal.Wrapped(a.Terminal.Width, terminal.Bold.Render(files)+": "+importSummary(&a.sum), "  "))
	}
	if a.Files > 1 || a.sum.Turns > 0 { // else the line of the file says it
		PrintUnfinished(a.Terminal, a.sum.Unfinished, a.open, "left")
	}
	if lost := Lost(a.sum.Losses); !a.Each && len(lost) > 0 {
		fmt.Fprintln(a.Terminal.Out, terminal.Faint.Render("not kept exactly as it stood (--losses lists each):"))
		PrintKinds(a.Terminal, lost)
	}
}

// PrintUnfinished prints that the newest turns of some files are left for the next import. what is
// left, or what would be done. It prints nothing if there are none.
func PrintUnfinished(term *terminal.Terminal, n, files int, what string) {
	if n == 0 {
		return
	}
	of := "the newest turn"
	if n > 1 {
		of = "the newest " + prose.Plural(uint64(n), "turn")
	}
	fmt.Fprintln(term.Out, terminal.Wrapped(term.Width, fmt.Sprintf("%s for the next import: %s of %s, since an agent may still be writing there; --final takes what there is now", what, of, prose.Plural(uint64(files), "file")), "  "))
}

// Lost returns the losses without those that a later import brings.
func Lost(losses []transcript.Loss) []transcript.Loss {
	return slices.DeleteFunc(slices.Clone(losses), func(l transcript.Loss) bool { return l.Later })
}

// PrintSpecial prints which files of a folder were not read, since they are special.
func PrintSpecial(term *terminal.Terminal, files []string, all bool) {
	PrintSkipped(term, files, all, "is skipped, since it is not a regular file", "are skipped, since they are not regular files")
}

// PrintSkipped prints which files of a folder were skipped, all or the first few, and
// why: one of them is, or several are.
func PrintSkipped(term *terminal.Terminal, files []string, all bool, is, are string) {
	const limit = 3
	n := len(files)
	if n == 0 {
		return
	}
	var names []string
	for i, f := range files {
		if i == limit && !all {
			names = append(names, "…")
			break
		}
		names = append(names, prose.Printable(filepath.Base(f)))
	}
	if n == 1 {
		are = is
	}
	term.Say("%s %s: %s", prose.Plural(uint64(n), "file"), are, strings.Join(names, ", "))
}

// uncountedText returns the tokens of a usage in words, behind a comma; "" for nil.
func uncountedText(u *turns.Usage) string {
	if u == nil {
		return ""
	}
	text := fmt.Sprintf(", %s and %s", prose.Plural(u.InputTokens, "input token"), prose.Plural(u.OutputTokens, "output token"))
	if cached := u.CacheRead + u.CacheCreation; cached > 0 {
		text += fmt.Sprintf(" (%s of the cache)", prose.Grouped(cached))
	}
	return text
}

// importSummary returns what was read, and how much of it is new.
func importSummary(r *tally.Report) string {
	var what []string
	for _, x := range []struct {
		n    int
		what string
	}{{len(r.Sessions), "session"}, {r.Turns, "turn"}, {r.Forks, "fork"}, {r.Compactions, "compaction"}} {
		if x.n > 0 {
			what = append(what, prose.Plural(uint64(x.n), x.what))
		}
		if x.what == "turn" && r.Split > 0 {
			what[len(what)-1] += fmt.Sprintf(" (%s in several parts, each a turn of the ledger)", prose.Grouped(uint64(r.Split)))
		}
	}
	var news []string
	if r.Stored > 0 {
		news = append(news, prose.Plural(uint64(r.Stored), "event")+" stored")
	}
	if r.Existing > 0 && r.Stored+r.KeptFirst > 0 {
		news = append(news, prose.Grouped(uint64(r.Existing))+" there already")
	}
	if r.KeptFirst > 0 {
		news = append(news, prose.Grouped(uint64(r.KeptFirst))+" kept as first stored")
	}
	if len(news) == 0 {
		news = []string{"nothing new"}
	}
	return strings.Join(what, ", ") + "; " + strings.Join(news, ", ")
}

// PrintFile prints a file on one line. On a narrow terminal it keeps the end of the name
// and what is new.
func PrintFile(term *terminal.Terminal, r *tally.Report, final bool) {
	const least = 16 // cells of the name
	whole := fmt.Sprintf(" (%s): %s", r.Format, importSummary(r))
	if len(r.Sessions) == 0 && r.Turns == 0 {
		whole = fmt.Sprintf(" (%s): no finished turn", r.Format)
		if !final {
			whole += "; --final takes one that may still grow"
		}
	}
	rest := whole
	if term.Width > 0 && len([]rune(rest)) > term.Width-least {
		_, news, _ := strings.Cut(whole, "; ")
		rest = fmt.Sprintf(": %s; %s", prose.Plural(uint64(r.Turns), "turn"), news)
	}
	name := []rune(prose.Printable(r.File))
	if room := max(least, term.Width-len([]rune(rest))); term.Width > 0 && len(name) > room {
		name = append([]rune{'…'}, name[len(name)-room+1:]...)
	}
	fmt.Fprintln(term.Out, terminal.Bold.Render(string(name))+rest)
}

func PrintSessions(term *terminal.Terminal, r *tally.Report) {
	const most = 8
	for i, s := range r.Sessions {
		if i == most && len(r.Sessions) > most+1 {
			fmt.Fprintf(term.Out, "  … and %s more; ledgerctl sessions lists them\n", prose.Grouped(uint64(len(r.Sessions)-most)))
			break
		}
		fmt.Fprintf(term.Out, "  session %s\n", terminal.Whole(s))
	}
}

// lossKind is the key of losses that are printed as one row.
type lossKind struct{ what, reason string }

// PrintKinds prints the number of losses of each kind, repaired ones first and skipped
// ones last. Bookkeeping of all types is one kind.
func PrintKinds(term *terminal.Terminal, losses []transcript.Loss) {
	var order []lossKind
	count := make(map[lossKind]int)
	types := make(map[lossKind][]string)
	usage := make(map[lossKind]*turns.Usage)
	for _, l := range losses {
		reason, typ, typed := strings.Cut(l.Reason, ": ")
		if !typed || strings.ContainsAny(typ, ";,") {
			reason, typed = l.Reason, false
		}
		k := lossKind{l.Kind, reason}
		if count[k] == 0 {
			order = append(order, k)
		}
		count[k] += max(l.Count, 1)
		usage[k] = turns.AddUsage(usage[k], l.Usage)
		if typed && !slices.Contains(types[k], typ) {
			types[k] = append(types[k], typ)
		}
	}
	weight := func(k lossKind) int {
		return slices.Index([]string{"skipped", "stored", "kept_first", "repaired"}, k.what)
	}
	slices.SortStableFunc(order, func(a, b lossKind) int { return weight(b) - weight(a) })
	var rows [][]string
	for _, k := range order {
		reason := k.reason
		const most = 4
		if t := types[k]; len(t) > most+1 {
			reason += ": " + strings.Join(t[:most], ", ") + " and " + prose.Plural(uint64(len(t)-most), "more type")
		} else if len(t) > 0 {
			reason += ": " + strings.Join(t, ", ")
		}
		rows = append(rows, []string{k.what, prose.Grouped(uint64(count[k])), prose.Printable(reason + uncountedText(usage[k]))})
	}
	fmt.Fprint(term.Out, term.Table([]terminal.Column{{Head: "what"}, {Head: "times", Right: true}, {Head: "why", Wraps: true, Least: 30}}, rows))
}

// printEach prints every loss with its line.
func printEach(term *terminal.Terminal, losses []transcript.Loss) {
	const most = 1000
	var rows [][]string
	for i, l := range losses {
		if i == most {
			n := 0
			for _, l := range losses[i:] {
				n += max(l.Count, 1)
			}
			rows = append(rows, []string{"  …", prose.Grouped(uint64(n)), "", "", "more, not listed"})
			break
		}
		line := ""
		if l.Line > 0 {
			line = fmt.Sprint(l.Line)
		}
		rows = append(rows, []string{"  " + l.Kind, prose.Grouped(uint64(max(l.Count, 1))), line, prose.Printable(l.Record), prose.Printable(l.Reason + uncountedText(l.Usage))})
	}
	cols := []terminal.Column{{Head: "  what"}, {Head: "times", Right: true}, {Head: "line", Right: true}, {Head: "record", Drop: 1}, {Head: "why", Wraps: true, Least: 30}}
	fmt.Fprint(term.Out, term.Table(cols, rows))
}
