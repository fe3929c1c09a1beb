package turns

import (
	"math"

	"github.com/go-json-experiment/json"
)

// UsageDetails is what a source counts of a call beyond [Usage]. Importers write it as
// the member "usage" of a turn's meta, without its zero fields.
type UsageDetails struct {
	Reasoning   uint64 `json:"reasoning_output_tokens,omitzero"`        // of the output tokens
	CacheHour   uint64 `json:"cache_creation_1h_input_tokens,omitzero"` // of the tokens written to the cache, those that stay there for an hour
	WebSearches uint64 `json:"web_search_requests,omitzero"`
	Tier        string `json:"service_tier,omitzero"`  // "": the provider's standard one
	Geo         string `json:"inference_geo,omitzero"` // where the model had to run, which may cost more; "": anywhere

	// OutputAtStart says that the source has the count of the output when the stream
	// began, and not when it ended: the true count is higher.
	OutputAtStart bool `json:"output_at_start,omitzero"`
}

// UsageDetailsOf returns what a turn's meta states. A meta belongs to the client and may
// be anything; what is of another type states nothing.
func UsageDetailsOf(meta Raw) (d UsageDetails) {
	var m struct {
		Usage Raw `json:"usage"`
	}
	if meta.Kind() == '{' && json.Unmarshal(meta, &m) == nil && m.Usage.Kind() == '{' && json.Unmarshal(m.Usage, &d) != nil {
		return UsageDetails{}
	}
	return d
}

// CostOf returns the dollars that a source recorded for a call: the member "cost" of a
// turn's meta, a number or an object with a number "total". ok is false if there is none.
func CostOf(meta Raw) (dollars float64, ok bool) {
	var m struct {
		Cost Raw `json:"cost"`
	}
	if meta.Kind() != '{' || json.Unmarshal(meta, &m) != nil {
		return 0, false
	}
	if m.Cost.Kind() == '{' {
		var all struct {
			Total Raw `json:"total"`
		}
		if json.Unmarshal(m.Cost, &all) != nil {
			return 0, false
		}
		m.Cost = all.Total
	}
	if m.Cost.Kind() != '0' || json.Unmarshal(m.Cost, &dollars) != nil || dollars < 0 || math.IsInf(dollars, 0) {
		return 0, false
	}
	return dollars, true
}

// ModelCall is a call behind a response besides the one whose usage the turn has: of an
// advisor or another model, or an earlier step of the provider's own. Importers write them
// as the member "calls" of a turn's meta.
type ModelCall struct {
	Kind      string `json:"kind,omitzero"`  // as the source has it, such as advisor_message; message: a step of the turn's own model
	Model     string `json:"model,omitzero"` // "": the turn's
	Usage     Usage  `json:"usage"`
	CacheHour uint64 `json:"cache_creation_1h_input_tokens,omitzero"` // of the tokens written to the cache, as in [UsageDetails]
}

// ModelCallsOf returns the calls that a turn's meta states besides the turn's own. A meta
// belongs to the client and may be anything; what is no list of calls states none.
func ModelCallsOf(meta Raw) (calls []ModelCall) {
	var m struct {
		Calls Raw `json:"calls"`
	}
	if meta.Kind() != '{' || json.Unmarshal(meta, &m) != nil || m.Calls.Kind() != '[' || json.Unmarshal(m.Calls, &calls) != nil {
		return nil
	}
	return calls
}
