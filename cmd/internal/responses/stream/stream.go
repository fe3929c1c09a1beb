package stream

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"nexus/cmd/internal/provider"
	"nexus/cmd/internal/responses/wire"
	"nexus/turns"
)

// Event is an event of a response's stream.
type Event struct {
	Seq  int // from 0, one more each
	Type string
	Data []byte // its JSON, in one line; nil: held keeps it as what it is made from

	Of *WireEvent // of an event with the whole response, or with a long text
}

// maxHeldData is how long the JSON of an event may be that a flight keeps. A response repeats
// the instructions and tools of its request, in three or four events, and the end of an item
// repeats its text, in three: longer ones are made again from the one copy of those.
const maxHeldData = 16 << 10

// WithoutLong is e without JSON that can be made again, where that is long: as a flight keeps it.
func (e Event) WithoutLong() Event {
	if e.Of != nil && len(e.Data) > maxHeldData {
		e.Data = nil
	}
	return e
}

// SharedBytes is about what e keeps besides its JSON that nothing else has.
func (e Event) SharedBytes() (n int64) {
	if e.Of == nil || e.Data != nil {
		return 0
	}
	n = int64(len(e.Of.Item))
	if e.Of.Delta != nil {
		n += int64(len(*e.Of.Delta))
	}
	if e.Of.Response != nil {
		for _, it := range e.Of.Response.Output {
			n += int64(len(it))
		}
	}
	return n
}

// Whole is e with its JSON.
func (e Event) Whole() Event {
	if e.Data == nil && e.Of != nil {
		e.Data = wire.Encode(e.Of)
	}
	return e
}

// isTerminal reports whether e ends a response.
func (e *Event) isTerminal() bool {
	switch e.Type {
	case "response.completed", "response.incomplete", "response.failed":
		return true
	}
	return false
}

// WireEvent has the members of all kinds of events.
type WireEvent struct {
	Type           string         `json:"type"`
	SequenceNumber int            `json:"sequence_number"`
	Response       *wire.Response `json:"response,omitzero"`
	OutputIndex    *int           `json:"output_index,omitzero"`
	ItemID         string         `json:"item_id,omitzero"`
	ContentIndex   *int           `json:"content_index,omitzero"`
	SummaryIndex   *int           `json:"summary_index,omitzero"`
	Item           turns.Raw      `json:"item,omitzero"`
	Part           *wire.TextPart `json:"part,omitzero"`
	Delta          *string        `json:"delta,omitzero"`
	Text           *string        `json:"text,omitzero"`
	Refusal        *string        `json:"refusal,omitzero"`
	Name           string         `json:"name,omitzero"`
	Arguments      *string        `json:"arguments,omitzero"`
	Logprobs       []turns.Raw    `json:"logprobs,omitzero"`

	// Of an error: nested as the specification has it, flat as OpenAI does.
	Error   *wire.ErrorBody `json:"error,omitzero"`
	Code    *string         `json:"code,omitzero"`
	Message string          `json:"message,omitzero"`
	Param   *string         `json:"param,omitzero"`
}

// maxDeltas is how many deltas of a response are passed on as they come. Later ones are
// joined to pieces of joinedBytes, so that what an answer's turn says of its stream is bounded.
const (
	maxDeltas   = 16384
	joinedBytes = 1024
)

// Emitter makes the events of a response of what a provider sends. The same input makes
// the same events: so the stream of a stored answer is made again of its turn.
type Emitter struct {
	ref     turns.Ref
	choice  wire.ToolChoice
	out     func(Event) error
	Include bool      // encrypted reasoning is part of items
	Front   wire.Item // the compaction item before those of the model; nil: none

	Seq    int
	Parts  map[int]*outPart // by the provider's index
	order  []*outPart       // those that are items, in the order of their beginning
	Ops    []byte           // what came, for replay: see [emitter.op]
	deltas int
}

// outPart is a part of the answer while it comes.
type outPart struct {
	index   int // of the part in the answer
	output  int // of the item: one more behind a compaction item
	from    int // the provider's
	kind    turns.PartType
	id      string
	name    string
	item    string // its id
	dropped bool   // a call that the request does not allow
	begun   bool   // its content part was announced
	refusal bool
	text    strings.Builder
	sums    []*strings.Builder
	pending strings.Builder // deltas to be joined
	final   *turns.Part
}

func NewEmitter(ref turns.Ref, choice wire.ToolChoice, encrypted bool, out func(Event) error) *Emitter {
	return &Emitter{ref: ref, choice: choice, Include: encrypted, out: out, Parts: make(map[int]*outPart)}
}

