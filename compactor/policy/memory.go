package policy

import "nexus/turns"

// Memory says what a context shows of its agent's memories, in sections behind the
// session's own system part. The zero value shows none.
//
// Sources: GSV, "Long-Term Memory"; Wolffish, "How Context Is Built".
type Memory struct {
	// DailyDays is of how many days daily memories are shown, today's included, by the
	// clock of the zone in which the session is reset. Range [0, 31]; 0: none.
	DailyDays uint64 `json:"daily_days,omitzero"`
	// Document shows the agent's document (MEMORY.md), in sessions of kind main alone.
	Document bool `json:"document,omitzero"`
	// Episodes is how many other memories are shown: those that rank best by the words of
	// the user's newest text and by their age. Range [0, 100]; 0: none.
	Episodes uint64 `json:"episodes,omitzero"`
	// Facts is how many semantic memories are shown, the newest first chosen, whatever the
	// words of the user. Range [0, 100]; 0: none.
	Facts uint64 `json:"facts,omitzero"`
	// HalfLifeDays is after how many days an episode counts half. 0: never.
	HalfLifeDays uint64 `json:"half_life_days,omitzero"`
	// EpisodeTokens stores what became of a session as a memory for the agent's other
	// sessions, of at most so many tokens, at each compaction and at the end of the session. It
	// shows nothing: Episodes does. Range [0, 3000]; 0: none is stored.
	EpisodeTokens uint64 `json:"episode_tokens,omitzero"`
	// MaxTokens bounds all of it together. It counts up to an eighth of what the session's
	// own system part and its tools leave of the budget, and of that what the messages
	// leave free. 0 if nothing is shown.
	MaxTokens uint64 `json:"max_tokens,omitzero"`
}

// On reports whether contexts show memories.
func (m Memory) On() bool { return m.DailyDays > 0 || m.Document || m.Episodes > 0 || m.Facts > 0 }

// MaxEpisodes bounds [Memory.Episodes].
const MaxEpisodes = 100

const (
	maxDays     = 31
	maxEpisode  = 3000 // its text has to fit into a memory of 16 KiB
	maxHalfLife = 100_000
)

func (m Memory) check(check checkFunc) {
	check(m.DailyDays <= maxDays, "memory/daily_days", "%d is outside [0, %d]", m.DailyDays, maxDays)
	check(m.Episodes <= MaxEpisodes, "memory/episodes", "%d is outside [0, %d]", m.Episodes, MaxEpisodes)
	check(m.Facts <= MaxEpisodes, "memory/facts", "%d is outside [0, %d]", m.Facts, MaxEpisodes)
	check(m.HalfLifeDays <= maxHalfLife, "memory/half_life_days", "%d is outside [0, %d]", m.HalfLifeDays, maxHalfLife)
	check(m.EpisodeTokens <= maxEpisode, "memory/episode_tokens", "%d is outside [0, %d]", m.EpisodeTokens, maxEpisode)
	check(m.MaxTokens <= MaxTokens, "memory/max_tokens", "%d is outside [0, %d]", m.MaxTokens, uint64(MaxTokens))
	check(!m.On() || m.MaxTokens > 0, "memory/max_tokens", "0 tokens, which show nothing")
}

// MemoryKind returns the kind of a memory that a summarizer calls kind. What is no kind of
// ours is kept by the day under GSV, else as a fact.
func (p Policy) MemoryKind(kind string) turns.MemoryKind {
	if k, err := turns.ParseMemoryKind(kind); err == nil {
		return k
	}
	if p.Template == "gsv" {
		return turns.Daily
	}
	return turns.Semantic
}

// Runtime is where a context says how often the model called tools since the user's
// newest text, and that it should call them for every item of a set.
//
// Source: Wolffish, "Runtime Batching Instruction".
type Runtime string

// The places of the runtime block.
const (
	NoRuntime      Runtime = ""        // nowhere; also "off"
	RuntimeOff     Runtime = "off"     // nowhere
	SystemRuntime  Runtime = "system"  // last in the system part, which then changes with each round of calls
	MessageRuntime Runtime = "message" // in the newest message, so that the prefix stays as it was
)

func (r Runtime) check(check checkFunc) {
	switch r {
	case NoRuntime, RuntimeOff, SystemRuntime, MessageRuntime:
	default:
		check(false, "runtime", "%.60q is not one of off, system, message", string(r))
	}
}
