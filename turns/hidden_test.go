package turns

import (
	"errors"
	"strings"
	"testing"
)

// hiddenRunes is what the names of a ledger refuse and its command never sends to a
// terminal.
func hiddenRunes() (rs []rune) {
	add := func(lo, hi rune) {
		for r := lo; r <= hi; r++ {
			rs = append(rs, r)
		}
	}
	add(0x00, 0x1f)
	add(0x7f, 0x9f)
	add(0x202a, 0x202e)
	add(0x2066, 0x2069)
	return append(rs, 0x061c, 0x200b, 0x200e, 0x200f, 0x2028, 0x2029, 0xfeff)
}

func TestHiddenIsControlsDirectionalAndInvisibleMarks(t *testing.T) {
	want := make(map[rune]bool)
	for _, r := range hiddenRunes() {
		want[r] = true
	}
	for r := rune(0); r <= 0x10ffff; r++ {
		if got := IsHidden(r); got != want[r] {
			t.Errorf("IsHidden(%U) = %v, want %v", r, got, want[r])
		}
	}
}

func TestLabelRefusesHiddenCharactersAndNoncharacters(t *testing.T) {
	for _, r := range append(hiddenRunes(), 0xfffe, 0xffff, 0xfdd0, 0x1fffe, 0x10ffff) {
		for _, label := range []string{"support" + string(r) + "42", string(r), "42" + string(r)} {
			err := ValidateLabel("/label", label)
			var f *FieldError
			if !errors.Is(err, ErrMalformed) || !errors.As(err, &f) || f.Field != "/label" {
				t.Errorf("label %q: %v, want malformed at /label", label, err)
			}
		}
	}
	for _, label := range []string{"support-42", "日本語", "نمی\u200cخواهم", "👩\u200d💻", "a b", strings.Repeat("é", MaxLabel/2)} {
		if err := ValidateLabel("/label", label); err != nil {
			t.Errorf("label %q: %v", label, err)
		}
	}
}
