package main

import (
	"context"
	"testing"

	"nexus/cmd/ledgerctl/internal/comparison"
	"nexus/compactor"
	"nexus/compactor/compare"
	"nexus/compactor/extractive"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/tokens"
)

// metered is a summarizer that keeps what a model in its place would be sent.
type metered struct {
	summary.Summarizer
	input, output, calls uint64
}

func (m *metered) Summarize(ctx context.Context, in summary.Input) (summary.Output, error) {
	out, err := m.Summarizer.Summarize(ctx, in)
	c := tokens.Approx{}
	m.calls++
	m.input += c.Text(summary.Prompt(in)) + c.Text(summary.Transcript(in))
	m.output += c.Text(out.Text)
	return out, err
}

// S8-28: the design's cost table, measured on every real transcript that fills half
// of its window. The figures are in docs/policies/spec-008.md; held here is what
// the page says of them.
func TestS8_28CostTable(t *testing.T) {
	const window = 200_000
	model, ok := tokens.KnownModels().Find("claude-haiku-4-5-20251001")
	if !ok {
		t.Fatal("the model of the summaries is not in the table of models")
	}
	var hs []comparison.History
	for half := range uint32(2) {
		hs = append(hs, realHistories(t, half)...)
	}
	measure := func(set string) (compare.Sum, *metered) {
		pol, err := policy.Resolve(turns.PolicyRef{Name: "spec-008", Set: turns.Raw(set)})
		if err != nil {
			t.Fatal(err)
		}
		m := &metered{Summarizer: extractive.New(extractive.Config{})}
		var sum compare.Sum
		for _, h := range hs {
			if h.Transcript.Tokens() < window/2 {
				continue
			}
			r, err := h.Transcript.Replay(t.Context(), pol, compare.Options{
				Limits: turns.Limits{ContextWindow: window}, Tiers: []compactor.Tier{{Name: "extractive", Summarizer: m, Local: true}},
			})
			if err != nil {
				t.Fatal(err)
			}
			sum.Add(r)
		}
		return sum, m
	}
	always, m := measure(`{}`)
	never, _ := measure(`{"prune":{"when":"cache_cold"}}`) // a replay has no pauses
	if m.calls == 0 {
		t.Skip("no transcript beside the project is compacted")
	}
	input, output := m.input/m.calls, m.output/m.calls
	cost := float64(input*model.Price.Input+output*model.Price.Output) / 1e12
	prices := compare.DefaultPrice
	t.Logf("a summary: %d tokens in, %d out, $%.3f by %s; one in %d calls", input, output, cost, model.Name, uint64(always.Calls)/m.calls)
	for name, s := range map[string]compare.Sum{"always": always, "cache_cold": never} {
		t.Logf("prune_when %s: %d calls, %d tokens sent, $%.2f without a cache, $%.2f with one", name, s.Calls, s.Usage.Prompt(),
			float64(s.Usage.Uncached(prices))/1e6, float64(s.Usage.Cost(prices))/1e6)
	}
	if output > 1100 { // 1,000 by the policy's counter
		t.Errorf("a summary of %d tokens, the seed says 500 to 1,000", output)
	}
	if input < 50_000 {
		t.Errorf("a summary is made of %d tokens: the page says that the seed's 5,000 to 10,000 are too few", input)
	}
	if always.Usage.Prompt() >= never.Usage.Prompt() || always.Usage.Uncached(prices) >= never.Usage.Uncached(prices) {
		t.Error("pruning does not shrink what is sent")
	}
	if always.Usage.Cost(prices) <= never.Usage.Cost(prices) {
		t.Error("pruning at every call is cheaper with a prompt cache: the page says the contrary")
	}
}
