package compare

// Sum adds up replays under one policy, of any number of transcripts. The zero
// Sum is of none.
type Sum struct {
	Transcripts int
	Calls       int
	Compactions int    // calls before which one came into force that covers turns
	Elisions    int    // calls before which one came into force that shortens parts
	Overflows   int    // calls whose context does not fit
	MaxTokens   uint64 // of one context
	Tokens      uint64 // of all contexts
	Rewritten   uint64 // see [Call.Rewritten]
	Usage       Usage
	Survival    Survival
	Summarized  uint64 // see [Replay.Summarized]
	Rewrites    []Rewrite
}

// Add adds a replay.
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
	s.Rewrites = append(s.Rewrites, r.Rewrites...)
}

// MeanTokens is the tokens of a context in the mean, rounded down; 0 for no call.
func (s *Sum) MeanTokens() uint64 { return s.Tokens / uint64(max(s.Calls, 1)) }

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
