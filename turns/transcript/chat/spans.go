package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/render"
	"nexus/turns/transcript"
	"nexus/turns/transcript/otlp"
)

// otelHistory is a conversation that is read from spans. Each span is a call of the model.
// Most hold the whole history before it: what of that is a turn already is found by its
// digest, so that a span adds what is new, and a fork where the history is another from
// some turn on. A history may have lost its oldest messages: it goes on after the turn that
// it has in common with the conversation. Some hold only what is new since the last call.
//
// The id of a turn is derived from its own messages, and from its occurrence among equal
// turns on its path. So a file that begins later gives the same ids, whatever of the history
// its spans hold.
type otelHistory struct {
	key           string
	stated        bool                     // the source states the conversation; else it is a trace
	turnByHistory map[otelDigest]turns.Ref // the turn that ends with a history
	turnByAnswer  map[otelDigest]turns.Ref // the last turn with a response
	turns         map[turns.Ref]otelTurn
	equal         map[otelDigest]int        // turns by the digest of their own messages
	tips          map[turns.ID]turns.ID     // last turn of each session
	last          map[string]turns.Ref      // last turn of each agent
	open          map[string]*otelCall      // last call of each agent, where it has no answer
	spans         map[otelDigest]*otlp.Span // of turns, by their history
	called        map[string]bool
	calls         []*otelCall // read when the file has ended
}

// otelTurn is a turn of a history.
type otelTurn struct {
	before turns.Ref
	local  otelDigest // of its own messages
	end    otelDigest // of all messages up to it
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
	span     otlp.Span
	system   []turns.Section
	tools    []turns.Raw
	model    string
	messages []turns.Message
	response *turns.Message // nil: no answer
	usage    *turns.Usage
	details  turns.UsageDetails

	agent     string    // that made the call; empty: not stated
	more      int       // further choices of the response
	continues turns.Ref // where it goes on, where it has no answer
	half      []turns.Message
	digest    otelDigest // of its history
	local     otelDigest // of half
}

// span keeps a span until the file has ended, since spans are written when they end, and
// counts one that is no call of a model. in is the digest of the JSON value that holds the
// span.
func (c *chatReader) span(s otlp.Span, in [sha256.Size]byte) {
	oldIn, oldOut, others := s.ReadEvents()
	op := values.Text(s.Remove("gen_ai.operation.name"))
	held := s.Attributes["gen_ai.input.messages"] != nil || s.Attributes["gen_ai.output.messages"] != nil || len(oldIn)+len(oldOut) > 0
	switch {
	case op != "" && !slices.Contains([]string{"chat", "generate_content", "text_completion"}, op):
		c.count("spans of operation " + op + ", which are no call of a model")
		return
	case !held:
		c.count("spans without messages")
		if call, err := newOtelCall(s, nil, nil); err == nil && call.usage != nil && s.ID != "" {
			if c.counted == nil {
				c.counted = make(map[otelSpanKey]*otelCall)
			}
			c.counted[otelSpanKey{s.Trace, s.ID}] = call
		}
		return
	}
	for _, name := range others {
		c.count("events of spans: " + name)
	}
	call, err := newOtelCall(s, oldIn, oldOut)
	if err != nil {
		c.Loss.Add(0, "skipped", "a span that can't be read: "+err.Error(), s.ID)
		return
	}
	key := values.Text(s.Attributes["gen_ai.conversation.id"])
	for _, k := range []string{"conversation_id", "session_id", "id"} {
		if v := s.Attributes[k]; v != nil && key == "" {
			key = values.Text(v)
		}
	}
	stated := key != ""
	if key == "" {
		key = s.Trace
	}
	if key == "" { // nothing says what it belongs to but what it stands in
		key = "sha256:" + hex.EncodeToString(in[:])
	}
	h := c.histories[key]
	if h == nil {
		if c.histories == nil {
			c.histories = make(map[string]*otelHistory)
		}
		h = &otelHistory{key: key, stated: stated, turnByHistory: make(map[otelDigest]turns.Ref), turnByAnswer: make(map[otelDigest]turns.Ref), turns: make(map[turns.Ref]otelTurn), equal: make(map[otelDigest]int),
			tips: make(map[turns.ID]turns.ID), last: make(map[string]turns.Ref), open: make(map[string]*otelCall), spans: make(map[otelDigest]*otlp.Span), called: make(map[string]bool)}
		c.histories[key], c.order = h, append(c.order, h)
	}
	h.calls = append(h.calls, call)
}

