package compactor

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// previous is the compaction in force; none for no compaction.
func (p Path) previous() turns.Ref {
	if p.InForce == nil {
		return turns.Ref{}
	}
	return p.InForce.Node.Ref
}

// last is the last normal turn of the path, as far as the path tells.
func (p Path) last() turns.Ref {
	if n := len(p.Halves); n > 0 {
		return p.Halves[n-1].Ref
	}
	if p.InForce != nil {
		return p.InForce.Span.Through
	}
	return turns.Ref{}
}

// holds reports whether ref has a half at or after the cut in force.
func (p Path) holds(ref turns.Ref) bool {
	for i := range p.Halves {
		if p.Halves[i].Ref == ref {
			return true
		}
	}
	return false
}

// splitAt reports whether a cut before half i parts two halves of one turn.
func (p Path) splitAt(i int) bool {
	switch {
	case i >= len(p.Halves):
		return false
	case i > 0:
		return p.Halves[i-1].Ref == p.Halves[i].Ref
	}
	return p.InForce != nil && p.InForce.Node.Cut == lineage.CutBefore(p.Halves[0].Depth, turns.ResponseHalf)
}

// cutAt is the cut before half i; with i the number of halves, after all of
// the path. A turn that has a response alone is cut before the place of its messages.
func (p Path) cutAt(i int) lineage.Cut {
	switch {
	case i >= len(p.Halves):
		return lineage.CutBefore(p.Head.Depth+1, turns.MessagesHalf)
	case p.splitAt(i):
		return lineage.CutBefore(p.Halves[i].Depth, turns.ResponseHalf)
	}
	return lineage.CutBefore(p.Halves[i].Depth, turns.MessagesHalf)
}

// span is what a compaction with the cut before half i says of the path; what
// was seen and the elisions are left to the caller.
func (p Path) span(i int) turns.Span {
	s := turns.Span{Provenance: turns.ByNexus, Previous: p.previous(), Split: p.splitAt(i)}
	if i < len(p.Halves) {
		s.FirstKept = p.Halves[i].Ref
	}
	switch {
	case i > 0:
		s.Through = p.Halves[i-1].Ref
	case s.Split:
		s.Through = s.FirstKept
	case p.InForce != nil:
		s.Through = p.InForce.Span.Through
	}
	for k := range p.Halves[:i] {
		if k == 0 || p.Halves[k].Ref != p.Halves[k-1].Ref {
			s.Covered++
		}
	}
	return s
}

// laterSeen is the later of seen, the last turn before half i, and what the
// summary in force was made from: that may lie after its cut.
func (p Path) laterSeen(seen turns.Ref, i int) turns.Ref {
	if p.InForce == nil {
		return seen
	}
	before := p.InForce.Span.SawThrough
	if seen.IsZero() {
		return before
	}
	for k := i; k < len(p.Halves); k++ {
		if p.Halves[k].Ref == before {
			return before
		}
	}
	return seen
}

// counter is the counter that the path's tokens were counted by.
func (p Path) counter() tokens.Counter {
	if p.Counter == nil {
		return tokens.Approx{}
	}
	return p.Counter
}

// Settled is p, counted by c: the tokens of each half, and what the elisions
// in force take off it. Halves whose Tokens are by c already, as the ledger
// stores them, are not counted again. It is called once, when a path is loaded.
func (p Path) Settled(c tokens.Counter, recount bool) Path {
	p.Counter = c
	if !recount && (p.InForce == nil || len(p.InForce.Body.Elided) == 0) && !slices.ContainsFunc(p.Halves, func(h HalfTurn) bool { return h.Saved > 0 }) {
		return p
	}
	p.Halves = slices.Clone(p.Halves)
	for i := range p.Halves {
		h := &p.Halves[i]
		if recount && !h.Erased {
			h.Tokens = tokens.Messages(c, h.Messages)
		}
		h.Saved = 0
	}
	if f := p.InForce; f != nil {
		for i, n := range p.savedBy(f.Span.Elisions, f.Body.Elided) {
			p.Halves[i].Saved = n
		}
	}
	return p
}

// savedBy is what elisions take off the halves of p, by the index of the half.
func (p Path) savedBy(elisions []turns.Elision, parts []turns.ElidedPart) map[int]uint64 {
	if len(elisions) == 0 || len(elisions) != len(parts) {
		return nil
	}
	at := p.index()
	type message struct{ half, message int }
	shown := make(map[message]map[uint64]string)
	for i, e := range elisions {
		k, ok := at[halfKey{e.Turn, e.Half}]
		if !ok || p.Halves[k].Erased || e.Message >= uint64(len(p.Halves[k].Messages)) {
			continue
		}
		of := message{k, int(e.Message)}
		if shown[of] == nil {
			shown[of] = make(map[uint64]string)
		}
		shown[of][e.Part] = parts[i].Show
	}
	out := make(map[int]uint64)
	for of, show := range shown {
		before := &p.Halves[of.half].Messages[of.message]
		after := *before
		after.Parts = make([]turns.Part, 0, len(before.Parts))
		for k := range before.Parts {
			q := before.Parts[k]
			if s, ok := show[uint64(k)]; ok {
				q = elidedPart(q, s)
			}
			if q.Type != "" {
				after.Parts = append(after.Parts, q)
			}
		}
		n := uint64(0)
		if len(after.Parts) > 0 { // else nothing is left to render
			n = p.counter().Message(&after)
		}
		out[of.half] += tokens.Sub(p.counter().Message(before), n)
	}
	return out
}

