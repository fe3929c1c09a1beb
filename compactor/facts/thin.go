package facts

import (
	"compress/flate"
	"fmt"
	"io"
	"strings"
	"unicode"

	"nexus/compactor/summary"
)

// A model may answer with a refusal, a promise, a tool call or empty headings. Each
// of these texts frees nearly all tokens. The checks here know no language. They
// compare what a summary says with what there was to say in two ways: compressed
// bytes, to which repetition adds nothing, and names. Names are the paths, numbers
// and identifiers that every script writes alike.
//
// The limits come from real sessions (docs/policies/llm.md). Models' summaries of
// 58,000 to 109,000 tokens have a 29th to a 36th of the compressed bytes, and 73 to
// 99 names. The first 1000 characters of these summaries have at least 485 bytes and
// 6 names.
const (
	thinBytes        = 250 // expect one byte for this many of compressed text
	maxBytesExpected = 80  // but no more bytes than these: a sentence or two may be enough
	thinNames        = 300 // expect one name for this many paths and identifiers of the turns; a number in the summary counts as a name
	maxNamesExpected = 3   // but no more names than these
)

// Thin returns why out cannot replace in: it says almost nothing of it. nil if it
// can. The summary of a short or repetitive text may be short.
//
// Error: [summary.ErrRefused], which holds nothing of the text.
func Thin(in summary.Input, out summary.Output) error {
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

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", summary.ErrRefused, fmt.Sprintf(format, args...))
}

// plainTexts returns the texts of in, without the words that a transcript adds.
func plainTexts(in summary.Input) string {
	var b strings.Builder
	b.WriteString(in.Previous)
	for _, h := range in.Halves {
		for _, m := range summary.Plaintext(h).Messages {
			for i := range m.Parts {
				b.WriteString("\n" + m.Parts[i].Content)
			}
		}
	}
	return b.String()
}

// compressed returns the size of s without its repetitions, in bytes.
func compressed(s string) int {
	var n counted
	w, err := flate.NewWriter(&n, flate.BestSpeed)
	if err != nil {
		return len(s) // cannot happen: flate knows the level
	}
	_, _ = io.Copy(w, strings.NewReader(s)) // counted never fails
	_ = w.Close()
	return int(n)
}

// counted counts the bytes written to it.
type counted int

func (n *counted) Write(b []byte) (int, error) { *n += counted(len(b)); return len(b), nil }

// namesOf returns the distinct paths, numbers and identifiers in s, in ASCII: a word
// of another script next to one is not part of it. The value true marks a number.
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
