package turns

import "testing"

func TestUsageDetailsOfAnyMeta(t *testing.T) {
	for _, tc := range []struct {
		meta string
		want UsageDetails
	}{
		{``, UsageDetails{}},
		{`null`, UsageDetails{}},
		{`{"cwd":"/a"}`, UsageDetails{}},
		{`{"usage":7}`, UsageDetails{}},
		{`{"usage":{"reasoning_output_tokens":"many"}}`, UsageDetails{}},
		{`{"usage":{"reasoning_output_tokens":5,"cache_creation_1h_input_tokens":7,"later":1}}`, UsageDetails{Reasoning: 5, CacheHour: 7}},
		{`{"usage":{"output_at_start":true,"service_tier":"batch","web_search_requests":2}}`, UsageDetails{OutputAtStart: true, Tier: "batch", WebSearches: 2}},
	} {
		if got := UsageDetailsOf(Raw(tc.meta)); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.meta, got, tc.want)
		}
	}
}

func TestCostOfAnyMeta(t *testing.T) {
	for _, tc := range []struct {
		meta    string
		dollars float64
		ok      bool
	}{
		{``, 0, false},
		{`{}`, 0, false},
		{`{"cost":"0.5"}`, 0, false},
		{`{"cost":-1}`, 0, false},
		{`{"cost":1e999}`, 0, false},
		{`{"cost":{"input":1}}`, 0, false},
		{`{"cost":{"total":{}}}`, 0, false},
		{`{"cost":0}`, 0, true},
		{`{"cost":0.25}`, 0.25, true},
		{`{"cost":{"input":1,"total":1.5}}`, 1.5, true},
	} {
		if got, ok := CostOf(Raw(tc.meta)); got != tc.dollars || ok != tc.ok {
			t.Errorf("%s: %v, %v, want %v, %v", tc.meta, got, ok, tc.dollars, tc.ok)
		}
	}
}

func TestModelCallsOf(t *testing.T) {
	got := ModelCallsOf(Raw(`{"calls":[{"kind":"advisor_message","model":"m","usage":{"input_tokens":9,"output_tokens":1},"cache_creation_1h_input_tokens":2}]}`))
	want := ModelCall{Kind: "advisor_message", Model: "m", Usage: Usage{InputTokens: 9, OutputTokens: 1}, CacheHour: 2}
	if len(got) != 1 || got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, meta := range []string{``, `[]`, `{}`, `{"calls":7}`, `{"calls":{"0":1}}`, `{"calls":[7]}`} {
		if got := ModelCallsOf(Raw(meta)); len(got) != 0 {
			t.Errorf("%s: %+v", meta, got)
		}
	}
}
