package page_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/page"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

func TestContextCursorIsParsedAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(0, 1<<31-1)
		want := page.ContextCursor{
			At: turns.ID{1: 7}, Messages: count.Draw(t, "messages"), Sources: count.Draw(t, "sources"), Offset: count.Draw(t, "offset"),
			Digest: page.DigestPrefix(turns.Hash{byte(count.Draw(t, "digest"))}), Started: true,
		}
		if got, err := page.ParseContextCursor(want.String()); err != nil || got != want {
			t.Fatalf("ParseContextCursor(%q) = %+v, %v; want %+v", want, got, err, want)
		}
	})
	if got, err := page.ParseContextCursor(""); err != nil || got != (page.ContextCursor{}) {
		t.Errorf("the first page: %+v, %v", got, err)
	}
}

func TestContextCursorOfNoPageIsMalformed(t *testing.T) {
	id := enginetest.ID(t).String()
	for _, after := range []string{"x", id, id + "~1~2~3", id + "~1~2~3~d~4", "x~1~2~3~d", id + "~-1~2~3~d", id + "~1~x~3~d", id + "~1~2~2147483648~d"} {
		got, err := page.ParseContextCursor(after)
		if api.FromError(err).Code != api.Malformed || api.FromError(err).Details["field"] != "/after" || got != (page.ContextCursor{}) {
			t.Errorf("ParseContextCursor(%q) = %+v, %v; want malformed at /after", after, got, err)
		}
	}
}

