package turns

import "unicode"

// hidden is the characters that a terminal or an editor acts on, or that nobody sees:
// a text that holds one can look like another text, or move the cursor. Joiners
// (U+200C, U+200D) are not among them: Persian, Indic scripts and emoji need them.
//
// Source: ECMA-48 (C0 and C1 controls), Unicode Standard Annex 9 (directional marks).
var hidden = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x0000, Hi: 0x001f, Stride: 1}, // C0 controls
		{Lo: 0x007f, Hi: 0x009f, Stride: 1}, // delete, C1 controls
		{Lo: 0x061c, Hi: 0x061c, Stride: 1}, // Arabic letter mark
		{Lo: 0x200b, Hi: 0x200b, Stride: 1}, // zero width space
		{Lo: 0x200e, Hi: 0x200f, Stride: 1}, // left-to-right mark, right-to-left mark
		{Lo: 0x2028, Hi: 0x202e, Stride: 1}, // line and paragraph separator, embeddings, overrides
		{Lo: 0x2066, Hi: 0x2069, Stride: 1}, // isolates
		{Lo: 0xfeff, Hi: 0xfeff, Stride: 1}, // byte order mark
	},
	LatinOffset: 2,
}

// IsHidden reports whether r is a control character, changes the direction of text,
// breaks a line, or is invisible. Line feed and tab are among them.
func IsHidden(r rune) bool { return unicode.Is(hidden, r) }

// ValidateWord checks a short text that a person gives and reads, such as the name of
// a model: at most [MaxName] bytes of UTF-8, without hidden characters ([IsHidden]) and
// without noncharacters. It may be empty. field is its JSON pointer, for the error.
func ValidateWord(field, s string) error {
	if err := word(field, s); err != nil {
		return err
	}
	for _, r := range s {
		if IsHidden(r) || unicode.Is(unicode.Noncharacter_Code_Point, r) {
			return malformed(field, "holds U+%04X, a control, invisible or undefined character", r)
		}
	}
	return nil
}
