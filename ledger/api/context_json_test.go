package api

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"nexus/turns"
)

// drawContext returns a context whose texts hold what could mislead a search in its JSON.
func drawContext(rng *rand.Rand) *Context {
	texts := []string{"", "plain", `a "quoted" one`, `\`, `\"`, `"sources":[`, `,"messages":[]`, "]}", "[{", "line\nend\ttab", "Grüße 漢字 🙂", "a\u2028b"}
	text := func() string { return texts[rng.IntN(len(texts))] }
	raw := func() turns.Raw {
		b, err := turns.EncodeJSON(map[string]any{"role": text(), "parts": []any{text(), map[string]any{"sources": []any{text()}}, rng.IntN(9), true, nil, []any{}}})
		if err != nil {
			panic(err)
		}
		return b
	}
	c := &Context{Messages: []turns.Raw{}, System: turns.RawText(text()), Tokens: rng.Uint64(), Fingerprint: text(), Recipe: raw(), Sources: []Source{}, Position: text()}
	for range rng.IntN(4) {
		c.Messages = append(c.Messages, raw())
	}
	for range rng.IntN(3) {
		c.Tools = append(c.Tools, raw())
	}
	for range rng.IntN(4) {
		s := Source{Turn: NewID(), Half: text(), Status: text(), Tokens: rng.Uint64(), Why: text()}
		if rng.IntN(3) == 0 {
			s.Turn = turns.ID{}
		}
		if rng.IntN(3) == 0 {
			s.Session = NewID()
		}
		if rng.IntN(3) == 0 {
			s.Memory = NewID()
		}
		s.Messages = rng.Uint64N(3)
		c.Sources = append(c.Sources, s)
	}
	if rng.IntN(2) == 0 {
		c.Preamble = []PreamblePart{{Type: text(), Name: text(), Tokens: 3}}
		c.Partial, c.Next = text(), text()
	}
	return c
}

func TestJSONOfAContextIsThatOfTheEncoder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 2000 {
		c := drawContext(rng)
		want, err := turns.EncodeJSON(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.AppendJSON(nil)
		if err != nil || string(got) != string(want) {
			t.Fatalf("%d: %v\n%s\nwant\n%s", i, err, got, want)
		}
		var fast, slow Context
		if err := DecodeContext(want, &fast); err != nil {
			t.Fatal(i, err)
		}
		if err := UnmarshalLenient(want, &slow); err != nil {
			t.Fatal(i, err)
		}
		if !reflect.DeepEqual(fast, slow) {
			t.Fatalf("%d: %s is read as\n%+v\nwant\n%+v", i, want, fast, slow)
		}
	}
}

// TestBrokenContextIsNotRead cuts and changes replies: what the fast way accepts and the
// decoder does not may only be inside of a message.
func TestBrokenContextIsNotRead(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 300 {
		b, err := drawContext(rng).AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		for n := range len(b) {
			if err := DecodeContext(b[:n:n], new(Context)); err == nil {
				t.Fatalf("%d: %s is read", i, b[:n])
			}
		}
		other := []byte(`{"messages" : [ {} ], "other":1,` + string(b[len(`{"messages":`):]))
		if err := DecodeContext(other, new(Context)); err == nil && UnmarshalLenient(other, new(Context)) != nil {
			t.Fatalf("%d: %s is read", i, other)
		}
	}
}

func TestContextOfALaterBuildIsRead(t *testing.T) {
	for _, reply := range []string{
		`{"messages":[{"role":"user"}],"later":{"sources":[1]},"sources":[{"half":"messages","later":[]}],"tokens":3}`,
		`{"budget":1,"messages":[{"role":"user"}],"sources":[{"half":"messages"}],"tokens":3}`,
		`{"messages": [{"role":"user"}], "sources": [{"half":"messages"}], "tokens": 3}`,
	} {
		var c Context
		if err := DecodeContext([]byte(reply), &c); err != nil {
			t.Error(reply, err)
		} else if got := fmt.Sprintf("%s %s %d", c.Messages, c.Sources[0].Half, c.Tokens); got != `[{"role":"user"}] messages 3` {
			t.Error(reply, got)
		}
	}
}