// otelSpanKey names a span.
type otelSpanKey struct{ trace, id string }

// inOrder returns the calls that are to be read, in the order in which they began. A span that
// an exporter wrote again counts once. A span of which others are parts that are calls too
// repeats them.
func (h *otelHistory) inOrder(count func(string)) (out []*otelCall) {
	at, parents := make(map[otelSpanKey]int), make(map[otelSpanKey]otelSpanKey)
	for _, k := range h.calls {
		id := otelSpanKey{k.span.Trace, k.span.ID}
		if id.id == "" {
			out = append(out, k)
			continue
		}
		parents[id] = otelSpanKey{k.span.Trace, k.span.Parent}
		i, again := at[id]
		switch {
		case !again:
			at[id] = len(out)
			out = append(out, k)
		case out[i].response == nil && k.response != nil:
			out[i] = k
			fallthrough
		default:
			count("spans that are in the file before")
		}
	}
	whole := make(map[otelSpanKey]bool) // spans that have calls as parts
	for id := range parents {
		for up, n := parents[id], 0; up.id != "" && n < len(parents); n++ {
			whole[up] = true
			up = parents[up]
		}
	}
	out = slices.DeleteFunc(out, func(k *otelCall) bool {
		repeats := k.span.ID != "" && whole[otelSpanKey{k.span.Trace, k.span.ID}]
		if repeats {
			count("spans whose calls have spans of their own")
		}
		return repeats
	})
	slices.SortStableFunc(out, func(a, b *otelCall) int { return a.span.Start.Compare(b.span.Start) })
	return out
}

