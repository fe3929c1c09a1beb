package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"nexus/turns"
	"nexus/turns/internal/values"
)

// chatMessage is what the JSON of a message says beside the message.
type chatMessage struct {
	role    string
	id      string    // zero values: not stated
	time    time.Time // when it was written
	model   string
	usage   *turns.Usage
	details turns.UsageDetails
	digest  [sha256.Size]byte // of the JSON, however it is spaced
}

// turnMembers are the members of a message that its turn holds.
var turnMembers = []string{"id", "timestamp", "created_at", "created", "time", "model", "usage", "usage_metadata", "usageMetadata"}

// readChatMessages reads what messages say beside the messages. A message that can't be read
// is the zero one.
func readChatMessages(raw turns.Raw) []chatMessage {
	var list []turns.Raw
	if turns.DecodeJSON(raw, &list) != nil {
		return nil
	}
	out := make([]chatMessage, len(list))
	for i, b := range list {
		v := jsontext.Value(slices.Clone(b))
		if v.Canonicalize() != nil {
			v = jsontext.Value(b)
		}
		m := &out[i]
		m.digest = sha256.Sum256(v)
		var members map[string]turns.Raw
		if values.Decode(b, &members) != nil {
			continue
		}
		m.role, m.id = values.Text(members["role"]), textMember(members, "id")
		m.model = textMember(members, "model")
		m.time = chatTime(members)
		m.usage, m.details = chatUsage(firstMember(members, "usage", "usage_metadata", "usageMetadata"))
	}
	return out
}

func firstMember(members map[string]turns.Raw, names ...string) turns.Raw {
	for _, n := range names {
		if v := members[n]; v != nil && v.Kind() != 'n' {
			return v
		}
	}
	return nil
}

func textMember(members map[string]turns.Raw, name string) string {
	s, _ := members[name].Text()
	return s
}

// chatTime returns the time that an object states of itself, zero for none.
func chatTime(members map[string]turns.Raw) time.Time {
	for _, n := range []string{"timestamp", "created_at", "created", "time"} {
		if v := members[n]; v != nil {
			if t := values.ParseTime(v); t.Year() > 2000 {
				return t
			}
		}
	}
	return time.Time{}
}

// chatUsage reads usage as a provider's response states it: of OpenAI (chat completions and
// responses) and those who copy it, Anthropic, Gemini, and LangChain; nil for another
// object. Input tokens of Anthropic are without those of the cache, all others with.
func chatUsage(raw turns.Raw) (*turns.Usage, turns.UsageDetails) {
	var u struct {
		Prompt     uint64 `json:"prompt_tokens"`
		Completion uint64 `json:"completion_tokens"`
		Input      uint64 `json:"input_tokens"`
		Output     uint64 `json:"output_tokens"`
		CacheRead  uint64 `json:"cache_read_input_tokens"`
		CacheWrite uint64 `json:"cache_creation_input_tokens"`
		Hit        uint64 `json:"prompt_cache_hit_tokens"` // DeepSeek
		Cached     struct {
			Cached uint64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		InputCached struct {
			Cached uint64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		LangChain *struct {
			Read  uint64 `json:"cache_read"`
			Write uint64 `json:"cache_creation"`
		} `json:"input_token_details"`
		Reasoning struct {
			Tokens uint64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
		OutputReasoning struct {
			Tokens uint64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
		GeminiPrompt     uint64 `json:"promptTokenCount"`
		GeminiCandidates uint64 `json:"candidatesTokenCount"`
		GeminiThoughts   uint64 `json:"thoughtsTokenCount"`
		GeminiCached     uint64 `json:"cachedContentTokenCount"`
	}
	if raw.Kind() != '{' || values.Decode(raw, &u) != nil {
		return nil, turns.UsageDetails{}
	}
	out := turns.Usage{
		InputTokens: u.Prompt + u.Input + u.GeminiPrompt, OutputTokens: u.Completion + u.Output + u.GeminiCandidates + u.GeminiThoughts,
		CacheRead: u.CacheRead, CacheCreation: u.CacheWrite,
	}
	if u.Input > 0 || u.Prompt == 0 { // Anthropic; who reports both dialects counts them in prompt_tokens
		out.InputTokens += u.CacheRead + u.CacheWrite
	}
	if out.CacheRead == 0 {
		out.CacheRead = max(u.Hit, u.Cached.Cached, u.InputCached.Cached, u.GeminiCached)
	}
	if l := u.LangChain; l != nil {
		out.CacheRead, out.CacheCreation = max(out.CacheRead, l.Read), max(out.CacheCreation, l.Write)
	}
	if u.Prompt > 0 && u.Input > 0 { // one dialect beside the other
		out.InputTokens, out.OutputTokens = max(u.Prompt, u.Input), max(u.Completion, u.Output)
	}
	if out == (turns.Usage{}) {
		return nil, turns.UsageDetails{}
	}
	return &out, turns.UsageDetails{Reasoning: max(u.Reasoning.Tokens, u.OutputReasoning.Tokens, u.GeminiThoughts)}
}

// isOwnID reports whether a conversation's id is of no other conversation, by its form.
func isOwnID(id string) bool {
	return uuid.Validate(id) == nil || len(id) >= 16 && strings.ContainsAny(id, "0123456789") && strings.IndexFunc(id, func(r rune) bool { return r <= ' ' }) < 0
}

// chatAnchors names the turns of a conversation, by their order: each by the id of its
// response, else by the digest of the response and the message before it, and its
// occurrence among equals.
type chatAnchors map[string]int

func (c *chatAnchors) name(response, before *chatMessage) string {
	name := response.id
	if name == "" {
		h := sha256.New()
		if before != nil {
			h.Write(before.digest[:])
		}
		h.Write(response.digest[:])
		name = "sha256:" + hex.EncodeToString(h.Sum(nil))
	}
	if *c == nil {
		*c = make(chatAnchors)
	}
	if (*c)[name]++; (*c)[name] > 1 {
		name += " " + strconv.Itoa((*c)[name])
	}
	return name
}
