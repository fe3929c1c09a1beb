package interchange

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"nexus/turns"
)

// otelHistory is a conversation that is read from spans. Each span is a call of
// the model with the whole history before it: what of that is a turn already is
// found by its digest, so that a span adds what is new, and a fork where the
// history is another from some turn on.
type otelHistory struct {
	key           string
	turnByHistory map[otelDigest]turns.Ref // the turn that ends with a history
	tips          map[turns.ID]turns.ID    // last turn of each session
	called        map[string]bool
	unanswered    *otelCall // the last call, where it has no answer
}

// otelDigest is the digest of a history: of all its messages, in order.
type otelDigest [sha256.Size]byte

// with returns the digest of the history followed by m. It leaves out reasoning, which the
// history of a later call may lack, and the finish reason.
func (d otelDigest) with(m turns.Message) otelDigest {
	m.FinishReason, m.Name = "", ""
	m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p turns.Part) bool { return p.Type == turns.Reasoning })
	b, err := turns.EncodeJSON(m)
	if err != nil { // it was read from JSON
		return d
	}
	return sha256.Sum256(append(d[:], b...))
}

// otelCall is one call of the model.
type otelCall struct {
	span     otelSpan
	system   []turns.Section
	tools    []turns.Raw
	model    string
	messages []turns.Message
	response *turns.Message // nil: no answer
	usage    *turns.Usage

	continues turns.Ref  // where it goes on, where it has no answer
	digest    otelDigest // of its history
}

// span emits the steps of one span, and counts a span that is no call of a model. in is
// the digest of the JSON value that holds the span.
func (c *chatReader) span(s otelSpan, in [sha256.Size]byte) {
	oldIn, oldOut, others := s.readEvents()
	op := jsonText(s.remove("gen_ai.operation.name"))
	held := s.attrs["gen_ai.input.messages"] != nil || s.attrs["gen_ai.output.messages"] != nil || len(oldIn)+len(oldOut) > 0
	switch {
	case op != "" && !slices.Contains([]string{"chat", "generate_content", "text_completion"}, op):
		c.count("spans of operation " + op + ", which are no call of a model")
		return
	case !held:
		c.count("spans without messages")
		return
	}
	for _, name := range others {
		c.count("events of spans: " + name)
	}
	call, err := newOtelCall(s, oldIn, oldOut)
	if err != nil {
		c.loss.single = append(c.loss.single, Loss{Kind: "skipped", Reason: "a span that can't be read: " + err.Error(), Record: s.id})
		return
	}
	if call.more > 0 {
		c.count("further choices of a response")
	}
	key := jsonText(s.attrs["gen_ai.conversation.id"])
	for _, k := range []string{"conversation_id", "session_id", "id"} {
		if v := s.attrs[k]; v != nil && key == "" {
			key = jsonText(v)
		}
	}
	if key == "" {
		key = s.trace
	}
	if key == "" { // nothing says what it belongs to but what it stands in
		key = "sha256:" + hex.EncodeToString(in[:])
	}
	h := c.histories[key]
	if h == nil {
		if c.histories == nil {
			c.histories = make(map[string]*otelHistory)
		}
		h = &otelHistory{key: key, turnByHistory: make(map[otelDigest]turns.Ref), tips: make(map[turns.ID]turns.ID), called: make(map[string]bool)}
		c.histories[key], c.order = h, append(c.order, h)
	}
	c.call(h, &call.otelCall)
}

type otelRead struct {
	otelCall
	more int
}

