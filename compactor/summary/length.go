package summary

import (
	"unicode/utf8"

	"nexus/turns"
	"nexus/turns/tokens"
)

// Texts are bounded by approx-1, which takes each character outside of ASCII for
// most of a token. It is one in Chinese, and a quarter of one in Cyrillic,
// Arabic or Devanagari: there a model's own tokens are far fewer. So it gets a
// bound in its own, and its text may take more of ours where there is room.

// sampled bounds the text by which a language is recognized, in bytes: of one part,
// and of all.
const (
	sampledPart = 1 << 10
	sampledAll  = 16 << 10
)

// modelBound returns n tokens of approx-1 as tokens of a model that writes the
// language of in, and as characters.
func modelBound(in Input, n uint64) (ofModel, characters uint64) {
	text := sample(in)
	ours, chars := (tokens.Approx{}).Text(text), uint64(utf8.RuneCountInString(text))
	if ours == 0 || ours*3 <= chars { // mostly ASCII, where both count alike
		return n, n * 37 / 10
	}
	theirs := min(ours, ModelTokens(text))
	return max(1, n*theirs/ours), max(1, n*chars/ours)
}

// sample is some of what was said in in, from its end: the words of users and
// models, else the earlier summary.
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

// ModelTokens is s in the tokens of a model with a vocabulary.
func ModelTokens(s string) uint64 {
	c, _ := tokens.Named("o200k-1")
	return c.Text(s)
}
