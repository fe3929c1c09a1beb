package tokens

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Row WOL-13: the table of the seed, under the names that it has there and the
// providers' own.
func TestWOL13Budgets(t *testing.T) {
	for _, test := range []struct {
		display, id             string
		window, reserve, budget uint64
		separate                bool
	}{
		{"DeepSeek V4 Pro", "deepseek/deepseek-v4-pro", 1_000_000, 32_768, 967_232, false},
		{"Claude Opus 4.6+", "claude-opus-4-6", 1_000_000, 0, 1_000_000, true},
		{"Claude Opus 4.7", "anthropic/claude-opus-4.7", 1_000_000, 0, 1_000_000, true}, // the "+"
		{"Claude Sonnet 4.6", "claude-sonnet-4-6-20260115", 1_000_000, 0, 1_000_000, true},
		{"Grok 4.3", "xai/grok-4.3", 1_000_000, 65_536, 934_464, false},
		{"GPT-5", "gpt-5-2025-08-07", 400_000, 65_536, 334_464, false},
		{"GPT-4.1", "openai/gpt-4.1-2025-04-14", 1_000_000, 32_768, 967_232, false},
		{"Kimi K2", "moonshotai/kimi-k2-0905-preview", 262_144, 65_536, 196_608, false},
		{"Qwen 3.7 Max", "qwen/qwen3.7-max", 1_000_000, 65_536, 934_464, false},
	} {
		for _, name := range []string{test.display, test.id} {
			m, ok := KnownModels().Find(name)
			if !ok || m.ContextWindow != test.window || m.OutputReserve != test.reserve || m.InputBudget() != test.budget || m.SeparateOutput != test.separate {
				t.Errorf("%s: %+v with a budget of %d, %v; want window %d, reserve %d, budget %d, separate %v",
					name, m, m.InputBudget(), ok, test.window, test.reserve, test.budget, test.separate)
			}
		}
	}
}

func TestFindTakesTheLongestKnownBeginning(t *testing.T) {
	for _, test := range []struct{ name, want string }{
		{"gpt-5-mini", "gpt-5-mini"},
		{"GPT-5-Mini-2025-08-07", "gpt-5-mini"},
		{"gpt-5-something", "gpt-5"},
		{"gpt-5-chat-latest", "gpt-5-chat"}, // a smaller window than gpt-5
		{"gpt-5.9", ""},                     // another version
		{"gpt-50", ""},
		{"gpt-4", "gpt-4"},
		{"gpt-4-0613", "gpt-4"},
		{"gpt-4.1-nano", "gpt-4.1-nano"},
		{"gpt-4.7", ""},
		{"gpt-4o-2024-11-20", "gpt-4o"},
		{"gpt-4o-mini-2024-07-18", "gpt-4o-mini"},
		{"ft:gpt-4o-mini-2024-07-18:acme::id", "gpt-4o-mini"},
		{"o3", "o3"},
		{"o3-mini-2025-01-31", "o3-mini"},
		{"o33", ""},
		{"claude-sonnet-4-20250514", "claude-sonnet-4"},
		{"claude-sonnet-4-5@20250929", "claude-sonnet-4-5"},
		{"us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"},
		{"openrouter/anthropic/claude-sonnet-4.5:thinking", "claude-sonnet-4-5"},
		{"claude-opus-4-6[1m]", "claude-opus-4-6"},
		{"claude-opus-4-99", ""},
		{"models/gemini-2.0-flash-001", "gemini-2.0-flash"},
		{"gemini-2.5-flash-lite-preview-09-2025", "gemini-2.5-flash-lite"},
		{"grok-4-0709", "grok-4"},
		{"grok-4-20-0309-reasoning", "grok-4.20"},
		{"kimi-k2.9", ""},
		{"accounts/fireworks/models/kimi-k2-thinking", "kimi-k2-thinking"},
		{"MiniMax-M2.5", "minimax-m2.5"},
		{"meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b"},
		{"amazon.nova-pro-v1:0", "nova-pro"},
		{"mistral-large-2411", "mistral-large-2411"},
		{"mistral-large-2512", "mistral-large"},
		{"my-own-gpt-5", ""},
		{"", ""}, {"/", ""}, {"openai/", ""}, {"---", ""}, {"\xff", ""}, {"anthropic", ""}, {"us", ""}, {"gpt", ""},
	} {
		if m, ok := KnownModels().Find(test.name); m.Name != test.want || ok != (test.want != "") {
			t.Errorf("%q is %q, %v, want %q", test.name, m.Name, ok, test.want)
		}
	}
}

