package tokens

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"nexus/turns"
)

// Model is what is known of a model, for budgets and costs. Sizes are in the
// model's own tokens.
type Model struct {
	Name          string // as the provider's API has it, without prefix and date
	ContextWindow uint64 // the most tokens of a request, with its answer unless SeparateOutput
	MaxOutput     uint64 // the most tokens of an answer; 0: unknown
	OutputReserve uint64 // what a budget keeps free for the answer

	// SeparateOutput says that the answer takes nothing of the window.
	SeparateOutput bool

	Price       Price
	PriceSource Source
	// LongPrice is the price of all tokens of a call whose input, cache included, has more
	// than LongAbove tokens. 0: each call has Price.
	LongAbove uint64
	LongPrice Price
	Tokenizer string // the counter that suits it, see [Named]; "": no better one than the default
}

// InputBudget is the most tokens that a context may have: the window less the
// reserve, and the whole window where the output is separate. It is 0 where
// the reserve is the larger.
func (m Model) InputBudget() uint64 {
	if m.SeparateOutput {
		return m.ContextWindow
	}
	return Sub(m.ContextWindow, m.OutputReserve)
}

// PriceOf returns the price of a call.
func (m Model) PriceOf(u turns.Usage) Price {
	if m.LongAbove > 0 && u.InputTokens > m.LongAbove {
		return m.LongPrice
	}
	return m.Price
}

// Models is a table of models by name. It is never changed once made, and so
// safe for concurrent use. The zero value is empty.
type Models struct {
	byKey map[string]Model // modelKey of the name
}

// knownModels is made of the table once.
var knownModels = sync.OnceValue(func() Models { return Models{}.With(modelTable()...) })

// KnownModels is the table that comes with this version; its file names the
// sources.
func KnownModels() Models { return knownModels() }

// With is ms and overrides. A row of an equal name (in Find's sense) is
// replaced as a whole, of two overrides the later holds. Rows without a name
// are left out.
func (ms Models) With(overrides ...Model) Models {
	all := make(map[string]Model, len(ms.byKey)+len(overrides))
	maps.Copy(all, ms.byKey)
	for _, m := range overrides {
		if key := modelKey(m.Name); key != "" {
			all[key] = m
		}
	}
	return Models{byKey: all}
}

// Find is the model that name means. Case, punctuation and a provider's prefix
// ("openai/…", "us.anthropic.…") are ignored, so that "Claude Sonnet 4.6" is
// claude-sonnet-4-6. Where the whole name isn't known, its longest known
// beginning is taken, so that dates and variants need no rows: that of
// "gpt-5-mini-2025-08-07" is gpt-5-mini. It is not taken where a number of a
// version follows it: "gpt-5.9" is not gpt-5, but unknown.
func (ms Models) Find(name string) (Model, bool) {
	for key := modelKey(name); key != ""; {
		if m, ok := ms.longest(key); ok {
			return m, true
		}
		first, rest, _ := strings.Cut(key, "-")
		if !providerWord(first) {
			break
		}
		key = rest
	}
	return Model{}, false
}

// Priced is Find for a price: ok is false where the model has none, and for a variant that
// providers bill by prices of its own: claude-opus-4-6-fast costs several times as much as
// claude-opus-4-6, whose window it has.
func (ms Models) Priced(name string) (m Model, ok bool) {
	if m, ok = ms.Find(name); !ok || m.Price == (Price{}) {
		return Model{}, false
	}
	of := strings.Split(modelKey(m.Name), "-")
	for word := range strings.SplitSeq(modelKey(name), "-") {
		if isBilledApart(word) && !slices.Contains(of, word) {
			return Model{}, false
		}
	}
	return m, true
}

// isBilledApart reports whether word, in the name of a variant, means other prices.
func isBilledApart(word string) bool {
	switch word {
	case "fast", "priority", "deep", "realtime", "live", "audio", "tts", "transcribe", "image", "16k", "32k":
		return true
	}
	return false
}

func (ms Models) longest(key string) (Model, bool) {
	next := "" // the word after key
	for {
		if m, ok := ms.byKey[key]; ok {
			return m, !isVersion(next)
		}
		i := strings.LastIndexByte(key, '-')
		if i < 0 {
			return Model{}, false
		}
		key, next = key[:i], key[i+1:]
	}
}

// isVersion tells the number of a version from a date (2025, 0905) and a
// revision (001).
func isVersion(word string) bool {
	return len(word) > 0 && len(word) <= 2 && strings.Trim(word, "0123456789") == ""
}

// providerWord reports whether a name may begin with word for where the model
// is served, as on Amazon Bedrock ("us.anthropic.…") and for fine-tuned ones
// ("ft:…").
func providerWord(word string) bool {
	switch word {
	case "us", "eu", "apac", "au", "jp", "global", "ft",
		"openai", "azure", "anthropic", "google", "vertex", "bedrock", "amazon", "meta", "mistral", "cohere", "xai", "deepseek", "moonshotai", "minimax", "zai":
		return true
	}
	return false
}

// modelKey is name in lower case, without what stands before its last slash,
// as words joined by "-". A digit after a letter begins a word, as some write
// "qwen3.7-max" and others "Qwen 3.7 Max".
func modelKey(name string) string {
	name = name[strings.LastIndexByte(name, '/')+1:]
	var b strings.Builder
	var last rune // of b
	for _, r := range strings.ToLower(name) {
		letter, digit := r >= 'a' && r <= 'z' || r > 0x7F, r >= '0' && r <= '9'
		if !letter && !digit {
			r = '-'
		}
		if digit && last != 0 && last != '-' && (last < '0' || last > '9') {
			b.WriteByte('-')
		}
		if r == '-' && (last == 0 || last == '-') {
			continue
		}
		b.WriteRune(r)
		last = r
	}
	return strings.TrimSuffix(b.String(), "-")
}
