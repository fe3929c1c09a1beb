package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nexus/cmd/internal/cost"
	"nexus/cmd/internal/transcripts"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api/client"
)

// importInOrder imports texts, a file each, then all again, which must store nothing, and
// returns the client.
func importInOrder(t *testing.T, im transcripts.Importer, names, texts []string, order []int) *client.Client {
	t.Helper()
	ctx := t.Context()
	e := newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard})
	c, stop, err := local.Start(ctx, e.Terminal, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	dir := t.TempDir()
	im.Client, im.Format, im.Final = c, "auto", true
	for _, again := range []bool{false, true} {
		for _, i := range order {
			file := filepath.Join(dir, names[i])
			if err := os.WriteFile(file, []byte(texts[i]), 0o600); err != nil {
				t.Fatal(err)
			}
			im := im
			if r, err := im.File(ctx, file); err != nil || r.KeptFirst > 0 || r.Renewed > 0 || again && r.Stored > 0 {
				t.Fatalf("%s, again %v: %+v, %v", names[i], again, r, err)
			}
		}
	}
	return c
}

// callsAndTokens returns how many calls cost finds, and their tokens.
func callsAndTokens(t *testing.T, c *client.Client) (calls int, in, out uint64) {
	t.Helper()
	_, found := cost.Read(t.Context(), c, cost.Scope{})
	for x, err := range found {
		if err != nil {
			t.Fatal(err)
		}
		calls++
		if x.Usage != nil {
			in, out = in+x.Usage.InputTokens, out+x.Usage.OutputTokens
		}
	}
	return calls, in, out
}

// The history of a later call holds a turn without its usage. Whichever comes first, in the
// same file or another, the call counts once with its tokens, and nothing is reported as
// standing otherwise, nor does a refresh replace it.
func TestCopiesWithoutUsageContradictNothing(t *testing.T) {
	message := func(role, text string) string {
		return fmt.Sprintf(`{\"role\":\"%s\",\"parts\":[{\"type\":\"text\",\"content\":\"%s\"}]}`, role, text)
	}
	span := func(n, in, out int, texts ...string) string {
		var said []string
		for i, s := range texts[:len(texts)-1] {
			said = append(said, message([]string{"user", "assistant"}[i%2], s))
		}
		return fmt.Sprintf(`{"traceId":"T%d","spanId":"%d","name":"chat","startTimeUnixNano":"17759191%02d000000000","endTimeUnixNano":"17759191%02d500000000","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.conversation.id","value":{"stringValue":"orchard"}},{"key":"gen_ai.usage.input_tokens","value":{"intValue":"%d"}},{"key":"gen_ai.usage.output_tokens","value":{"intValue":"%d"}},{"key":"gen_ai.input.messages","value":{"stringValue":"[%s]"}},{"key":"gen_ai.output.messages","value":{"stringValue":"[%s]"}}]}`,
			n, n, n, n, in, out, strings.Join(said, ","), message("assistant", texts[len(texts)-1])) + "\n"
	}
	one := span(1, 10, 2, "q1", "a1")
	newest, whole := span(2, 11, 3, "q2", "a2"), span(2, 11, 3, "q1", "a1", "q2", "a2")
	third := span(3, 40, 4, "q1", "a1", "q2", "a2", "q3", "a3")
	for name, x := range map[string]struct {
		files  []string
		orders [][]int
		shapes bool // one session in each order
	}{
		"mixed":       {[]string{one, newest + third}, [][]int{{0, 1}, {1, 0}}, true},
		"a file each": {[]string{one, newest, third}, [][]int{{0, 1, 2}, {2, 1, 0}, {2, 0, 1}, {0, 2, 1}}, true},
		"late first":  {[]string{one, newest, third}, [][]int{{1, 0, 2}, {1, 2, 0}}, false},
		"whole":       {[]string{one, whole, third}, [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}}, true},
	} {
		for _, order := range x.orders {
			for _, refresh := range []bool{false, true} {
				t.Run(fmt.Sprint(name, order, refresh), func(t *testing.T) {
					c := importInOrder(t, transcripts.Importer{Refresh: refresh}, []string{"1.jsonl", "2.jsonl", "3.jsonl"}, x.files, order)
					if n, in, out := callsAndTokens(t, c); n != 3 || in != 61 || out != 9 {
						t.Errorf("%d calls, %d in, %d out", n, in, out)
					}
					if s := sessionShapes(t, c); x.shapes && !slices.Equal(s, []string{"a1a2a3"}) {
						t.Errorf("sessions %v", s)
					}
				})
			}
		}
	}
}

