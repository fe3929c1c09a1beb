package render

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nexus/turns"
)

var memoFormats = map[string]func(*Memo, []turns.Section, []turns.Raw, []turns.Message) (Rendered, error){
	"otel": (*Memo).OTel, "openai": (*Memo).OpenAI, "anthropic": (*Memo).Anthropic, "gemini": (*Memo).Gemini,
}

// A context that grows, is cut, or changes anywhere renders to the same bytes after any
// earlier renderings as after none. Earlier memos stay what they were.
func TestMemoChangesNoRendering(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		memos := []*Memo{new(Memo)}
		var renderings []Rendered
		var wanted [][]string
		var closed []turns.Message // pairs are closed
		for range rapid.IntRange(1, 12).Draw(t, "renderings") {
			switch rapid.SampledFrom([]string{"grow", "grow", "grow", "cut", "change"}).Draw(t, "step") {
			case "grow":
				closed = append(slices.Clip(closed), drawHistory(t, false)...)
			case "cut":
				closed = nil
			case "change": // the text of one message, its role and calls stay
				if len(closed) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(closed)-1).Draw(t, "message")
				closed = slices.Clone(closed)
				closed[i].Parts = append(slices.Clip(closed[i].Parts), turns.TextPart(drawText(t)))
			}
			ms := closed
			if rapid.Bool().Draw(t, "open") {
				ms = append(slices.Clip(closed), drawHistory(t, true)...)
			}
			format := rapid.SampledFrom([]string{"otel", "openai", "anthropic", "anthropic", "anthropic", "gemini"}).Draw(t, "format")
			render := memoFormats[format]
			var system []turns.Section
			for range rapid.IntRange(0, 2).Draw(t, "sections") {
				system = append(system, turns.Section{Content: drawText(t)})
			}
			memo := memos[len(memos)-1-rapid.IntRange(0, min(2, len(memos)-1)).Draw(t, "memo")]
			want, werr := render(nil, system, nil, ms)
			got, err := render(memo, system, nil, ms)
			if (err == nil) != (werr == nil) || err != nil && err.Error() != werr.Error() {
				t.Fatalf("after a memo %v, without %v", err, werr)
			}
			if err != nil {
				return
			}
			if d := cmp.Diff(texts(want), texts(got)); d != "" {
				t.Fatalf("%s (-without, +after a memo):\n%s", format, d)
			}
			memos, renderings, wanted = append(memos, got.Memo()), append(renderings, got), append(wanted, texts(want))
		}
		for i, r := range renderings {
			if d := cmp.Diff(wanted[i], texts(r)); d != "" {
				t.Fatalf("rendering %d of %d is another since (-then, +now):\n%s", i, len(renderings), d)
			}
		}
	})
}

// Contexts that are rendered at once go on from one memo, each with another end, and one that
// can't be rendered. Each has the bytes that it has without the memo. Run with -race it also shows
// that none writes what another reads.
func TestRenderingsGoOnFromOneMemoAtOnce(t *testing.T) {
	for format, render := range memoFormats {
		t.Run(format, func(t *testing.T) {
			var ms []turns.Message
			for i := range 40 {
				ms = append(ms, turns.TextMessage(turns.User, fmt.Sprint("question ", i)), turns.TextMessage(turns.Assistant, "answer"))
			}
			r, err := render(new(Memo), nil, nil, ms)
			if err != nil {
				t.Fatal(err)
			}
			memo := r.Memo()
			if _, err := render(memo, nil, nil, append(slices.Clip(ms), turns.TextMessage(turns.User, "one"), turns.TextMessage(turns.User, "\xff"))); err == nil {
				t.Fatal("text that is not UTF-8 is rendered")
			}
			var wg sync.WaitGroup
			const workers, each = 12, 3
			var all [workers][each]Rendered
			var wanted [workers]Rendered
			for w := range workers {
				n := len(ms) - w/4*3 // some go on from before its end
				grown := slices.Clip(ms[:n:n])
				for i := range w % 4 { // 0: nothing is added
					grown = append(grown, turns.TextMessage(turns.User, fmt.Sprint(w, " asks ", i)), turns.TextMessage(turns.Assistant, fmt.Sprint("answer ", w)))
				}
				if wanted[w], err = render(nil, nil, nil, grown); err != nil {
					t.Fatal(err)
				}
				wg.Go(func() {
					from := memo
					for i := range each {
						got, err := render(from, nil, nil, grown)
						if err != nil {
							t.Error(err)
							return
						}
						all[w][i], from = got, got.Memo()
					}
				})
			}
			wg.Wait()
			for w, rs := range all { // behind all of them: a later one may have changed an earlier one
				for _, r := range rs {
					if d := cmp.Diff(texts(wanted[w]), texts(r)); d != "" {
						t.Errorf("rendering %d (-without, +after the memo):\n%s", w, d)
					}
				}
			}
			if again, err := render(memo, nil, nil, ms); err != nil || !slices.Equal(texts(again), texts(r)) {
				t.Errorf("the first context is another since: %v", err)
			}
		})
	}
}

func texts(r Rendered) []string {
	out := []string{string(r.System)}
	for _, m := range r.Messages {
		out = append(out, string(m))
	}
	return out
}

// The next rendering of a context that grew converts its end only.
func TestARenderingContinuesTheOneBefore(t *testing.T) {
	for format, render := range memoFormats {
		if format == "otel" {
			continue // it converts nothing
		}
		memo := new(Memo)
		var ms []turns.Message
		for n := range 100 {
			ms = append(ms, turns.TextMessage(turns.User, "q"), turns.TextMessage(turns.Assistant, "a"))
			r, err := render(memo, nil, nil, ms)
			if err != nil {
				t.Fatal(err)
			}
			memo = r.Memo()
			if last := memo.points[len(memo.points)-1].read; n > 2 && last < len(ms)-2 {
				t.Fatalf("%s: of %d messages the memo continues after %d", format, len(ms), last)
			}
			if len(memo.points) > maxPoints {
				t.Fatalf("%s: %d points", format, len(memo.points))
			}
			if first := memo.points; n > 20 && (first[0].read > len(ms)-pointSpan || first[0].read < len(ms)-3*pointSpan) {
				t.Fatalf("%s: of %d messages the first point is after %d", format, len(ms), first[0].read)
			}
		}
	}
}

// BenchmarkMemo renders a context of 200 exchanges with calls after it grew by one.
func BenchmarkMemo(b *testing.B) {
	for format, render := range memoFormats {
		b.Run(format, func(b *testing.B) {
			var ms []turns.Message
			text := string(make([]byte, 500))
			for range 200 {
				ms = append(ms, turns.TextMessage(turns.User, text), turns.Message{Role: turns.Assistant, Parts: []turns.Part{turns.TextPart(text),
					{Type: turns.ToolCall, ID: "c", Name: "read", Arguments: turns.Raw(`{"path":"x"}`)}}},
					turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "c", Response: turns.RawText(text)}}})
			}
			r, err := render(new(Memo), nil, nil, ms[:len(ms)-3])
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := render(r.Memo(), nil, nil, ms); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
