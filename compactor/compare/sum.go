package compare

// Sum adds up replays of any number of transcripts under one policy.
type Sum struct {
	Transcripts int
	Calls       int
	Compactions int    // calls before which a compaction that covers turns came into force
	Elisions    int    // calls before which a compaction that shortens parts came into force
	Overflows   int    // calls whose context exceeds the budget
	MaxTokens   uint64 // of the largest context
	Tokens      uint64 // of all contexts
	Rewritten   uint64 // see [Call.Rewritten]
	Usage       Usage
	Survival    Survival
	Summarized  uint64 // see [Replay.Summarized]
	Rewrites    []Rewrite
	Reported    Reported
}

// Add adds a replay to the sum.
func (s *Sum) Add(r *Replay) {
	s.Transcripts++
	s.Calls += len(r.Calls)
	for i := range r.Calls {
		c := &r.Calls[i]
		s.Compactions += one(c.Compacted)
		s.Elisions += one(c.Elided)
		s.Overflows += one(c.Over)
		s.MaxTokens = max(s.MaxTokens, c.Tokens)
		s.Tokens += c.Tokens
		s.Rewritten += c.Rewritten
		s.Usage = s.Usage.add(c.Usage)
	}
	s.Survival.add(&r.Survival)
	s.Summarized += r.Summarized
	s.Reported.add(r.Reported)
	s.Rewrites = append(s.Rewrites, r.Rewrites...)
}

// MeanTokens returns the mean tokens of a context, rounded down; 0 for no call.
func (s *Sum) MeanTokens() uint64 { return s.Tokens / uint64(max(s.Calls, 1)) }

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
