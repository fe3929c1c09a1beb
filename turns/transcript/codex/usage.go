package codex

import (
	"slices"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
)

// codexTokens is the usage of a call as Codex writes it.
type codexTokens struct {
	Input   uint64 `json:"input_tokens"` // cached ones included
	Cached  uint64 `json:"cached_input_tokens"`
	Written uint64 `json:"cache_write_input_tokens"`
	Output  uint64 `json:"output_tokens"` // reasoning included

	Reasoning uint64 `json:"reasoning_output_tokens"`
}

func (u codexTokens) usage() (*turns.Usage, turns.UsageDetails) {
	return &turns.Usage{InputTokens: u.Input, OutputTokens: u.Output, CacheRead: u.Cached, CacheCreation: min(u.Written, u.Input-min(u.Input, u.Cached))},
		turns.UsageDetails{Reasoning: u.Reasoning}
}

// sum is the usage without the details that not each version writes.
func (u codexTokens) sum() codexTokens {
	return codexTokens{Input: u.Input, Cached: u.Cached, Output: u.Output}
}

// codexInfo is what a token_count tells.
type codexInfo struct {
	Total struct {
		Total uint64 `json:"total_tokens"`
	} `json:"total_token_usage"`
	Last codexTokens `json:"last_token_usage"`
}

type codexUsageRecord struct {
	Thread   string      `json:"thread_id"`
	Response string      `json:"response_id"`
	Usage    codexTokens `json:"usage"`
}

// codexCounts is the usage that was read and has no turn yet. Newer versions write a record
// for each response, and a token_count, too, which is no further call. A token_count is
// often written again without a call; one that tells the same as the last is a call of its
// own where the totals have begun anew and a response lacks its usage.
type codexCounts struct {
	told      codexInfo
	recorded  []turns.Usage   // by records, and by no token_count yet
	responses map[string]bool // that have a record
	alone     []codexUsage    // whose response is not in the file
	again     *codexUsage     // told again, for the turn that has none
}

type codexUsage struct {
	line     int
	response string
	usage    *turns.Usage
	details  turns.UsageDetails
}

// maxRecorded bounds the usage that is compared with token counts.
const maxRecorded = 64

func (c *codexReader) tokenCount(line int, e *codexEvent) {
	if e.Info == nil {
		return
	}
	n := &c.counts
	again := e.Info.Total == n.told.Total && e.Info.Last.sum() == n.told.Last.sum()
	n.told = *e.Info
	last := e.Info.Last
	if last.Input+last.Output == 0 {
		return
	}
	u := codexUsage{line: line}
	u.usage, u.details = last.usage()
	if i := slices.Index(n.recorded, *u.usage); i >= 0 {
		n.recorded = slices.Delete(slices.Clone(n.recorded), i, i+1)
		return
	}
	if !again {
		c.count(u)
		return
	}
	if e.Info.Total.Total == last.Input+last.Output && (c.uncounted != nil || len(c.response.Parts) > 0 && c.usage == nil) {
		n.again = &u
	}
}

func (c *codexReader) usageRecord(line int, r *codexRecord) error {
	var x codexUsageRecord
	if err := values.Decode(r.Payload, &x); err != nil {
		return err
	}
	n := &c.counts
	switch {
	case c.history.is == historyGiven || x.Usage.Input+x.Usage.Output == 0 || n.responses[x.Response]:
		return nil
	case x.Thread != "" && !slices.ContainsFunc(c.metas, func(m codexMeta) bool { return m.ID == x.Thread }):
		c.Loss.Count("skipped", "usage of other threads, which is in their files")
		return nil
	}
	if x.Response != "" {
		if n.responses == nil {
			n.responses = make(map[string]bool)
		}
		n.responses[x.Response] = true
	}
	u := codexUsage{line: line, response: x.Response}
	u.usage, u.details = x.Usage.usage()
	if len(n.recorded) == maxRecorded {
		n.recorded = n.recorded[1:]
	}
	n.recorded = append(n.recorded, *u.usage)
	c.count(u)
	return nil
}

// count gives the usage of a call to the turn that it is of.
func (c *codexReader) count(u codexUsage) {
	c.counts.again = nil
	switch {
	case len(c.response.Parts) > 0 && c.usage == nil:
		c.usage, c.details = u.usage, u.details
	case c.uncounted != nil: // newer versions count after the tools have run
		c.uncounted.Usage, c.uncounted.Meta = u.usage, values.WithUsage(c.uncounted.Meta, u.details)
		c.flushUncounted()
	case c.emitted():
		c.counts.alone = append(c.counts.alone, u)
	}
}

// takeAgain returns the usage that was told again, for the turn that has none.
func (n *codexCounts) takeAgain() (*turns.Usage, turns.UsageDetails) {
	u := n.again
	if u == nil {
		return nil, turns.UsageDetails{}
	}
	n.again = nil
	return u.usage, u.details
}

// ofCompaction returns the usage of the call that made a compaction: that of its response,
// else the last before it.
func (n *codexCounts) ofCompaction(response string) (*turns.Usage, turns.UsageDetails) {
	for i := len(n.alone) - 1; i >= 0; i-- {
		if u := n.alone[i]; u.response == response || response == "" {
			n.alone = slices.Delete(slices.Clone(n.alone), i, i+1)
			return u.usage, u.details
		}
	}
	return nil, turns.UsageDetails{}
}

// flush reports the usage whose response is not in the file.
func (n *codexCounts) flush(loss *transcript.LossReport) {
	for _, u := range n.alone {
		loss.AddUsage(u.line, "usage of a call whose response is not in the file", u.usage)
	}
	n.alone = nil
}
