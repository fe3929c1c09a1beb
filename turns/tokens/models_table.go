package tokens

import "strings"

// usd is a dollar in micro-dollars.
const usd = 1_000_000

// modelsDev, litellm and openRouter are where the rows of the table come from.
var (
	modelsDev  = Source{"models.dev f3fc692", "2026-07-02"}
	litellm    = Source{"litellm by model-price-repo f9ff147", "2026-07-24"}
	openRouter = Source{"OpenRouter's list in models.dev f3fc692", "2026-07-02"}
)

// sourceOf returns the source of a row of the table.
func sourceOf(name string) Source {
	switch name {
	case "claude-opus-5", "claude-mythos-5", "gpt-5.6", "gpt-5.6-luna", "gpt-5.6-sol", "gpt-5.6-terra", "gemini-3.6-flash", "gemini-3.5-flash-lite", "grok-4.5":
		return litellm
	case "grok-4", "grok-3", "grok-3-mini", "grok-code-fast-1", "deepseek-v3.2":
		return openRouter
	}
	return modelsDev
}

// longAbove returns the tokens of input above which a model has its long price, by litellm's
// table; 0: it has none. The long price is twice that of each kind of input, and one and a
// half times that of output, for each of these models.
func longAbove(name string) uint64 {
	switch name {
	case "claude-sonnet-4", "claude-sonnet-4-5", "gemini-2.5-pro", "gemini-3-pro", "gemini-3.1-pro":
		return 200_000
	case "gpt-5.4", "gpt-5.4-pro", "gpt-5.5", "gpt-5.5-pro", "gpt-5.6", "gpt-5.6-luna", "gpt-5.6-sol", "gpt-5.6-terra":
		return 272_000
	}
	return 0
}

// long returns the long price of a model.
func (p Price) long() Price {
	p.Input, p.CacheRead, p.CacheWrite, p.CacheHour = 2*p.Input, 2*p.CacheRead, 2*p.CacheWrite, 2*p.CacheHour
	p.Output += p.Output / 2
	return p
}

// price is a row's price, in micro-dollars.
type price struct{ input, output, cacheRead, cacheWrite uint64 }

// row is a row of the table.
type row struct {
	name                             string
	window, maxOutput, outputReserve uint64
	separateOutput                   bool
	price                            price
	tokenizer                        string
}

func (r row) model() Model {
	p := Price{Input: r.price.input, Output: r.price.output, CacheRead: r.price.cacheRead, CacheWrite: r.price.cacheWrite}
	if strings.HasPrefix(r.name, "claude-") { // of Anthropic: what stays in the cache for an hour costs twice the input
		p.CacheHour = 2 * p.Input
	}
	m := Model{Name: r.name, ContextWindow: r.window, MaxOutput: r.maxOutput, OutputReserve: r.outputReserve, SeparateOutput: r.separateOutput,
		Price: p, PriceSource: sourceOf(r.name), Tokenizer: r.tokenizer}
	if m.LongAbove = longAbove(r.name); m.LongAbove > 0 {
		m.LongPrice = p.long()
	}
	return m
}

