package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"nexus/cmd/ledgerctl/transcripts"
	"nexus/turns"
	"nexus/turns/interchange"
)

// importReport prints the files of an import: a line each, and the losses of all at the
// end, or each loss below its file.
type importReport struct {
	e            *env
	each         bool // list each loss
	files        int  // to be imported
	done         int
	unrecognized []string // files of a folder that are no transcripts
	special      []string // files of a folder that are not regular files
	failed       []failure
	sum          transcripts.Report
	sessions     map[turns.ID]bool // several files may be of one
}

// failure is a file whose import ended before its end, and why.
type failure struct {
	name, why string
	err       error
}

// fail records that a file failed; the import goes on. It returns the error of a single
// file.
func (a *importReport) fail(name string, r *transcripts.Report, err error, why string) error {
	if a.files == 1 {
		return fmt.Errorf("%s: %w", name, err)
	}
	a.failed = append(a.failed, failure{name, why, err})
	if !a.e.json {
		return nil
	}
	if r == nil {
		r = &transcripts.Report{File: name, Sessions: []turns.ID{}, Losses: []interchange.Loss{}}
	}
	r.Error = why
	return a.e.print(r)
}

func (a *importReport) add(r *transcripts.Report, final bool) error {
	if a.sessions == nil {
		a.sessions = make(map[turns.ID]bool)
	}
	for _, s := range r.Sessions {
		a.sessions[s] = true
	}
	a.done++
	a.sum.Add(r)
	if a.e.json {
		return a.e.print(r)
	}
	a.e.printFile(r, final)
	if a.files == 1 {
		a.e.printSessions(r)
	}
	if a.each && len(r.Losses) > 0 {
		a.e.printEach(r.Losses)
		fmt.Fprintln(a.e.out)
	}
	return nil
}

// end prints the sum of all files. It returns an error if some failed.
func (a *importReport) end() error {
	a.e.reportSkipped(a.unrecognized, a.each, "is no transcript", "are no transcripts")
	a.e.reportSpecial(a.special, a.each)
	if !a.e.json {
		a.printAll()
	}
	if len(a.failed) == 0 {
		return nil
	}
	for _, f := range a.failed {
		fmt.Fprintln(a.e.err, wrapped(a.e.width, fmt.Sprintf("%s %s: %s", bad.Render("failed:"), printable(f.name), printable(f.why)), "  "))
	}
	err := failed{fmt.Sprintf("%s of %s failed", grouped(uint64(len(a.failed))), plural(uint64(a.files), "file")), a.failed[0].err}
	return hinted{err, "the other files are in; the same command tries these again"}
}

// failed says that some files of an import failed. Its exit status is that of the first.
type failed struct {
	text  string
	first error
}

func (f failed) Error() string { return f.text }

func (f failed) Unwrap() error { return f.first }

func (a *importReport) printAll() {
	if a.files > 1 && a.done > 0 {
		files := "all " + plural(uint64(a.files), "file")
		if a.done < a.files {
			files = grouped(uint64(a.done)) + " of " + plural(uint64(a.files), "file")
		}
		a.sum.Sessions = make([]turns.ID, len(a.sessions))
		fmt.Fprintln(a.e.out, wrapped(a.e.width, bold.Render(files)+": "+importSummary(&a.sum), "  "))
	}
	if !a.each && len(a.sum.Losses) > 0 {
		fmt.Fprintln(a.e.out, faint.Render("not kept exactly as it stood (--losses lists each):"))
		a.e.printKinds(a.sum.Losses)
	}
}

// reportSpecial prints which files of a folder were not read, since they are special.
func (e *env) reportSpecial(files []string, all bool) {
	e.reportSkipped(files, all, "is skipped, since it is not a regular file", "are skipped, since they are not regular files")
}

// reportSkipped prints which files of a folder were skipped, all or the first few, and
// why: one of them is, or several are.
func (e *env) reportSkipped(files []string, all bool, is, are string) {
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
		names = append(names, printable(filepath.Base(f)))
	}
	if n == 1 {
		are = is
	}
	e.say("%s %s: %s", plural(uint64(n), "file"), are, strings.Join(names, ", "))
}