func newOtelCall(s otlp.Span, oldIn, oldOut []turns.Raw) (out *otelCall, err error) {
	out = new(otelCall)
	out.span = s
	read := func(name string, old []turns.Raw) ([]turns.Message, error) {
		if v := values.Unquoted(s.Remove(name)); v != nil {
			return otlp.Messages(v)
		}
		if len(old) == 0 {
			return nil, nil
		}
		b, err := turns.EncodeJSON(old)
		if err != nil {
			return nil, err
		}
		return render.FromOpenAI(b)
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
	if v := values.Unquoted(s.Remove("gen_ai.system_instructions")); v != nil {
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
	if v := values.Unquoted(s.Remove("gen_ai.tool.definitions")); v != nil {
		if err := turns.DecodeJSON(v, &out.tools); err != nil {
			return out, fmt.Errorf("tools: %w", err)
		}
	}
	for _, name := range []string{"gen_ai.agent.id", "gen_ai.agent.name"} {
		if v := s.Attributes[name]; v != nil && out.agent == "" {
			out.agent = values.Text(v)
		}
	}
	out.model = values.Text(s.Remove("gen_ai.response.model", "gen_ai.request.model"))
	number := func(names ...string) (n uint64) {
		_, _ = fmt.Sscan(values.Text(s.Remove(names...)), &n)
		return n
	}
	u := turns.Usage{InputTokens: number("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"), OutputTokens: number("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
		CacheRead: number("gen_ai.usage.cache_read.input_tokens"), CacheCreation: number("gen_ai.usage.cache_creation.input_tokens")}
	if u != (turns.Usage{}) {
		out.usage = &u
		out.details.Reasoning = number("gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens")
	}
	return out, nil
}

// call emits the new turns of a call's history, and its response.
func (c *chatReader) call(h *otelHistory, k *otelCall) {
	if k.more > 0 {
		c.count("further choices of a response")
	}
	before := h.open[k.agent]
	delete(h.open, k.agent)
	known, at, digest := 0, turns.Ref{}, otelDigest{}
	start := digest
	for i, m := range k.messages {
		digest = digest.with(m)
		if ref, ok := h.turnByHistory[digest]; ok {
			known, at, start = i+1, ref, digest
		}
	}
	if k.response != nil {
		if was := h.spans[digest.with(*k.response)]; was != nil && (known > 0 || !h.isLater(k, was)) {
			c.count("calls that are in the file before")
			return
		} else if _, ok := h.turnByHistory[digest.with(*k.response)]; ok && was == nil {
			c.count("calls that are in the file before")
			return
		}
	}
	var half []turns.Message
	local := otelDigest{}
	if last := h.last[k.agent]; known == 0 && len(h.turns) > 0 {
		switch i := slices.IndexFunc(k.messages, func(m turns.Message) bool { return m.Role == turns.Assistant }); {
		case i >= 0:
			if known, at = h.common(k.messages); known > 0 {
				start = h.turns[at].end
				c.count("calls whose history lacks the oldest messages of the conversation; the ledger shows them still")
			}
		case last.IsZero() || !h.stated && !isResults(k.messages):
		default: // only what is new
			at, start = last, h.turns[last].end
			if before != nil {
				half, start, local = before.half, before.digest, before.local
			}
		}
	}
	for _, m := range k.messages[known:] {
		start, local = start.with(m), local.with(m)
		if m.Role == turns.Assistant {
			at = c.otelTurn(h, k, at, half, &m, start, local, false)
			half, local = nil, otelDigest{}
			continue
		}
		m.FinishReason = ""
		half = append(half[:len(half):len(half)], c.orphans(m, h.called, h.key)...)
	}
	if k.response != nil {
		h.last[k.agent] = c.otelTurn(h, k, at, half, k.response, start.with(*k.response), local.with(*k.response), true)
		return
	}
	if len(half) > 0 {
		k.half, k.continues, k.digest, k.local = half, at, start, local
		h.open[k.agent] = k
	}
}

// completeHistories gives calls that hold only their newest messages the history before
// these, where a later call of the file holds it: so the same turn gets the same place,
// whatever of the earlier calls stands in the file.
func completeHistories(calls []*otelCall) {
	type turnEnd struct {
		in *otelCall
		n  int // messages up to the turn
		of int // messages of the turn
	}
	ends := make(map[otelDigest][]turnEnd)
	for _, k := range calls {
		if !hasAnswer(k.messages) {
			continue
		}
		local, of := otelDigest{}, 0
		for i, m := range k.messages {
			local, of = local.with(m), of+1
			if m.Role == turns.Assistant {
				ends[local] = append(ends[local], turnEnd{k, i + 1, of})
				local, of = otelDigest{}, 0
			}
		}
	}
	for _, k := range calls {
		if k.response == nil || len(k.messages) == 0 || hasAnswer(k.messages) {
			continue
		}
		local := otelDigest{}
		for _, m := range k.messages {
			local = local.with(m)
		}
		var found []turnEnd
		for _, e := range ends[local.with(*k.response)] {
			if e.in.agent == k.agent && !e.in.span.Start.Before(k.span.Start) {
				found = append(found, e)
			}
		}
		again := slices.ContainsFunc(found, func(e turnEnd) bool { return e.in == found[0].in && e.n != found[0].n })
		if len(found) == 0 || again { // which of several equal turns it is, the histories do not say
			continue
		}
		before := found[0].in.messages[:found[0].n-found[0].of]
		k.messages = slices.Concat(before, k.messages)
	}
}

func hasAnswer(ms []turns.Message) bool {
	return slices.ContainsFunc(ms, func(m turns.Message) bool { return m.Role == turns.Assistant })
}

// isLater reports whether a call began after the span was had ended, so that it is another
// call with the same words.
func (h *otelHistory) isLater(k *otelCall, was *otlp.Span) bool {
	return h.stated && k.span.ID != "" && k.span.ID != was.ID && k.span.Start.After(was.Time)
}

// isResults reports whether messages begin with the result of a tool: they go on from the
// call of it.
func isResults(ms []turns.Message) bool {
	return len(ms) > 0 && slices.ContainsFunc(ms[0].Parts, func(p turns.Part) bool { return p.Type == turns.ToolCallResponse })
}

// common returns how many of the messages the conversation has, and the last turn of them,
// for a history that has lost its oldest messages. What is left of its first turn is found by
// the answer; those after it must follow each other.
func (h *otelHistory) common(ms []turns.Message) (known int, at turns.Ref) {
	for i := range ms {
		if ms[i].Role != turns.Assistant {
			continue
		}
		ref, ok := h.turnByAnswer[otelDigest{}.with(ms[i])]
		if known == 0 && ok {
			known, at = i+1, ref
			continue
		}
		if known == 0 || !ok || h.turns[ref].before != at {
			break
		}
		known, at = i+1, ref
	}
	return known, at
}

// occurrence returns how many turns with the digest local are on the path up to at, and one
// more.
func (h *otelHistory) occurrence(local otelDigest, at turns.Ref) int {
	n := 1
	if h.equal[local]++; h.equal[local] == 1 {
		return n
	}
	for ; !at.IsZero(); at = h.turns[at].before {
		if h.turns[at].local == local {
			n++
		}
	}
	return n
}

// otelTurn gives a turn after at; mine says that the span is the one which made it. end is
// the digest of the history that it ends, and local that of its own messages.
func (c *chatReader) otelTurn(h *otelHistory, k *otelCall, at turns.Ref, half []turns.Message, response *turns.Message, end, local otelDigest, mine bool) turns.Ref {
	name := hex.EncodeToString(local[:])
	if n := h.occurrence(local, at); n > 1 {
		name += " " + strconv.Itoa(n)
	}
	if response == nil {
		name += " pending"
	}
	a := &transcript.Append{ID: turns.DeriveID(time.Time{}, "otel turn", h.key, name), Branch: turns.DeriveID(time.Time{}, "otel fork", h.key, name)}
	session := at.Session
	switch {
	case at.IsZero() && h.stated && len(h.turns) == 0:
		session = turns.DeriveID(time.Time{}, "otel", h.key)
		a.Continues = true
	case at.IsZero():
		session = turns.DeriveID(time.Time{}, "otel", h.key, name)
	case h.tips[session] != at.Turn:
		session = a.Branch
		c.Step(transcript.Step{Fork: &transcript.Fork{ID: session, At: at, Time: k.span.Time, Meta: otelMeta(map[string]any{"source": "otel", "conversation": h.key}), First: a.ID}})
	}
	if at.IsZero() {
		o := &transcript.Open{ID: session, Time: k.span.Time, Model: k.model, System: k.system, Tools: k.tools, Meta: otelMeta(map[string]any{"source": "otel", "conversation": h.key, "resource": k.span.Resource})}
		c.Step(transcript.Step{Open: o})
	}
	a.Session, a.Parent, a.Messages, a.Response = session, at.Turn, values.NonNil(half), response
	if mine {
		a.Time, a.Model, a.Usage = k.span.Time, k.model, k.usage
		rest := make(map[string]turns.Raw)
		for name, v := range k.span.Attributes {
			if v.Kind() != 'n' {
				rest[name] = v
			}
		}
		a.Meta = otelMeta(map[string]any{"trace_id": k.span.Trace, "span_id": k.span.ID, "span": k.span.Name, "attributes": rest})
		if a.Meta == nil {
			c.count(fmt.Sprintf("attributes of a span, more than the %d bytes that meta holds", values.MaxMeta))
		}
		a.Meta = values.WithUsage(a.Meta, k.details)
		h.spans[end] = &k.span
	} else if !k.span.Start.IsZero() { // it was said before this call
		a.Time, a.Meta = k.span.Start, values.WithTimeBound(nil, turns.TimeNotAfter)
	}
	a.Meta = values.WithProgramMessages(a.Meta, orphanMessages(half))
	ref := turns.Ref{Session: session, Turn: a.ID}
	if response != nil {
		for _, id := range response.Calls(nil) {
			h.called[id] = true
		}
		h.turnByAnswer[otelDigest{}.with(*response)] = ref
	}
	c.Step(transcript.Step{Append: a})
	h.turnByHistory[end], h.tips[session] = ref, a.ID
	h.turns[ref] = otelTurn{at, local, end}
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
	if err != nil || len(b) > values.MaxMeta {
		return nil
	}
	return b
}

// endSpans reads the end of the file: the calls of each conversation, then those without a
// response.
func (c *chatReader) endSpans() {
	for _, h := range c.order {
		calls := h.inOrder(c.count)
		if h.stated {
			completeHistories(calls)
		}
		for _, k := range calls {
			// The messages may stand in a record of the log, and the usage in its span.
			if counted := c.counted[otelSpanKey{k.span.Trace, k.span.ID}]; counted != nil && k.usage == nil {
				k.usage, k.details = counted.usage, counted.details
				if k.model == "" {
					k.model = counted.model
				}
			}
			c.call(h, k)
		}
		h.calls = nil
		for _, agent := range slices.Sorted(maps.Keys(h.open)) {
			k := h.open[agent]
			if !c.opt.Final {
				c.Loss.AddLoss(transcript.Loss{Kind: "skipped", Reason: "messages at the end without an answer; --final takes them", Count: len(k.half), Record: h.key})
				continue
			}
			k.response = nil
			c.otelTurn(h, k, k.continues, k.half, nil, k.digest, k.local, true)
		}
	}
	c.order, c.histories, c.counted = nil, nil, nil
}

// count adds to the loss report, by reason.
func (c *chatReader) count(reason string) {
	c.Loss.Count("skipped", strings.ToValidUTF8(reason, ""))
}