func (e *Emitter) send(w WireEvent) error {
	w.SequenceNumber = e.Seq
	b, err := turns.EncodeJSON(w)
	if err != nil {
		return fmt.Errorf("event %s: %w", w.Type, err)
	}
	ev := Event{Seq: e.Seq, Type: w.Type, Data: b}
	if w.Response != nil || len(b) > maxHeldData {
		kept := w
		ev.Of = &kept
	}
	e.Seq++
	return e.out(ev)
}

func (e *Emitter) Lifecycle(kind string, r *wire.Response) error {
	return e.send(WireEvent{Type: kind, Response: r})
}

// Fail sends the events of a response that failed.
func (e *Emitter) Fail(cause *wire.Error, r *wire.Response) error {
	b := cause.Body()
	if err := e.send(WireEvent{Type: "error", Error: &b, Code: b.Code, Message: b.Message, Param: b.Param}); err != nil {
		return err
	}
	return e.Lifecycle("response.failed", r)
}

// Operations of a stream, as a turn keeps them: what happened, to which item, and how long the delta was.
const (
	opBegin = iota
	opDelta
	opRefusal
	opSummary
	opEnd
)

func (e *Emitter) op(kind byte, p *outPart, numbers ...int) {
	e.Ops = append(e.Ops, kind)
	e.Ops = binary.AppendUvarint(e.Ops, uint64(p.index))
	for _, n := range numbers {
		e.Ops = binary.AppendUvarint(e.Ops, uint64(n))
	}
}

// Take passes on what a provider sent.
func (e *Emitter) Take(ev provider.Event) error {
	if err := check(ev); err != nil {
		return err
	}
	p := e.Parts[ev.Index]
	if p == nil {
		if p = e.begin(ev); p.dropped {
			return nil
		}
		if err := e.added(p); err != nil {
			return err
		}
	}
	if p.dropped || p.final != nil {
		return nil
	}
	switch ev.Kind {
	case provider.Begin:
		return nil
	case provider.Delta:
		if ev.Text == "" {
			return nil
		}
		return e.delta(p, ev.Text)
	case provider.RefusalDelta:
		p.refusal = true
		return e.delta(p, ev.Text)
	case provider.SummaryDelta:
		return e.summary(p, ev.Summary, ev.Text)
	case provider.End:
		return e.end(p, ev.Part)
	}
	return fmt.Errorf("a provider's event of kind %d", ev.Kind)
}

// check refuses what no turn could hold, before a client sees it.
func check(ev provider.Event) error {
	if !utf8.ValidString(ev.Text) || !utf8.ValidString(ev.ID) || !utf8.ValidString(ev.Name) {
		return fmt.Errorf("%w: a provider's event is not UTF-8", turns.ErrMalformed)
	}
	if ev.Kind != provider.End || ev.Part == nil {
		return nil
	}
	m := turns.Message{Role: turns.Assistant, Parts: []turns.Part{*ev.Part}}
	return m.Validate("/answer")
}

func (e *Emitter) begin(ev provider.Event) *outPart {
	p := &outPart{index: len(e.order), from: ev.Index, kind: ev.Type, id: ev.ID, name: ev.Name, refusal: ev.Kind == provider.RefusalDelta}
	if p.kind == "" && ev.Part != nil {
		p.kind, p.id, p.name = ev.Part.Type, ev.Part.ID, ev.Part.Name
	}
	e.Parts[ev.Index] = p
	if p.kind == turns.ToolCall && e.choice.Forbids(p.name) {
		p.dropped = true
		return p
	}
	e.order = append(e.order, p)
	if p.output = p.index; e.Front != nil {
		p.output++
	}
	switch p.kind {
	case turns.ToolCall:
		p.item = wire.ItemID("function_call", e.ref, wire.OutputHalf, p.index)
	case turns.Reasoning:
		p.item = wire.ItemID("reasoning", e.ref, wire.OutputHalf, p.index)
	default:
		p.item = wire.ItemID("message", e.ref, wire.OutputHalf, p.index)
	}
	e.op(opBegin, p)
	return p
}

func (e *Emitter) added(p *outPart) error {
	var item turns.Raw
	switch p.kind {
	case turns.ToolCall:
		item = wire.Encode(wire.CallItem{Type: "function_call", ID: p.item, CallID: p.id, Name: p.name, Status: wire.InProgress})
	case turns.Reasoning:
		item = wire.Encode(wire.ReasoningItem{Type: "reasoning", ID: p.item, Summary: []wire.TextPart{}})
	default:
		item = wire.Encode(wire.MessageItem{Type: "message", ID: p.item, Status: wire.InProgress, Role: "assistant", Content: []turns.Raw{}})
	}
	return e.send(WireEvent{Type: "response.output_item.added", OutputIndex: &p.output, Item: item})
}

