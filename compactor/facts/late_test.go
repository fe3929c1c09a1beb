package facts

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/summary"
	"nexus/turns"
)

func halfOf(half turns.Half, ms ...turns.Message) summary.HalfTurn {
	return summary.HalfTurn{Depth: 7, Half: half, Messages: ms}
}

func TestMissingFindsWhatNewerTurnsUse(t *testing.T) {
	text := func(r turns.Role, s string) turns.Message { return turns.TextMessage(r, s) }
	call := turns.Message{Role: turns.Assistant, Parts: []turns.Part{
		{Type: turns.Reasoning, Content: "what of onlyThought"},
		{Type: turns.ToolCall, ID: "c", Name: "edit", Arguments: turns.Raw(`{"memberName":"src/b.go","text":"first\nportNumber","n":4096}`)},
	}}
	result := turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "c", Response: turns.Raw(`"readAgain is here, onlyReturned"`)}}}
	long := strings.Repeat("ä ", 200) + "farAway" + strings.Repeat(" ö", 200)
	covered := []summary.HalfTurn{halfOf(turns.MessagesHalf, text(turns.User, strings.Join([]string{
		"src/b.go", "src/b.go holds the table", "the portNumber is 17", "the limit is 4096 bytes", "memberName", "onlyThought", "readAgain was said",
		"onlyReturned was said", "inSummary was said", "inTail was said", long, "src/a.go portNumber",
	}, "\n")))}
	newer := []summary.HalfTurn{
		halfOf(turns.ResponseHalf, call),
		halfOf(turns.MessagesHalf, result),
		halfOf(turns.ResponseHalf, text(turns.Assistant, "readAgain inSummary inTail farAway neverSaid")),
		halfOf(turns.MessagesHalf, text(turns.User, "what of src/a.go")),
	}
	shown := []summary.HalfTurn{halfOf(turns.ResponseHalf, text(turns.Assistant, "inTail"))}
	got := Missing(covered, newer, shown, []turns.Message{text(turns.User, "inSummary")})
	if len(got) != 4 {
		t.Fatalf("%q", got)
	}
	if l := got[1]; !strings.Contains(l, "farAway") || len(l) > maxSaid+2*len("…")+len(" [t7]") || !strings.HasPrefix(l, "…ä") && !strings.HasPrefix(l, "… ä") || !strings.HasSuffix(l, "… [t7]") {
		t.Errorf("the long line is clipped to %q", l)
	}
	got[1] = ""
	if d := cmp.Diff([]string{"src/a.go portNumber [t7]", "", "src/b.go holds the table [t7]", "the limit is 4096 bytes [t7]"}, got); d != "" {
		t.Error(d)
	}
}

// A path that the replacement names by its folder and file is not missing.
func TestMissingKnowsGroupedPaths(t *testing.T) {
	covered := []summary.HalfTurn{halfOf(turns.MessagesHalf, turns.TextMessage(turns.User, "see src/deep/a.go for it"))}
	newer := []summary.HalfTurn{halfOf(turns.ResponseHalf, turns.TextMessage(turns.Assistant, "src/deep/a.go"))}
	if got := Missing(covered, newer, nil, []turns.Message{turns.TextMessage(turns.User, "under src/deep: a.go, b.go")}); got != nil {
		t.Errorf("%q", got)
	}
	if got := Missing(covered, newer, nil, nil); len(got) != 1 {
		t.Errorf("%q", got)
	}
}