// modelTable returns the models known to this version. Window, largest answer and prices
// (the lowest tier, in dollars for a million tokens) are from the maker's own page at
// models.dev (MIT); where that lacks the model from litellm's table (MIT) or OpenRouter's
// list. Sources differ about some; users override rows.
//
// The reserve is the source's window less its input limit, where it gives one; else the
// smallest of the largest answer, 32,768 and a quarter of the window. Windows and
// reserves of the first group are those of the seed (WOL-13).
func modelTable() (out []Model) {
	for _, r := range []row{
		// name, window, maxOutput, outputReserve, separateOutput, price{input, output, cacheRead, cacheWrite}, tokenizer

		// The rows of the seed Wolffish; "4.6+" is every later Opus, too.
		{"deepseek-v4-pro", 1_000_000, 384_000, 32_768, false, price{0.435 * usd, 0.87 * usd, 0.003625 * usd, 0}, ""},
		{"claude-opus-4-6", 1_000_000, 128_000, 0, true, price{5 * usd, 25 * usd, 0.5 * usd, 6.25 * usd}, ""},
		{"claude-opus-4-7", 1_000_000, 128_000, 0, true, price{5 * usd, 25 * usd, 0.5 * usd, 6.25 * usd}, ""},
		{"claude-opus-4-8", 1_000_000, 128_000, 0, true, price{5 * usd, 25 * usd, 0.5 * usd, 6.25 * usd}, ""},
		{"claude-opus-5", 1_000_000, 128_000, 0, true, price{5 * usd, 25 * usd, 0.5 * usd, 6.25 * usd}, ""},
		{"claude-sonnet-4-6", 1_000_000, 64_000, 0, true, price{3 * usd, 15 * usd, 0.3 * usd, 3.75 * usd}, ""},
		{"grok-4.3", 1_000_000, 30_000, 65_536, false, price{1.25 * usd, 2.5 * usd, 0.2 * usd, 0}, ""},
		{"gpt-5", 400_000, 128_000, 65_536, false, price{1.25 * usd, 10 * usd, 0.125 * usd, 0}, "o200k-1"},
		{"gpt-4.1", 1_000_000, 32_768, 32_768, false, price{2 * usd, 8 * usd, 0.5 * usd, 0}, "o200k-1"},
		{"kimi-k2", 262_144, 262_144, 65_536, false, price{0.6 * usd, 2.5 * usd, 0.15 * usd, 0}, ""},
		{"qwen3.7-max", 1_000_000, 65_536, 65_536, false, price{2.5 * usd, 7.5 * usd, 0.5 * usd, 3.125 * usd}, ""},

		// Anthropic
		{"claude-sonnet-5", 1_000_000, 128_000, 32_768, false, price{2 * usd, 10 * usd, 0.2 * usd, 2.5 * usd}, ""},
		{"claude-fable-5", 1_000_000, 128_000, 32_768, false, price{10 * usd, 50 * usd, 1 * usd, 12.5 * usd}, ""},
		{"claude-mythos-5", 1_000_000, 128_000, 32_768, false, price{10 * usd, 50 * usd, 1 * usd, 12.5 * usd}, ""},
		{"claude-opus-4-5", 200_000, 64_000, 32_768, false, price{5 * usd, 25 * usd, 0.5 * usd, 6.25 * usd}, ""},
		{"claude-opus-4-1", 200_000, 32_000, 32_000, false, price{15 * usd, 75 * usd, 1.5 * usd, 18.75 * usd}, ""},
		{"claude-opus-4", 200_000, 32_000, 32_000, false, price{15 * usd, 75 * usd, 1.5 * usd, 18.75 * usd}, ""},
		{"claude-sonnet-4-5", 200_000, 64_000, 32_768, false, price{3 * usd, 15 * usd, 0.3 * usd, 3.75 * usd}, ""},
		{"claude-sonnet-4", 200_000, 64_000, 32_768, false, price{3 * usd, 15 * usd, 0.3 * usd, 3.75 * usd}, ""},
		{"claude-haiku-4-5", 200_000, 64_000, 32_768, false, price{1 * usd, 5 * usd, 0.1 * usd, 1.25 * usd}, ""},
		{"claude-3-7-sonnet", 200_000, 64_000, 32_768, false, price{3 * usd, 15 * usd, 0.3 * usd, 3.75 * usd}, ""},
		{"claude-3-5-sonnet", 200_000, 8_192, 8_192, false, price{3 * usd, 15 * usd, 0.3 * usd, 3.75 * usd}, ""},
		{"claude-3-opus", 200_000, 4_096, 4_096, false, price{15 * usd, 75 * usd, 1.5 * usd, 18.75 * usd}, ""},
		{"claude-3-haiku", 200_000, 4_096, 4_096, false, price{0.25 * usd, 1.25 * usd, 0.03 * usd, 0.3 * usd}, ""},

		// OpenAI
		{"gpt-5-mini", 400_000, 128_000, 128_000, false, price{0.25 * usd, 2 * usd, 0.025 * usd, 0}, "o200k-1"},
		{"gpt-5-nano", 400_000, 128_000, 128_000, false, price{0.05 * usd, 0.4 * usd, 0.005 * usd, 0}, "o200k-1"},
		{"gpt-5-codex", 400_000, 128_000, 128_000, false, price{1.25 * usd, 10 * usd, 0.125 * usd, 0}, "o200k-1"},
		{"gpt-5-pro", 400_000, 272_000, 128_000, false, price{15 * usd, 120 * usd, 0, 0}, "o200k-1"},
		{"gpt-5-chat", 128_000, 16_384, 16_384, false, price{1.25 * usd, 10 * usd, 0.125 * usd, 0}, "o200k-1"},
		{"gpt-5.1", 400_000, 128_000, 128_000, false, price{1.25 * usd, 10 * usd, 0.125 * usd, 0}, "o200k-1"},
		{"gpt-5.1-chat", 128_000, 16_384, 16_384, false, price{1.25 * usd, 10 * usd, 0.125 * usd, 0}, "o200k-1"},
		{"gpt-5.1-codex", 400_000, 128_000, 128_000, false, price{1.25 * usd, 10 * usd, 0.125 * usd, 0}, "o200k-1"},
		{"gpt-5.1-codex-mini", 400_000, 128_000, 128_000, false, price{0.25 * usd, 2 * usd, 0.025 * usd, 0}, "o200k-1"},
		{"gpt-5.2", 400_000, 128_000, 128_000, false, price{1.75 * usd, 14 * usd, 0.175 * usd, 0}, "o200k-1"},
		{"gpt-5.2-chat", 128_000, 16_384, 16_384, false, price{1.75 * usd, 14 * usd, 0.175 * usd, 0}, "o200k-1"},
		{"gpt-5.2-codex", 400_000, 128_000, 128_000, false, price{1.75 * usd, 14 * usd, 0.175 * usd, 0}, "o200k-1"},
		{"gpt-5.2-pro", 400_000, 128_000, 128_000, false, price{21 * usd, 168 * usd, 0, 0}, "o200k-1"},
		{"gpt-5.3-chat", 128_000, 16_384, 16_384, false, price{1.75 * usd, 14 * usd, 0.175 * usd, 0}, "o200k-1"},
		{"gpt-5.3-codex", 400_000, 128_000, 128_000, false, price{1.75 * usd, 14 * usd, 0.175 * usd, 0}, "o200k-1"},
		{"gpt-5.3-codex-spark", 128_000, 32_000, 28_000, false, price{1.75 * usd, 14 * usd, 0.175 * usd, 0}, "o200k-1"},
		{"gpt-5.4", 1_050_000, 128_000, 128_000, false, price{2.5 * usd, 15 * usd, 0.25 * usd, 0}, "o200k-1"},
		{"gpt-5.4-mini", 400_000, 128_000, 128_000, false, price{0.75 * usd, 4.5 * usd, 0.075 * usd, 0}, "o200k-1"},
		{"gpt-5.4-nano", 400_000, 128_000, 128_000, false, price{0.2 * usd, 1.25 * usd, 0.02 * usd, 0}, "o200k-1"},
		{"gpt-5.4-pro", 1_050_000, 128_000, 128_000, false, price{30 * usd, 180 * usd, 0, 0}, "o200k-1"},
		{"gpt-5.5", 1_050_000, 128_000, 128_000, false, price{5 * usd, 30 * usd, 0.5 * usd, 0}, "o200k-1"},
		{"gpt-5.5-pro", 1_050_000, 128_000, 128_000, false, price{30 * usd, 180 * usd, 0, 0}, "o200k-1"},
		{"gpt-5.6", 1_050_000, 128_000, 32_768, false, price{5 * usd, 30 * usd, 0.5 * usd, 6.25 * usd}, "o200k-1"},
		{"gpt-5.6-luna", 400_000, 128_000, 32_768, false, price{1 * usd, 6 * usd, 0.1 * usd, 1.25 * usd}, "o200k-1"},
		{"gpt-5.6-sol", 400_000, 128_000, 32_768, false, price{5 * usd, 30 * usd, 0.5 * usd, 6.25 * usd}, "o200k-1"},
		{"gpt-5.6-terra", 400_000, 128_000, 32_768, false, price{2.5 * usd, 15 * usd, 0.25 * usd, 3.125 * usd}, "o200k-1"},
		{"gpt-4.1-mini", 1_047_576, 32_768, 32_768, false, price{0.4 * usd, 1.6 * usd, 0.1 * usd, 0}, "o200k-1"},
		{"gpt-4.1-nano", 1_047_576, 32_768, 32_768, false, price{0.1 * usd, 0.4 * usd, 0.025 * usd, 0}, "o200k-1"},
		{"gpt-4o", 128_000, 16_384, 16_384, false, price{2.5 * usd, 10 * usd, 1.25 * usd, 0}, "o200k-1"},
		{"gpt-4o-mini", 128_000, 16_384, 16_384, false, price{0.15 * usd, 0.6 * usd, 0.075 * usd, 0}, "o200k-1"},
		{"o1", 200_000, 100_000, 32_768, false, price{15 * usd, 60 * usd, 7.5 * usd, 0}, "o200k-1"},
		{"o1-pro", 200_000, 100_000, 32_768, false, price{150 * usd, 600 * usd, 0, 0}, "o200k-1"},
		{"o3", 200_000, 100_000, 32_768, false, price{2 * usd, 8 * usd, 0.5 * usd, 0}, "o200k-1"},
		{"o3-mini", 200_000, 100_000, 32_768, false, price{1.1 * usd, 4.4 * usd, 0.55 * usd, 0}, "o200k-1"},
		{"o3-pro", 200_000, 100_000, 32_768, false, price{20 * usd, 80 * usd, 0, 0}, "o200k-1"},
		{"o4-mini", 200_000, 100_000, 32_768, false, price{1.1 * usd, 4.4 * usd, 0.275 * usd, 0}, "o200k-1"},
		{"gpt-4-turbo", 128_000, 4_096, 4_096, false, price{10 * usd, 30 * usd, 0, 0}, ""},
		{"gpt-4", 8_192, 8_192, 2_048, false, price{30 * usd, 60 * usd, 0, 0}, ""},
		{"gpt-3.5-turbo", 16_385, 4_096, 4_096, false, price{0.5 * usd, 1.5 * usd, 0, 0}, ""},
		{"gpt-oss-120b", 131_072, 65_536, 32_768, false, price{0.15 * usd, 0.6 * usd, 0.075 * usd, 0}, "o200k-1"},
		{"gpt-oss-20b", 131_072, 65_536, 32_768, false, price{0.075 * usd, 0.3 * usd, 0.0375 * usd, 0}, "o200k-1"},

		// Google
		{"gemini-3.6-flash", 1_048_576, 65_536, 32_768, false, price{1.5 * usd, 7.5 * usd, 0.15 * usd, 0}, ""},
		{"gemini-3.5-flash", 1_048_576, 65_536, 32_768, false, price{1.5 * usd, 9 * usd, 0.15 * usd, 0}, ""},
		{"gemini-3.5-flash-lite", 1_048_576, 65_536, 32_768, false, price{0.3 * usd, 2.5 * usd, 0.03 * usd, 0}, ""},
		{"gemini-3.1-pro", 1_048_576, 65_536, 32_768, false, price{2 * usd, 12 * usd, 0.2 * usd, 0}, ""},
		{"gemini-3.1-flash-lite", 1_048_576, 65_536, 32_768, false, price{0.25 * usd, 1.5 * usd, 0.025 * usd, 0}, ""},
		{"gemini-3-pro", 1_048_576, 65_536, 32_768, false, price{2 * usd, 12 * usd, 0.2 * usd, 0}, ""},
		{"gemini-3-flash", 1_048_576, 65_536, 32_768, false, price{0.5 * usd, 3 * usd, 0.05 * usd, 0}, ""},
		{"gemini-2.5-pro", 1_048_576, 65_536, 32_768, false, price{1.25 * usd, 10 * usd, 0.125 * usd, 0}, ""},
		{"gemini-2.5-flash", 1_048_576, 65_536, 32_768, false, price{0.3 * usd, 2.5 * usd, 0.03 * usd, 0}, ""},
		{"gemini-2.5-flash-lite", 1_048_576, 65_536, 32_768, false, price{0.1 * usd, 0.4 * usd, 0.01 * usd, 0}, ""},
		{"gemini-2.0-flash", 1_048_576, 8_192, 8_192, false, price{0.1 * usd, 0.4 * usd, 0.025 * usd, 0}, ""},
		{"gemini-2.0-flash-lite", 1_048_576, 8_192, 8_192, false, price{0.075 * usd, 0.3 * usd, 0, 0}, ""},

		// xAI
		{"grok-4.5", 500_000, 500_000, 32_768, false, price{2 * usd, 6 * usd, 0.5 * usd, 0}, ""},
		{"grok-4.20", 1_000_000, 30_000, 30_000, false, price{1.25 * usd, 2.5 * usd, 0.2 * usd, 0}, ""},
		{"grok-4", 256_000, 0, 32_768, false, price{3 * usd, 15 * usd, 0.75 * usd, 0}, ""},
		{"grok-4-fast", 2_000_000, 30_000, 30_000, false, price{0.2 * usd, 0.5 * usd, 0.05 * usd, 0}, ""},
		{"grok-4.1-fast", 2_000_000, 30_000, 30_000, false, price{0.2 * usd, 0.5 * usd, 0.05 * usd, 0}, ""},
		{"grok-3", 131_072, 0, 32_768, false, price{3 * usd, 15 * usd, 0.75 * usd, 0}, ""},
		{"grok-3-mini", 131_072, 0, 32_768, false, price{0.3 * usd, 0.5 * usd, 0.075 * usd, 0}, ""},
		{"grok-code-fast-1", 256_000, 10_000, 10_000, false, price{0.2 * usd, 1.5 * usd, 0.02 * usd, 0}, ""},

		// DeepSeek
		{"deepseek-v4-flash", 1_000_000, 384_000, 32_768, false, price{0.14 * usd, 0.28 * usd, 0.0028 * usd, 0}, ""},
		{"deepseek-chat", 1_000_000, 384_000, 32_768, false, price{0.14 * usd, 0.28 * usd, 0.0028 * usd, 0}, ""},
		{"deepseek-reasoner", 1_000_000, 384_000, 32_768, false, price{0.14 * usd, 0.28 * usd, 0.0028 * usd, 0}, ""},
		{"deepseek-v3.2", 131_072, 65_536, 32_768, false, price{0.252 * usd, 0.378 * usd, 0.0252 * usd, 0}, ""},
		{"deepseek-r1", 64_000, 16_000, 16_000, false, price{0.7 * usd, 2.5 * usd, 0, 0}, ""},

		// Moonshot
		{"kimi-k2-0711", 131_072, 16_384, 16_384, false, price{0.6 * usd, 2.5 * usd, 0.15 * usd, 0}, ""},
		{"kimi-k2-turbo", 262_144, 262_144, 32_768, false, price{2.4 * usd, 10 * usd, 0.6 * usd, 0}, ""},
		{"kimi-k2-thinking", 262_144, 262_144, 32_768, false, price{0.6 * usd, 2.5 * usd, 0.15 * usd, 0}, ""},
		{"kimi-k2-thinking-turbo", 262_144, 262_144, 32_768, false, price{1.15 * usd, 8 * usd, 0.15 * usd, 0}, ""},
		{"kimi-k2.5", 262_144, 262_144, 32_768, false, price{0.6 * usd, 3 * usd, 0.1 * usd, 0}, ""},
		{"kimi-k2.6", 262_144, 262_144, 32_768, false, price{0.95 * usd, 4 * usd, 0.16 * usd, 0}, ""},
		{"kimi-k2.7-code", 262_144, 262_144, 32_768, false, price{0.95 * usd, 4 * usd, 0.19 * usd, 0}, ""},
		{"kimi-k2.7-code-highspeed", 262_144, 262_144, 32_768, false, price{1.9 * usd, 8 * usd, 0.38 * usd, 0}, ""},

		// Alibaba
		{"qwen3.7-plus", 1_000_000, 65_536, 32_768, false, price{0.5 * usd, 3 * usd, 0.05 * usd, 0.625 * usd}, ""},
		{"qwen3.6-plus", 1_000_000, 65_536, 32_768, false, price{0.5 * usd, 3 * usd, 0.05 * usd, 0.625 * usd}, ""},
		{"qwen3.6-flash", 1_000_000, 65_536, 32_768, false, price{0.1875 * usd, 1.125 * usd, 0, 0.234375 * usd}, ""},
		{"qwen3.5-plus", 1_000_000, 65_536, 32_768, false, price{0.4 * usd, 2.4 * usd, 0, 0}, ""},
		{"qwen3-max", 262_144, 65_536, 32_768, false, price{1.2 * usd, 6 * usd, 0, 0}, ""},
		{"qwen3-coder-plus", 1_048_576, 65_536, 32_768, false, price{1 * usd, 5 * usd, 0, 0}, ""},
		{"qwen3-coder-flash", 1_000_000, 65_536, 32_768, false, price{0.3 * usd, 1.5 * usd, 0, 0}, ""},
		{"qwen3-235b-a22b", 131_072, 16_384, 16_384, false, price{0.7 * usd, 2.8 * usd, 0, 0}, ""},
		{"qwen3-32b", 131_072, 16_384, 16_384, false, price{0.7 * usd, 2.8 * usd, 0, 0}, ""},
		{"qwen3-14b", 131_072, 8_192, 8_192, false, price{0.35 * usd, 1.4 * usd, 0, 0}, ""},
		{"qwen3-8b", 131_072, 8_192, 8_192, false, price{0.18 * usd, 0.7 * usd, 0, 0}, ""},
		{"qwen-max", 32_768, 8_192, 8_192, false, price{1.6 * usd, 6.4 * usd, 0, 0}, ""},
		{"qwen-plus", 1_000_000, 32_768, 32_768, false, price{0.4 * usd, 1.2 * usd, 0, 0}, ""},
		{"qwen-flash", 1_000_000, 32_768, 32_768, false, price{0.05 * usd, 0.4 * usd, 0, 0}, ""},
		{"qwen-turbo", 1_000_000, 16_384, 16_384, false, price{0.05 * usd, 0.2 * usd, 0, 0}, ""},

		// Z.ai, MiniMax
		{"glm-5.2", 1_000_000, 131_072, 32_768, false, price{1.4 * usd, 4.4 * usd, 0.26 * usd, 0}, ""},
		{"glm-5.1", 200_000, 131_072, 32_768, false, price{1.4 * usd, 4.4 * usd, 0.26 * usd, 0}, ""},
		{"glm-5", 204_800, 131_072, 32_768, false, price{1 * usd, 3.2 * usd, 0.2 * usd, 0}, ""},
		{"glm-5-turbo", 200_000, 131_072, 32_768, false, price{1.2 * usd, 4 * usd, 0.24 * usd, 0}, ""},
		{"glm-4.7", 204_800, 131_072, 32_768, false, price{0.6 * usd, 2.2 * usd, 0.11 * usd, 0}, ""},
		{"glm-4.6", 204_800, 131_072, 32_768, false, price{0.6 * usd, 2.2 * usd, 0.11 * usd, 0}, ""},
		{"glm-4.5", 131_072, 98_304, 32_768, false, price{0.6 * usd, 2.2 * usd, 0.11 * usd, 0}, ""},
		{"glm-4.5-air", 131_072, 98_304, 32_768, false, price{0.2 * usd, 1.1 * usd, 0.03 * usd, 0}, ""},
		{"minimax-m3", 1_000_000, 128_000, 32_768, false, price{0.3 * usd, 1.2 * usd, 0.06 * usd, 0}, ""},
		{"minimax-m2.7", 204_800, 131_072, 32_768, false, price{0.3 * usd, 1.2 * usd, 0.06 * usd, 0.375 * usd}, ""},
		{"minimax-m2.5", 204_800, 131_072, 32_768, false, price{0.3 * usd, 1.2 * usd, 0.03 * usd, 0.375 * usd}, ""},
		{"minimax-m2.1", 204_800, 131_072, 32_768, false, price{0.3 * usd, 1.2 * usd, 0, 0}, ""},
		{"minimax-m2", 196_608, 128_000, 32_768, false, price{0.3 * usd, 1.2 * usd, 0, 0}, ""},

		// Mistral, Cohere, Meta, Amazon
		{"mistral-large", 262_144, 262_144, 32_768, false, price{0.5 * usd, 1.5 * usd, 0, 0}, ""},
		{"mistral-large-2411", 131_072, 16_384, 16_384, false, price{2 * usd, 6 * usd, 0, 0}, ""},
		{"mistral-medium", 262_144, 262_144, 32_768, false, price{0.4 * usd, 2 * usd, 0, 0}, ""},
		{"mistral-medium-2505", 131_072, 131_072, 32_768, false, price{0.4 * usd, 2 * usd, 0, 0}, ""},
		{"mistral-small", 256_000, 256_000, 32_768, false, price{0.15 * usd, 0.6 * usd, 0, 0}, ""},
		{"mistral-small-2506", 128_000, 16_384, 16_384, false, price{0.1 * usd, 0.3 * usd, 0, 0}, ""},
		{"magistral-medium", 128_000, 16_384, 16_384, false, price{2 * usd, 5 * usd, 0, 0}, ""},
		{"codestral", 256_000, 4_096, 4_096, false, price{0.3 * usd, 0.9 * usd, 0, 0}, ""},
		{"devstral", 262_144, 262_144, 32_768, false, price{0.4 * usd, 2 * usd, 0, 0}, ""},
		{"devstral-small", 128_000, 128_000, 32_000, false, price{0.1 * usd, 0.3 * usd, 0, 0}, ""},
		{"mistral-nemo", 128_000, 128_000, 32_000, false, price{0.15 * usd, 0.15 * usd, 0, 0}, ""},
		{"command-a", 256_000, 8_000, 8_000, false, price{2.5 * usd, 10 * usd, 0, 0}, ""},
		{"command-r-plus", 128_000, 4_000, 4_000, false, price{2.5 * usd, 10 * usd, 0, 0}, ""},
		{"command-r", 128_000, 4_000, 4_000, false, price{0.15 * usd, 0.6 * usd, 0, 0}, ""},
		{"llama-4-maverick", 1_048_576, 16_384, 16_384, false, price{0.15 * usd, 0.6 * usd, 0, 0}, ""},
		{"llama-4-scout", 131_072, 8_192, 8_192, false, price{0.11 * usd, 0.34 * usd, 0, 0}, ""},
		{"llama-3.3-70b", 131_072, 32_768, 32_768, false, price{0.59 * usd, 0.79 * usd, 0, 0}, ""},
		{"llama-3.1-8b", 131_072, 131_072, 32_768, false, price{0.05 * usd, 0.08 * usd, 0, 0}, ""},
		{"nova-pro", 300_000, 8_192, 8_192, false, price{0.8 * usd, 3.2 * usd, 0.2 * usd, 0}, ""},
		{"nova-lite", 300_000, 8_192, 8_192, false, price{0.06 * usd, 0.24 * usd, 0.015 * usd, 0}, ""},
		{"nova-micro", 128_000, 8_192, 8_192, false, price{0.035 * usd, 0.14 * usd, 0.00875 * usd, 0}, ""},
	} {
		out = append(out, r.model())
	}
	return out
}
