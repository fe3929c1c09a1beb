package overflow

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"nexus/turns"
)

func TestReadProviderError(t *testing.T) {
	for _, tc := range []struct {
		status int
		text   string
		want   ProviderError
	}{
		{400, `{"error":{"message":"This model's maximum context length is 8,192 tokens. However, you requested 8213 tokens (6683 in the messages, 1530 in the completion)."}}`, ProviderError{ContextOverflow, 8192, 6683}},
		{0, "prompt is too long: 200251 tokens > 200000 maximum", ProviderError{ContextOverflow, 200000, 200251}},
		{200, `{"stop_reason":"model_context_window_exceeded"}`, ProviderError{Kind: ContextOverflow}},
		{429, "prompt is too long: 200251 tokens > 200000 maximum", ProviderError{Kind: RateLimit}},
		{400, "ThrottlingException: Too many tokens, please wait", ProviderError{Kind: RateLimit}},
		{402, "Prompt tokens limit exceeded: 256772 > 229126", ProviderError{Kind: CreditLimit}},
		{400, "max_tokens: 10000 > 4096, which is the maximum allowed number of output tokens for m", ProviderError{Kind: OutputCap}},
		{400, "messages.2: `tool_use` ids were found without `tool_result` blocks", ProviderError{Kind: PairingBroken}},
		{413, "<html>413 Request Entity Too Large</html>", ProviderError{Kind: RequestTooLarge}},
		{400, "", ProviderError{Kind: ContextOverflow}},
		{500, "", ProviderError{Kind: OtherError}},
		{500, "overloaded_error", ProviderError{Kind: OtherError}},
		{200, "we talked about the context overflow and the prompt length", ProviderError{Kind: OtherError}},
		{400, "maximum context length is 99999999999999999999999 tokens", ProviderError{Kind: ContextOverflow}},
	} {
		if got := Read(tc.status, tc.text); got != tc.want {
			t.Errorf("%d %q: %+v, want %+v", tc.status, tc.text, got, tc.want)
		}
	}
}

