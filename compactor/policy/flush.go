package policy

import (
	"strings"
)

// Flush is the memory flush before a compaction: a turn that the agent takes with
// its own model and tools, and that no history keeps. It runs once a cycle; a cycle
// lasts from one compaction that covers turns to the next.
//
// Source: SPEC-008, "Pre-Compaction Memory Flush".
type Flush struct {
	// Threshold is how many tokens before the size trigger the flush is due. It
	// counts up to a sixteenth of the window. 0: there is no flush.
	Threshold uint64 `json:"threshold,omitzero"`
	// Prompt is sent to the agent instead of a user's message. At most 4000 bytes.
	Prompt string `json:"prompt,omitzero"`
	// SilentToken is the whole reply of an agent that has nothing to say. At most
	// 100 bytes.
	SilentToken string `json:"silent_token,omitzero"`
	// LeaseSeconds is how long an agent that began the flush has to end it. After
	// that the flush is due once more, and then no more. Range [1, 3600]; 0 if there
	// is no flush.
	LeaseSeconds uint64 `json:"lease_seconds,omitzero"`
}

// On reports whether there is a flush.
func (f Flush) On() bool { return f.Threshold > 0 }

// Silent reports whether a reply is the token and nothing else. A reply that
// contains it ("SILENTLY saved …") is not silent.
func (f Flush) Silent(reply string) bool {
	return strings.TrimSpace(reply) == f.SilentToken
}

func (f Flush) check(check checkFunc) {
	check(f.Threshold <= MaxTokens, "flush/threshold", "%d is outside [0, %d]", f.Threshold, uint64(MaxTokens))
	check(len(f.Prompt) <= 4000, "flush/prompt", "%d bytes, the limit is 4000", len(f.Prompt))
	check(len(f.SilentToken) <= 100, "flush/silent_token", "%d bytes, the limit is 100", len(f.SilentToken))
	check(f.LeaseSeconds <= 3600, "flush/lease_seconds", "%d is outside [0, 3600]", f.LeaseSeconds)
	if f.On() {
		check(f.Prompt != "", "flush/prompt", "there is none")
		check(f.SilentToken != "" && f.SilentToken == strings.TrimSpace(f.SilentToken), "flush/silent_token", "%.60q is empty, or has space around it", f.SilentToken)
		check(f.LeaseSeconds > 0, "flush/lease_seconds", "0 seconds, in which nobody could end it")
	}
}
