package mcp

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nexus/turns"
)

// The largest results have room in a frame, whatever their content is made of.
func TestTheLargestResultsFit(t *testing.T) {
	const id, when = "01ARZ3NDEKTSV4RRFFQ69G5FAV", "2026-11-22T18:01:14.747015338Z"
	for _, unit := range []string{"x", "x\n", "語", "\u202e", "x\r\n", "😀"} {
		text := func(n int) string { return shortened(strings.Repeat(unit, n), n) }
		var b briefResult
		for i := range maxSessions {
			summary, turn, last, open := summaryBytes, turnBytes, lastTurns, maxOpen
			if i > 0 {
				summary, turn, last, open = laterBytes, laterBytes/2, 1, 1
			}
			s := briefSession{Session: id, Label: text(1000), Task: text(titleBytes), State: "archived", Time: when, Number: 1 << 40, Summary: text(summary), From: id + "/" + id}
			for range last {
				s.Turns = append(s.Turns, briefTurn{id + "/" + id, 1 << 40, text(turn), text(turn)})
			}
			for range open {
				s.Open = append(s.Open, text(openBytes))
			}
			b.Sessions = append(b.Sessions, s)
		}
		for range maxMemories {
			b.Memories = append(b.Memories, briefMemory{Memory: id, Kind: "long_term", Time: when, Text: text(memoryBytes)})
		}
		b.Document = text(documentBytes)
		r := searchResult{Behind: 1 << 40, Next: strings.Repeat("n", 100)}
		for range maxHits {
			r.Hits = append(r.Hits, searchHit{Kind: "turn", State: "other_branch", Time: when, Handle: id + "/" + id, Number: 1 << 40, Half: "messages", Snippet: head(strings.Repeat("語", 400), snippetBytes), Some: true})
		}
		var st statusResult
		for range statusSessions {
			st.Sessions = append(st.Sessions, statusSession{Session: id, Label: text(1000), Task: text(titleBytes), Kind: "main", State: "archived", Time: when, Head: id + "/" + id, Tokens: 1 << 50, Budget: 1 << 50})
		}
		for _, x := range []result{&b, &r, &st} {
			f := newFrame()
			if x.text(f); f.cut {
				t.Errorf("%T of %q: the text is cut:\n%s", x, unit, f)
			}
		}
	}
}

// The pages of a turn join to its content, and each fits into a frame.
func TestPagesOfATurnJoinToIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat(rapid.StringN(0, 8, -1).Draw(t, "unit"), rapid.IntRange(0, 3000).Draw(t, "times"))
		})
		var m turns.Message
		for _, s := range slices.Concat(rapid.SliceOfN(text, 0, 40).Draw(t, "texts"), make([]string, rapid.IntRange(0, 500).Draw(t, "empty"))) {
			m.Parts = append(m.Parts, turns.Part{Type: turns.Text, Content: s})
		}
		parts := partsOf("messages", []turns.Message{m})
		got := make([]string, len(parts))
		at := -1
		for after, pages := "", 0; pages == 0 || after != ""; pages++ {
			out := new(expandResult)
			if err := (*call)(nil).fill(t.Context(), out, after, turns.ID{}, parts); err != nil {
				t.Fatal(err)
			}
			for _, p := range out.Pieces {
				if p.From == 0 {
					at++
				}
				if p.From != len(got[at]) || p.Size != len(m.Parts[at].Content) {
					t.Fatalf("part %d: a piece from %d of %d", at, p.From, p.Size)
				}
				got[at] += p.Text
			}
			f := newFrame()
			if out.text(f); f.cut {
				t.Fatalf("page %d is cut", pages)
			}
			if after != "" && len(out.Pieces) == 0 {
				t.Fatalf("page %d at %s is empty", pages, after)
			}
			after = out.Next
		}
		for i, p := range m.Parts {
			if got[i] != p.Content {
				t.Fatalf("part %d: %d bytes, want %d", i, len(got[i]), len(p.Content))
			}
		}
	})
}