// lasting is p without what stands for one call only: its parts whole, and no
// summary of them.
func (p Path) lasting() Path {
	if p.InForce == nil || !p.InForce.Span.Call {
		return p
	}
	f := *p.InForce
	f.Span.Elisions, f.Body.Elided, f.Body.Nudge = nil, nil, nil
	f.Body.Summary = p.previousSummary()
	f.Node.Replaced, f.Node.Saved = 0, 0
	p.InForce = &f
	return p.Settled(p.counter(), false)
}

// Saves is the tokens, by c, that the elisions of a compaction take off the
// halves of p from its cut on.
func (p Path) Saves(span turns.Span, body *turns.CompactionBody, c tokens.Counter) (n uint64) {
	p.Counter = c
	for _, saved := range p.savedBy(span.Elisions, body.Elided) {
		n += saved
	}
	return n
}

// index is where each half of p is.
func (p Path) index() map[halfKey]int {
	at := make(map[halfKey]int, len(p.Halves))
	for i := range p.Halves {
		at[halfKey{p.Halves[i].Ref, p.Halves[i].Half}] = i
	}
	return at
}

// saving is the tokens that one elision takes off a half.
func saving(c tokens.Counter, h *HalfTurn, e turns.Elision, b *turns.ElidedPart) uint64 {
	if h.Erased || e.Message >= uint64(len(h.Messages)) || e.Part >= uint64(len(h.Messages[e.Message].Parts)) {
		return 0
	}
	part := &h.Messages[e.Message].Parts[e.Part]
	shown := elidedPart(*part, b.Show)
	after := uint64(0)
	if shown.Type != "" {
		after = c.Part(&shown)
	}
	return tokens.Sub(c.Part(part), after)
}

// calibration is how much more or less providers counted on the path than its
// counter: as the compaction in force found it, and from there on for each call
// whose context was what the path says.
func (p Path) calibration() (c tokens.Calibration) {
	if p.Sums != nil {
		return p.Sums.calibration
	}
	after := p.Changed
	if f := p.InForce; f != nil {
		c, after = f.meta().Calibration, max(after, f.Node.Depth)
	}
	if p.View.When != "" {
		return c // what is shown is not what is counted here
	}
	at := p.Overhead + p.replaced()
	for i := range p.Halves {
		h := &p.Halves[i]
		if h.Half == turns.ResponseHalf && h.Depth > after {
			c = c.Observe(at, h.Reported)
		}
		at += h.shown()
	}
	return c
}

// Ratio is what a policy multiplies its counts by on p, in [1, 2]: see [Calibrated].
func (p Path) Ratio(pol Policy) float64 {
	if pol.Measure != Calibrated {
		return 1
	}
	return max(1, float64(p.calibration().Apply(ratioUnit))/ratioUnit)
}

const ratioUnit = 1 << 20

// sizes are the sizes of pol on p, for a trigger; a budget other than 0 stands
// in for the policy's.
func (p Path) sizes(pol Policy, trigger turns.Trigger, budget uint64) sizes {
	return pol.sizesFor(bounds{
		limits: p.Limits, overhead: p.Overhead, ratio: p.Ratio(pol), budget: budget, overflow: trigger.Kind == TriggerOverflow,
	})
}

// replaced is the tokens of what stands for the covered part.
func (p Path) replaced() uint64 {
	f := p.InForce
	if f == nil {
		return 0
	}
	c := p.counter()
	if n := f.Node.Replaced; n > 0 && c.Name() == (tokens.Approx{}).Name() {
		return n
	}
	return tokens.Messages(c, f.Body.Replacement) + tokens.Messages(c, f.Body.Nudge)
}

// tokens is the tokens of the context's messages as they are.
func (p Path) tokens() uint64 { return p.replaced() + p.shownFrom(0) }

// shownFrom is the tokens of the halves from half i on, elisions applied.
func (p Path) shownFrom(i int) (n uint64) {
	for ; i < len(p.Halves); i++ {
		n += p.Halves[i].shown()
	}
	return n
}

func (h *HalfTurn) shown() uint64 {
	if h.Erased {
		return 0
	}
	return tokens.Sub(h.Tokens, h.Saved)
}

type halfKey struct {
	ref  turns.Ref
	half turns.Half
}

// previousSummary is the text that the next summary must include: the summary
// in force, or where another system left only messages, their text.
func (p Path) previousSummary() string {
	if p.InForce == nil {
		return ""
	}
	if len(p.InForce.Body.Nudge) > 0 { // its summary is of turns that are still there
		if m := p.InForce.meta(); m.Carried != "" || len(p.InForce.Body.Replacement) == 0 {
			return m.Carried
		}
	} else if s := p.InForce.Body.Summary; s != "" {
		return s
	}
	var out []string
	for i := range p.InForce.Body.Replacement {
		if s := textOf(&p.InForce.Body.Replacement[i]); s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, "\n\n")
}

