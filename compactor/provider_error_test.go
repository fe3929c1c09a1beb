package compactor

import (
	"bufio"
	"os"
	"path/filepath"
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
		if got := ReadProviderError(tc.status, tc.text); got != tc.want {
			t.Errorf("%d %q: %+v, want %+v", tc.status, tc.text, got, tc.want)
		}
	}
}

// Every error of the data set is read as its verdict says, and nothing else is
// taken for an overflow. The numbers are those that it gives.
func TestReadRealProviderErrors(t *testing.T) {
	name := filepath.Join("..", "..", "shared", "data", "provider-errors", "errors.jsonl")
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
		got := ReadProviderError(e.Status, e.Body)
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
		got := ReadProviderError(status, text)
		if !got.Overflow() && (got.Window != 0 || got.Tokens != 0) {
			t.Fatalf("%+v", got)
		}
	})
}