// uncountedText returns the tokens of a usage in words, behind a comma; "" for nil.
func uncountedText(u *turns.Usage) string {
	if u == nil {
		return ""
	}
	text := fmt.Sprintf(", %s and %s", plural(u.InputTokens, "input token"), plural(u.OutputTokens, "output token"))
	if cached := u.CacheRead + u.CacheCreation; cached > 0 {
		text += fmt.Sprintf(" (%s of the cache)", grouped(cached))
	}
	return text
}

// importSummary returns what was read, and how much of it is new.
func importSummary(r *transcripts.Report) string {
	var what []string
	for _, x := range []struct {
		n    int
		what string
	}{{len(r.Sessions), "session"}, {r.Turns, "turn"}, {r.Forks, "fork"}, {r.Compactions, "compaction"}} {
		if x.n > 0 {
			what = append(what, plural(uint64(x.n), x.what))
		}
		if x.what == "turn" && r.Split > 0 {
			what[len(what)-1] += fmt.Sprintf(" (%s in several parts, each a turn of the ledger)", grouped(uint64(r.Split)))
		}
	}
	var news []string
	if r.Stored > 0 {
		news = append(news, plural(uint64(r.Stored), "event")+" stored")
	}
	if r.Existing > 0 && r.Stored+r.KeptFirst > 0 {
		news = append(news, grouped(uint64(r.Existing))+" there already")
	}
	if r.KeptFirst > 0 {
		news = append(news, grouped(uint64(r.KeptFirst))+" kept as first stored")
	}
	if len(news) == 0 {
		news = []string{"nothing new"}
	}
	return strings.Join(what, ", ") + "; " + strings.Join(news, ", ")
}

// printFile prints a file on one line. On a narrow terminal it keeps the end of the name
// and what is new.
func (e *env) printFile(r *transcripts.Report, final bool) {
	const least = 16 // cells of the name
	whole := fmt.Sprintf(" (%s): %s", r.Format, importSummary(r))
	if len(r.Sessions) == 0 && r.Turns == 0 {
		whole = fmt.Sprintf(" (%s): no finished turn", r.Format)
		if !final {
			whole += "; --final takes one that may still grow"
		}
	}
	rest := whole
	if e.width > 0 && len([]rune(rest)) > e.width-least {
		_, news, _ := strings.Cut(whole, "; ")
		rest = fmt.Sprintf(": %s; %s", plural(uint64(r.Turns), "turn"), news)
	}
	name := []rune(printable(r.File))
	if room := max(least, e.width-len([]rune(rest))); e.width > 0 && len(name) > room {
		name = append([]rune{'…'}, name[len(name)-room+1:]...)
	}
	fmt.Fprintln(e.out, bold.Render(string(name))+rest)
}

func (e *env) printSessions(r *transcripts.Report) {
	const most = 8
	for i, s := range r.Sessions {
		if i == most && len(r.Sessions) > most+1 {
			fmt.Fprintf(e.out, "  … and %s more; ledgerctl sessions lists them\n", grouped(uint64(len(r.Sessions)-most)))
			break
		}
		fmt.Fprintf(e.out, "  session %s\n", whole(s))
	}
}

// lossKind is the key of losses that are printed as one row.
type lossKind struct{ what, reason string }

// printKinds prints the number of losses of each kind, repaired ones first and skipped
// ones last. Bookkeeping of all types is one kind.
func (e *env) printKinds(losses []interchange.Loss) {
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
			reason += ": " + strings.Join(t[:most], ", ") + " and " + plural(uint64(len(t)-most), "more type")
		} else if len(t) > 0 {
			reason += ": " + strings.Join(t, ", ")
		}
		rows = append(rows, []string{k.what, grouped(uint64(count[k])), printable(reason + uncountedText(usage[k]))})
	}
	fmt.Fprint(e.out, e.table([]column{{head: "what"}, {head: "times", right: true}, {head: "why", wraps: true, least: 30}}, rows))
}

// printEach prints every loss with its line.
func (e *env) printEach(losses []interchange.Loss) {
	var rows [][]string
	for _, l := range losses {
		line := ""
		if l.Line > 0 {
			line = fmt.Sprint(l.Line)
		}
		rows = append(rows, []string{"  " + l.Kind, grouped(uint64(max(l.Count, 1))), line, printable(l.Record), printable(l.Reason + uncountedText(l.Usage))})
	}
	cols := []column{{head: "  what"}, {head: "times", right: true}, {head: "line", right: true}, {head: "record", drop: 1}, {head: "why", wraps: true, least: 30}}
	fmt.Fprint(e.out, e.table(cols, rows))
}