var first = 0 // the index of an item's only content part, and that of a compaction item

// content is the content part of p with a text.
func (p *outPart) content(text string) *wire.TextPart {
	var c wire.TextPart
	switch {
	case p.kind == turns.Reasoning:
		c = wire.TextPart{Type: "reasoning_text", Text: &text}
	case p.refusal:
		c = wire.RefusalPart(text)
	default:
		c = wire.OutputText(text)
	}
	return &c
}

// open announces the content part of p before its first delta.
func (e *Emitter) open(p *outPart) error {
	if p.begun || p.kind == turns.ToolCall {
		return nil
	}
	p.begun = true
	return e.send(WireEvent{Type: "response.content_part.added", OutputIndex: &p.output, ItemID: p.item, ContentIndex: &first, Part: p.content("")})
}

func (e *Emitter) delta(p *outPart, text string) error {
	if e.deltas >= maxDeltas {
		if p.pending.WriteString(text); p.pending.Len() < joinedBytes {
			return nil
		}
		text = p.pending.String()
		p.pending.Reset()
	}
	return e.pass(p, text)
}

// flush passes on the deltas that were joined.
func (e *Emitter) flush(p *outPart) error {
	text := p.pending.String()
	if p.pending.Reset(); text == "" {
		return nil
	}
	return e.pass(p, text)
}

func (e *Emitter) pass(p *outPart, text string) error {
	e.deltas++
	kind := byte(opDelta)
	if p.refusal {
		kind = opRefusal
	}
	e.op(kind, p, len(text))
	if err := e.open(p); err != nil {
		return err
	}
	p.text.WriteString(text)
	w := WireEvent{OutputIndex: &p.output, ItemID: p.item, ContentIndex: &first, Delta: &text}
	switch {
	case p.kind == turns.ToolCall:
		w.Type, w.ContentIndex = "response.function_call_arguments.delta", nil
	case p.kind == turns.Reasoning:
		w.Type = "response.reasoning.delta"
	case p.refusal:
		w.Type = "response.refusal.delta"
	default:
		w.Type, w.Logprobs = "response.output_text.delta", []turns.Raw{}
	}
	return e.send(w)
}

func (e *Emitter) summary(p *outPart, n int, text string) error {
	const most = 1024
	if p.kind != turns.Reasoning || n < 0 || n > len(p.sums) || n >= most {
		return fmt.Errorf("a provider's summary %d of a %s part with %d", n, p.kind, len(p.sums))
	}
	e.op(opSummary, p, n, len(text))
	if n == len(p.sums) {
		if n > 0 {
			if err := e.endSummary(p, n-1); err != nil {
				return err
			}
		}
		p.sums = append(p.sums, new(strings.Builder))
		if err := e.send(WireEvent{Type: "response.reasoning_summary_part.added", OutputIndex: &p.output, ItemID: p.item, SummaryIndex: &n, Part: summaryPart("")}); err != nil {
			return err
		}
	}
	p.sums[n].WriteString(text)
	if text == "" {
		return nil
	}
	return e.send(WireEvent{Type: "response.reasoning_summary_text.delta", OutputIndex: &p.output, ItemID: p.item, SummaryIndex: &n, Delta: &text})
}

func summaryPart(text string) *wire.TextPart {
	return &wire.TextPart{Type: "summary_text", Text: &text}
}

func (e *Emitter) endSummary(p *outPart, n int) error {
	text := p.sums[n].String()
	if err := e.send(WireEvent{Type: "response.reasoning_summary_text.done", OutputIndex: &p.output, ItemID: p.item, SummaryIndex: &n, Text: &text}); err != nil {
		return err
	}
	return e.send(WireEvent{Type: "response.reasoning_summary_part.done", OutputIndex: &p.output, ItemID: p.item, SummaryIndex: &n, Part: summaryPart(text)})
}

