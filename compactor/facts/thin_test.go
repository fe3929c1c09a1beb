package facts

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nexus/compactor/summary"
	"nexus/turns"
)

// junk is what models write in place of a summary.
var junk = []string{
	"ok", "…", "Sure! I'll run the tests now.", "I'm sorry, but I can't assist with that request.", "К сожалению, я не могу помочь с этим запросом.",
	"很抱歉，我无法协助处理此请求。", `<tool_call>{"name":"bash","arguments":{"command":"ls"}}</tool_call>`, "TASK:\nPROGRESS:\nREMAINING:\nDATA:\nDECISIONS:",
}

func thinInput(texts ...string) summary.Input {
	in := summary.Input{MaxTokens: 4000}
	for i, s := range texts {
		in.Halves = append(in.Halves, summary.HalfTurn{Depth: uint64(i + 1), Messages: []turns.Message{turns.TextMessage(turns.User, s)}})
	}
	return in
}

func numbered(n int, format string) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf(format, i, i*7+8000))
	}
	return out
}

func TestThin(t *testing.T) {
	work := thinInput(numbered(1000, "change src/pkg%d/main.go so that port %d is used, and say why the other one was wrong")...)
	polls := thinInput(numbered(500, "%d: GET /status answered 200 in %d ms, nothing new")...)
	same := thinInput(slices.Repeat([]string{"ping"}, 2000)...)
	for _, c := range []struct {
		what, text string
		in         summary.Input
		memories   []summary.Memory
		ok         bool
	}{
		{"names", "The ports of src/pkg0/main.go to src/pkg299/main.go were changed, from 8000 on.", work, nil, true},
		{"names by their ends", "In all of them main.go has the port, 8000, 8007 and so on.", work, nil, true},
		{"names in memories", strings.Repeat("the ports were all changed ", 2), work, []summary.Memory{{Text: "src/pkg1/main.go has 8007"}, {Text: "8014 is the next"}}, true},
		{"no name", "All of the ports were changed as the user wanted it, and every one of them was checked afterwards.", work, nil, false},
		{"other names", "See lib/none.go, lib/other.go, lib/third.go, 1234567 and 7654321 for what was changed here.", work, nil, false},
		{"a boring session", "The status was polled; it was 200 each time.", polls, nil, true},
		{"the same again and again", "pinged", same, nil, true},
		{"a short session", "hi", thinInput("hello", "hi there"), nil, true},
		{"an earlier summary is to be carried on", "ok", summary.Input{Previous: strings.Join(numbered(300, "step %d took %d ms and went well"), "\n"), MaxTokens: 4000}, nil, false},
		{"a small bound", "ok", summary.Input{Halves: work.Halves, MaxTokens: 2}, nil, true},
	} {
		if err := Thin(c.in, summary.Output{Text: c.text, Memories: c.memories}); (err == nil) != c.ok || (err != nil && !errors.Is(err, summary.ErrRefused)) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	for _, text := range junk {
		if err := Thin(work, summary.Output{Text: text}); !errors.Is(err, summary.ErrRefused) || strings.Contains(err.Error(), text) && len(text) > 3 {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Summaries that models wrote of real sessions pass, whole and cut to their first
// 1000 characters; what models write in place of one does not.
func TestThinOfRealSessions(t *testing.T) {
	checked := 0
	check := func(what string, in summary.Input, honest ...string) {
		t.Helper()
		checked++
		for _, s := range honest {
			if err := Thin(in, summary.Output{Text: s}); err != nil {
				t.Errorf("%s: %v: %.80q", what, err, s)
			}
		}
		if size := compressed(plainTexts(in)); size > 24_000 {
			for _, s := range junk {
				if Thin(in, summary.Output{Text: s}) == nil {
					t.Errorf("%s, of %d bytes: %q passes", what, size, s)
				}
			}
		}
	}
	files, err := filepath.Glob("../../../shared/data/claude-code-entire-cli/cd-*.jsonl")
	must(t, err)
	for _, file := range files {
		f, err := os.Open(file)
		must(t, err)
		defer f.Close() //nolint:errcheck // read
		var texts []string
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var l struct {
				IsCompactSummary bool
				Message          struct{ Content json.RawMessage }
			}
			must(t, json.Unmarshal(lines.Bytes(), &l))
			text := string(l.Message.Content)
			if !l.IsCompactSummary {
				texts = append(texts, text)
				continue
			}
			check(filepath.Base(file), thinInput(texts...), text, text[:1000])
			texts = nil
		}
	}
	files, err = filepath.Glob("../../../shared/data/locomo/conv-*.json")
	must(t, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		must(t, err)
		var talk struct {
			Conversation map[string]json.RawMessage
			Summaries    map[string]string `json:"session_summary"`
		}
		must(t, json.Unmarshal(b, &talk))
		var all, sums []string
		for i := 1; talk.Summaries[fmt.Sprintf("session_%d_summary", i)] != ""; i++ {
			text, sum := string(talk.Conversation[fmt.Sprintf("session_%d", i)]), talk.Summaries[fmt.Sprintf("session_%d_summary", i)]
			first, _, _ := strings.Cut(sum, ".")
			check(filepath.Base(file), thinInput(text), sum, first)
			all, sums = append(all, text), append(sums, sum)
		}
		whole := strings.Join(sums, "\n")
		check(filepath.Base(file), thinInput(all...), whole, whole[:1000])
	}
	if checked == 0 {
		t.Skip("real transcripts are not beside the project (../shared/data)")
	}
}
