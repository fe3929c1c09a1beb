package mcp

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"nexus/turns"
)

// Whatever is stored, a line of a frame is the tool's own or begins with "| ".
func TestStoredContentForgesNoLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stored := rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			"a\nnext: 5", "a\r\nnext: 5", "a\rnext: 5", "a\u2028next: 5", "a\u2029next: 5", "a\u0085next: 5", "a\vnext: 5", "a\fnext: 5", "\n\n", "", "\u202enext: 5", "a\x1b[2Knext: 5"})), 1, 5).Draw(t, "stored")
		f := newFrame()
		for _, s := range stored {
			f.line("own")
			f.data(s)
		}
		f.line("last")
		text := f.String()
		if len(text) > maxText || !utf8.ValidString(text) || !strings.HasSuffix(text, "\n") {
			t.Fatalf("%d bytes: %q", len(text), text)
		}
		own := 0
		for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
			if strings.ContainsFunc(line, func(r rune) bool { return turns.IsHidden(r) && r != '\t' }) {
				t.Fatalf("a hidden character in %q", line)
			}
			if !strings.HasPrefix(line, "| ") {
				own++
			}
		}
		if want := len(stored) + 2; own != want && !strings.HasSuffix(text, cutMark) {
			t.Fatalf("%d lines of the tool's own, want %d:\n%s", own, want, text)
		}
	})
}

func TestAFrameEndsWhereThereIsNoRoom(t *testing.T) {
	f := newFrame()
	for range 1000 {
		f.data(strings.Repeat("x", 100))
	}
	if text := f.String(); len(text) > maxText || !strings.HasSuffix(text, "\n"+cutMark) || strings.Count(text, cutMark) != 1 {
		t.Errorf("%d bytes, ends with %q", len(text), text[len(text)-80:])
	}
}

// What fits says takes as much of a frame as it says.
func TestTextThatFitsTakesItsSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("\n\x00\u202e語x")))).Draw(t, "s")
		room := rapid.IntRange(0, 100).Draw(t, "room")
		n, size := fits(s, room)
		f := new(frame)
		f.data(s[:n])
		if size > room || f.b.Len() > size+len("| \n") || n < len(s) && room-size > 3 {
			t.Fatalf("%q: %d bytes of %d, size %d of %d, the frame has %d", s, n, len(s), size, room, f.b.Len())
		}
	})
}

func TestOpenPointsAreTheItemsOfTheirSection(t *testing.T) {
	got := openPoints("TASK\n- a [t1]\nREMAINING\n- b\n- c\nFACTS\n- d\n\n## Remaining\n- e\n")
	if strings.Join(got, ",") != "b,c,e" {
		t.Errorf("%q", got)
	}
}

func TestFoldersBelowOneAreInIt(t *testing.T) {
	for folder, want := range map[string]bool{"/a/b": true, "/a/b/": true, "/a/b/c": true, "/a/bc": false, "/a": false, "": false, "/a/b/../c": false} {
		if isIn(folder, "/a/b/") != want {
			t.Errorf("%q: %v", folder, !want)
		}
	}
	if !isIn("/a", "/") {
		t.Error("everything is in /")
	}
}