// A variant has the window of its model, and its price unless it is billed by its own.
func TestVariantsThatAreBilledApartHaveNoPrice(t *testing.T) {
	for name, want := range map[string]string{
		"claude-opus-4-6-fast": "", "anthropic/claude-opus-4.6-fast": "", "o3-deep-research-2025-06-26": "", "gpt-4o-realtime-preview": "", "gpt-4-32k": "", "gemini-2.5-flash-image": "", "house-1": "",
		"claude-opus-4-6": "claude-opus-4-6", "gpt-4o-2024-08-06": "gpt-4o", "grok-4-fast-reasoning": "grok-4-fast", "grok-code-fast-1": "grok-code-fast-1", "deepseek-chat": "deepseek-chat", "house-2-fast": "house-2-fast",
	} {
		ms := KnownModels().With(Model{Name: "house-1", ContextWindow: 9}, Model{Name: "house-2-fast", Price: Price{Input: 1}})
		if m, ok := ms.Priced(name); m.Name != want || ok != (want != "") {
			t.Errorf("%q has the price of %q, %v, want %q", name, m.Name, ok, want)
		}
	}
	if m, ok := KnownModels().Find("claude-opus-4-6-fast"); !ok || m.ContextWindow != 1_000_000 {
		t.Errorf("the window is that of %+v", m)
	}
}

func TestWithReplacesAWholeRow(t *testing.T) {
	own := Model{Name: "Acme/House-1", ContextWindow: 32_000, OutputReserve: 2_000, Price: Price{Input: 1}, Tokenizer: "gsv-1"}
	small := Model{Name: "openai/GPT-5", ContextWindow: 100_000}
	ms := KnownModels().With(Model{Name: "house-1"}, own, small, Model{ContextWindow: 1})
	for _, test := range []struct {
		name string
		want Model
	}{{"house-1", own}, {"house-1-instruct", own}, {"gpt-5-2025-08-07", small}} {
		if got, ok := ms.Find(test.name); !ok || got != test.want {
			t.Errorf("%s: %v\n%s", test.name, ok, cmp.Diff(test.want, got))
		}
	}
	if m, _ := KnownModels().Find("gpt-5"); m.ContextWindow != 400_000 {
		t.Errorf("the overrides changed the known table: %+v", m)
	}
	if m, ok := (Models{}).Find("gpt-5"); ok {
		t.Errorf("the empty table has %+v", m)
	}
	if n := small.InputBudget(); n != 100_000 {
		t.Errorf("without a reserve the budget is %d", n)
	}
	if n := (Model{ContextWindow: 5, OutputReserve: 6}).InputBudget(); n != 0 {
		t.Errorf("a reserve over the window leaves %d", n)
	}
}

// What every row must have: a name of its own, room for a context, a counter
// that exists.
func TestEveryModelIsFoundAndHasAWindowAndACounter(t *testing.T) {
	rows := modelTable()
	if got := len(KnownModels().byKey); got != len(rows) {
		t.Errorf("%d rows under %d names", len(rows), got)
	}
	for _, m := range rows {
		if got, ok := KnownModels().Find(m.Name); !ok || got != m {
			t.Errorf("%s: found %+v, %v", m.Name, got, ok)
		}
		if m.InputBudget() < m.ContextWindow/2 || m.MaxOutput > m.ContextWindow {
			t.Errorf("%s: %+v has a budget of %d", m.Name, m, m.InputBudget())
		}
		if m.Price.Input == 0 || m.Price.Output < m.Price.Input || m.Price.CacheRead > m.Price.Input {
			t.Errorf("%s: prices %+v", m.Name, m.Price)
		}
		if _, ok := Named(m.Tokenizer); !ok {
			t.Errorf("%s: no counter %q", m.Name, m.Tokenizer)
		}
	}
	want := Price{Input: 435_000, Output: 870_000, CacheRead: 3_625}
	if m, _ := KnownModels().Find("deepseek-v4-pro"); m.Price != want {
		t.Errorf("%+v, want %+v micro-dollars", m.Price, want)
	}
}
