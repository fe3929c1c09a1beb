package view

import (
	"fmt"
	"slices"

	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/tokens"
)

// CountCalls returns how many messages of the assistant called tools since the newest
// text of the user, and how many calls they made. Where that text is covered by a
// compaction it counts those that are left.
func (p Path) CountCalls() (iterations, calls uint64) {
	for i := len(p.Halves) - 1; i >= 0; i-- {
		for j := len(p.Halves[i].Messages) - 1; j >= 0; j-- {
			m := &p.Halves[i].Messages[j]
			if m.Role == turns.User && summary.TextOf(m) != "" {
				return iterations, calls
			}
			n := uint64(0)
			for k := range m.Parts {
				if m.Parts[k].Type == turns.ToolCall {
					n++
				}
			}
			if n > 0 {
				iterations, calls = iterations+1, calls+n
			}
		}
	}
	return iterations, calls
}

// NewestUserText returns the newest text of the user on the path, "" if there is none.
func (p Path) NewestUserText() string {
	for i := len(p.Halves) - 1; i >= 0; i-- {
		for j := len(p.Halves[i].Messages) - 1; j >= 0; j-- {
			if m := &p.Halves[i].Messages[j]; m.Role == turns.User {
				if s := summary.TextOf(m); s != "" {
					return s
				}
			}
		}
	}
	return ""
}

// runtimeText is the block. Its words are the published design's.
func (p Path) runtimeText() string {
	iterations, calls := p.CountCalls()
	return fmt.Sprintf("<runtime>\n"+
		"  Tool iteration this turn: %d\n"+
		"  Tools called this turn: %d\n"+
		"  IMPORTANT: When a task requires calling a tool for each item in a set\n"+
		"  (e.g. reading N emails, fetching N pages), you MUST call the tool for\n"+
		"  EVERY item before producing final output. Batch 10-15 calls per response\n"+
		"  for efficiency, then continue with the remaining items in your next\n"+
		"  response. Metadata from search/list results is NOT a substitute for\n"+
		"  calling the per-item tool — if the task says \"read all,\" call read for\n"+
		"  ALL, not just a subset.\n"+
		"</runtime>", iterations, calls)
}

// RuntimeSection returns the runtime block as a section of the system part, if the policy
// has it there.
func (p Path) RuntimeSection(pol policy.Policy) (turns.Section, bool) {
	return turns.Section{Name: runtimeSection, Content: p.runtimeText()}, pol.Runtime == policy.SystemRuntime
}

// WithRuntime returns the context with the runtime block behind everything, if the policy
// has it in the newest message and at most free tokens are needed: a part of the last
// message if that is the user's, else a message of its own behind the results of tools.
// So no message changes that a provider's cache may hold. cx stays as it is.
func (cx Context) WithRuntime(p Path, pol policy.Policy, c tokens.Counter, free uint64) Context {
	n := len(cx.Messages)
	if pol.Runtime != policy.MessageRuntime || n == 0 || cx.Messages[n-1].Role == turns.Assistant {
		return cx
	}
	part := turns.Part{Type: turns.Text, Content: p.runtimeText()}
	last, before := cx.Messages[n-1], uint64(0)
	messages, origins := slices.Clone(cx.Messages), slices.Clone(cx.Origins)
	if last.Role == turns.User {
		before = c.Message(&last)
		last.Parts = append(slices.Clone(last.Parts), part)
		messages[n-1] = last
	} else {
		last = turns.Message{Role: turns.User, Parts: []turns.Part{part}}
		messages, origins = append(messages, last), append(origins, origins[n-1])
	}
	added := tokens.Sub(c.Message(&last), before)
	if added > free {
		return cx
	}
	sources := slices.Clone(cx.Sources)
	sources[origins[len(origins)-1]].Tokens += added
	return Context{Messages: messages, Origins: origins, Sources: sources, Tokens: cx.Tokens + added}
}