// end ends an item. What the provider did not stream of it comes as one delta before.
func (e *Emitter) end(p *outPart, final *turns.Part) error {
	if final == nil {
		return fmt.Errorf("a provider ended part %d without it", p.from)
	}
	p.final = final
	if err := e.flush(p); err != nil {
		return err
	}
	whole := contentText(final)
	if p.text.Len() == 0 && whole != "" && len(p.sums) == 0 {
		if err := e.pass(p, whole); err != nil {
			return err
		}
	}
	e.op(opEnd, p)
	if n := len(p.sums); n > 0 {
		if err := e.endSummary(p, n-1); err != nil {
			return err
		}
	}
	if p.kind == turns.Text {
		if err := e.open(p); err != nil { // an empty text has its content part too
			return err
		}
	}
	if p.kind == turns.ToolCall || p.begun {
		if err := e.done(p, whole); err != nil {
			return err
		}
	}
	return e.send(WireEvent{Type: "response.output_item.done", OutputIndex: &p.output, Item: wire.OutputItemOf(e.ref, p.index, final, e.mark(p), e.Include)})
}

// done ends the content of an item.
func (e *Emitter) done(p *outPart, whole string) error {
	w := WireEvent{OutputIndex: &p.output, ItemID: p.item, ContentIndex: &first}
	switch {
	case p.kind == turns.ToolCall:
		w.Type, w.ContentIndex, w.Name, w.Arguments = "response.function_call_arguments.done", nil, p.name, &whole
		return e.send(w)
	case p.kind == turns.Reasoning:
		w.Type, w.Text = "response.reasoning.done", &whole
	case p.refusal:
		w.Type, w.Refusal = "response.refusal.done", &whole
	default:
		w.Type, w.Text, w.Logprobs = "response.output_text.done", &whole, []turns.Raw{}
	}
	if err := e.send(w); err != nil {
		return err
	}
	return e.send(WireEvent{Type: "response.content_part.done", OutputIndex: &p.output, ItemID: p.item, ContentIndex: &first, Part: p.content(whole)})
}

// contentText is what the deltas of a part add up to.
func contentText(p *turns.Part) string {
	if p.Type == turns.ToolCall {
		return wire.ArgumentText(p)
	}
	return p.Content
}

// mark is what the part of an item does not say of it.
func (e *Emitter) mark(p *outPart) (k wire.Mark) {
	if p.refusal {
		k.Kind = "refusal"
	}
	for _, s := range p.sums {
		k.Sum = append(k.Sum, s.String())
	}
	if said := p.text.String(); p.final != nil && said != contentText(p.final) && (said != "" || len(p.sums) == 0) {
		k.Said = &said
	}
	return k
}

// Marks are those of all items.
func (e *Emitter) Marks() []wire.Mark {
	out := make([]wire.Mark, len(e.order))
	for i, p := range e.order {
		out[i] = e.mark(p)
	}
	return out
}

// Finish ends what a provider began and did not end, and returns the message of the
// answer: its parts in the order of the items, without the calls that were not allowed.
func (e *Emitter) Finish(m turns.Message) (turns.Message, error) {
	for i := range m.Parts {
		part := &m.Parts[i]
		if p := e.Parts[i]; p != nil && (p.dropped || p.final != nil) {
			continue
		}
		for _, kind := range []provider.Kind{provider.Begin, provider.End} {
			if err := e.Take(provider.Event{Kind: kind, Index: i, Type: part.Type, ID: part.ID, Name: part.Name, Part: part}); err != nil {
				return m, err
			}
		}
	}
	out := turns.Message{Role: turns.Assistant, FinishReason: m.FinishReason, Name: m.Name}
	for _, p := range e.order {
		if p.from >= len(m.Parts) || p.final == nil {
			return m, fmt.Errorf("the provider streamed part %d, and its answer has %d", p.from, len(m.Parts))
		}
		out.Parts = append(out.Parts, m.Parts[p.from])
	}
	return out, nil
}

