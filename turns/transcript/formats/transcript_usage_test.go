package formats

import (
	"bytes"
	"testing"
	"time"

	"nexus/turns"
	"nexus/turns/transcript"
)

// What a source counted of a call and what it recorded as its cost comes back from a
// transcript that was written, as far as the format has a place for it. A call without a
// recorded cost does not come back as one that was free.
func TestWrittenUsageComesBack(t *testing.T) {
	all := turns.UsageDetails{Reasoning: 5, CacheHour: 7, WebSearches: 2, Tier: "batch"}
	kept := map[string]turns.UsageDetails{"claude-code": all, "codex": {Reasoning: 5}, "gemini-cli": {Reasoning: 5}, "pi": {}}
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	answered := func(n byte) transcript.WrittenTurn {
		return transcript.WrittenTurn{ID: turns.ID{0: 1, 15: n}, Time: at, Model: "claude-opus-4-8", Messages: []turns.Message{turns.TextMessage(turns.User, "ask")},
			Response: &turns.Message{Role: turns.Assistant, FinishReason: "end_turn", Parts: []turns.Part{turns.TextPart("say")}}, Usage: &turns.Usage{InputTokens: 20, OutputTokens: 9, CacheRead: 3, CacheCreation: 8}}
	}
	for format, want := range kept {
		plain, rich := answered(1), answered(2)
		rich.Details, rich.Cost = all, turns.Raw(`{"input":0.25,"output":0.5,"cacheRead":0,"cacheWrite":0,"total":0.75}`)
		total := answered(3)
		total.Cost = turns.Raw(`0.125`)
		free := answered(4)
		free.Cost = turns.Raw(`{"total":0}`)
		s := transcript.WrittenSession{ID: turns.ID{0: 1, 15: 9}, Time: at, Cwd: "/w"}
		text := write(t, format, s, []transcript.WrittenTurn{plain, rich, total, free})
		var read []*transcript.Append
		for st, err := range formatOf(t, format).Open(bytes.NewReader(text), transcript.Options{Final: true}).Steps() {
			if err != nil {
				t.Fatal(err)
			}
			if st.Append != nil {
				read = append(read, st.Append)
			}
		}
		if len(read) != 4 {
			t.Fatalf("%s: %d turns", format, len(read))
		}
		for i, w := range []turns.UsageDetails{{}, want, {}, {}} {
			if got := turns.UsageDetailsOf(read[i].Meta); got != w {
				t.Errorf("%s: turn %d has %+v, want %+v", format, i, got, w)
			}
			if u := read[i].Usage; u == nil || u.InputTokens != 20 || u.OutputTokens != 9 {
				t.Errorf("%s: turn %d used %+v", format, i, u)
			}
		}
		if format != "pi" {
			continue
		}
		for i, w := range []struct {
			cost float64
			ok   bool
		}{{}, {0.75, true}, {0.125, true}, {0, true}} {
			if cost, ok := turns.CostOf(read[i].Meta); cost != w.cost || ok != w.ok {
				t.Errorf("%s: turn %d cost %v, %v, want %+v: %s", format, i, cost, ok, w, read[i].Meta)
			}
		}
	}
}
