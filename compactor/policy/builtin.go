package policy

import (
	"sync"

	"nexus/turns"
)

// builtins returns the built-in policies. Once one is released it never changes, because
// sessions pin its digest (TestBuiltinDigests): a change is a new version next to the old
// one, which [Resolve] finds by its digest. They are made once, and nobody changes the list.
var builtins = sync.OnceValue(func() []Policy {
	return []Policy{nexus(), gsv(), spec008(), autobyteus(), wolffish(), balanced()}
})

// Where a published design names no number, its policy uses balanced's, so that a
// comparison shows the designs and not the numbers.

// gsv returns the policy of the published design GSV.
func gsv() Policy {
	return Policy{
		Name: "gsv", Version: 1, Counter: "gsv-1", Mode: BeforeCall,
		Measure:       Reported, // "the most accurate signal"; else characters / 4 * 1.2
		ReserveTokens: 20_000,   // contextWindow - reserveTokens; the design names no number
		KeepTokens:    20_000,   // keepRecentTokens; the design names no number
		TargetRatio:   0.5, SummaryMaxRatio: 0.08, SummaryMaxTokens: 12_000, MinReclaimRatio: 0.05, MaxStrikes: 2,
		Template: "gsv", ChunkRatio: 0.25, SkipRatio: 0.5,
		ReplacementRole: turns.User, // "a single synthetic "user" message"
		Frame:           "[Conversation summary from automatic context compaction]\n\n{summary}",
		Notice:          "[Context contained {messages} messages that were compacted. Summary unavailable due to size limits.]",
		Files:           Files{Layout: "gsv", Archive: true},
		// "The daily memory files for today and yesterday are loaded into every system
		// prompt", MEMORY.md into that of main sessions. The design names no bound.
		Memory: Memory{DailyDays: 2, Document: true, MaxTokens: 16_000}, Runtime: NoRuntime,
		ContextWindow: 200_000, MaxOutputTokens: 16_000, SafetyMargin: 2_000,
	}
}

// spec008 returns the policy of the published design SPEC-008: its configuration defaults.
func spec008() Policy {
	return Policy{
		Name: "spec-008", Version: 1, Counter: "spec008-1", Mode: BeforeCall,
		ReserveTokens: 20_000,
		KeepTurns:     5,   // keep_recent_turns
		TargetRatio:   0.9, // the design names none: five turns stay whatever they hold, if the window does
		// "Output: ~500-1000 tokens (summary)"
		SummaryMaxRatio: 0.08, SummaryMaxTokens: 1_000, MinReclaimRatio: 0.05, MaxStrikes: 2,
		Template: "spec-008", SummaryModel: "claude-haiku-4-5-20251001",
		ReplacementRole: turns.System,
		Frame:           "[Session compacted. Summary of prior conversation:]\n\n{summary}",
		Prune: Prune{
			When: "always", KeepAssistants: 3, SoftTrimChars: 4_000, HeadChars: 1_500, TailChars: 1_500, TrimMark: "...",
			ClearAfter: 10, // M; the design names no number
			ClearMark:  "[Tool result cleared]",
		},
		Flush: Flush{
			Threshold: 4_000, // flush_threshold
			Prompt: "Pre-compaction memory flush. The session is near its context limit. " + // FLUSH_SYSTEM_PROMPT
				"Review the conversation and save any durable context to memory using save_memory. " +
				"Include user preferences, decisions, key facts, and anything that should persist. " +
				"Reply with SILENT after saving, or SILENT if nothing needs saving.",
			SilentToken:  "SILENT",
			LeaseSeconds: 300, // the design names none: enough for a call with a whole context and a few tool calls
		},
		ContextWindow: 200_000, MaxOutputTokens: 16_000, SafetyMargin: 2_000,
	}
}

// autobyteus returns the policy of the published design Autobyteus.
func autobyteus() Policy {
	return Policy{
		Name: "autobyteus", Version: 1, Counter: "approx-1", Mode: BeforeCall,
		// A session is due above token_limit - max_output_tokens - safety_margin,
		// measured by what the provider reported for the last response. A session
		// without a limit is never due by size.
		Measure: Reported, RequireWindow: true,
		KeepTurns:        4,      // raw_tail_turns; the design names no number
		LargeOutputChars: 60_000, // "too large for the transcript"; the design names no number
		Elide:            Elide{HeadRatio: 0.15, HeadCap: 6_000, TailRatio: 0.08, TailCap: 3_000, Mark: "[… {omitted} of {chars} characters are left out here …]"},
		TargetRatio:      0.5, SummaryMaxRatio: 0.08, SummaryMaxTokens: 12_000, MinReclaimRatio: 0.05, MaxStrikes: 2,
		Template: "autobyteus", ReplacementRole: turns.User,
		Files: Files{Layout: "autobyteus", Archive: true},
		// "system + memory + recent tail"; the design names no bound for the memory.
		Memory: Memory{Facts: 100, MaxTokens: 8_000}, Runtime: NoRuntime,
		ContextWindow: 200_000, MaxOutputTokens: 16_000, SafetyMargin: 2_000,
	}
}

