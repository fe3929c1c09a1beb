package provider

import (
	"strings"
	"testing"

	"nexus/turns"
)

// FuzzStreams: whatever a provider sends, the answer is valid or there is an error.
func FuzzStreams(f *testing.F) {
	for _, s := range []string{
		`{"choices":[{"index":0,"delta":{"content":"x","reasoning_content":"y"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}` + "\n[DONE]",
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"n","arguments":"{"}}]}}]}` + "\n" + `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n[DONE]",
		`{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning"}}` + "\n" + `{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"s"}` + "\n" +
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","encrypted_content":"e"}}` + "\n" + `{"type":"response.completed","response":{"id":"r"}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c","name":"n"}}` + "\n" + `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}` + "\n" +
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"}}` + "\n" + `{"type":"message_stop"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		for _, kind := range Kinds() {
			began, ended := 0, 0
			out := collector{emit: func(e Event) error {
				switch e.Kind {
				case Begin:
					began++
				case End:
					ended++
				default:
					if e.Index < 0 || e.Index >= began || e.Text == "" {
						t.Errorf("%s: %+v", kind, e)
					}
				}
				return nil
			}}
			var take func(string, []byte) error
			var parts func() *collector
			switch kind {
			case ChatKind:
				a := &chatAnswer{out: out, text: -1, thought: -1, calls: make(map[int]int)}
				take, parts = a.take, func() *collector { return &a.out }
			case ResponsesKind:
				a := &responsesAnswer{out: out, at: make(map[[2]int]int), said: make(map[int]bool), refuse: make(map[int]bool)}
				take, parts = a.take, func() *collector { return &a.out }
			default:
				a := &anthropicAnswer{out: out, at: make(map[int]int), signed: make(map[int]string), data: make(map[int]string)}
				take, parts = a.take, func() *collector { return &a.out }
			}
			for line := range strings.SplitSeq(stream, "\n") {
				if take("", []byte(line)) != nil {
					break
				}
			}
			if err := parts().last(nil); err != nil {
				t.Fatal(err)
			}
			m := parts().message("stop")
			if err := m.Validate("/"); err != nil || began != ended || len(m.Parts) != began || m.Role != turns.Assistant {
				t.Errorf("%s: %v, %d parts, %d began, %d ended", kind, err, len(m.Parts), began, ended)
			}
		}
	})
}
