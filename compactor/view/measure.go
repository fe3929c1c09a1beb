package view

import (
	"slices"
	"strings"
	"time"

	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Previous is the compaction in force; none for no compaction.
func (p Path) Previous() turns.Ref {
	if p.InForce == nil {
		return turns.Ref{}
	}
	return p.InForce.Node.Ref
}

// Last is the last normal turn of the path, as far as the path tells.
func (p Path) Last() turns.Ref {
	if n := len(p.Halves); n > 0 {
		return p.Halves[n-1].Ref
	}
	if p.InForce != nil {
		return p.InForce.Span.Through
	}
	return turns.Ref{}
}

// Contains reports whether ref has a half at or after the cut in force.
func (p Path) Contains(ref turns.Ref) bool {
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

// CutAt is the cut before half i; with i the number of halves, after all of
// the path. A turn that has a response alone is cut before the place of its messages.
func (p Path) CutAt(i int) lineage.Cut {
	switch {
	case i >= len(p.Halves):
		return lineage.CutBefore(p.Head.Depth+1, turns.MessagesHalf)
	case p.splitAt(i):
		return lineage.CutBefore(p.Halves[i].Depth, turns.ResponseHalf)
	}
	return lineage.CutBefore(p.Halves[i].Depth, turns.MessagesHalf)
}

// Span is what a compaction with the cut before half i says of the path; what
// was seen and the elisions are left to the caller.
func (p Path) Span(i int) turns.Span {
	s := turns.Span{Provenance: turns.ByNexus, Previous: p.Previous(), Split: p.splitAt(i)}
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

// LaterSeen is the later of seen, the last turn before half i, and what the
// summary in force was made from: that may lie after its cut.
func (p Path) LaterSeen(saw turns.Ref, i int) turns.Ref {
	if p.InForce == nil {
		return saw
	}
	before := p.InForce.Span.SawThrough
	if saw.IsZero() {
		return before
	}
	for k := i; k < len(p.Halves); k++ {
		if p.Halves[k].Ref == before {
			return before
		}
	}
	return saw
}

// CountedBy is the counter that the path's tokens were counted by.
func (p Path) CountedBy() tokens.Counter {
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
	if !recount && (p.InForce == nil || len(p.InForce.Body.Elided) == 0) && !slices.ContainsFunc(p.Halves, func(h summary.HalfTurn) bool { return h.Saved > 0 }) {
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
		for i, n := range p.SavedBy(f.Span.Elisions, f.Body.Elided) {
			p.Halves[i].Saved = n
		}
	}
	return p
}

// SavedBy is what elisions take off the halves of p, by the index of the half.
func (p Path) SavedBy(elisions []turns.Elision, parts []turns.ElidedPart) map[int]uint64 {
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
			n = p.CountedBy().Message(&after)
		}
		out[of.half] += tokens.Sub(p.CountedBy().Message(before), n)
	}
	return out
}

// Lasting is p without what stands for one call only: its parts whole, and no
// summary of them.
func (p Path) Lasting() Path {
	if p.InForce == nil || !p.InForce.Span.Call {
		return p
	}
	f := *p.InForce
	f.Span.Elisions, f.Body.Elided, f.Body.Nudge = nil, nil, nil
	f.Body.Summary = p.PreviousSummary()
	f.Node.Replaced, f.Node.Saved = 0, 0
	p.InForce = &f
	return p.Settled(p.CountedBy(), false)
}

// Saves is the tokens, by c, that the elisions of a compaction take off the
// halves of p from its cut on.
func (p Path) Saves(span turns.Span, body *turns.CompactionBody, c tokens.Counter) (n uint64) {
	p.Counter = c
	for _, saved := range p.SavedBy(span.Elisions, body.Elided) {
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

// Saving is the tokens that one elision takes off a half.
func Saving(c tokens.Counter, h *summary.HalfTurn, e turns.Elision, b *turns.ElidedPart) uint64 {
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

// Calibrate returns how much more or less providers counted on the path than its
// counter: as the compaction in force found it, and from there on for each call
// whose context was what the path says.
func (p Path) Calibrate() (c tokens.Calibration) {
	if p.Sums != nil {
		return p.Sums.calibration
	}
	after := p.Changed
	if f := p.InForce; f != nil {
		c, after = f.ReadMeta().Calibration, max(after, f.Node.Depth)
	}
	if p.View.When != "" {
		return c // what is shown is not what is counted here
	}
	at := p.Overhead + p.Replaced()
	for i := range p.Halves {
		h := &p.Halves[i]
		if h.Half == turns.ResponseHalf && h.Depth > after {
			c = c.Observe(at, h.Reported)
		}
		at += h.ShownTokens()
	}
	return c
}

// Ratio is what a policy multiplies its counts by on p, in [1, 2]: see [policy.Calibrated].
func (p Path) Ratio(pol policy.Policy) float64 {
	if pol.Measure != policy.Calibrated {
		return 1
	}
	return max(1, float64(p.Calibrate().Apply(ratioUnit))/ratioUnit)
}

const ratioUnit = 1 << 20

// Replaced is the tokens of what stands for the covered part.
func (p Path) Replaced() uint64 {
	f := p.InForce
	if f == nil {
		return 0
	}
	c := p.CountedBy()
	if n := f.Node.Replaced; n > 0 && c.Name() == (tokens.Approx{}).Name() {
		return n
	}
	return tokens.Messages(c, f.Body.Replacement) + tokens.Messages(c, f.Body.Nudge)
}

// Tokens is the tokens of the context's messages as they are.
func (p Path) Tokens() uint64 { return p.Replaced() + p.ShownFrom(0) }

// ShownFrom is the tokens of the halves from half i on, elisions applied.
func (p Path) ShownFrom(i int) (n uint64) {
	for ; i < len(p.Halves); i++ {
		n += p.Halves[i].ShownTokens()
	}
	return n
}

type halfKey struct {
	ref  turns.Ref
	half turns.Half
}

// PreviousSummary is the text that the next summary must include: the summary
// in force, or where another system left only messages, their text.
func (p Path) PreviousSummary() string {
	if p.InForce == nil {
		return ""
	}
	if len(p.InForce.Body.Nudge) > 0 { // its summary is of turns that are still there
		if m := p.InForce.ReadMeta(); m.Carried != "" || len(p.InForce.Body.Replacement) == 0 {
			return m.Carried
		}
	} else if s := p.InForce.Body.Summary; s != "" {
		return s
	}
	var out []string
	for i := range p.InForce.Body.Replacement {
		if s := summary.TextOf(&p.InForce.Body.Replacement[i]); s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, "\n\n")
}

// Meta is what compactions keep in their body's meta.
type Meta struct {
	FirstRequest string `json:"first_request,omitzero"`
	// Carried is the summary that the replacement holds, where the compaction's
	// own is another: that of a nudge.
	Carried string `json:"carried,omitzero"`
	// Pins are the texts of pinned turns that are covered, oldest first.
	Pins []string `json:"pins,omitempty"`
	// Calibration is that of the path at the compaction, under [policy.Calibrated].
	Calibration tokens.Calibration `json:"calibration,omitzero"`
}

// Empty reports whether m holds nothing.
func (m Meta) Empty() bool {
	return m.FirstRequest == "" && m.Carried == "" && len(m.Pins) == 0 && m.Calibration == tokens.Calibration{}
}

// ReadMeta returns the meta of a compaction; the zero Meta for another system's.
func (f *InForce) ReadMeta() (m Meta) {
	if f.Body.Meta != nil && turns.DecodeJSON(f.Body.Meta, &m) != nil {
		return Meta{}
	}
	return m
}

// FirstRequest is the text of the session's first user message: as the
// compaction in force quotes it, else from reads where they begin at the root.
func (p Path) FirstRequest(pol policy.Policy, reads []summary.HalfTurn) string {
	if !pol.KeepFirstRequest {
		return ""
	}
	if p.InForce != nil {
		if m := p.InForce.ReadMeta(); m.FirstRequest != "" {
			return m.FirstRequest
		}
	}
	if len(reads) == 0 || reads[0].Depth != 1 {
		return ""
	}
	for i := range reads {
		for j := range reads[i].Messages {
			if m := &reads[i].Messages[j]; m.Role == turns.User {
				if s := summary.TextOf(m); s != "" {
					return s
				}
			}
		}
	}
	return ""
}

// PinnedTexts are the texts of pinned turns before half cut, oldest first: those that
// the compaction in force quotes, and those that are newly covered. Of more
// than maxPins the oldest are left to the summary.
func (p Path) PinnedTexts(cut int) (out []string) {
	if p.InForce != nil {
		out = slices.Clone(p.InForce.ReadMeta().Pins)
	}
	for i := range p.Halves[:cut] {
		h := &p.Halves[i]
		for j := range h.Messages {
			if m := &h.Messages[j]; h.Pinned && m.Role == turns.User {
				if s := summary.TextOf(m); s != "" {
					out = append(out, s)
				}
			}
		}
	}
	return out[max(0, len(out)-maxPins):]
}

// maxPins bounds the pins that a replacement quotes.
const maxPins = 64

// Rendered is, for each position from half number from on, the tokens of the
// halves behind it as they are rendered. No call is open at from.
func (p Path) Rendered(from int) []uint64 {
	p.Halves = p.Halves[from:]
	n := len(p.Halves)
	out, framing := make([]uint64, n+1), p.Framing()
	shown := uint64(0)
	for i := n; i >= 0; i-- {
		if i < n {
			shown += p.Halves[i].ShownTokens()
		}
		out[i] = shown + framing[n] - framing[i]
	}
	return out
}

// Load is the size of a context, as far as it is known without its messages.
type Load struct {
	Tokens   uint64        // of the messages, by the policy's counter, overhead not included
	Reported uint64        // of all, as [Path.ReportedTokens] says; 0: no provider counted
	Turns    uint64        // normal turns since the compaction in force, or since the root
	Messages uint64        // of the context; 0: not counted
	Idle     time.Duration // since the newest turn; 0: not known
}

// MeasureLoad is the load of the path's context, whose messages have so many tokens.
func (p Path) MeasureLoad(tokens uint64) Load {
	l := Load{Tokens: tokens, Reported: p.ReportedTokens(), Idle: p.Idle}
	if p.View.When != "" {
		l.Tokens = max(tokens, p.Tokens()) // what the view leaves out counts: it is a view
	}
	if p.InForce != nil {
		l.Messages = uint64(len(p.InForce.Body.Replacement) + len(p.InForce.Body.Nudge))
	}
	for i := range p.Halves {
		h := &p.Halves[i]
		l.Messages += uint64(len(h.Messages))
		if (p.InForce == nil || h.Depth > p.InForce.Node.Depth) && (i == 0 || h.Ref != p.Halves[i-1].Ref) {
			l.Turns++
		}
	}
	return l
}

// ReportedTokens is the size of the context by the provider's last count: its input
// tokens for the newest response whose call saw what is in force now, and an
// estimate of that response and all that was appended since. Overhead is in it.
// 0: no provider counted.
func (p Path) ReportedTokens() (total uint64) {
	for i := len(p.Halves) - 1; i >= 0; i-- {
		h := &p.Halves[i]
		if h.Depth <= p.Changed || (p.InForce != nil && h.Depth < p.InForce.Node.Depth) {
			return 0
		}
		total += h.ShownTokens()
		if h.Reported > 0 && h.Half == turns.ResponseHalf {
			return total + h.Reported
		}
	}
	return 0
}