// wolffish returns the policy of the published design Wolffish: the constants of its table.
func wolffish() Policy {
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
		Template: "wolffish", SummaryBy: SessionModel, RetrySeconds: []float64{1, 2, 4, 8, 16},
		// The settings below are ours. They serve a session that does not fit even
		// with its parts shortened; in the design such a session overflows.
		KeepTokens: 50_000, SummaryMaxRatio: 0.08, SummaryMaxTokens: 12_000, MinReclaimRatio: 0.05, MaxStrikes: 2,
		ReplacementRole: turns.User, KeepFirstRequest: true,
		Files: Files{Layout: "wolffish"},
		// "relevant episodes + knowledge (RAS-scored)", and the runtime block; the design
		// names no numbers.
		Memory: Memory{Episodes: 20, HalfLifeDays: 30, MaxTokens: 8_000}, Runtime: SystemRuntime,
		ContextWindow: 200_000, // for a session that names no model; the design's output reserve is 0
	}
}

// nexus returns the policy of the published design Nexus, with the design's numbers.
func nexus() Policy {
	return Policy{
		Name: "nexus", Version: 1, Counter: "approx-1", Mode: BeforeCall,
		Measure:       Higher, // a reported count over the threshold is a trigger, too
		ReserveTokens: 20_000, // "contextTokens > contextWindow - reserveTokens", RESERVE_TOKENS
		KeepTokens:    30_000, // partitionTurns's keepTokens
		// The design has no target. Its examples end at 45,000 to 50,000 of 200,000
		// tokens: 30,000 kept and a summary of 15,000 to 20,000. They never reach
		// half the budget; the half bounds the kept part in small windows.
		TargetRatio:      0.5,
		SummaryMaxRatio:  0.1,
		SummaryMaxTokens: 16_000,
		MinReclaimRatio:  0.05, // the design names none; without one, a full window compacts at every call
		MaxStrikes:       2,
		ReplacementRole:  turns.System, // { role: 'system', content: compaction.summary }
		ContextWindow:    200_000,
		MaxOutputTokens:  16_000, // inside the reserve, so that the trigger comes before the budget
		SafetyMargin:     2_000,
	}
}

// balanced returns the default policy and our own. Replays of real transcripts
// (docs/policies/comparison.md) gave its numbers. Agents reuse more facts from a
// summary and from quotes of the files that they work on than from an equally long
// verbatim tail, and a short tail makes compactions rare.
func balanced() Policy {
	return Policy{
		Name: "balanced", Version: 1, Counter: "approx-1",
		// The engine answers a call from the context as it is while the summary is
		// made.
		Mode:    Background,
		Measure: Calibrated, // if the estimate is too low, the provider refuses the call
		// The reserve leaves a quarter free in windows up to 200,000 tokens, and
		// 50,000 tokens in larger ones. From there a few calls pay for a rewrite,
		// because each call reads the whole context. In small windows the reserve is
		// a tenth of the budget. Turns that arrive while a summary is made use that
		// room. If it is not enough, the engine compacts at once with the extractive
		// summary.
		ReserveTokens: 50_000, TriggerRatio: 0.9,
		// In a window of 200,000 tokens this binds only above three quarters. In a
		// window of a million it keeps contexts from filling it, which would cost
		// five times as much.
		Cost:        Cost{Patience: 12},
		MaxMessages: 1_900, // OpenAI accepts 2,048 messages in one request
		// A compaction leaves half of the budget at most. The distance to the
		// trigger puts many calls between two compactions (hysteresis), and they pay
		// for the rewrite of the cached prefix.
		TargetRatio: 0.5,
		KeepTokens:  2_000, // messages that no response has seen stay as well, whatever their size
		// In a session shorter than KeepTokens, a manual compaction keeps the newest
		// third. Otherwise it could only answer that there is nothing to do.
		ManualKeepRatio: 0.3,
		// Half of what stands for the covered turns tells of them, half quotes the
		// files that the agent read and wrote last, which it copies its edits from.
		SummaryMaxRatio: 0.12, SummaryMaxTokens: 45_000, // a model writes 12,000 at most (plan.MaxWritten)
		QuoteMaxRatio: 0.12,
		KeepRules:     true,
		// A rewrite costs the whole prompt cache. A compaction that frees less than
		// a tenth does not pay for it.
		MinReclaimRatio: 0.1,
		MaxStrikes:      2,
		// The summary is a user message for two reasons: every provider accepts a
		// conversation whose kept part begins with an assistant message, and text
		// from tools never gets the authority of a system message.
		ReplacementRole:  turns.User,
		KeepFirstRequest: true, // repeated summaries lose the goal first
		ContextWindow:    200_000, MaxOutputTokens: 16_000, SafetyMargin: 2_000,
	}
}
