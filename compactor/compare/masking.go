package compare

import "nexus/compactor/policy"

// MaskingName is the name of [Masking] in a comparison.
const MaskingName = "masking"

// Masking returns a baseline beside the policies: a line takes the place of each tool
// result that ten assistant messages follow, and nothing is ever summarized
// (arXiv 2508.21433). It is no policy that a session can have.
func Masking() policy.Policy {
	p, _ := policy.Builtin("balanced")
	p.Name, p.Version, p.Mode = MaskingName, 1, policy.Manual
	p.Prune = policy.Prune{When: "always", KeepAssistants: 10, SoftTrimChars: policy.MaxTokens, ClearAfter: 10, ClearMark: "[Tool result omitted]"}
	return p
}
