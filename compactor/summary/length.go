package summary

import (
	"unicode/utf8"

	"nexus/turns"
	"nexus/turns/tokens"
)

// The counter approx-1 bounds texts. It takes each character outside of ASCII for
// most of a token. That is right for Chinese, but in Cyrillic, Arabic or Devanagari
// a character is a quarter of a token, so a model uses far fewer tokens than
// approx-1 counts. A model therefore gets a bound in its own tokens, and its text
// may exceed ours if there is room.

// sampled bounds the text that a language is recognized by, in bytes: of one part,
// and of all.
const (
	sampledPart = 1 << 10
	sampledAll  = 16 << 10
)

// modelBound converts n tokens of approx-1 to tokens of a model that writes the
// language of in, and to characters.
func modelBound(in Input, n uint64) (ofModel, characters uint64) {
	text := sample(in)
	ours, chars := (tokens.Approx{}).Text(text), uint64(utf8.RuneCountInString(text))
	if ours == 0 || ours*3 <= chars { // mostly ASCII, for which both counts agree
		return n, n * 37 / 10
	}
	theirs := min(ours, ModelTokens(text))
	return max(1, n*theirs/ours), max(1, n*chars/ours)
}

// sample returns some text from the end of in: the words of users and models or,
// without any, the earlier summary.
func sample(in Input) string {
	var b []byte
	for i := len(in.Halves) - 1; i >= 0; i-- {
		for _, m := range in.Halves[i].Messages {
			for _, p := range m.Parts {
				if p.Type == turns.Text && len(b) < sampledAll {
					b = append(b, p.Content[:min(len(p.Content), sampledPart)]...)
				}
			}
		}
	}
	if len(b) == 0 {
		return in.Previous[:min(len(in.Previous), sampledAll)]
	}
	return string(b)
}

// ModelTokens estimates the tokens of s for a model with a vocabulary.
func ModelTokens(s string) uint64 {
	c, _ := tokens.Named("o200k-1")
	return c.Text(s)
}