// Tokens that a provider counts apart, of functions and tools, are part of the
// prompt.
func TestTokensCountedApartAreAdded(t *testing.T) {
	for text, want := range map[string]ProviderError{
		"This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (6000 in the messages, 2000 in the functions, 1000 in the completion).": {ContextOverflow, 8192, 8000},
		"This endpoint's maximum context length is 100 tokens. However, you requested about 130 tokens (90 of text input, 30 of tool input, 10 in the output).":         {ContextOverflow, 100, 120},
	} {
		if got := Read(400, text); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func TestOnlyALongPromptIsAnOverflow(t *testing.T) {
	for kind, want := range map[Kind]bool{ContextOverflow: true, RequestTooLarge: true, RateLimit: false, CreditLimit: false, OutputCap: false, PairingBroken: false, OtherError: false} {
		if got := (ProviderError{Kind: kind}).Overflow(); got != want {
			t.Errorf("%s: %v, want %v", kind, got, want)
		}
	}
}

// Only the start of an error is read, so that a long answer costs no more.
func TestErrorIsReadUpToItsBound(t *testing.T) {
	const refusal = "prompt is too long: 7 tokens > 5 maximum"
	for _, c := range []struct {
		before int
		want   Kind
	}{{0, ContextOverflow}, {maxErrorText - len(refusal), ContextOverflow}, {maxErrorText, OtherError}} {
		if got := Read(400, strings.Repeat("-", c.before)+refusal); got.Kind != c.want {
			t.Errorf("after %d bytes: %s, want %s", c.before, got.Kind, c.want)
		}
	}
}

// What an overflow shares words with is none, and one is known whatever is
// printed around it.
func TestOverflowsAndWhatIsNone(t *testing.T) {
	long := ProviderError{ContextOverflow, 200_000, 210_000}
	const refusal = "prompt is too long: 210000 tokens > 200000 maximum"
	for _, tc := range []struct {
		status int
		text   string
		want   ProviderError
	}{
		// As SDKs and proxies print it.
		{400, "AI_APICallError: " + refusal + ` responseHeaders: {"anthropic-ratelimit-requests-limit":"4000"}`, long},
		{400, "Your input exceeds the context window of this model. {'x-ratelimit-limit-requests': '500', 'x-litellm-key-tpm-limit': '9', 'ratelimit-reset': '1'}", ProviderError{Kind: ContextOverflow}},
		{400, `{"message":"prompt is too long: 210000 tokens \u003e 200000 maximum"}`, long},
		{502, `{"error":{"message":"Provider returned error","metadata":{"raw":"{\"message\":\"` + refusal + `\"}"}}}`, long},
		{0, "Error code: 400 - {'error': {'message': '" + refusal + "'}} See https://example.com/docs/rate-limits", long},
		{400, "The maximum context length is 128k.", ProviderError{Kind: ContextOverflow}},
		{400, "The total number of tokens in the input exceeds the model's context window", ProviderError{Kind: ContextOverflow}},
		{400, "input is too long: total tokens 40000 exceeds context window 32768", ProviderError{ContextOverflow, 32768, 40000}},

		// Nothing but a status.
		{400, " \n", ProviderError{Kind: ContextOverflow}},
		{400, "400 status code (no body)", ProviderError{Kind: ContextOverflow}},
		{0, "BadRequestError: 400 status code (no body)", ProviderError{Kind: ContextOverflow}},
		{413, "413 status code (no body)", ProviderError{Kind: RequestTooLarge}},
		{413, "", ProviderError{Kind: RequestTooLarge}},
		{0, "", ProviderError{Kind: OtherError}},
		{422, "", ProviderError{Kind: OtherError}},
		{0, "500 status code (no body)", ProviderError{Kind: OtherError}},
		{0, "we got 400 status code (no body) and more", ProviderError{Kind: OtherError}},

		// By their status they are none, whatever they say.
		{401, refusal, ProviderError{Kind: OtherError}},
		{403, refusal, ProviderError{Kind: OtherError}},
		{404, refusal, ProviderError{Kind: OtherError}},
		{402, refusal, ProviderError{Kind: CreditLimit}},
		{429, refusal, ProviderError{Kind: RateLimit}},
		{401, "", ProviderError{Kind: OtherError}},
		{404, "model not found; maximum context length is unknown", ProviderError{Kind: OtherError}},
		{429, "You exceeded your current quota, please check your plan and billing details.", ProviderError{Kind: RateLimit}},

		// By their words.
		{0, "model not found; maximum context length is unknown", ProviderError{Kind: OtherError}},
		{400, "tools.0.custom.input_schema: context window exceeded is not a valid property", ProviderError{Kind: OtherError}},
		{400, "Your prompt was flagged: 'prompt is too long' is a jailbreak", ProviderError{Kind: OtherError}},
		{400, "content_policy_violation near 'prompt is too long'", ProviderError{Kind: OtherError}},
		{413, `{"error":{"message":"image too large","code":"image_too_large"}}`, ProviderError{Kind: OtherError}},
		{400, "Invalid value for max_tokens: maximum context length is 8192 tokens", ProviderError{Kind: OutputCap}},
		{400, "max_completion_tokens (40000) exceeds the model's context window", ProviderError{Kind: OutputCap}},
		{400, "max_tokens of 4096 exceeded", ProviderError{Kind: OtherError}},
		{400, "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000. Please reduce the length of the messages.", ProviderError{Kind: RateLimit}},
		{400, "rate_limit_exceeded: the input exceeds the context window of your tier", ProviderError{Kind: RateLimit}},
		{400, "An assistant message with 'tool_calls' must be followed by tool messages; context length exceeded", ProviderError{Kind: PairingBroken}},
	} {
		if got := Read(tc.status, tc.text); got != tc.want {
			t.Errorf("%d %q: %+v, want %+v", tc.status, tc.text, got, tc.want)
		}
	}
}

// The texts that docs/policies/overflow.md lists are read as it says.
func TestListedProviderErrors(t *testing.T) {
	page, err := os.ReadFile("../../docs/policies/overflow.md")
	must(t, err)
	_, table, _ := strings.Cut(string(page), "| provider | status | meaning | window | tokens | text |\n")
	number := func(s string) (n uint64) {
		if s = strings.TrimSpace(s); s != "" {
			n, err = strconv.ParseUint(s, 10, 64)
			must(t, err)
		}
		return n
	}
	n := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "| \n"), "|")
		if len(cells) != 6 || strings.HasPrefix(cells[0], "---") {
			continue
		}
		n++
		text := strings.TrimSpace(strings.Trim(strings.TrimSpace(cells[5]), "`"))
		want := ProviderError{Kind(strings.TrimSpace(cells[2])), number(cells[3]), number(cells[4])}
		if got := Read(int(number(cells[1])), text); got != want {
			t.Errorf("%s %q: %+v, want %+v", cells[0], text, got, want)
		}
	}
	if n < 35 {
		t.Errorf("%d errors are listed", n)
	}
}

// Every error of the data set is read as its verdict says, and nothing else is
// read as an overflow. The numbers are those of the data set.
func TestReadRealProviderErrors(t *testing.T) {
	name := filepath.Join("..", "..", "..", "shared", "data", "provider-errors", "errors.jsonl")
	f, err := os.Open(name)
	if err != nil {
		t.Skip("real provider errors are not beside the project (../shared/data)")
	}
	defer f.Close()
	overflow := map[string]bool{"context_overflow": true, "request_too_large": true}
	n := 0
	for sc := bufio.NewScanner(f); sc.Scan(); n++ {
		var e struct {
			Provider string `json:"provider"`
			Status   int    `json:"http_status"`
			Body     string `json:"body"`
			Verdict  string `json:"verdict"`
			Window   uint64 `json:"window"`
			Tokens   uint64 `json:"prompt_tokens"`
			Source   string `json:"source"`
			Quality  string `json:"quality"`
			Note     string `json:"note"`
		}
		if err := turns.DecodeJSON(sc.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		got := Read(e.Status, e.Body)
		if got.Overflow() != overflow[e.Verdict] {
			t.Errorf("%s %d %s\n  read as %+v, its verdict is %s", e.Provider, e.Status, e.Body, got, e.Verdict)
			continue
		}
		if got.Overflow() && (got.Window != e.Window || got.Tokens != e.Tokens) {
			t.Errorf("%s %d %s\n  window %d, tokens %d; want %d, %d", e.Provider, e.Status, e.Body, got.Window, got.Tokens, e.Window, e.Tokens)
		}
	}
	t.Logf("%d errors", n)
}

func FuzzReadProviderError(f *testing.F) {
	f.Add(400, "prompt is too long: 1 tokens > 0 maximum")
	f.Fuzz(func(t *testing.T, status int, text string) {
		got := Read(status, text)
		if !got.Overflow() && (got.Window != 0 || got.Tokens != 0) {
			t.Fatalf("%+v", got)
		}
	})
}