// compactionMeta is what compactions of this package keep in their body's meta.
type compactionMeta struct {
	FirstRequest string `json:"first_request,omitzero"`
	// Carried is the summary that the replacement holds, where the compaction's
	// own is another: that of a nudge.
	Carried string `json:"carried,omitzero"`
	// Pins are the texts of pinned turns that are covered, oldest first.
	Pins []string `json:"pins,omitempty"`
	// Calibration is that of the path at the compaction, under [Calibrated].
	Calibration tokens.Calibration `json:"calibration,omitzero"`
}

func (m compactionMeta) empty() bool {
	return m.FirstRequest == "" && m.Carried == "" && len(m.Pins) == 0 && m.Calibration == tokens.Calibration{}
}

// meta is what this package keeps with a compaction; nothing where it is another's.
func (f *InForce) meta() (m compactionMeta) {
	if f.Body.Meta != nil && turns.DecodeJSON(f.Body.Meta, &m) != nil {
		return compactionMeta{}
	}
	return m
}

// firstRequest is the text of the session's first user message: as the
// compaction in force quotes it, else from reads where they begin at the root.
func (p Path) firstRequest(pol Policy, reads []HalfTurn) string {
	if !pol.KeepFirstRequest {
		return ""
	}
	if p.InForce != nil {
		if m := p.InForce.meta(); m.FirstRequest != "" {
			return m.FirstRequest
		}
	}
	if len(reads) == 0 || reads[0].Depth != 1 {
		return ""
	}
	for i := range reads {
		for j := range reads[i].Messages {
			if m := &reads[i].Messages[j]; m.Role == turns.User {
				if s := textOf(m); s != "" {
					return s
				}
			}
		}
	}
	return ""
}

// pins are the texts of pinned turns before half cut, oldest first: those that
// the compaction in force quotes, and those that are newly covered. Of more
// than maxPins the oldest are left to the summary.
func (p Path) pins(cut int) (out []string) {
	if p.InForce != nil {
		out = slices.Clone(p.InForce.meta().Pins)
	}
	for i := range p.Halves[:cut] {
		h := &p.Halves[i]
		for j := range h.Messages {
			if m := &h.Messages[j]; h.Pinned && m.Role == turns.User {
				if s := textOf(m); s != "" {
					out = append(out, s)
				}
			}
		}
	}
	return out[max(0, len(out)-maxPins):]
}

// maxPins bounds the pins that a replacement quotes.
const maxPins = 64

// textOf is the text parts of m; of one that was moved to a blob, its preview.
func textOf(m *turns.Message) string {
	var out []string
	for i := range m.Parts {
		p := &m.Parts[i]
		switch {
		case p.Type != turns.Text:
		case p.Ref != nil && p.Ref.Preview != "":
			out = append(out, p.Ref.Preview)
		case p.Content != "":
			out = append(out, p.Content)
		}
	}
	return strings.TrimSpace(strings.Join(out, "\n"))
}

// digest names what a plan follows from: the last normal turn, the compaction
// in force, policy, summarizers, focus, sizes. A trigger is not in it but for
// an overflow, which plans for less: so a compaction that is asked for again
// for another reason is the same plan.
func (plan *Plan) digest(previous turns.Ref) turns.Hash {
	p := plan.Path
	h := sha256.New()
	put := func(format string, args ...any) {
		s := fmt.Sprintf(format, args...)
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	put("nexus.plan.v1")
	put("%s", p.last())
	put("%s", previous)
	put("%s", plan.PolicyRef.Digest)
	put("%s", plan.Focus)
	put("%t %t", plan.FromOriginals, plan.Trigger.Kind == TriggerOverflow)
	put("%d %d %d %d %d", p.Limits.ContextWindow, p.Limits.MaxOutputTokens, p.Limits.SafetyMargin, p.Overhead, plan.Budget)
	for _, t := range plan.Tiers {
		put("%s", t)
	}
	return turns.Hash(h.Sum(nil))
}

// checkRepeated is [ErrNothing] where the head is the compaction that this
// very plan made, or the caller knows the plan to be fruitless. One that was
// due and only shortened parts is not what somebody asks for.
func (plan *Plan) checkRepeated(known turns.Hash) error {
	p := plan.Path
	shortened := func(f *InForce) bool {
		return plan.Trigger.Kind == TriggerManual && f.Body.Trigger.Kind != TriggerManual && f.Span.Through.IsZero() && f.Span.FirstKept.IsZero()
	}
	if f := p.InForce; f != nil && p.Head.Ref == f.Node.Ref && !shortened(f) && !f.Body.Plan.IsZero() && plan.digest(f.Span.Previous) == f.Body.Plan {
		return nothing("compaction %v was made by the same plan, and nothing follows it", f.Node.Ref)
	}
	if !known.IsZero() && plan.digest(p.previous()) == known {
		return nothing("plan %v was tried before", known)
	}
	return nil
}