// A fork of a fork, whose own parent's file comes later or last, is no obstacle to that file.
func TestPiForkOfForkBeforeItsParent(t *testing.T) {
	name := func(n int) string {
		return fmt.Sprintf("2026-03-01T1%d-00-00-000Z_77777777-0000-4000-8000-00000000000%d.jsonl", n, n)
	}
	head := func(n, of int) string {
		parent := ""
		if of >= 0 {
			parent = fmt.Sprintf(`,"parentSession":"/old/%s"`, name(of))
		}
		return fmt.Sprintf(`{"type":"session","version":3,"id":"77777777-0000-4000-8000-00000000000%d","timestamp":"2026-03-01T1%d:00:00.000Z","cwd":"/w"%s}`+"\n", n, n, parent)
	}
	pair := func(id, up, at, text string) string {
		parent := "null"
		if up != "" {
			parent = `"` + up + `b"`
		}
		return fmt.Sprintf(`{"type":"message","id":"%[1]sa","parentId":%[2]s,"timestamp":"2026-03-01T%[3]s:05.000Z","message":{"role":"user","content":[{"type":"text","text":"ask %[4]s"}]}}
{"type":"message","id":"%[1]sb","parentId":"%[1]sa","timestamp":"2026-03-01T%[3]s:10.000Z","message":{"role":"assistant","content":[{"type":"text","text":"%[4]s"}],"model":"m","usage":{"input":10,"output":1}}}
`, id, parent, at, text)
	}
	x, y := pair("x", "", "10:01", "x"), pair("y", "x", "10:02", "y")
	files := []string{
		head(0, -1) + x + y,
		head(1, 0) + x + y + pair("z", "y", "11:01", "z"),
		head(2, 1) + x + pair("v", "x", "12:01", "v"),
		head(3, 1) + x + y + pair("z", "y", "11:01", "z") + pair("u", "z", "13:01", "u"),
	}
	names := []string{name(0), name(1), name(2), name(3)}
	for _, order := range [][]int{{0, 1, 2, 3}, {0, 2, 1, 3}, {2, 0, 1, 3}, {2, 1, 0, 3}, {0, 2, 3, 1}, {3, 2, 1, 0}, {2, 3, 0, 1}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			c := importInOrder(t, transcripts.Importer{}, names, files, order)
			if n, in, _ := callsAndTokens(t, c); n != 5 || in != 50 {
				t.Errorf("%d calls, %d in", n, in)
			}
			if s := sessionShapes(t, c); !slices.Contains(s, "xyz") || !slices.Contains(s, "xv") || !slices.Contains(s, "xyzu") {
				t.Errorf("sessions %v", s)
			}
		})
	}
}

// A chat of Gemini CLI that goes on in another file, which begins with what a compression
// left, is one conversation, and what stands in both files counts once.
func TestGeminiChatGoesOnInAnotherFileAfterACompression(t *testing.T) {
	head := `{"sessionId":"99999999-0000-4000-8000-000000000001","projectHash":"p","startTime":"2026-03-01T10:00:00Z","kind":"main"}` + "\n"
	ask := func(n int) string {
		return fmt.Sprintf(`{"id":"u%[1]d","timestamp":"2026-03-01T10:%[1]d0:00Z","type":"user","content":"q%[1]d"}`, n)
	}
	answer := func(n int) string {
		return fmt.Sprintf(`{"id":"g%[1]d","timestamp":"2026-03-01T10:%[1]d1:00Z","type":"gemini","content":"a%[1]d","tokens":{"input":10,"output":1},"model":"m"}`, n)
	}
	snapshot := `{"id":"k1","timestamp":"2026-03-01T10:25:00Z","type":"user","content":[{"text":"<state_snapshot>s</state_snapshot>"}]},{"id":"k2","timestamp":"2026-03-01T10:25:01Z","type":"gemini","content":"Noted."}`
	first := head + ask(1) + "\n" + answer(1) + "\n" + ask(2) + "\n" + answer(2) + "\n" + `{"$set":{"messages":[` + snapshot + `]}}` + "\n" + ask(3) + "\n" + answer(3) + "\n"
	second := head + `{"$set":{"messages":[` + snapshot + "," + ask(3) + "," + answer(3) + `]}}` + "\n" + ask(4) + "\n" + answer(4) + "\n"
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			c := importInOrder(t, transcripts.Importer{}, []string{"session-a.jsonl", "session-b.jsonl"}, []string{first, second}, order)
			if n, in, _ := callsAndTokens(t, c); n != 4 || in != 40 {
				t.Errorf("%d calls, %d in; sessions %v", n, in, sessionShapes(t, c))
			}
		})
	}
}
