package view

import (
	"cmp"
	"fmt"
	"slices"

	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/tokens"
)

// lateText returns the text part that shows a response after its call was abandoned.
// It marks the text as late and quotes it, so that it stays data.
func lateText(p *turns.Part) turns.Part {
	name := summary.Escape(p.ID)
	if p.Name != "" {
		name += " (" + summary.Escape(p.Name) + ")"
	}
	return turns.TextPart("[Late: the result of tool call " + name + ", which was no longer waited for.]\n<late_result>\n" +
		summary.Escape(summary.ResultText(p)) + "\n</late_result>")
}

const whyPending = "the call waits for its response"

// Pending returns the tokens of the synthetic responses for calls that wait at the
// head. They disappear when the real responses arrive.
func (c Context) Pending() (n uint64) {
	for i := range c.Sources {
		if c.Sources[i].Why == whyPending {
			n += c.Sources[i].Tokens
		}
	}
	return n
}

// Render returns the context at the head of p, for the next model call: the
// replacement in force, then the kept halves in path order, elisions applied.
//
// Invariant: exactly one response follows each tool call at once. An abandoned or
// waiting call gets a marked synthetic response. A response that no call waits for
// becomes text, marked late, in a user message. Results come before the other
// content sent with them.
//
// Render is deterministic. When a turn is appended, the messages before the newest
// turn stay the same, unless the turn answers one of their calls. The messages share
// memory with the path. Error: [turns.ErrCorrupt] for elisions that do not fit their
// halves.
func Render(p Path, c tokens.Counter) (Context, error) {
	out, _, err := RenderAfter(nil, p, c)
	return out, err
}

// RenderAfter is [Render]. Where before is of the first halves of p, it renders those
// behind them only. It returns the rendering of p, nil if nothing can go on from it.
func RenderAfter(before *Rendering, p Path, c tokens.Counter) (Context, *Rendering, error) {
	r, from := before.resume(&p, c)
	if f := p.InForce; f != nil && from == 0 {
		n := len(f.Body.Elided)
		if n != len(f.Span.Elisions) && !f.Erased {
			return Context{}, nil, fmt.Errorf("%w: compaction %v: %d elisions, %d texts for them", turns.ErrCorrupt, f.Node.Ref, len(f.Span.Elisions), n)
		}
		if len(f.Body.Replacement) > 0 {
			r.source(Source{
				Turn: f.Node.Ref, Half: turns.ResponseHalf, Status: InSummary,
				Why: fmt.Sprintf("stands for everything before the cut, by %s", cmp.Or(f.Body.Tier, f.Span.Provenance.String())),
			}, -1)
			for _, m := range f.Body.Replacement {
				r.emit(m, 0)
			}
		}
	}
	rest := p
	rest.Halves = p.Halves[from:]
	shown, err := rest.ShownHalves()
	if err != nil {
		return Context{}, nil, err
	}
	n := len(r.out.Messages)
	for i := range shown {
		n += len(shown[i].Messages)
	}
	switch {
	case from > 0 && from == len(p.Halves): // nothing is added but the end
	case from > 0 && before.grown.CompareAndSwap(false, true):
	default:
		r.expect(n, len(shown)+len(r.out.Sources))
	}
	counted := c.Name() == p.CountedBy().Name()
	nudged := p.InForce == nil || len(p.InForce.Body.Nudge) == 0
	for i := range shown {
		if !nudged && shown[i].Depth > p.InForce.Node.Depth {
			r.nudge(p.InForce, from+i-1)
			nudged = true
		}
		if !counted || len(shown[i].Counts) != len(shown[i].Messages) {
			shown[i].Counts = nil
		}
		r.half(from+i, &shown[i])
	}
	if !nudged {
		r.nudge(p.InForce, len(p.Halves)-1)
	}
	x := before
	if from == 0 || from < len(p.Halves) {
		x = r.rendering(&p)
	}
	if x != nil && len(r.open) > 0 {
		r.expect(len(r.out.Messages), len(r.out.Sources)) // the room behind those of x is for a path that goes on
	}
	r.end()
	r.endWithUser()
	out := r.context()
	out.Messages, out.Origins, out.Sources = slices.Clip(out.Messages), slices.Clip(out.Origins), slices.Clip(out.Sources)
	return out, x, nil
}

// endWithUser makes the last message the user's if all are the system's: no provider
// accepts a context of only system messages.
func (r *renderer) endWithUser() {
	for i := range r.out.Messages {
		if r.out.Messages[i].Role != turns.System {
			return
		}
	}
	if n := len(r.out.Messages); n > 0 {
		r.out.Messages = slices.Clone(r.out.Messages) // those of a Rendering stay
		r.out.Messages[n-1].Role = turns.User
	}
}

