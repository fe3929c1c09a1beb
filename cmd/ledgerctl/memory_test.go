package main

import (
	"strings"
	"testing"

	"nexus/cmd/ledgerctl/internal/memoryview"
)

// MEMORY.md comes back from editors of any system.
func TestAnEditedFileIsTakenAsText(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"# a\n\n- b\n", "# a\n\n- b\n"},
		{"\uFEFF# a\r\n- b\r\n", "# a\n- b\n"},
		{"", ""},
		{"\xff\xfe#\x00", "MEMORY.md: byte 0 is not UTF-8"},
		{"ab\xc3", "MEMORY.md: byte 2 is not UTF-8"},
	} {
		got, err := memoryview.Edited("MEMORY.md", []byte(c.file))
		if err != nil && got == "" {
			got, _, _ = strings.Cut(err.Error(), ";")
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.file, got, c.want)
		}
	}
}