func newOtelCall(s otelSpan, oldIn, oldOut []turns.Raw) (out otelRead, err error) {
	out.span = s
	read := func(name string, old []turns.Raw) ([]turns.Message, error) {
		if v := unquoted(s.remove(name)); v != nil {
			return otelMessages(v)
		}
		if len(old) == 0 {
			return nil, nil
		}
		b, err := turns.EncodeJSON(old)
		if err != nil {
			return nil, err
		}
		return FromOpenAI(b)
	}
	if out.messages, err = read("gen_ai.input.messages", oldIn); err != nil {
		return out, err
	}
	answers, err := read("gen_ai.output.messages", oldOut)
	if err != nil {
		return out, err
	}
	if len(answers) > 0 && answers[0].Role == turns.Assistant {
		out.response, out.more = &answers[0], len(answers)-1
	}
	if v := unquoted(s.remove("gen_ai.system_instructions")); v != nil {
		if out.system, err = sections(v); err != nil {
			return out, err
		}
	}
	for len(out.messages) > 0 && out.messages[0].Role == turns.System && out.system == nil {
		for _, p := range out.messages[0].Parts {
			out.system = append(out.system, turns.Section{Content: p.Content})
		}
		out.messages = out.messages[1:]
	}
	if v := unquoted(s.remove("gen_ai.tool.definitions")); v != nil {
		if err := turns.DecodeJSON(v, &out.tools); err != nil {
			return out, fmt.Errorf("tools: %w", err)
		}
	}
	out.model = jsonText(s.remove("gen_ai.response.model", "gen_ai.request.model"))
	number := func(names ...string) (n uint64) {
		_, _ = fmt.Sscan(jsonText(s.remove(names...)), &n)
		return n
	}
	u := turns.Usage{InputTokens: number("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"), OutputTokens: number("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
		CacheRead: number("gen_ai.usage.cache_read.input_tokens"), CacheCreation: number("gen_ai.usage.cache_creation.input_tokens")}
	if u != (turns.Usage{}) {
		out.usage = &u
	}
	return out, nil
}

// call emits the new turns of a call's history, and its response.
func (c *chatReader) call(h *otelHistory, k *otelCall) {
	h.unanswered = nil
	known, at, digest := 0, turns.Ref{}, otelDigest{}
	start := digest
	for i, m := range k.messages {
		digest = digest.with(m)
		if ref, ok := h.turnByHistory[digest]; ok {
			known, at, start = i+1, ref, digest
		}
	}
	if k.response != nil {
		if _, ok := h.turnByHistory[digest.with(*k.response)]; ok {
			c.count("calls that are in the file before")
			return
		}
	}
	var half []turns.Message
	for _, m := range k.messages[known:] {
		start = start.with(m)
		if m.Role == turns.Assistant {
			at = c.otelTurn(h, k, at, half, &m, start, false)
			half = nil
			continue
		}
		m.FinishReason = ""
		half = append(half, c.orphans(m, h.called, h.key)...)
	}
	if k.response != nil {
		c.otelTurn(h, k, at, half, k.response, start.with(*k.response), true)
		return
	}
	if len(half) > 0 {
		k.messages, h.unanswered = half, k
		h.unanswered.continues, h.unanswered.digest = at, start
	}
}

// otelTurn gives a turn after at; mine says that the span is the one which made
// it. Ids come from what was said, so that a file that begins later, with a
// history that another has, gives the same.
func (c *chatReader) otelTurn(h *otelHistory, k *otelCall, at turns.Ref, half []turns.Message, response *turns.Message, end otelDigest, mine bool) turns.Ref {
	hash := hex.EncodeToString(end[:])
	session := at.Session
	switch {
	case at.IsZero():
		session = turns.DeriveID(parseTime(nil), "otel", h.key, hash)
		o := &Open{ID: session, Time: k.span.time, Model: k.model, System: k.system, Tools: k.tools, Meta: otelMeta(map[string]any{"source": "otel", "conversation": h.key, "resource": k.span.resource})}
		c.step(Step{Open: o})
	case h.tips[session] != at.Turn:
		session = turns.DeriveID(parseTime(nil), "otel fork", h.key, hash)
		c.step(Step{Fork: &Fork{ID: session, At: at, Time: k.span.time, Meta: otelMeta(map[string]any{"source": "otel", "conversation": h.key})}})
	}
	a := &Append{Session: session, ID: turns.DeriveID(parseTime(nil), "otel turn", h.key, hash), Parent: at.Turn, Messages: nonNil(half), Response: response}
	if mine {
		a.Time, a.Model, a.Usage = k.span.time, k.model, k.usage
		rest := make(map[string]turns.Raw)
		for name, v := range k.span.attrs {
			if v.Kind() != 'n' {
				rest[name] = v
			}
		}
		a.Meta = otelMeta(map[string]any{"trace_id": k.span.trace, "span_id": k.span.id, "span": k.span.name, "attributes": rest})
		if a.Meta == nil {
			c.count(fmt.Sprintf("attributes of a span, more than the %d bytes that meta holds", maxMeta))
		}
	}
	if response != nil {
		for _, id := range response.Calls(nil) {
			h.called[id] = true
		}
	}
	c.step(Step{Append: a})
	ref := turns.Ref{Session: session, Turn: a.ID}
	h.turnByHistory[end], h.tips[session] = ref, a.ID
	return ref
}

// otelMeta is a meta object without the members that are empty; nil where it is
// larger than meta may be.
func otelMeta(m map[string]any) turns.Raw {
	for k, v := range m {
		if s, ok := v.(string); ok && s == "" {
			delete(m, k)
		}
		if r, ok := v.(map[string]turns.Raw); ok && len(r) == 0 {
			delete(m, k)
		}
	}
	b, err := turns.EncodeJSON(m)
	if err != nil || len(b) > maxMeta {
		return nil
	}
	return b
}

// endSpans reads the end of the file: calls without a response.
func (c *chatReader) endSpans() {
	for _, h := range c.order {
		k := h.unanswered
		switch h.unanswered = nil; {
		case k == nil:
		case c.opt.Final:
			k.response = nil
			c.otelTurn(h, k, k.continues, k.messages, nil, k.digest, true)
		default:
			c.loss.single = append(c.loss.single, Loss{Kind: "skipped", Reason: "messages at the end without an answer; --final takes them", Count: len(k.messages), Record: h.key})
		}
	}
	c.order = nil
}

// count adds to the loss report, by reason.
func (c *chatReader) count(reason string) {
	l := &c.loss.single
	i := slices.IndexFunc(*l, func(l Loss) bool { return l.Reason == reason && l.Record == "" })
	if i < 0 {
		i, *l = len(*l), append(*l, Loss{Kind: "skipped", Reason: strings.ToValidUTF8(reason, "")})
	}
	(*l)[i].Count++
}