// nudge renders the message that a compaction shows after the newest half of its
// time, half i. It never comes between a call and its response.
func (r *renderer) nudge(f *InForce, i int) {
	src := r.source(Source{
		Turn: f.Node.Ref, Half: turns.ResponseHalf, Status: InSummary, Why: "what was shortened above, in a summary",
	}, i)
	for _, m := range f.Body.Nudge {
		if len(r.open) > 0 {
			r.late = append(r.late, message{Message: m, source: src})
			continue
		}
		r.emit(m, src)
	}
}

// Framing returns, for each position, the tokens that rendering adds to the halves
// before it: responses for calls without one, and the words around late ones. The
// last element is for the whole path, including calls that wait at the head.
func (p Path) Framing() []uint64 {
	r := renderer{counter: uncounted{p.CountedBy()}, real: p.CountedBy()}
	out := make([]uint64, len(p.Halves)+1)
	for i := range p.Halves {
		h := &p.Halves[i]
		out[i] = r.framing
		r.half(i, &ShownHalf{HalfTurn: *h, Source: Source{Turn: h.Ref, Half: h.Half}})
		r.out.Messages, r.out.Origins = r.out.Messages[:0], r.out.Origins[:0]
	}
	r.end()
	out[len(p.Halves)] = r.framing
	return out
}

// uncounted is a counter that counts 0 for every message.
type uncounted struct{ tokens.Counter }

func (uncounted) Message(*turns.Message) uint64 { return 0 }

// renderer builds a context half by half.
type renderer struct {
	counter tokens.Counter
	real    tokens.Counter
	framing uint64 // tokens of what rendering added; no half holds them
	out     Context
	after   []int     // for each source, the index of the half that it belongs to; -1: the replacement
	open    []call    // calls of the last assistant message that wait for a response
	late    []message // messages delayed while calls wait, because only results may follow a call
}

// call is a tool call in the output.
type call struct {
	id, name string
	half     int // index of the half that made it
	source   Source
}

// message is a message with its tokens, if they are known, and the index of its source.
type message struct {
	turns.Message
	source  int
	tokens  uint64
	counted bool
}

// expect makes room for messages and sources.
func (r *renderer) expect(messages, sources int) {
	const synthetic = 4
	r.out.Messages = append(make([]turns.Message, 0, messages+synthetic), r.out.Messages...)
	r.out.Origins = append(make([]int, 0, messages+synthetic), r.out.Origins...)
	r.out.Sources = append(make([]Source, 0, sources+synthetic), r.out.Sources...)
	r.after = append(make([]int, 0, sources+synthetic), r.after...)
}

func (r *renderer) source(s Source, half int) int {
	r.out.Sources = append(r.out.Sources, s)
	r.after = append(r.after, half)
	return len(r.out.Sources) - 1
}

// emit appends a message whose tokens are not known.
func (r *renderer) emit(m turns.Message, source int) {
	r.emitMessage(message{Message: m, source: source})
}

func (r *renderer) emitMessage(m message) {
	if !m.counted {
		m.tokens = r.counter.Message(&m.Message)
	}
	r.out.Messages = append(r.out.Messages, m.Message)
	r.out.Origins = append(r.out.Origins, m.source)
	r.out.Sources[m.source].Tokens += m.tokens
	r.out.Tokens += m.tokens
}

// messageOf returns message i of a half, as it is.
func messageOf(h *ShownHalf, i, source int) message {
	m := message{Message: h.Messages[i], source: source}
	if h.Counts != nil {
		m.tokens, m.counted = h.Counts[i], true
	}
	return m
}

// half renders half number i of the path.
func (r *renderer) half(i int, h *ShownHalf) {
	src := r.source(h.Source, i)
	for k := 0; k < len(h.Messages); {
		if !summary.IsAssistant(&h.HalfTurn, k) {
			end := summary.RunEnd(&h.HalfTurn, k)
			r.run(h, k, end, src)
			k = end
			continue
		}
		r.abandon()
		m := messageOf(h, k, src)
		k++
		if len(m.Parts) == 0 {
			continue // an empty message says nothing, and providers refuse it
		}
		r.emitMessage(m)
		for j := range m.Parts {
			if p := &m.Parts[j]; p.Type == turns.ToolCall {
				r.open = append(r.open, call{p.ID, p.Name, i, h.Source})
			}
		}
	}
}

