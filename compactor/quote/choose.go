package quote

import (
	"cmp"
	"slices"
	"strings"

	"nexus/compactor/summary"
	"nexus/turns/tokens"
)

// block is a run of lines that are quoted together or not at all.
type block struct {
	file     *file
	from, to int // lines[from:to]
	score    float64
	cost     uint64
}

const maxBlock = 24 // lines

// aboutBonus is what a block gains by a name of the newest request or of a failed test.
const aboutBonus = .4

// choose picks the blocks that are worth the most for their size.
func (s *state) choose(maxTokens uint64, c tokens.Counter) []Quote {
	var blocks []block
	seen := make(map[*file]bool)
	for _, f := range s.files {
		if !seen[f] {
			seen[f] = true
			blocks = s.blocks(blocks, f, c)
		}
	}
	slices.SortFunc(blocks, func(a, b block) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.file.path, b.file.path), cmp.Compare(a.from, b.from))
	})
	var picked []block
	started := make(map[*file]bool)
	room := maxTokens
	for _, b := range blocks {
		cost := b.cost + tagTokens
		if !started[b.file] {
			cost += c.Text(b.file.path)
		}
		if cost > room {
			continue
		}
		started[b.file] = true
		room -= cost
		picked = append(picked, b)
	}
	slices.SortFunc(picked, func(a, b block) int {
		return cmp.Or(cmp.Compare(a.file.touched, b.file.touched), cmp.Compare(a.file.path, b.file.path), cmp.Compare(a.from, b.from))
	})
	var out []Quote
	for i := 0; i < len(picked); {
		b := picked[i]
		end := b.to
		for i++; i < len(picked) && picked[i].file == b.file && picked[i].from == end && !b.file.lines[end].gap; i++ {
			end = picked[i].to
		}
		out = append(out, b.file.quote(b.from, end))
	}
	// What was joined saved tags, so this only guards against a counter that counts
	// the whole higher than its parts.
	for len(out) > 0 && c.Text(Text(out)) > maxTokens {
		out = out[1:]
	}
	return out
}

// tagTokens is about what the tags around a quote cost.
const tagTokens = 22

func (f *file) quote(from, to int) Quote {
	q := Quote{Path: f.path, From: f.lines[from].number}
	var b strings.Builder
	for i := from; i < to; i++ {
		l := &f.lines[i]
		q.Turn = max(q.Turn, l.depth)
		if i > from {
			b.WriteByte('\n')
		}
		b.WriteString(l.text)
	}
	q.Text = strings.ToValidUTF8(b.String(), "\uFFFD")
	return q
}

// blocks cuts a file into blocks. A block ends at a gap, before lines that are shown
// elsewhere, and, once it has some length, where a part of the text begins.
func (s *state) blocks(out []block, f *file, c tokens.Counter) []block {
	for i := 0; i < len(f.lines); {
		if f.lines[i].shown || len(f.lines[i].text) > maxLine {
			i++
			continue
		}
		from := i
		for i++; i < len(f.lines); i++ {
			l := &f.lines[i]
			if l.shown || l.gap || len(l.text) > maxLine || i-from >= maxBlock || i-from >= maxBlock/3 && startsPart(f.lines[i-1].text, l.text) {
				break
			}
		}
		if b := s.block(f, from, i, c); b.cost > 0 {
			out = append(out, b)
		}
	}
	return out
}

// startsPart reports whether a part of a text begins at a line: after a blank one, without
// indentation.
func startsPart(before, l string) bool {
	return strings.TrimSpace(before) == "" && l != "" && l[0] != ' ' && l[0] != '\t'
}

func (s *state) block(f *file, from, to int, c tokens.Counter) block {
	b := block{file: f, from: from, to: to}
	var text strings.Builder
	score, size, about := 0.0, 0.0, false
	for i := from; i < to; i++ {
		l := &f.lines[i]
		text.WriteString(l.text)
		text.WriteByte('\n')
		n := float64(len(l.text) + 1)
		size += n
		score += n * s.score(f, l)
		about = about || s.isAbout(l.text)
	}
	if strings.TrimSpace(text.String()) == "" {
		return b
	}
	b.cost = c.Text(text.String())
	b.score = score / size
	if about {
		b.score += aboutBonus
	}
	return b
}

// score estimates how likely a line is to be used again: what was read or written last,
// in files that were used last, and what the agent wrote itself. How often a file was
// changed told nothing more in replays.
func (s *state) score(f *file, l *line) float64 {
	recency := func(order int) float64 { return 1 / (1 + float64(s.now-order)/30) }
	w := .3 + recency(l.order) + recency(f.touched)
	if l.edited {
		w += .6
	}
	return w
}

// Text returns quotes as a context shows them: each between tags that name its file,
// lines and turn. What is quoted is escaped, so that it can't end its block.
func Text(qs []Quote) string {
	var b strings.Builder
	for i := range qs {
		b.WriteByte('\n')
		b.WriteString(qs[i].tag())
		b.WriteByte('\n')
		b.WriteString(summary.Data(qs[i].Text))
		b.WriteString("\n</quoted>")
	}
	return b.String()
}
