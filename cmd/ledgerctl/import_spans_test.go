package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"nexus/cmd/internal/cost"
	"nexus/cmd/internal/transcripts"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/terminal"
)

// Spans of one conversation in several files are one session, or sessions that follow from
// each other, and each call counts once, whichever file comes first.
func TestSpansInSeveralFilesInAnyOrder(t *testing.T) {
	span := func(n int, in string) string {
		return fmt.Sprintf(`{"traceId":"T%d","spanId":"%d","name":"chat","startTimeUnixNano":"17759191%02d000000000","endTimeUnixNano":"17759191%02d500000000","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.conversation.id","value":{"stringValue":"c"}},{"key":"gen_ai.usage.input_tokens","value":{"intValue":"10"}},{"key":"gen_ai.input.messages","value":{"stringValue":"[%s]"}},{"key":"gen_ai.output.messages","value":{"stringValue":"[{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"content\":\"a%d\"}]}]"}}]}`, n, n, n, n, in, n)
	}
	message := func(role, text string) string {
		return fmt.Sprintf(`{\"role\":\"%s\",\"parts\":[{\"type\":\"text\",\"content\":\"%s\"}]}`, role, text)
	}
	q1, a1, q2, a2, q3 := message("user", "q1"), message("assistant", "a1"), message("user", "q2"), message("assistant", "a2"), message("user", "q3")
	for name, files := range map[string][]string{
		"what is new":       {span(1, q1), span(2, q2), span(3, q3)},
		"the whole history": {span(1, q1), span(2, q1+","+a1+","+q2), span(3, q1+","+a1+","+q2+","+a2+","+q3)},
	} {
		for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}} {
			t.Run(fmt.Sprint(name, order), func(t *testing.T) {
				ctx := t.Context()
				e := newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard})
				c, stop, err := local.Start(ctx, e.Terminal, t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				defer stop()
				dir := t.TempDir()
				im := transcripts.Importer{Client: c, Format: "auto", Final: true}
				for _, again := range []bool{false, true} {
					for _, i := range order {
						file := filepath.Join(dir, fmt.Sprint(i, ".json"))
						if err := os.WriteFile(file, []byte(files[i]), 0o600); err != nil {
							t.Fatal(err)
						}
						if r, err := im.File(ctx, file); err != nil || again && r.Stored > 0 {
							t.Fatalf("%s: %+v, %v", file, r, err)
						}
					}
				}
				var texts []string
				_, calls := cost.Read(ctx, c, cost.Scope{})
				for x, err := range calls {
					if err != nil {
						t.Fatal(err)
					}
					if x.Uncounted > 0 { // usage that came after its turn was stored
						continue
					}
					turn, err := c.Turn(ctx, x.Session, x.Turn)
					if err != nil {
						t.Fatal(err)
					}
					texts = append(texts, turn.Response.Parts[0].Content)
				}
				slices.Sort(texts)
				if want := []string{"a1", "a2", "a3"}; !slices.Equal(texts, want) {
					t.Errorf("calls %v, want %v", texts, want)
				}
				if s := sessionShapes(t, c); order[0] == 0 && !slices.Equal(s, []string{"a1a2a3"}) {
					t.Errorf("sessions %v", s)
				}
			})
		}
	}
}
