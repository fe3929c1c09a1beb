package turns

import "unicode"

// interlinear is the marks of an annotation between lines. Unicode wants programs to show
// them, and terminals do not.
var interlinear = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0xfff9, Hi: 0xfffb, Stride: 1}}}

// IsHidden reports whether r is a control character, changes the direction of text,
// breaks a line, or is invisible: a terminal or an editor acts on it, or nobody sees it,
// so a text that holds one can look like another text, or move the cursor. Line feed and
// tab are among them, also all that Unicode reserves for invisible characters.
//
// Joiners (U+200C, U+200D) and variation selectors are not: Persian, Indic scripts,
// Mongolian, Japanese names and emoji need them. [ValidateWord] refuses them too.
//
// Source: ECMA-48 (C0 and C1 controls), Unicode Standard Annex 9 (directional marks),
// Unicode Standard Annex 44 (Default_Ignorable_Code_Point, derived here as
// DerivedCoreProperties.txt defines it).
func IsHidden(r rune) bool { return isIgnorable(r) && !isShaping(r) || isControl(r) }

// isControl reports whether r is a control character, or ends a line or a paragraph.
func isControl(r rune) bool {
	return unicode.Is(unicode.Cc, r) || unicode.In(r, unicode.Zl, unicode.Zp, interlinear)
}

// isIgnorable reports whether r has the property Default_Ignorable_Code_Point: a program
// that does not know the character shows nothing in its place.
func isIgnorable(r rune) bool {
	switch {
	case r < 0x80:
		return false
	case unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return true
	case unicode.In(r, unicode.Prepended_Concatenation_Mark, interlinear), 0x13430 <= r && r <= 0x1343f:
		return false // Arabic numbers' signs, and the joints of hieroglyphs, can be seen
	}
	return unicode.Is(unicode.Cf, r)
}

// isShaping reports whether r chooses the form of the characters next to it.
func isShaping(r rune) bool {
	return unicode.In(r, unicode.Join_Control, unicode.Variation_Selector)
}

// isBlank reports whether r is a letter or symbol that looks like a space: braille
// without a dot. A picture made of braille needs it, a name does not.
func isBlank(r rune) bool { return r == 0x2800 }

// ValidateWord checks a short text that a person gives and reads, such as the name of
// a model: at most [MaxName] bytes of UTF-8, without what nobody sees: hidden characters
// ([IsHidden]), joiners, variation selectors, the blank of braille; and without
// noncharacters. Two names that differ can still look alike: letters of two scripts do,
// and the number of combining marks is limited by the length alone. It may be empty.
// field is its JSON pointer, for the error.
func ValidateWord(field, s string) error {
	if err := word(field, "", s); err != nil {
		return err
	}
	for _, r := range s {
		if isControl(r) || isIgnorable(r) || isBlank(r) || unicode.Is(unicode.Noncharacter_Code_Point, r) {
			return malformed(field, "holds U+%04X, a control, invisible or undefined character", r)
		}
	}
	return nil
}
