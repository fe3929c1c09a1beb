package render

import (
	"slices"

	"github.com/go-json-experiment/json"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/tokens"
)

// signatures are the members of a part's ext, below a provider's name, that only the model
// which made the part can read: Anthropic's signature and data, Gemini's thoughtSignature,
// and what pi recorded of each. OpenAI's is an item: see isReasoningItem.
var signatures = []string{"signature", "data", "thoughtSignature", "thinkingSignature", "textSignature"}

// WithoutForeignSignatures returns a message that the model signer made as another model
// may be sent it. Anthropic refuses the thinking of another of its models, Gemini validates
// a thoughtSignature, and OpenAI's encrypted reasoning is opaque to all but its maker; so
// each signature goes, and the renderers leave out what needs one. Texts and calls stay.
// Where either model is not known, nothing shows that a signature is another's, and it stays. m
// is not changed.
func WithoutForeignSignatures(m turns.Message, signer, model string) turns.Message {
	if m.Role != turns.Assistant || !IsForeign(signer, model) {
		return m
	}
	var parts []turns.Part
	for i := range m.Parts {
		p, signed := withoutSignature(m.Parts[i])
		if signed && parts == nil {
			parts = slices.Clone(m.Parts[:i])
		}
		switch {
		case parts == nil:
		case signed && p.Type == turns.Reasoning && p.Content == "" && p.Ref == nil && p.Ext == nil: // nothing is left of it
		default:
			parts = append(parts, p)
		}
	}
	if parts != nil {
		m.Parts = parts
	}
	return m
}

// IsForeign reports whether model can't read what signer signed: both are known, and are two
// models.
func IsForeign(signer, model string) bool {
	return signer != "" && model != "" && !tokens.SameModel(signer, model)
}

// withoutSignature returns p without the signatures in its ext, and whether it had one.
func withoutSignature(p turns.Part) (_ turns.Part, signed bool) {
	var ext map[string]turns.Raw
	if p.Ext == nil || json.Unmarshal(p.Ext, &ext) != nil {
		return p, false
	}
	for provider, raw := range ext {
		var members map[string]turns.Raw
		if raw.Kind() != '{' || json.Unmarshal(raw, &members) != nil {
			continue
		}
		n := len(members)
		for _, name := range signatures {
			if name != "data" || p.Type == turns.Reasoning {
				delete(members, name)
			}
		}
		if p.Type == turns.Reasoning && isReasoningItem(members["item"]) {
			delete(members, "item")
		}
		switch {
		case len(members) == n:
			continue
		case len(members) == 0:
			delete(ext, provider)
		default:
			ext[provider] = values.Encoded(members)
		}
		signed = true
	}
	if !signed {
		return p, false
	}
	p.Ext = nil
	if len(ext) > 0 {
		p.Ext = values.Encoded(ext)
	}
	return p, true
}

// isReasoningItem reports whether an item of OpenAI's is reasoning. A compaction is encrypted
// too, but without it the conversation before it would be gone.
func isReasoningItem(item turns.Raw) bool {
	var it struct {
		Type string `json:"type"`
	}
	return item.Kind() == '{' && json.Unmarshal(item, &it) == nil && it.Type == "reasoning"
}
