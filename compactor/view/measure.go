package view

import (
	"slices"
	"strings"
	"time"

	"nexus/compactor/policy"
	"nexus/compactor/quote"
	"nexus/compactor/summary"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Previous returns the compaction in force; the zero Ref if there is none.
func (p Path) Previous() turns.Ref {
	if p.InForce == nil {
		return turns.Ref{}
	}
	return p.InForce.Node.Ref
}

// Last returns the last normal turn of the path, if the path holds or names one.
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

// splitAt reports whether a cut before half i separates the two halves of one turn.
func (p Path) splitAt(i int) bool {
	switch {
	case i >= len(p.Halves):
		return false
	case i > 0:
		return p.Halves[i-1].Ref == p.Halves[i].Ref
	}
	return p.InForce != nil && p.InForce.Node.Cut == lineage.CutBefore(p.Halves[0].Depth, turns.ResponseHalf)
}

// CutAt returns the cut before half i, or after the whole path if i is the number of
// halves. For a turn with only a response, the cut lies before the place of its
// messages.
func (p Path) CutAt(i int) lineage.Cut {
	switch {
	case i >= len(p.Halves):
		return lineage.CutBefore(p.Head.Depth+1, turns.MessagesHalf)
	case p.splitAt(i):
		return lineage.CutBefore(p.Halves[i].Depth, turns.ResponseHalf)
	}
	return lineage.CutBefore(p.Halves[i].Depth, turns.MessagesHalf)
}

// Span returns the span of a compaction that cuts before half i. The caller sets
// SawThrough and the elisions.
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

// LaterSeen returns the later of saw, the last turn before half i, and the last turn
// that the summary in force was made from. The latter may lie after that summary's
// cut.
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

// CountedBy returns the counter that counted the path's tokens.
func (p Path) CountedBy() tokens.Counter {
	if p.Counter == nil {
		return tokens.Approx{}
	}
	return p.Counter
}

// Settled returns p with its tokens by c: those of each half, and what the elisions
// in force save of them. If recount is false, the halves' Tokens are by c already,
// as the ledger stores them. The caller settles a path once, when it loads it.
func (p Path) Settled(c tokens.Counter, recount bool) Path {
	counted := p.CountedBy().Name() == c.Name() // Counts are by c
	p.Counter = c
	hasElisions := p.InForce != nil && len(p.InForce.Body.Elided) > 0
	hadElisions := slices.ContainsFunc(p.Halves, func(h summary.HalfTurn) bool { return h.Saved > 0 })
	if counted && !recount && !hasElisions && !hadElisions {
		return p
	}
	p.Halves = slices.Clone(p.Halves)
	for i := range p.Halves {
		h := &p.Halves[i]
		if !counted {
			h.Counts = nil
		}
		if recount && !h.Erased {
			h.Tokens = h.Count(c)
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

// SavedBy returns the tokens that elisions save, by the index of the half.
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
		if len(after.Parts) > 0 { // a message without parts is not rendered
			n = p.CountedBy().Message(&after)
		}
		out[of.half] += tokens.Sub(p.CountedBy().Message(before), n)
	}
	return out
}

// Lasting returns p without what is shown for one call only: its parts are whole
// again, and the summary of them is gone.
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

// Saves returns how many tokens, by c, the elisions of a compaction save in the
// halves of p from its cut on.
func (p Path) Saves(span turns.Span, body *turns.CompactionBody, c tokens.Counter) (n uint64) {
	p.Counter = c
	for _, saved := range p.SavedBy(span.Elisions, body.Elided) {
		n += saved
	}
	return n
}

// index returns where each half of p is.
func (p Path) index() map[halfKey]int {
	at := make(map[halfKey]int, len(p.Halves))
	for i := range p.Halves {
		at[halfKey{p.Halves[i].Ref, p.Halves[i].Half}] = i
	}
	return at
}

// Saving returns the tokens that one elision saves in a half.
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

// Calibrate returns how providers' counts on the path relate to its counter's. It
// begins with the calibration stored in the compaction in force, and adds every
// later call whose context was the one that the path describes.
func (p Path) Calibrate() (c tokens.Calibration) {
	if p.Sums != nil {
		return p.Sums.calibration
	}
	if t := p.totals(); t != nil {
		return t.calibration
	}
	after := p.Changed
	if f := p.InForce; f != nil {
		c, after = f.ReadMeta().Calibration, max(after, f.Node.Depth)
	}
	if p.View.When != "" {
		return c // the view shows other content than is counted here
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

// Ratio returns the factor, in [1, 2], by which a policy multiplies its counts on p:
// see [policy.Calibrated].
func (p Path) Ratio(pol policy.Policy) float64 {
	if pol.Measure != policy.Calibrated {
		return 1
	}
	return max(1, float64(p.Calibrate().Apply(ratioUnit))/ratioUnit)
}

const ratioUnit = 1 << 20

// Replaced returns the tokens of the replacement in force, its nudge included.
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

// Tokens returns the tokens of the context's messages without any further
// compaction.
func (p Path) Tokens() uint64 {
	if t := p.totals(); t != nil {
		return p.Replaced() + t.shown
	}
	return p.Replaced() + p.ShownFrom(0)
}

// ShownFrom returns the tokens of the halves from half i on, elisions applied.
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

// PreviousSummary returns the text that the next summary must include: the summary
// in force or, if another system stored only messages, their text.
func (p Path) PreviousSummary() string {
	if p.InForce == nil {
		return ""
	}
	if len(p.InForce.Body.Nudge) > 0 { // a nudge's summary is about parts that are still on the path
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

// Meta is what a compaction stores in the meta of its body.
type Meta struct {
	FirstRequest string `json:"first_request,omitzero"`
	// Carried is the summary that the replacement holds. It is set if the
	// compaction's own summary is that of a nudge.
	Carried string `json:"carried,omitzero"`
	// Pins are the texts of covered pinned turns, oldest first.
	Pins []string `json:"pins,omitempty"`
	// Rules are what users said must or must not be done, oldest first.
	Rules []string `json:"rules,omitempty"`
	// Quotes are what the replacement quotes of files.
	Quotes []quote.Quote `json:"quotes,omitempty"`
	// Amended is how many lines were added to the summary when it was committed, for
	// turns that came while it was written.
	Amended uint64 `json:"amended,omitzero"`
	// Calibration is the path's calibration at the compaction, under
	// [policy.Calibrated].
	Calibration tokens.Calibration `json:"calibration,omitzero"`
}

// Empty reports whether m holds nothing.
func (m Meta) Empty() bool {
	return m.FirstRequest == "" && m.Carried == "" && len(m.Pins) == 0 && len(m.Rules) == 0 && len(m.Quotes) == 0 && m.Amended == 0 && m.Calibration == tokens.Calibration{}
}

// ReadMeta returns the meta of a compaction, which nobody may change; the zero Meta if
// another system made it.
func (f *InForce) ReadMeta() (m Meta) {
	if f.Meta != nil {
		return *f.Meta
	}
	if f.Body.Meta != nil && turns.DecodeJSON(f.Body.Meta, &m) != nil {
		return Meta{}
	}
	return m
}

// FirstRequest returns the session's first request: what a person wrote in the first
// user message that holds anything of theirs ([summary.Request]). It takes the quote in
// the compaction in force, or else looks in reads, if these begin at the root.
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
				if s := summary.Request(summary.TextOf(m)); s != "" {
					return s
				}
			}
		}
	}
	return ""
}

// PinnedTexts returns the texts of pinned turns before half cut, oldest first: those
// that the compaction in force quotes, and newly covered ones. It returns the newest
// maxPins; the summary has to hold older ones.
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

// maxPins bounds how many pins a replacement quotes.
const maxPins = 64

// Rendered returns, for each position from half from on, the tokens of all later
// halves as they are rendered. No call may be open at from.
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

// Load is the size of a context, as far as it can be known without its messages.
type Load struct {
	Tokens   uint64        // of the messages, by the policy's counter, without overhead
	Reported uint64        // of the whole context: see [Path.ReportedTokens]; 0: no provider counted
	Turns    uint64        // normal turns since the compaction in force, or since the root
	Messages uint64        // in the context; 0: not counted
	Idle     time.Duration // time since the newest turn; 0: unknown
}

// MeasureLoad returns the load of the path's context, whose messages have so many
// tokens.
func (p Path) MeasureLoad(tokens uint64) Load {
	l := Load{Tokens: tokens, Reported: p.ReportedTokens(), Idle: p.Idle}
	if p.View.When != "" {
		l.Tokens = max(tokens, p.Tokens()) // a view hides tokens but does not remove them, so they count
	}
	if p.InForce != nil {
		l.Messages = uint64(len(p.InForce.Body.Replacement) + len(p.InForce.Body.Nudge))
	}
	if t := p.totals(); t != nil {
		l.Messages, l.Turns = l.Messages+t.messages, t.turns
		return l
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

// ReportedTokens returns the size of the context, overhead included, by the
// provider's last count. That is the reported input of the newest response whose
// call saw what is in force now, plus an estimate of that response and of everything
// appended since. 0: no provider counted.
func (p Path) ReportedTokens() (total uint64) {
	if t := p.totals(); t != nil {
		return t.reported
	}
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
