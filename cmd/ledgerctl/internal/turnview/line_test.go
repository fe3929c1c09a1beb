package turnview

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"nexus/cmd/internal/prose"
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
