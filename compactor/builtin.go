package compactor

import "nexus/turns"

// builtins are all versions of all built-in policies. A version that was
// published is never edited: sessions pin its digest (see TestBuiltinDigests).
func builtins() []Policy {
	return []Policy{nexusV1(), balancedV1(), balancedV2()}
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

// balancedV2 is the default policy: the first version, in the background. A
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
