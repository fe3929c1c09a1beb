package view_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nexus/compactor/view"
	"nexus/turns/tokens"
)

// Whatever an agent remembers and however little room there is: the sections fit, their
// tokens are those of their sources, and what is shown of the days is the newest.
func TestShownMemoriesFitTheirRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, ok := tokens.Named(rapid.SampledFrom([]string{"approx-1", "gsv-1", "spec008-1", "wolffish-1", "o200k-1"}).Draw(t, "counter"))
		if !ok {
			t.Fatal("no such counter")
		}
		text := rapid.OneOf(rapid.StringN(1, 60, -1), rapid.SampledFrom([]string{"<a>", strings.Repeat("word ", 80), strings.Repeat("é", 300), "# a\n\n---\nb", "日本語" + strings.Repeat("語", 40)}))
		many := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) view.Remembered { return view.Remembered{Text: text.Draw(t, "text")} }), 0, 12)
		m := view.Memories{Episodes: many.Draw(t, "episodes")}
		for _, date := range []string{"2026-11-21", "2026-11-22"} {
			if items := many.Draw(t, "daily"); len(items) > 0 {
				m.Days = append(m.Days, view.Day{Date: date, Items: items})
			}
		}
		if rapid.Bool().Draw(t, "has a document") {
			m.Document = &view.Remembered{Name: "document", Text: strings.Repeat(text.Draw(t, "line")+"\n", rapid.IntRange(1, 40).Draw(t, "lines"))}
		}
		room := rapid.Uint64Range(0, 3000).Draw(t, "room")
		out := m.Show(c, room)
		sum, ofSources := uint64(0), uint64(0)
		for _, s := range out.Sections {
			sum += view.SectionTokens(c, s)
		}
		for _, s := range out.Sources {
			if ofSources += s.Tokens; s.Status == view.Dropped && s.Tokens > 0 || s.Why == "" {
				t.Fatalf("%+v", s)
			}
		}
		if sum > room || sum != out.Tokens || ofSources != sum {
			t.Fatalf("%d tokens in a room of %d, said are %d, of the sources %d", sum, room, out.Tokens, ofSources)
		}
		if n := len(m.Days); n > 1 && len(out.Sections) > 0 {
			older, newer := "daily_memory "+m.Days[0].Date, "daily_memory "+m.Days[1].Date
			if has(out, older) && !has(out, newer) {
				t.Fatal("the older day is shown and the newer is not")
			}
		}
		if all := m.Show(c, 1<<40); len(all.Sources) != len(m.Episodes)+count(m.Days)+documents(m) {
			t.Fatalf("%d sources with all the room: %+v", len(all.Sources), all.Sources)
		}
	})
}

func has(s view.Shown, name string) bool {
	for _, x := range s.Sections {
		if x.Name == name {
			return true
		}
	}
	return false
}

func count(days []view.Day) (n int) {
	for _, d := range days {
		n += len(d.Items)
	}
	return n
}

func documents(m view.Memories) int {
	if m.Document == nil || strings.TrimSpace(m.Document.Text) == "" {
		return 0
	}
	return 1
}
