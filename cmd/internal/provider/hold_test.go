package provider

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"nexus/turns"
)

// forever repeats a text behind a beginning, without an end.
type forever struct{ begin, text, rest string }

func (f *forever) Read(p []byte) (n int, err error) {
	if f.rest == "" {
		f.rest, f.begin = f.begin+f.text, ""
	}
	n = copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// Whatever a provider sends without an end, who holds the answer hears of the memory that it
// takes before the client's own bounds, and ends it by an error of its own.
func TestWhatIsKeptOfAnAnswerIsHeldFirst(t *testing.T) {
	full := errors.New("there is no more room")
	const begin = "data: {\"type\":\"message_start\",\"message\":{}}\n\n"
	long := strings.Repeat("x", 8<<10)
	for name, tc := range map[string]struct {
		kind   string
		stream forever
	}{
		"text":         {"openai-chat", forever{text: lines(`{"choices":[{"index":0,"delta":{"content":"` + long + `"}}]}`)}},
		"arguments":    {"openai-chat", forever{text: lines(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"` + long + `"}}]}}]}`)}},
		"thoughts":     {"openai-chat", forever{text: lines(`{"choices":[{"index":0,"delta":{"reasoning":"` + long + `"}}]}`)}},
		"a long line":  {"openai-chat", forever{begin: "data: ", text: long}},
		"a long event": {"openai-chat", forever{text: "data: " + long + "\n"}},
		"a signature": {"anthropic", forever{begin: begin + lines(`{"type":"content_block_start","index":0,"content_block":{"type":"thinking"}}`),
			text: lines(`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"` + long + `"}}`)}},
		"summaries": {"openai-responses", forever{begin: lines(`{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning"}}`),
			text: lines(`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"` + long + `"}`)}},
		"one opaque item": {"openai-responses", forever{text: lines(`{"type":"response.output_item.done","output_index":0,"item":{"type":"image_generation_call","result":"` + strings.Repeat("A", 4<<20) + `"}}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			held := 0
			c := answering(t, tc.kind, Limits{}, func(*http.Request) (io.Reader, error) { return &tc.stream, nil })
			_, err := c.Generate(t.Context(), &Request{Model: "m", Messages: []turns.Message{turns.TextMessage(turns.User, "x")}, Hold: func(n int) error {
				if held += n; held > 2<<20 {
					return full
				}
				return nil
			}}, func(Event) error { return nil })
			if !errors.Is(err, full) {
				t.Errorf("%v, with %d bytes held", err, held)
			}
		})
	}
}