// Replay makes the stream of a stored answer again: m is its message, marks and ops are
// those of its meta. Without ops, each part is one delta.
func (e *Emitter) Replay(m *turns.Message, marks []wire.Mark, ops string) error {
	said := func(i int) string {
		if i < len(marks) && marks[i].Said != nil {
			return *marks[i].Said
		}
		return contentText(&m.Parts[i])
	}
	b, err := base64.RawStdEncoding.DecodeString(ops)
	if err != nil || len(b) == 0 {
		b = e.coarse(m, marks)
	}
	rest, sums := make([]string, len(m.Parts)), make([]map[int]string, len(m.Parts))
	for i := range m.Parts {
		rest[i], sums[i] = said(i), make(map[int]string)
		if i < len(marks) {
			for n, s := range marks[i].Sum {
				sums[i][n] = s
			}
		}
	}
	number := func() int {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > turns.MaxBody {
			err = fmt.Errorf("%w: the stream of a stored answer can't be read", turns.ErrCorrupt)
			return 0
		}
		b = b[n:]
		return int(v)
	}
	cut := func(s string, n int) (string, string) {
		n = min(n, len(s))
		return s[:n], s[n:]
	}
	for len(b) > 0 && err == nil {
		kind := b[0]
		b = b[1:]
		i := number()
		if i >= len(m.Parts) {
			return fmt.Errorf("%w: the stream of a stored answer names part %d of %d", turns.ErrCorrupt, i, len(m.Parts))
		}
		part := &m.Parts[i]
		ev := provider.Event{Index: i, Type: part.Type, ID: part.ID, Name: part.Name}
		switch kind {
		case opBegin:
			ev.Kind = provider.Begin
		case opDelta, opRefusal:
			ev.Kind = provider.Delta
			if kind == opRefusal {
				ev.Kind = provider.RefusalDelta
			}
			ev.Text, rest[i] = cut(rest[i], number())
		case opSummary:
			ev.Kind, ev.Summary = provider.SummaryDelta, number()
			ev.Text, sums[i][ev.Summary] = cut(sums[i][ev.Summary], number())
		case opEnd:
			ev.Kind, ev.Part = provider.End, part
		}
		if err == nil {
			err = e.takeStored(ev)
		}
	}
	return err
}

// Announce emits the events before the model is asked: a compaction item comes before the
// items of the model. A response in the background is queued first.
func (e *Emitter) Announce(echo *wire.Response, background bool) error {
	kinds := []string{"response.created", "response.in_progress"}
	if background {
		kinds = []string{"response.created", "response.queued", "response.in_progress"}
	}
	for i, k := range kinds {
		r := *echo
		if background && i < 2 {
			r.Status = wire.Queued
		}
		if err := e.Lifecycle(k, &r); err != nil {
			return err
		}
	}
	if e.Front == nil {
		return nil
	}
	for _, k := range []string{"response.output_item.added", "response.output_item.done"} {
		if err := e.send(WireEvent{Type: k, OutputIndex: &first, Item: e.Front}); err != nil {
			return err
		}
	}
	return nil
}

// takeStored is take for what was emitted before: deltas are as long as they were.
func (e *Emitter) takeStored(ev provider.Event) error {
	if err := check(ev); err != nil {
		return err
	}
	if p := e.Parts[ev.Index]; p != nil && (ev.Kind == provider.Delta || ev.Kind == provider.RefusalDelta) {
		p.refusal = ev.Kind == provider.RefusalDelta
		return e.pass(p, ev.Text)
	}
	return e.Take(ev)
}

// coarse is the operations of an answer whose own are not kept.
func (e *Emitter) coarse(m *turns.Message, marks []wire.Mark) []byte {
	c := NewEmitter(e.ref, e.choice, false, func(Event) error { return nil })
	for i := range m.Parts {
		p := &outPart{index: i}
		c.op(opBegin, p)
		if i < len(marks) {
			for n, s := range marks[i].Sum {
				c.op(opSummary, p, n, len(s))
			}
		}
		if text := contentText(&m.Parts[i]); text != "" && (i >= len(marks) || len(marks[i].Sum) == 0) {
			kind := byte(opDelta)
			if i < len(marks) && marks[i].Kind == "refusal" {
				kind = opRefusal
			}
			c.op(kind, p, len(text))
		}
		c.op(opEnd, p)
	}
	return c.Ops
}

// Sse writes events to a client.
type Sse struct {
	W     http.ResponseWriter
	begun bool
}

// Send writes an event at once, with the blank line that ends it: some clients read events
// by reads of the connection.
func (s *Sse) Send(e Event) error {
	s.Begin()
	return s.write("event: " + e.Type + "\ndata: " + string(e.Data) + "\n\n")
}

// KeepAlive writes a comment, which clients skip: what stands between, such as a proxy, closes
// a connection that is quiet while a model thinks.
func (s *Sse) KeepAlive() error {
	s.Begin()
	return s.write(": keep-alive\n\n")
}

func (s *Sse) Begin() {
	if s.begun {
		return
	}
	s.begun = true
	h := s.W.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	s.W.WriteHeader(http.StatusOK)
}

func (s *Sse) write(text string) error {
	wire.AllowWrite(s.W)
	if _, err := s.W.Write([]byte(text)); err != nil {
		return err
	}
	return http.NewResponseController(s.W).Flush()
}

// End says that no event follows.
func (s *Sse) End() error {
	s.Begin()
	return s.write("data: [DONE]\n\n")
}
