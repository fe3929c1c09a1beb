package compactor

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/turns"
)

// junk is what models write in place of a summary.
var junk = []string{
	"ok", "…", "Sure! I'll run the tests now.", "I'm sorry, but I can't assist with that request.", "К сожалению, я не могу помочь с этим запросом.",
	"很抱歉，我无法协助处理此请求。", `<tool_call>{"name":"bash","arguments":{"command":"ls"}}</tool_call>`, "TASK:\nPROGRESS:\nREMAINING:\nDATA:\nDECISIONS:",
}

func numbered(n int, format string) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf(format, i, i*7+8000))
	}
	return out
}

// What a model writes in place of a summary is no summary: the next tier's is used, or
// the notice. An extractive summary is not judged, nor what an agent submits.
func TestRunRefusesJunk(t *testing.T) {
	pol, _ := policy.Builtin("balanced")
	w := newWorld()
	w.Limits.ContextWindow = 32_000
	for _, s := range numbered(1000, "change src/pkg%d/main.go so that port %d is used, and say why the other one was wrong") {
		must(t, w.Turn(user(s), says("it is done")))
	}
	pl, err := plan.New(w.Path(), pol, turns.Trigger{Kind: plan.TriggerManual}, plan.Options{})
	must(t, err)
	pol.Tiers, pl.Policy.Tiers = nil, nil
	const good = "The ports of src/pkg0/main.go, src/pkg1/main.go and so on were changed, 8000, 8007 and up."
	for _, text := range junk {
		r, err := Run(t.Context(), pl, []Tier{{Name: "first", Summarizer: says100(text)}, {Name: "second", Summarizer: says100(good)}}, approx, nil)
		if err != nil || r.Body.Tier != "second" || len(r.Tried) != 1 || !errors.Is(r.Tried[0].Err, summary.ErrRefused) || r.Usage.InputTokens != 200 {
			t.Errorf("%q: by %s after %v, %v", text, r.Body.Tier, r.Tried, err)
		}
		if _, err := Compose(pl, summary.Output{Text: text, Tier: "second"}, approx); !errors.Is(err, summary.ErrRefused) || !strings.Contains(err.Error(), "next to nothing") {
			t.Errorf("%q of a model: %v", text, err)
		}
		if _, err := Accept(pl, summary.Output{Text: text, Tier: "agent"}, approx); err != nil {
			t.Errorf("%q of an agent: %v", text, err)
		}
		if r, err := Run(t.Context(), pl, []Tier{{Name: "local", Summarizer: says100(text), Local: true}}, approx, nil); err != nil || r.Body.Tier != "local" {
			t.Errorf("%q of an extract: by %s, %v", text, r.Body.Tier, err)
		}
	}
}
