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
}

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
	f.mend()
}

// mend sets the gaps that follow from the numbers.
func (f *file) mend() {
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

func (f *file) replace(from, to string, all bool, o origin) (found bool) {
	for begin := 0; begin < len(f.lines); {
		end := begin + 1
		for end < len(f.lines) && !f.lines[end].gap {
			end++
		}
		next, ok := f.replaceIn(begin, end, from, to, o)
		found = found || ok
		if ok && !all {
			break
		}
		if !ok || next <= begin {
			next = end
		}
		begin = next
	}
	return found
}

// replaceIn replaces the first place of a text in lines[begin:end], which follow each
// other in the file. next is the index after the new lines.
func (f *file) replaceIn(begin, end int, from, to string, o origin) (next int, ok bool) {
	var b strings.Builder
	for _, l := range f.lines[begin:end] {
		b.WriteString(l.text)
		b.WriteByte('\n')
	}
	text := b.String()
	at := strings.Index(text, from)
	if at < 0 {
		return 0, false
	}
	first := begin + strings.Count(text[:at], "\n")
	lineFrom := strings.LastIndexByte(text[:at], '\n') + 1
	last := first + strings.Count(from, "\n")
	if strings.HasSuffix(from, "\n") {
		last-- // it ends before the next line
	}
	rest := text[at+len(from):]
	tail := ""
	if !strings.HasSuffix(from, "\n") {
		tail, _, _ = strings.Cut(rest, "\n")
	}
	changed := splitLines(text[lineFrom:at] + to + tail)
	if text[lineFrom:at]+to+tail == "" {
		changed = nil
	}
	number, gap := f.lines[first].number, f.lines[first].gap
	was := make(map[string]line)
	for _, l := range f.lines[first : last+1] {
		was[l.text] = l
	}
	news := make([]line, len(changed))
	for i, s := range changed {
		n := 0
		if number > 0 {
			n = number + i
		}
		news[i] = o.line(s, n)
		if l, ok := was[s]; ok && !o.shown { // context of the edit, not changed by it
			news[i].edited = l.edited
		}
	}
	if len(news) > 0 {
		news[0].gap = gap
	}
	delta := len(news) - (last + 1 - first)
	for i := last + 1; i < len(f.lines); i++ {
		if f.lines[i].number > 0 {
			f.lines[i].number += delta
		}
	}
	if len(news) == 0 && last+1 < len(f.lines) {
		f.lines[last+1].gap = f.lines[last+1].gap || gap
	}
	f.lines = slices.Replace(f.lines, first, last+1, news...)
	return first + len(news), true
}

func splitLines(s string) []string {
	return strings.Split(strings.TrimSuffix(strings.ReplaceAll(s, "\r\n", "\n"), "\n"), "\n")
}
