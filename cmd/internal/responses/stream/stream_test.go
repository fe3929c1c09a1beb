package stream

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/provider"
	"nexus/cmd/internal/responses/wire"
	"nexus/turns"
)

// answerOf draws an answer and the events of it: parts of all kinds, deltas that end within
// a letter, parts that are not streamed, arguments that are streamed with white space.
func answerOf(rng *rand.Rand) (m turns.Message, events []provider.Event) {
	m.Role = turns.Assistant
	for i := range 1 + rng.IntN(4) {
		text := strings.Repeat("aé漢 ", rng.IntN(6))
		part, said := turns.TextPart(text), text
		delta := provider.Delta
		var sums []string
		switch rng.IntN(4) {
		case 0:
			part = turns.Part{Type: turns.ToolCall, ID: fmt.Sprint("c", i), Name: "f", Arguments: turns.Raw(`{"a":1}`)}
			said = `{"a": 1}`
		case 1:
			part.Type = turns.Reasoning
			if rng.IntN(2) == 0 {
				sums = []string{"one", "two, é"}
				said, part.Content = "", "one\n\ntwo, é"
			}
		case 2:
			delta = provider.RefusalDelta
		}
		m.Parts = append(m.Parts, part)
		if rng.IntN(5) == 0 && sums == nil && delta == provider.Delta {
			continue // not streamed
		}
		events = append(events, provider.Event{Kind: provider.Begin, Index: i, Type: part.Type, ID: part.ID, Name: part.Name})
		for n, s := range sums {
			for _, piece := range strings.SplitAfter(s, " ") {
				events = append(events, provider.Event{Kind: provider.SummaryDelta, Index: i, Type: part.Type, Summary: n, Text: piece})
			}
		}
		for len(said) > 0 {
			n := 1 + rng.IntN(min(5, len(said)))
			for n < len(said) && said[n]&0xc0 == 0x80 {
				n++
			}
			events = append(events, provider.Event{Kind: delta, Index: i, Type: part.Type, Text: said[:n]})
			said = said[n:]
		}
		events = append(events, provider.Event{Kind: provider.End, Index: i, Part: &m.Parts[len(m.Parts)-1]})
	}
	return m, events
}

// The events of an answer are made again, byte for byte, of its message and what its turn's
// meta keeps.
func TestAStreamIsMadeAgainOfItsTurn(t *testing.T) {
	ref := turns.Ref{Session: turns.MustParseID("01JE0000000000000000000001"), Turn: turns.MustParseID("01JE0000000000000000000002")}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m, events := answerOf(rng)
		var first, again []string
		live := NewEmitter(ref, wire.ToolChoice{}, true, func(e Event) error { first = append(first, string(e.Data)); return nil })
		var sealed string
		if seed%2 == 1 {
			sealed = "sealed"
		}
		live.Front = wire.FrontItem(ref, sealed)
		if err := live.Announce(&wire.Response{}, false); err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if err := live.Take(e); err != nil {
				t.Fatal(err)
			}
		}
		stored, err := live.Finish(m)
		if err != nil {
			t.Fatal(err)
		}
		e := NewEmitter(ref, wire.ToolChoice{}, true, func(e Event) error { again = append(again, string(e.Data)); return nil })
		e.Front = wire.FrontItem(ref, sealed)
		if err := e.Announce(&wire.Response{}, false); err != nil {
			t.Fatal(err)
		}
		if err := e.Replay(&stored, live.Marks(), base64.RawStdEncoding.EncodeToString(live.Ops)); err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Join(again, "\n"), strings.Join(first, "\n"); got != want {
			t.Fatalf("seed %d:\n%s\nwant\n%s", seed, got, want)
		}
		// The items of the response stand where its events say, the compaction item first.
		meta := &wire.AnswerMeta{Items: live.Marks(), Sealed: sealed}
		whole, streamed := wire.AnswerItems(ref, &stored, meta, true), make([]wire.Item, len(stored.Parts)+len(sealed)/len("sealed"))
		for _, data := range first {
			var w WireEvent
			if err := json.Unmarshal([]byte(data), &w); err != nil {
				t.Fatal(err)
			}
			if w.Type == "response.output_item.done" {
				streamed[*w.OutputIndex] = w.Item
			}
		}
		if !reflect.DeepEqual(whole, streamed) {
			t.Fatalf("seed %d: the items %s, streamed %s", seed, whole, streamed)
		}
	}
}

// What a meta says of a stream may be anything that decodes; it ends in an error, never in a panic.
func FuzzReplay(f *testing.F) {
	f.Add([]byte{opBegin, 0, opDelta, 0, 2, opEnd, 0}, "text")
	f.Add([]byte{opBegin, 0, opDelta, 0, 1, opEnd, 0}, "é")
	f.Add([]byte{opSummary, 0, 200, 200, 1}, "")
	f.Fuzz(func(t *testing.T, ops []byte, text string) {
		m := turns.Message{Role: turns.Assistant, Parts: []turns.Part{turns.TextPart(strings.ToValidUTF8(text, "")), {Type: turns.Reasoning}}}
		e := NewEmitter(turns.Ref{}, wire.ToolChoice{}, false, func(Event) error { return nil })
		_ = e.Replay(&m, nil, base64.RawStdEncoding.EncodeToString(ops))
	})
}

// Very many deltas are joined, so that what a turn keeps of its stream is bounded; nothing of the text is missing.
func TestVeryManyDeltasAreJoined(t *testing.T) {
	said, n := "", 0
	e := NewEmitter(turns.Ref{}, wire.ToolChoice{}, false, func(e Event) error { n++; return nil })
	part := turns.TextPart(strings.Repeat("x", 10*maxDeltas))
	if err := e.Take(provider.Event{Kind: provider.Begin, Type: turns.Text}); err != nil {
		t.Fatal(err)
	}
	for range 10 * maxDeltas {
		if err := e.Take(provider.Event{Kind: provider.Delta, Type: turns.Text, Text: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Take(provider.Event{Kind: provider.End, Part: &part}); err != nil {
		t.Fatal(err)
	}
	said = e.order[0].text.String()
	if said != part.Content || n > maxDeltas+9*maxDeltas/joinedBytes+10 || len(e.Ops) > 4*n {
		t.Errorf("%d events, %d bytes of operations, %d of text", n, len(e.Ops), len(said))
	}
}