// run renders the messages [from, to) of a half, which were sent between two
// assistant messages: first the results of
// open calls, then synthetic responses for the calls that it abandons, then the
// rest.
func (r *renderer) run(h *ShownHalf, from, to, src int) {
	ms := h.Messages[from:to]
	if len(r.open) == 0 && len(r.late) == 0 && !slices.ContainsFunc(ms, isOfTools) {
		for i := range ms {
			if len(ms[i].Parts) > 0 {
				r.emitMessage(messageOf(h, from+i, src))
			}
		}
		return
	}
	var results, rest []message
	goesOn, ordered, late := false, true, false
	for i := range ms {
		var res, other []turns.Part
		for j := range ms[i].Parts {
			p := &ms[i].Parts[j]
			switch {
			case p.Type != turns.ToolCallResponse:
				goesOn = true
				other = append(other, *p)
			case r.answer(p.ID):
				ordered = ordered && len(rest) == 0 && len(other) == 0
				res = append(res, *p)
			default:
				late = true
				t := lateText(p)
				r.framing += tokens.Sub(r.real.Part(&t), r.real.Part(p))
				other = append(other, t)
			}
		}
		if len(res) > 0 && len(other) > 0 {
			r.framing += 8 // the split makes one more message
		}
		if len(res) > 0 {
			m := messageOf(h, from+i, src)
			if len(other) > 0 { // otherwise the parts stay as they are, shared and not copied
				m.Parts, m.counted = res, false
			}
			results = append(results, m)
		}
		if len(other) > 0 {
			m := messageOf(h, from+i, src)
			m.Parts, m.counted = other, false
			if m.Role == turns.Tool {
				m.Role = turns.User
			}
			rest = append(rest, m)
		}
	}
	nothingWaits := len(r.open) == 0 && len(r.late) == 0
	if ordered && goesOn && !late && nothingWaits && !toolText(ms) {
		// Everything is in its place, so a message with results and then text stays
		// one message.
		for i := range ms {
			if len(ms[i].Parts) > 0 {
				r.emitMessage(messageOf(h, from+i, src))
			}
		}
		return
	}
	for _, m := range results {
		r.emitMessage(m)
	}
	if goesOn {
		r.abandon()
	}
	for _, m := range rest {
		if len(r.open) > 0 { // only late results came: the open calls still wait
			r.late = append(r.late, m)
			continue
		}
		r.release()
		r.emitMessage(m)
	}
	if len(r.open) == 0 {
		r.release()
	}
}

// isOfTools reports whether m is a tool message, or has results.
func isOfTools(m turns.Message) bool {
	return m.Role == turns.Tool || slices.ContainsFunc(m.Parts, func(p turns.Part) bool { return p.Type == turns.ToolCallResponse })
}

// toolText reports whether a tool message holds more than results.
func toolText(ms []turns.Message) bool {
	for i := range ms {
		if ms[i].Role == turns.Tool && slices.ContainsFunc(ms[i].Parts, func(p turns.Part) bool { return p.Type != turns.ToolCallResponse }) {
			return true
		}
	}
	return false
}

// answer removes id from the open calls; false if it is not one of them.
func (r *renderer) answer(id string) bool {
	k := slices.IndexFunc(r.open, func(c call) bool { return c.id == id })
	if k < 0 {
		return false
	}
	r.open = slices.Delete(r.open, k, k+1)
	return true
}

// abandon answers the open calls of an assistant message that the path went on
// without. The text does not say that the tool returned nothing: behind the turn that a
// fork or a rewind leaves, another path may have the result.
func (r *renderer) abandon() {
	r.synthesize("[the conversation went on here without its result]", "the call was moved on from without a response")
	r.release()
}

// synthesize answers the open calls with text.
func (r *renderer) synthesize(text, why string) {
	if len(r.open) == 0 {
		return
	}
	first := r.open[0]
	src := r.source(Source{Turn: first.source.Turn, Half: first.source.Half, Status: Synthetic, Why: why}, first.half)
	m := turns.Message{Role: turns.Tool}
	for _, c := range r.open {
		m.Parts = append(m.Parts, turns.Part{Type: turns.ToolCallResponse, ID: c.id, Name: c.name, Response: turns.RawText(text)})
	}
	r.framing += r.real.Message(&m)
	r.emit(m, src)
	r.open = r.open[:0]
}

// release emits the delayed messages.
func (r *renderer) release() {
	for _, m := range r.late {
		r.emitMessage(m)
	}
	r.late = r.late[:0]
}

// end answers the calls that wait at the head and emits delayed messages.
func (r *renderer) end() {
	r.synthesize("[no result of the call is here as yet]", whyPending)
	r.release()
}

// context returns the result with its sources in path order. A synthetic response is
// made when its call is abandoned, and it belongs right after that call.
func (r *renderer) context() Context {
	if slices.IsSorted(r.after) {
		return r.out
	}
	order := make([]int, len(r.out.Sources))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(r.after[a], r.after[b]), cmp.Compare(a, b))
	})
	place := make([]int, len(order))
	sorted := make([]Source, len(order))
	for to, from := range order {
		place[from], sorted[to] = to, r.out.Sources[from]
	}
	origins := make([]int, len(r.out.Origins)) // those of a Rendering stay
	for i, o := range r.out.Origins {
		origins[i] = place[o]
	}
	r.out.Sources, r.out.Origins = sorted, origins
	return r.out
}
