package summary

import (
	"compress/flate"
	"io"
	"strings"
	"unicode"
)

// A model may answer with a refusal, a promise, a tool call or empty headings,
// and every one of these is a text that frees nearly all tokens. The checks here
// know no language. They compare what the text says with what there was to say:
// as bytes of compressed text, which repetition does not add to, and as names,
// the paths, numbers and identifiers that every script writes alike.
//
// The numbers are from real sessions (docs/policies/llm.md): models' summaries of
// 58,000 to 109,000 tokens have a 29th to a 36th of the compressed bytes and 73
// to 99 names; the first 1000 characters of them 485 bytes and 6 names at least.
const (
	thinBytes        = 250 // one byte for so many of compressed text
	maxBytesExpected = 80  // and no more than these: a sentence or two that were meant
	thinNames        = 300 // one name for so many paths and identifiers; numbers count themselves
	maxNamesExpected = 3   // and no more than these
)

// Thin says why out can't stand for what in holds: it says next to nothing of
// it. nil where it may. A text of what was short or repetitive may be short.
//
// Error: [ErrRefused], which holds nothing of the text.
func Thin(in Input, out Output) error {
	var b strings.Builder
	b.WriteString(out.Text)
	for i := range out.Memories {
		b.WriteString("\n" + out.Memories[i].Text)
	}
	text := b.String()
	source := plainTexts(in)
	least := min(uint64(compressed(source)/thinBytes), maxBytesExpected, in.MaxTokens)
	if n := uint64(min(len(text), compressed(text))); n < least {
		return refused("it says next to nothing: about %d bytes, of this at least %d are expected", n, least)
	}
	all, names := namesOf(source), namesOf(text)
	distinct := 0
	for _, number := range all {
		if !number {
			distinct++
		}
	}
	if need := min(distinct/thinNames, maxNamesExpected, int(min(in.MaxTokens, 1<<20)/32)); need > 0 {
		known := make(map[string]bool, len(all))
		for name := range all {
			known[name] = true
			known[name[strings.LastIndexByte(name, '/')+1:]] = true
		}
		n := 0
		for name := range names {
			if known[name] || known[name[strings.LastIndexByte(name, '/')+1:]] {
				n++
			}
		}
		if n < need {
			return refused("it says next to nothing: of %d paths and identifiers it names %d, at least %d are expected", distinct, n, need)
		}
	}
	return nil
}

// compressed is the size of s without its repetitions, in bytes.
func compressed(s string) int {
	var n counted
	w, err := flate.NewWriter(&n, flate.BestSpeed)
	if err != nil {
		return len(s) // not so: the level is one of flate's
	}
	_, _ = io.Copy(w, strings.NewReader(s)) // counted fails never
	_ = w.Close()
	return int(n)
}

// counted counts what is written to it.
type counted int

func (n *counted) Write(b []byte) (int, error) { *n += counted(len(b)); return len(b), nil }

// namesOf is the distinct paths, numbers and identifiers in s, of ASCII: a word
// of another script next to one has nothing to do with it. true is a number.
func namesOf(s string) map[string]bool {
	out := make(map[string]bool)
	for w := range strings.FieldsFuncSeq(s, func(r rune) bool {
		return r >= 0x80 || unicode.IsSpace(r) || strings.ContainsRune("\"'`,;()[]{}<>=|*&!?\\#$@", r)
	}) {
		w = strings.Trim(w, ".:-/_")
		if len(w) < 3 || len(w) > 200 || len(out) >= maxFacts {
			continue
		}
		if kind := kindOf(w); kind != "" {
			out[w] = kind == "numbers"
		}
	}
	return out
}
