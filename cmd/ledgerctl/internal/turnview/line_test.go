package turnview

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/turns"
)

func TestAMessageIsDescribedByWhatAPersonReads(t *testing.T) {
	call := func(args string) turns.Part {
		return turns.Part{Type: turns.ToolCall, ID: "c", Name: "Edit", Arguments: turns.Raw(args)}
	}
	result := func(response string) turns.Part {
		return turns.Part{Type: turns.ToolCallResponse, ID: "c", Response: turns.Raw(response)}
	}
	for _, tc := range []struct {
		parts []turns.Part
		want  string
	}{
		{[]turns.Part{turns.TextPart("a\nb")}, "“a b”"},
		{[]turns.Part{call(`{"replace_all":false,"file_path":"/a.go"}`)}, "Edit(/a.go)"},
		{[]turns.Part{call(`{"n":7}`)}, "Edit(7)"},
		{[]turns.Part{call(`{}`)}, "Edit()"},
		{[]turns.Part{call(`"*** Begin Patch"`)}, "Edit(*** Begin Patch)"},
		{[]turns.Part{result(`"PASS\nok"`)}, "← PASS ok"},
		{[]turns.Part{result(`{"code":0,"output":"Success"}`)}, "← Success"},
		{[]turns.Part{result(`{"code":0}`)}, `← {"code":0}`},
		{[]turns.Part{result(`""`)}, "← (empty)"},
		{[]turns.Part{result(`[{"type":"text","content":"read"}]`), result(`"b"`), result(`"c"`)}, "← 3 results: read"},
		{[]turns.Part{{Type: turns.ToolCallResponse, ID: "c", Ref: &turns.BlobRef{Size: 9, Preview: "the beginning"}}}, "← the beginning"},
		{[]turns.Part{turns.TextPart("x\x1b[31m")}, "“x\ufffd[31m”"},
	} {
		if got := Describe([]turns.Message{{Role: turns.User, Parts: tc.parts}}); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.parts, got, tc.want)
		}
	}
}

// A compaction that another system made has no policy and no tier; it was shown
// with an empty name, and twice as imported.
func TestBy(t *testing.T) {
	for _, tc := range []struct {
		k    api.Compaction
		want string
	}{
		{api.Compaction{Policy: "balanced", Tier: "extractive", Provenance: "nexus"}, "balanced, extractive"},
		{api.Compaction{Policy: "gsv", Tier: "llm", Model: "m\x1b[1m", Provenance: "nexus"}, "gsv, llm " + prose.Printable("m\x1b[1m")},
		{api.Compaction{Provenance: "imported"}, "imported"},
	} {
		if got := By(&tc.k); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

// A line of the log says what a call was about, and never nothing at all.
func TestTurnLineShowsFirstArgument(t *testing.T) {
	call := func(args string) turns.Part {
		return turns.Part{Type: turns.ToolCall, ID: "c", Name: "Bash", Arguments: turns.Raw(args)}
	}
	for _, tc := range []struct {
		part turns.Part
		want string
	}{
		{call(`{"command":"go test ./...","timeout":10}`), "⇒ Bash(go test ./...)"},
		{call(`{"lines":[1,2],"path":"a"}`), "⇒ Bash(a)"},
		{call(`{"lines":[1,2]}`), "⇒ Bash([1,2])"},
		{call(`{}`), "⇒ Bash()"},
		{call(`"free text"`), "⇒ Bash(free text)"},
		{call(`{"a":"x\u001by"}`), "⇒ Bash(x\ufffdy)"},
		{turns.Part{Type: turns.Reasoning, Content: "hm"}, "⇒ (reasoning only)"},
	} {
		turn := api.Turn{Response: &turns.Message{Role: turns.Assistant, Parts: []turns.Part{tc.part}}}
		if got := Line(&turn, 0); !strings.HasSuffix(ansi.Strip(got), tc.want) {
			t.Errorf("%q does not end with %q", got, tc.want)
		}
	}
	if got := ansi.Strip(Line(&api.Turn{Response: &turns.Message{}}, 0)); !strings.HasSuffix(got, "⇒ (empty)") {
		t.Errorf("an empty response is %q", got)
	}
}

// If another system's count of the tokens before a compaction is smaller than our count
// after it, history does not compare the two.
func TestChangeDoesNotCompareCounts(t *testing.T) {
	for _, tc := range []struct {
		before, after uint64
		want          string
	}{{60_364, 14_657, "60,364 → 14,657 tokens"}, {60_364, 114_657, "114,657 tokens left"}} {
		if got := Change(&api.Compaction{TokensBefore: tc.before, TokensAfter: tc.after}); got != tc.want {
			t.Errorf("%d and %d: %q, want %q", tc.before, tc.after, got, tc.want)
		}
	}
}

// On a terminal each column has its name where the column stands; in a pipe, in JSON and
// behind a mark there is none.
func TestColumnsOfTurnsHaveNamesOnATerminal(t *testing.T) {
	at := api.Time(time.Date(2026, 11, 22, 10, 0, 0, 0, time.Local))
	list := func(yield func(api.Turn, error) bool) {
		for depth := range uint64(2) {
			if !yield(api.Turn{ID: turns.ID{15: 1}, Depth: 100 + depth, TokenCount: 12_345, Time: &at, Messages: []turns.Message{turns.TextMessage(turns.User, "why?")}}, nil) {
				return
			}
		}
	}
	printed := func(term terminal.Terminal, mark string) []string {
		var out bytes.Buffer
		term.Out, term.Raw = &out, &out
		if err := Print(&term, list, 0, mark); err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSuffix(ansi.Strip(out.String()), "\n"), "\n")
	}
	for name, lines := range map[string][]string{
		"wide":          printed(terminal.Terminal{OutIsTerminal: true, Width: 120}, ""),
		"unknown width": printed(terminal.Terminal{OutIsTerminal: true}, ""),
		"80 cells":      printed(terminal.Terminal{OutIsTerminal: true, Width: 80}, ""),
		"40 cells":      printed(terminal.Terminal{OutIsTerminal: true, Width: 40}, ""),
		"20 cells":      printed(terminal.Terminal{OutIsTerminal: true, Width: 20}, ""),
	} {
		if len(lines) != 3 || !strings.HasPrefix(lines[0], "turn ") {
			t.Errorf("%s: %q", name, lines)
			continue
		}
		for head, cell := range map[string]string{"no.": "100", "time": "2026-11-22 10:00:00", "tokens": "12,345", "messages": "“why?”"} {
			at, want := strings.Index(lines[0], head), strings.Index(lines[1], cell)
			if head == "no." || head == "tokens" { // they stand at the right
				at, want = at+len(head), want+len(cell)
			}
			if shown := strings.Contains(lines[1], cell); shown && at != want {
				t.Errorf("%s: %s stands at %d, what it names at %d:\n%s", name, head, at, want, strings.Join(lines, "\n"))
			}
		}
		if n := len([]rune(lines[0])); name == "20 cells" && n > 20 {
			t.Errorf("%d cells in 20: %s", n, lines[0])
		}
	}
	for name, lines := range map[string][]string{
		"a pipe":        printed(terminal.Terminal{}, ""),
		"JSON":          printed(terminal.Terminal{OutIsTerminal: true, JSON: true}, ""),
		"behind a mark": printed(terminal.Terminal{OutIsTerminal: true, Width: 80}, "+ "),
	} {
		if len(lines) != 2 {
			t.Errorf("%s: %q", name, lines)
		}
	}
}
