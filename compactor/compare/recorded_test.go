package compare

import (
	"testing"

	"nexus/compactor/policy"
)

// recordedStory has five calls. Before the third its agent replaced the first two
// turns by a summary, and kept the second verbatim; before the fifth it stopped showing
// a tool result.
func recordedStory() *Transcript {
	return NewFrom([]Turn{
		{Messages: user(sized(100, "src/a.go and src/b.go; maxRetries")), Response: says(sized(100, "yes"))},
		{Messages: user(sized(100, "go on")), Response: says(sized(100, "keepAlive"))},
		{Messages: user(sized(100, "now")), Response: says(sized(100, "src/a.go src/b.go maxRetries keepAlive"))},
		{Messages: user(sized(100, "read it")), Response: calls("c1", `{}`)},
		{Messages: result("c1", sized(100, "holds retryQueue")), Response: says(sized(100, "so"))},
		{Messages: user(sized(100, "and")), Response: says(sized(100, "retryQueue src/b.go"))},
	}, 0, Source{
		Compactions: []Recorded{
			{Before: 2, FirstKept: 1, Summary: "src/a.go was read"},
			{Before: 5, FirstKept: -1, Cleared: []Cleared{{Turn: 4, Call: "c1"}}},
		},
		Reported: map[int]uint64{2: 500},
	})
}

func TestRecordedRowShowsWhatTheAgentSaw(t *testing.T) {
	r := mustReplay(t, recordedStory(), policy.AsRecorded(), window(100_000, ""))
	var sum Sum
	sum.Add(r)
	if sum.Compactions != 1 || sum.Elisions != 1 || sum.Summarized != 0 {
		t.Errorf("%d compactions, %d elisions, %d tokens summarized", sum.Compactions, sum.Elisions, sum.Summarized)
	}
	// The third call: the summary (5 tokens of text, 4 of framing), the second turn and
	// the new message.
	replaced := New([]Turn{{Messages: user("src/a.go was read")}}, 0).Tokens()
	if c := r.Calls[2]; !c.Compacted || c.Tokens != replaced+3*104 {
		t.Errorf("the third call: %+v, want %d tokens", c, replaced+3*104)
	}
	// The third call writes four facts of earlier turns: src/a.go stands in the summary,
	// keepAlive in the kept turn; src/b.go and maxRetries only in the covered turn.
	// The sixth writes src/b.go, which the third answer shows, and retryQueue of the
	// cleared result.
	if got, want := r.Survival.AllEarlier(), (Share{All: 6, Shown: 2, Summary: 1, Reachable: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := r.Reported, (Reported{Calls: 1, Reported: 500, Counted: r.Calls[2].Tokens}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if !r.Calls[5].Elided {
		t.Errorf("the sixth call: %+v", r.Calls[5])
	}
}

// Every other policy passes over what the agent made, and has the turns in full.
func TestPoliciesPassOverRecordedCompactions(t *testing.T) {
	r := mustReplay(t, recordedStory(), Masking(), window(100_000, ""))
	if got, want := r.Survival.AllEarlier(), (Share{All: 6, Shown: 6}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A recorded compaction that names what is not there is passed over, as in an import.
func TestRecordedCompactionOfNothingIsPassedOver(t *testing.T) {
	tr := NewFrom([]Turn{{Messages: user("begin"), Response: says("one")}, {Messages: user("more"), Response: says("two")}}, 0, Source{Compactions: []Recorded{
		{Before: 0, FirstKept: -1, Dropped: true},
		{Before: 1, FirstKept: 1, Summary: "the turn comes later"},
		{Before: 1, FirstKept: -1, Cleared: []Cleared{{Turn: 0, Call: "none"}}},
	}})
	r := mustReplay(t, tr, policy.AsRecorded(), window(100_000, ""))
	if r.Calls[1].Compacted || r.Calls[1].Elided {
		t.Errorf("%+v", r.Calls[1])
	}
	if got := r.Calls[1].Tokens; got != tr.Tokens()-tokensOf(says("two")) {
		t.Errorf("%d tokens", got)
	}
}
