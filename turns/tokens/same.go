package tokens

import "strings"

// SameModel reports whether two names mean one model: they differ in case, punctuation, a
// provider's prefix, or the date or version that a provider adds to a name. An empty name
// means no model that is known, and is the same as none.
func SameModel(a, b string) bool {
	x, y := bareModel(a), bareModel(b)
	return x != "" && x == y
}

// bareModel returns the key of a name without its provider and its date.
func bareModel(name string) string {
	name, _, _ = strings.Cut(name, "@") // Vertex: claude-opus-4-1@20250805
	if i := strings.LastIndexByte(name, ':'); i > 0 && strings.HasPrefix(name[i+1:], "0") {
		name = name[:i] // Bedrock: anthropic.claude-opus-4-1-20250805-v1:0
	}
	words := strings.Split(modelKey(name), "-")
	for len(words) > 1 && providerWord(words[0]) {
		words = words[1:]
	}
	// modelKey splits "v1" in two.
	if n := len(words); n > 3 && words[n-2] == "v" && len(words[n-1]) == 1 && isDate(words[n-3]) {
		words = words[:n-2]
	}
	switch n := len(words); {
	case n > 1 && (words[n-1] == "latest" || isDate(words[n-1])):
		words = words[:n-1]
	case n > 3 && isDate(words[n-3]+words[n-2]+words[n-1]):
		words = words[:n-3]
	}
	return strings.Join(words, "-")
}

// isDate reports whether s is a day of this century: 20250805.
func isDate(s string) bool {
	return len(s) == 8 && strings.HasPrefix(s, "20") && strings.Trim(s, "0123456789") == ""
}
