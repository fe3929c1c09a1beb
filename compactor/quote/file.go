package quote

import (
	"slices"
	"strings"
)

// line is a line of a file, as the agent knew it last.
type line struct {
	text   string
	number int    // in the file, from 1; 0: unknown
	gap    bool   // what stands before it in the file is not known
	order  int    // ordinal of the half that read or wrote it last
	depth  uint64 // the turn of that half
	edited bool   // the agent wrote it
	shown  bool   // the context shows it in a kept turn
}

// file is what is known of a file: its lines in their order, with gaps.
type file struct {
	path    string
	lines   []line
	touched int // ordinal of the half that read or wrote it last
	visited int // what its edits and partial reads cost: bytes of its text, and visitedPerLine for each line
}

// maxFileText bounds the text that an edit may add to a file, in bytes.
const maxFileText = 4 << 20

// visitedPerLine is what a line costs beside its text.
const visitedPerLine = 64

// origin says where lines come from.
type origin struct {
	order  int
	depth  uint64
	edited bool
	shown  bool
}

func (o origin) line(text string, number int) line {
	return line{text: text, number: number, order: o.order, depth: o.depth, edited: o.edited, shown: o.shown}
}

// write replaces the whole file.
func (f *file) write(text string, o origin) {
	f.lines = f.lines[:0]
	for i, s := range splitLines(text) {
		f.lines = append(f.lines, o.line(s, i+1))
	}
}

// read takes lines that a listing showed. They replace what was known of their
// numbers. Lines without a number give way to equal lines of the listing.
func (f *file) read(listing []line) {
	if len(listing) == 0 {
		return
	}
	f.visited += visitedPerLine * len(f.lines)
	listed := make(map[int]bool, len(listing))
	texts := make(map[string]bool, len(listing))
	for i := range listing {
		listed[listing[i].number], texts[listing[i].text] = true, true
	}
	edited := make(map[string]bool)
	kept := f.lines[:0]
	gap := false // a line was dropped before the one at hand
	for _, l := range f.lines {
		if l.number > 0 && listed[l.number] || l.number == 0 && texts[l.text] {
			if l.edited {
				edited[l.text] = true
			}
			gap = true
			continue
		}
		l.gap = l.gap || gap
		gap = false
		kept = append(kept, l)
	}
	for i := range listing {
		listing[i].edited = listing[i].edited || edited[listing[i].text]
	}
	at := len(kept)
	for i := range kept {
		if n := kept[i].number; n == 0 || n > listing[0].number {
			at = i
			break
		}
	}
	f.lines = slices.Insert(kept, at, listing...)
	f.setGaps()
}

// setGaps sets the gaps that follow from the numbers.
func (f *file) setGaps() {
	for i := range f.lines {
		l := &f.lines[i]
		switch {
		case i == 0:
			l.gap = l.number != 1
		case l.number > 0:
			l.gap = f.lines[i-1].number != l.number-1
		case f.lines[i-1].number > 0:
			l.gap = true
		}
	}
}

// edit replaces a text of the file, everywhere if all. A text that is not known leaves
// the new one as lines without numbers.
func (f *file) edit(from, to string, all bool, o origin) {
	f.visited += visitedPerLine * len(f.lines)
	if from == "" || !f.replace(from, to, all, o) {
		f.add(to, o)
	}
}

// add appends lines whose place is not known.
func (f *file) add(text string, o origin) {
	lines := splitLines(text)
	known := make(map[string]bool, len(lines))
	for _, s := range lines {
		known[s] = true
	}
	f.lines = slices.DeleteFunc(f.lines, func(l line) bool { return l.number == 0 && known[l.text] })
	for i, s := range lines {
		l := o.line(s, 0)
		l.gap = i == 0
		f.lines = append(f.lines, l)
	}
}

