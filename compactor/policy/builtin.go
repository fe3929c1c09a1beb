package policy

import (
	"nexus/turns"
)

// builtins are all versions of all built-in policies. A version that was
// published is never edited: sessions pin its digest (see TestBuiltinDigests).
func builtins() []Policy {
	return []Policy{nexusV1(), gsvV1(), spec008V1(), spec008V2(), autobyteusV1(), wolffishV1(), wolffishV2(), balancedV1(), balancedV2(), balancedV3(), balancedV4()}
}

// Where a seed names no number, its policy has that of balanced, so that what
// is compared is the designs.

// gsvV1 is the policy of the GSV seed.
func gsvV1() Policy {
	return Policy{
		Name: "gsv", Version: 1, Counter: "gsv-1", Mode: BeforeCall,
		Measure:       Reported, // "the most accurate signal"; else characters / 4 * 1.2
		ReserveTokens: 20_000,   // contextWindow - reserveTokens; no number in the seed
		KeepTokens:    20_000,   // keepRecentTokens; no number in the seed
		TargetRatio:   0.5, SummaryMaxRatio: 0.08, SummaryMaxTokens: 12_000, MinReclaimRatio: 0.05, MaxStrikes: 2,
		Template: "gsv", ChunkRatio: 0.25, SkipRatio: 0.5,
		ReplacementRole: turns.User, // "a single synthetic "user" message"
		Frame:           "[Conversation summary from automatic context compaction]\n\n{summary}",
		Notice:          "[Context contained {messages} messages that were compacted. Summary unavailable due to size limits.]",
		ContextWindow:   200_000, MaxOutputTokens: 16_000, SafetyMargin: 2_000,
	}
}

// spec008V1 is the policy of the SPEC-008 seed: its configuration defaults.
func spec008V1() Policy {
	return Policy{
		Name: "spec-008", Version: 1, Counter: "spec008-1", Mode: BeforeCall,
		ReserveTokens: 20_000,
		KeepTurns:     5,   // keep_recent_turns
		TargetRatio:   0.9, // none in the seed: five turns stay whatever they hold, if the window does
		// "Output: ~500-1000 tokens (summary)"
		SummaryMaxRatio: 0.08, SummaryMaxTokens: 1_000, MinReclaimRatio: 0.05, MaxStrikes: 2,
		Template: "spec-008", SummaryModel: "claude-haiku-4-5-20251001",
		ReplacementRole: turns.System,
		Frame:           "[Session compacted. Summary of prior conversation:]\n\n{summary}",
		Prune: Prune{
			When: "always", KeepAssistants: 3, SoftTrimChars: 4_000, HeadChars: 1_500, TailChars: 1_500, TrimMark: "...",
			ClearAfter: 10, // M; the seed names no number
			ClearMark:  "[Tool result cleared]",
		},
		ContextWindow: 200_000, MaxOutputTokens: 16_000, SafetyMargin: 2_000,
	}
}

// spec008V2 is the second version: the first one, with the memory flush.
func spec008V2() Policy {
	p := spec008V1()
	p.Version = 2
	p.Flush = Flush{
		Threshold: 4_000, // flush_threshold
		Prompt: "Pre-compaction memory flush. The session is near its context limit. " + // FLUSH_SYSTEM_PROMPT
			"Review the conversation and save any durable context to memory using save_memory. " +
			"Include user preferences, decisions, key facts, and anything that should persist. " +
			"Reply with SILENT after saving, or SILENT if nothing needs saving.",
		SilentToken:  "SILENT",
		LeaseSeconds: 300, // none in the seed: a call with a whole context, and a few of its tools
	}
	return p
}

