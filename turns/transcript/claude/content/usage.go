package content

import (
	"math"

	"github.com/go-json-experiment/json"

	"nexus/turns"
	"nexus/turns/internal/values"
)

// Usage reads the provider's usage, in tokens. Anthropic's input_tokens is
// without the cache, ours with it. It returns nil for a usage of 0, which lines have that
// Claude Code made itself.
func Usage(r turns.Raw) *turns.Usage {
	o := values.Members(r)
	n := func(name string) uint64 {
		var v uint64
		if json.Unmarshal(o.Get(name), &v) != nil {
			return 0
		}
		return v
	}
	u := turns.Usage{CacheRead: n("cache_read_input_tokens"), CacheCreation: n("cache_creation_input_tokens"), OutputTokens: n("output_tokens")}
	u.InputTokens = n("input_tokens")
	for _, c := range []uint64{u.CacheRead, u.CacheCreation} {
		u.InputTokens += min(c, math.MaxUint64-u.InputTokens)
	}
	if u == (turns.Usage{}) {
		return nil
	}
	return &u
}

// UsageDetails reads what the provider counts beyond [Usage].
func UsageDetails(r turns.Raw) (d turns.UsageDetails) {
	var u struct {
		Tier     turns.Raw `json:"service_tier"`
		Creation turns.Raw `json:"cache_creation"`
		Output   turns.Raw `json:"output_tokens_details"`
		Server   turns.Raw `json:"server_tool_use"`
		Speed    turns.Raw `json:"speed"` // standard; fast costs several times as much
		Geo      turns.Raw `json:"inference_geo"`
	}
	if json.Unmarshal(r, &u) != nil {
		return d
	}
	count := func(object turns.Raw, name string) (n uint64) {
		if object.Kind() != '{' || json.Unmarshal(values.Members(object).Get(name), &n) != nil {
			return 0
		}
		return n
	}
	d.CacheHour = count(u.Creation, "ephemeral_1h_input_tokens")
	d.Reasoning = count(u.Output, "thinking_tokens")
	d.WebSearches = count(u.Server, "web_search_requests")
	if d.Tier = Word(values.String(u.Tier)); d.Tier == "standard" {
		d.Tier = ""
	}
	switch geo := Word(values.Clipped(values.String(u.Geo), 40)); geo {
	case "not_available", "global":
	default:
		d.Geo = geo
	}
	if speed := Word(values.String(u.Speed)); d.Tier == "" && speed != "standard" {
		d.Tier = speed
	}
	return d
}