// replace replaces a text, everywhere if all, and reports whether the file has it. What it
// does is linear in the text of the file and of the new lines.
func (f *file) replace(from, to string, all bool, o origin) bool {
	var changes []change
	for begin := 0; begin < len(f.lines) && (all || len(changes) == 0); {
		end := begin + 1
		for end < len(f.lines) && !f.lines[end].gap {
			end++
		}
		next, ok := f.changes(changes, begin, end, from, to, all)
		if !ok {
			f.forget()
			return true
		}
		changes, begin = next, end
	}
	f.apply(changes, o)
	return len(changes) > 0
}

// change says which lines replace lines[first:end].
type change struct {
	first, end int
	lines      []string
}

// changes appends what replacing a text changes in lines[begin:end], which follow each
// other in the file. Hits that share a line are one change. ok is false if the new text
// is too long.
func (f *file) changes(out []change, begin, end int, from, to string, all bool) (_ []change, ok bool) {
	var b strings.Builder
	starts := make([]int, 0, end-begin+1) // where each line begins in text
	for i := range f.lines[begin:end] {
		starts = append(starts, b.Len())
		b.WriteString(f.lines[begin+i].text)
		b.WriteByte('\n')
	}
	text := b.String()
	starts = append(starts, len(text))
	f.visited += len(text) + visitedPerLine*(end-begin)
	limit := 1
	if all {
		limit = -1
		if len(to) > 0 && strings.Count(text, from) > maxFileText/len(to) {
			return out, false
		}
	}
	changed := func(first, last int) {
		s := strings.Replace(text[starts[first]:starts[last]], from, to, limit)
		if !strings.HasSuffix(s, "\n") && begin+last < len(f.lines) { // the line that joins is not known
			s = s[:strings.LastIndexByte(s, '\n')+1]
		}
		c := change{first: begin + first, end: begin + last}
		if s != "" && (to != "" || strings.Trim(s, "\n") != "") { // a line without its text goes
			c.lines = strings.Split(strings.TrimSuffix(s, "\n"), "\n")
		}
		out = append(out, c)
	}
	joins := strings.HasSuffix(from, "\n") && !strings.HasSuffix(to, "\n")
	first, last := -1, 0 // lines [first, last) of the change at hand
	for at, l := strings.Index(text, from), 0; at >= 0; {
		for starts[l+1] <= at {
			l++
		}
		if first < 0 || l >= last {
			if first >= 0 {
				changed(first, last)
			}
			first, last = l, l
		}
		rest := at + len(from)
		for starts[last] < rest {
			last++
		}
		if joins && last < end-begin && (to != "" || at > starts[first]) {
			last++
		}
		next := strings.Index(text[rest:], from)
		if !all || next < 0 {
			changed(first, last)
			break
		}
		at = rest + next
	}
	return out, true
}

// apply makes changes, which are in the order of the lines.
func (f *file) apply(changes []change, o origin) {
	if len(changes) == 0 {
		return
	}
	out := make([]line, 0, len(f.lines))
	shift, gap, from := 0, false, 0
	keep := func(to int) {
		for _, l := range f.lines[from:to] {
			if l.number > 0 {
				l.number += shift
			}
			l.gap = l.gap || gap
			gap = false
			out = append(out, l)
		}
	}
	for _, c := range changes {
		keep(c.first)
		was := make(map[string]bool, c.end-c.first) // whether the agent wrote the line
		for _, l := range f.lines[c.first:c.end] {
			was[l.text] = l.edited
		}
		first := f.lines[c.first]
		gap = gap || first.gap
		for i, s := range c.lines {
			n := 0
			if first.number > 0 {
				n = first.number + shift + i
			}
			l := o.line(s, n)
			if edited, ok := was[s]; ok && !o.shown { // context of the edit, not changed by it
				l.edited = edited
			}
			l.gap = gap
			gap = false
			out = append(out, l)
		}
		shift += len(c.lines) - (c.end - c.first)
		from = c.end
	}
	keep(len(f.lines))
	f.lines = out
}

// forget makes a file unknown: nothing of it is quoted.
func (f *file) forget() { f.lines = nil }

func splitLines(s string) []string {
	return strings.Split(strings.TrimSuffix(strings.ReplaceAll(s, "\r\n", "\n"), "\n"), "\n")
}