// autobyteusV1 is the policy of the Autobyteus seed.
func autobyteusV1() Policy {
	return Policy{
		Name: "autobyteus", Version: 1, Counter: "approx-1", Mode: BeforeCall,
		// Due over token_limit - max_output_tokens - safety_margin, by what the last
		// response reported; a session without a limit is not due by size.
		Measure: Reported, RequireWindow: true,
		KeepTurns:        4,      // raw_tail_turns; no number in the seed
		LargeOutputChars: 60_000, // "too large for the transcript"; no number in the seed
		Elide:            Elide{HeadRatio: 0.15, HeadCap: 6_000, TailRatio: 0.08, TailCap: 3_000, Mark: "[… {omitted} of {chars} characters are left out here …]"},
		TargetRatio:      0.5, SummaryMaxRatio: 0.08, SummaryMaxTokens: 12_000, MinReclaimRatio: 0.05, MaxStrikes: 2,
		Template: "autobyteus", ReplacementRole: turns.User,
		ContextWindow: 200_000, MaxOutputTokens: 16_000, SafetyMargin: 2_000,
	}
}

// wolffishV1 is the policy of the Wolffish seed: the constants of its table.
func wolffishV1() Policy {
	return Policy{
		Name: "wolffish", Version: 1, Counter: "wolffish-1", Mode: BeforeCall,
		Measure:      Higher,                                    // layer 2
		TriggerRatio: 0.75, TargetRatio: 0.5, WholeBudget: true, // layer 1
		Elide: Elide{
			Tools: true, Assistants: true, Users: true, ProtectRecent: 3, MinChars: 500, Retain: 0.25,
			HeadRatio: 0.15, HeadCap: 6_000, TailRatio: 0.08, TailCap: 3_000,
			Mark:           "[TRUNCATED — {chars} chars original, {omitted} chars omitted,\nshowing first {head} + last {tail} chars]",
			ImageMark:      "[Screenshot analyzed — image omitted from context]",
			ClearReasoning: true, ForCall: true,
			Nudge: "[Compaction Summary]\n\n{summary}\n\n" +
				"[Status: Context was compacted. The messages above contain truncated\n" +
				"versions of older content. This summary captures the full conversation\n" +
				"state. Continue where you left off. Do NOT produce final output until\n" +
				"ALL steps are complete. Do NOT re-do completed work.]",
			NudgeNotice: "[Compaction Notice: Context was compacted by truncating older messages\n" +
				"(showing first and last portions of each). A conversation summary could\n" +
				"not be generated. Review the truncated content carefully to reconstruct\n" +
				"what has been completed and what remains. Continue where you left off.\n" +
				"Do NOT produce final output until ALL steps are complete.]",
		},
		Template: "wolffish", RetrySeconds: []float64{1, 2, 4, 8, 16},
		// What follows is ours: for a session that does not fit even shortened, which
		// in the seed overflows.
		KeepTokens: 50_000, SummaryMaxRatio: 0.08, SummaryMaxTokens: 12_000, MinReclaimRatio: 0.05, MaxStrikes: 2,
		ReplacementRole: turns.User, KeepFirstRequest: true,
		ContextWindow: 200_000, // of a session that names no model; its output reserve is 0
	}
}

// wolffishV2 is the second version: the first one, whose summaries are the
// session's own model's.
func wolffishV2() Policy {
	p := wolffishV1()
	p.Version, p.SummaryBy = 2, SessionModel
	return p
}

// nexusV1 is the policy of the Nexus seed: its numbers where it gives them.
func nexusV1() Policy {
	return Policy{
		Name: "nexus", Version: 1, Counter: "approx-1", Mode: BeforeCall,
		ReserveTokens: 20_000, // "contextTokens > contextWindow - reserveTokens", RESERVE_TOKENS
		KeepTokens:    30_000, // partitionTurns's keepTokens
		// The seed has no target. Its examples end at 45,000 to 50,000 of 200,000:
		// kept 30,000 and a summary of 15,000 to 20,000. Half the budget is never
		// reached there, and bounds the kept part in small windows.
		TargetRatio:      0.5,
		SummaryMaxRatio:  0.1,
		SummaryMaxTokens: 16_000,
		MinReclaimRatio:  0.05, // none in the seed; without one a full window compacts at every call
		MaxStrikes:       2,
		ReplacementRole:  turns.System, // { role: 'system', content: compaction.summary }
		ContextWindow:    200_000,
		MaxOutputTokens:  16_000, // inside the reserve, so that the trigger comes before the budget
		SafetyMargin:     2_000,
	}
}