func TestPositionIsParsedAsItWasWritten(t *testing.T) {
	for _, seq := range []uint64{0, 1, 35, 36, 1<<64 - 1} {
		if got, err := page.ParsePosition(page.FormatPosition(seq)); err != nil || got != seq {
			t.Errorf("position of %d: %d, %v", seq, got, err)
		}
	}
	for s, want := range map[string]uint64{"0": 0, "123": 123, "18446744073709551615": 1<<64 - 1} { // as audit.verify has them
		if got, err := page.ParsePosition(s); err != nil || got != want {
			t.Errorf("ParsePosition(%q) = %d, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "p", "1p", "-1", "+1", "1_0", "18446744073709551616", "q1", "p-1", "p 1", "pzzzzzzzzzzzzzz"} {
		if n, err := page.ParsePosition(s); !errors.Is(err, turns.ErrMalformed) || n != 0 {
			t.Errorf("ParsePosition(%q) = %d, %v; want malformed", s, n, err)
		}
	}
}

func TestOptionalIDIsAnIDOrNothing(t *testing.T) {
	id := enginetest.ID(t)
	for s, want := range map[string]turns.ID{"": {}, id.String(): id} {
		if got, err := page.OptionalID("/id", s); err != nil || got != want {
			t.Errorf("OptionalID(%q) = %s, %v", s, got, err)
		}
	}
	for _, s := range []string{"x", (turns.ID{}).String()} {
		if _, err := page.OptionalID("/id", s); api.FromError(err).Details["field"] != "/id" {
			t.Errorf("OptionalID(%q): %v; want an error at /id", s, err)
		}
	}
}

// A text in pieces is the text, and each piece is text.
func TestRuneBoundarySplitsNoCharacter(t *testing.T) {
	for _, text := range []string{"abcdefgh", "aäöü€", "€€€", "𝄞a𝄞𝄞"} {
		b := []byte(text)
		for limit := 4; limit < len(b); limit++ {
			n := page.RuneBoundary(b, limit)
			if n > limit || n <= limit-utf8.UTFMax || !utf8.Valid(b[:n]) || !utf8.Valid(b[n:]) {
				t.Errorf("RuneBoundary(%q, %d) = %d", text, limit, n)
			}
			if utf8.Valid(b[:limit]) && n != limit {
				t.Errorf("RuneBoundary(%q, %d) = %d, which cuts a character less than it may", text, limit, n)
			}
		}
	}
	// Bytes that are no text are cut at the limit, not before the first byte.
	if n := page.RuneBoundary([]byte("\x80\x80\x80\x80\x80\x80"), 3); n != 3 {
		t.Errorf("bytes that are no text: cut at %d, want 3", n)
	}
	if n := page.RuneBoundary([]byte("a\x80\x80"), 2); n != 2 {
		t.Errorf("a cut at 0 would end no paging: cut at %d, want 2", n)
	}
}

func TestClipJSONUsesTheRoomItHas(t *testing.T) {
	for _, tc := range []struct {
		s     string
		limit int
		want  string
	}{
		{"abcdefgh", 8, "abcdefgh"},
		{"abcdefghi", 8, "abcde…"},
		{"\n\n\n\n", 8, "\n\n\n\n"},
		{"\n\n\n\n\n", 8, "\n\n…"},
		{"ab€defgh", 8, "ab€…"},
		{"abc€efgh", 8, "abc…"},
		{"\x01", 6, "\x01"},
		{"\x01", 5, "…"},
	} {
		if got := page.ClipJSON(tc.s, tc.limit); got != tc.want {
			t.Errorf("ClipJSON(%q, %d) = %q, want %q", tc.s, tc.limit, got, tc.want)
		}
	}
}

func TestCheckFitNamesTheLargestField(t *testing.T) {
	sizes := []page.FieldSize{{Field: "/meta", Bytes: 10}, {Field: "/messages", Bytes: 30, Part: "small parts"}, {Field: "/ext", Bytes: 30}}
	if err := page.CheckFit(75, 5, sizes...); err != nil {
		t.Errorf("75 bytes in 75: %v", err)
	}
	err := page.CheckFit(74, 5, sizes...)
	if !errors.Is(err, ledger.ErrTooLarge) || api.FromError(err).Details["field"] != "/messages" ||
		!strings.Contains(err.Error(), "75 bytes of the request, 30 of them from here (small parts); 74 is the most") {
		t.Errorf("75 bytes in 74: %v", err)
	}
	if err := page.CheckFit(9, 0, sizes[:1]...); err == nil || !strings.Contains(err.Error(), "(all of it)") {
		t.Errorf("a whole field: %v", err)
	}
}

func TestCheckTextCountsTheEscapes(t *testing.T) {
	if err := page.CheckText("/label", "a\n", 3); err != nil {
		t.Errorf("3 bytes in 3: %v", err)
	}
	if err := page.CheckText("/label", "a\n", 2); !errors.Is(err, ledger.ErrTooLarge) || api.FromError(err).Details["field"] != "/label" {
		t.Errorf("3 bytes in 2: %v", err)
	}
}

// An id takes its 7 bytes and 3 for its quotes and comma, so half a message of 60
// bytes holds three.
func TestTrimCallsFillsHalfAMessage(t *testing.T) {
	l := &page.Limits{MaxPayload: 60}
	id := func(i int) string { return fmt.Sprintf("call-%02d", i) }
	for n, want := range map[int]string{3: "[call-00] [call-01] [call-02] false", 4: "[call-00 call-03] [call-01] [] true"} {
		ack := new(api.Appended)
		lists := []*[]string{&ack.Open, &ack.Abandoned, &ack.Late}
		for i := range n {
			*lists[i%3] = append(*lists[i%3], id(i))
		}
		l.TrimCalls(ack)
		if got := fmt.Sprint(ack.Open, ack.Abandoned, ack.Late, ack.CallsCut); got != want {
			t.Errorf("%d calls: %s, want %s", n, got, want)
		}
	}
}

func TestLimitsFollowTheSizeOfAMessage(t *testing.T) {
	type limits struct{ payload, list, item, context, inline, piece, turn, compaction, summary, settings, text int }
	for payload, want := range map[int]limits{
		0:        {8 << 20, 256 << 10, 8<<20 - 1024, 700 << 10, 512 << 10, 512 << 10, 6 << 20, 4 << 20, 1 << 20, 4 << 20, 512 << 10},
		64 << 10: {64 << 10, 16 << 10, 63 << 10, 32 << 10, 16 << 10, 64 << 10 / 3, 48 << 10, 32 << 10, 8 << 10, 32 << 10, 4 << 10},
	} {
		l := &page.Limits{MaxPayload: payload}
		got := limits{l.Payload(), l.PageBytes(), l.ItemBytes(), l.ContextBytes(), l.InlineBytes(), l.PieceBytes(),
			l.BodyBytes(&turns.TurnBody{}), l.BodyBytes(&turns.CompactionBody{}), l.SummaryBytes(), l.SettingsBytes(), l.TextBytes()}
		if got != want {
			t.Errorf("a message of %d bytes: %+v, want %+v", payload, got, want)
		}
	}
}
