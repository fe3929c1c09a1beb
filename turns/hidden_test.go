package turns

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// ignorable is the property Default_Ignorable_Code_Point, as DerivedCoreProperties.txt
// lists it in Unicode 15.
var ignorable = [][2]rune{
	{0x00ad, 0x00ad}, {0x034f, 0x034f}, {0x061c, 0x061c}, {0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180b, 0x180f}, {0x200b, 0x200f},
	{0x202a, 0x202e}, {0x2060, 0x206f}, {0x3164, 0x3164}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xfff8},
	{0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
}

// shaping is the joiners and variation selectors among them, which scripts need.
var shaping = [][2]rune{{0x180b, 0x180d}, {0x180f, 0x180f}, {0x200c, 0x200d}, {0xfe00, 0xfe0f}, {0xe0100, 0xe01ef}}

// controls is control characters, ends of lines, and marks between lines.
var controls = [][2]rune{{0x00, 0x1f}, {0x7f, 0x9f}, {0x2028, 0x2029}, {0xfff9, 0xfffb}}

func runesOf(ranges ...[2]rune) (rs []rune) {
	for _, x := range ranges {
		for r := x[0]; r <= x[1]; r++ {
			rs = append(rs, r)
		}
	}
	return rs
}

func TestHiddenIsControlsDirectionalAndInvisibleMarks(t *testing.T) {
	want := make(map[rune]bool)
	for _, r := range runesOf(slices.Concat(ignorable, controls)...) {
		want[r] = true
	}
	for _, r := range runesOf(shaping...) {
		want[r] = false
	}
	for r := rune(0); r <= 0x10ffff; r++ {
		if got := IsHidden(r); got != want[r] {
			t.Errorf("IsHidden(%U) = %v, want %v", r, got, want[r])
		}
	}
}

func TestNameRefusesWhatNobodySees(t *testing.T) {
	refused := make(map[rune]bool)
	for _, r := range append(runesOf(slices.Concat(ignorable, controls)...), 0x2800, 0xfffe, 0xffff, 0xfdd0, 0x1fffe, 0x10ffff) {
		refused[r] = true
	}
	for r := range refused {
		for _, name := range []string{"pro" + string(r) + "d", string(r), "prod" + string(r)} {
			err := ValidateWord("/model", name)
			var f *FieldError
			if !errors.Is(err, ErrMalformed) || !errors.As(err, &f) || f.Field != "/model" {
				t.Errorf("name %q: %v, want malformed at /model", name, err)
			}
			if ValidateLabel("/label", name) == nil {
				t.Errorf("label %q is taken", name)
			}
		}
	}
	for _, name := range []string{"support-42", "日本語", "नमस्ते", "👩", "مرحبا", "한글", "a b", "\u0600\u0661", strings.Repeat("e\u0301", 50)} {
		if err := ValidateLabel("/label", name); err != nil {
			t.Errorf("label %q: %v", name, err)
		}
	}
}