// balancedV4 is the default policy: the third version, which looks at what
// contexts cost and at what providers count.
func balancedV4() Policy {
	p := balancedV3()
	p.Version = 4
	p.Measure = Calibrated // an estimate that is too low is a call refused
	// A window of 200,000 is filled to three quarters before this binds; in one of a
	// million it is what keeps contexts from filling it, at five times the cost.
	p.Cost.Patience = 12
	p.KeepTokens = 2_000 // and what no response has seen, whatever its size
	p.SummaryMaxRatio, p.SummaryMaxTokens = 0.22, 45_000
	return p
}

// balancedV3 is the third version. Its numbers come from replays of real
// transcripts (docs/policies/comparison.md): what agents write again stands more
// often in a long extract than in a long verbatim tail of the same size, and a
// short tail makes compactions rare.
func balancedV3() Policy {
	p := balancedV2()
	p.Version = 3
	// A quarter of the window up to 200,000 tokens stays free, 50,000 of a larger
	// one: from there on a rewrite is paid back within a few calls, for each call
	// reads the whole context. In small windows it is what a tenth of the budget
	// leaves. What comes in while a summary is made has that room; when it is not
	// enough, the extract takes the summary's place at once.
	p.ReserveTokens, p.TriggerRatio = 50_000, 0.9
	p.KeepTokens = 4_000
	p.SummaryMaxRatio, p.SummaryMaxTokens = 0.17, 40_000 // a model writes 12,000 at most
	p.MaxMessages = 1_900                                // OpenAI takes 2,048 in one request
	return p
}

// balancedV2 is the second version: the first one, in the background. A
// call is answered from what there is while the summary is made; between the
// trigger and the budget a quarter of the budget is free for that.
func balancedV2() Policy {
	p := balancedV1()
	p.Version, p.Mode = 2, Background
	return p
}

// balancedV1 was the default policy at first.
func balancedV1() Policy {
	return Policy{
		Name: "balanced", Version: 1, Counter: "approx-1", Mode: BeforeCall,
		// Due at min(window − reserve, 3/4 of the budget): recall falls well before
		// a window is full, and one large tool result must still fit after the
		// check. 20,000 is the floor that large deployments settled on.
		ReserveTokens: 20_000,
		TriggerRatio:  0.75,
		// Down to half of the budget at most: far enough from the trigger that
		// the next compaction is many calls away (hysteresis), and the cache of
		// the rewritten prefix is paid back.
		TargetRatio: 0.5,
		// The recent part: some tens of calls of a coding agent, in full.
		KeepTokens: 20_000,
		// On a session that is shorter than that, "compact" keeps the newest
		// third rather than answer that nothing can be done.
		ManualKeepRatio: 0.3,
		// About what a page of notes for each hour of work takes; a longer one
		// eats what it frees.
		SummaryMaxRatio:  0.08,
		SummaryMaxTokens: 12_000,
		// A rewrite costs the whole prompt cache: a tenth is the least that pays.
		MinReclaimRatio: 0.1,
		MaxStrikes:      2,
		// A user message, so that a kept part that begins with an assistant's is
		// still a conversation that every provider takes, and so that text from
		// tools never gains the authority of a system message.
		ReplacementRole:  turns.User,
		KeepFirstRequest: true, // the goal is what summaries of summaries lose first
		ContextWindow:    200_000,
		MaxOutputTokens:  16_000,
		SafetyMargin:     2_000,
	}
}
