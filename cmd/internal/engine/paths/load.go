package paths

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"nexus/cmd/internal/engine/content"
	"nexus/compactor"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/lineage"
	"nexus/turns"
)

// Load loads everything that planning and rendering see at a node: the compaction in
// force and the halves after its cut. It costs one range scan for each segment since
// the cut, whatever the length of the history before. A part for which there is no
// room has its preview only, as [loading] describes. Content in pieces is never loaded:
// a notice stands in its place.
//
// Tokens are those of the policy's counter. Load takes the stored counts if that is
// the ledger's own counter, and counts otherwise.
func (pl *Loader) Load(ctx context.Context, s *ledger.Session, set *turns.Settings, pol policy.Policy, head lineage.Node) (view.Path, error) {
	p := pl.EmptyPath(s, set, pol, head)
	if head.Ref.IsZero() {
		return p, nil
	}
	p.Idle = pl.reader.IdleTime(head)
	p.View = pol.Prune
	p.Cold = pol.Cold(p.Idle)
	epoch := pl.tips.Epoch() // before it reads a key
	in, err := pl.reader.CompactionAt(s, head)
	if err != nil {
		return p, err
	}
	preamble, err := pl.content.PreambleDigest(set)
	if err != nil {
		return p, err
	}
	x, err := pl.tipAt(s.ID, head, in, preamble, p.Counter)
	if err != nil {
		return p, err
	}
	row, err := pl.reader.Projections.Turn(head.Ref) // before what its hash covers is read
	if err != nil {
		return p, err
	}
	l := &loading{loader: pl, counter: p.Counter, keep: true}
	sc := pathScan{inForce: in, preamble: preamble}
	var cut lineage.Cut
	switch {
	case x != nil:
		if err := l.resume(ctx, x, head); err != nil {
			return p, err
		}
		p.InForce, sc, cut = x.inForce, x.scan, lineage.CutBefore(x.head.Depth+1, turns.MessagesHalf)
	case !in.IsZero():
		if p.InForce, cut, err = l.compaction(ctx, s, in); err != nil {
			return p, err
		}
	}
	if err := pl.scan(ctx, s, head, cut, &sc, l); err != nil {
		return p, err
	}
	p.Halves = slices.Clip(l.halves)
	p.Changed = sc.changed
	if recount := p.Counter.Name() != pl.content.Counter.Name(); recount || p.InForce != nil && len(p.InForce.Body.Elided) > 0 { // else no half saves anything
		p = p.Settled(p.Counter, recount)
	}
	p = p.WithTotals(x.totalsBefore())
	if x == nil || x.head.Ref != head.Ref {
		pl.keepTip(epoch, &p, row.Hash, &sc, l, x)
	}
	return p, nil
}

// compaction loads a compaction, as the one in force. cut is where what it keeps begins.
func (l *loading) compaction(ctx context.Context, s *ledger.Session, in turns.Ref) (f *view.InForce, cut lineage.Cut, err error) {
	t, ev, err := l.loader.reader.TurnEvent(in)
	if err != nil {
		return nil, cut, err
	}
	f = &view.InForce{Node: t.Node, Span: *ev.Span}
	switch err := l.loader.content.Open(ev, &f.Body); {
	case errors.Is(err, turns.ErrErased): // the context goes on without it
		f.Erased, l.partial = true, true
		return f, t.Cut, nil
	case err != nil:
		return nil, cut, err
	}
	meta := f.ReadMeta()
	f.Meta = &meta
	l.keys = append(l.keys, ev.Keys...)
	parts := content.MessageParts(f.Body.Replacement)
	l.partial = slices.ContainsFunc(parts, func(q *turns.Part) bool { return q.Ref != nil })
	l.content += content.MessagesSize(f.Body.Replacement)
	return f, t.Cut, l.fillParts(ctx, s.Tenant, s.Root, parts)
}

// LoadAsOf is Load for a call that was made at a time, Unix nanoseconds: a compaction that
// was made later is not in force, though the path has it before the call. So it is with a
// transcript that grew after its session was compacted here. Nothing of it is kept for
// other loads.
func (pl *Loader) LoadAsOf(ctx context.Context, s *ledger.Session, set *turns.Settings, pol policy.Policy, head lineage.Node, at int64) (view.Path, error) {
	in, err := pl.reader.CompactionAt(s, head)
	if err != nil {
		return view.Path{}, err
	}
	later := false
	for !in.IsZero() {
		t, ev, err := pl.reader.TurnEvent(in)
		if err != nil {
			return view.Path{}, err
		}
		made := ev.Recorded
		if ev.Claimed != 0 {
			made = ev.Claimed
		}
		if made <= at {
			break
		}
		later, in = true, turns.Ref{}
		if t.Parent.IsZero() {
			break
		}
		up, err := pl.reader.Projections.Node(t.Parent)
		if err != nil {
			return view.Path{}, err
		}
		if in, err = pl.reader.CompactionAt(s, up); err != nil {
			return view.Path{}, err
		}
	}
	if !later {
		return pl.Load(ctx, s, set, pol, head)
	}
	p := pl.EmptyPath(s, set, pol, head)
	p.Idle = pl.reader.IdleTime(head)
	p.View = pol.Prune
	p.Cold = pol.Cold(p.Idle)
	preamble, err := pl.content.PreambleDigest(set)
	if err != nil {
		return p, err
	}
	l := &loading{loader: pl, counter: p.Counter}
	var cut lineage.Cut
	if !in.IsZero() {
		if p.InForce, cut, err = l.compaction(ctx, s, in); err != nil {
			return p, err
		}
	}
	sc := pathScan{inForce: in, preamble: preamble}
	if err := pl.scan(ctx, s, head, cut, &sc, l); err != nil {
		return p, err
	}
	p.Halves, p.Changed = l.halves, sc.changed
	return p.Settled(p.Counter, p.Counter.Name() != pl.content.Counter.Name()), nil
}

// EmptyPath returns a path without halves, for triggers that need sizes only.
func (pl *Loader) EmptyPath(s *ledger.Session, set *turns.Settings, pol policy.Policy, head lineage.Node) view.Path {
	c := pol.CounterOf()
	return view.Path{Session: s.ID, Head: head, Overhead: pl.content.Overhead(c, set), Limits: pl.reader.Limits(set), Counter: c, Prices: pl.prices(set, pol)}
}

// pathScan is the state of one pass over the halves of a path.
type pathScan struct {
	inForce    turns.Ref    // the compaction in force at the head
	preamble   turns.Hash   // digest of the system part and the tools in force
	changed    uint64       // result: see Changed of [view.Path]
	superseded *turns.Event // the compaction in force where the scan is, if it is not inForce
}

// observe follows which compaction was in force along the path.
func (sc *pathScan) observe(ev *turns.Event) {
	switch {
	case ev.Kind == turns.KindCompaction && ev.Ref() != sc.inForce:
		sc.superseded, sc.changed = ev, ev.Depth
	case ev.Kind == turns.KindCompaction:
		sc.superseded = nil
	case sc.superseded == nil:
	case sc.superseded.Span.Call && ev.UserTexts > 0:
		sc.changed, sc.superseded = ev.Depth-1, nil
	case sc.superseded.Span.Call || ev.Ref().Session == sc.superseded.Ref().Session:
		sc.changed = ev.Depth // its call was made under another compaction
	}
}

// Halves returns the halves of the normal turns on the path of head, from cut on.
// The halves of an erased session are empty and marked.
func (pl *Loader) Halves(ctx context.Context, s *ledger.Session, head lineage.Node, cut lineage.Cut) ([]summary.HalfTurn, error) {
	l := &loading{loader: pl, counter: pl.content.Counter}
	err := pl.scan(ctx, s, head, cut, new(pathScan), l)
	return l.halves, err
}

// Unsummarized returns what no model has summarized on the path of head: the halves after
// what the last compaction by a model, or by another program, covers, and the text of its
// summary; "" and all halves if there is none. Compactions by rules, and those that only
// shortened parts, are passed over, at most so many; 0: all.
func (pl *Loader) Unsummarized(ctx context.Context, s *ledger.Session, head lineage.Node, most int) (previous string, halves []summary.HalfTurn, err error) {
	in, err := pl.reader.CompactionAt(s, head)
	if err != nil {
		return "", nil, err
	}
	var cut lineage.Cut
	for passed := 0; !in.IsZero(); passed++ {
		l := &loading{loader: pl, counter: pl.content.Counter}
		f, end, err := l.compaction(ctx, s, in)
		if err != nil {
			return "", nil, err
		}
		if most > 0 && passed == most || len(f.Body.Nudge) == 0 && !compactor.ByRules(f.Body.Tier, pl.Tiers) {
			previous, cut = view.Path{InForce: f}.PreviousSummary(), end
			break
		}
		t, _, err := pl.reader.TurnEvent(in)
		if err != nil {
			return "", nil, err
		}
		if t.Parent.IsZero() {
			break
		}
		up, err := pl.reader.Projections.Node(t.Parent)
		if err != nil {
			return "", nil, err
		}
		if in, err = pl.reader.CompactionAt(s, up); err != nil {
			return "", nil, err
		}
	}
	halves, err = pl.Halves(ctx, s, head, cut)
	return previous, halves, err
}

// scan adds the halves from cut to head to l.
func (pl *Loader) scan(ctx context.Context, s *ledger.Session, head lineage.Node, cut lineage.Cut, sc *pathScan, l *loading) error {
	if cut.Depth() > head.Depth {
		return nil
	}
	ranges, err := lineage.Segments(pl.reader.Projections, head, max(cut.Depth(), 1))
	if err != nil {
		return err
	}
	l.expect(ranges)
	for _, r := range ranges {
		for t, err := range pl.turnsIn(ctx, r, l.keep) {
			if err != nil {
				return err
			}
			if sc.observe(t.event); t.event.Kind != turns.KindTurn {
				continue
			}
			if err := pl.addTurn(ctx, t, cut, sc, l); err != nil {
				return err
			}
		}
	}
	return l.fill(ctx, s.Tenant, s.Root)
}

// addTurn adds the halves of a turn that are after cut to l.
func (pl *Loader) addTurn(ctx context.Context, t *turn, cut lineage.Cut, sc *pathScan, l *loading) error {
	ev := t.event
	l.addKeys(t)
	for _, h := range t.halves {
		if h == nil || lineage.CutBefore(ev.Depth, h.Half) < cut {
			continue
		}
		if !t.erased && ev.Tokens.Counter != pl.content.Counter.Name() {
			l.foreign = append(l.foreign, len(l.halves))
		}
		l.partial = l.partial || h.refs
		shown := h.onPath(l.counter)
		if h.Half == turns.ResponseHalf && ev.Usage != nil && t.preamble == sc.preamble {
			shown.Reported = ev.Usage.InputTokens
		}
		if err := l.add(ctx, shown, h.size, h.frame); err != nil {
			return err
		}
	}
	return nil
}

// isPinned reports whether the meta of a turn has "pin": true. Every summary that
// covers such a turn quotes the text of its user.
func isPinned(meta turns.Raw) bool {
	if !bytes.Contains(meta, []byte(`"pin"`)) {
		return false
	}
	var m map[string]turns.Raw
	return turns.DecodeJSON(meta, &m) == nil && string(m["pin"]) == "true"
}

// programMessages is [turns.ProgramMessages], which most metas have none of.
func programMessages(meta turns.Raw) []int {
	if !bytes.Contains(meta, []byte(`"program_messages"`)) {
		return nil
	}
	return turns.ProgramMessages(meta)
}

// TiersFor returns the summarizers of a session of a model under a policy: those of the first
// model that either names and somebody has, else of the default one; and all that ask none.
func (pl *Loader) TiersFor(pol policy.Policy, model string) []compactor.Tier {
	want, tiers := pol.SummaryModels(model), pl.Tiers
	for _, w := range want {
		if pl.ModelTiers == nil || w == "" {
			continue
		}
		if slices.ContainsFunc(pl.Tiers, func(t compactor.Tier) bool { return t.Model == w }) {
			break
		}
		if of := pl.ModelTiers(w); len(of) > 0 {
			tiers = append(slices.Clip(of), tiers...)
			break
		}
	}
	return compactor.ForModel(tiers, want...)
}

// prices returns the prices of the session's model and of the first summarizer whose
// model is known.
func (pl *Loader) prices(set *turns.Settings, pol policy.Policy) (p view.Prices) {
	if m, ok := pl.reader.Models.Find(set.Model); ok && set.Model != "" {
		p.Model = m.Price
	}
	for _, t := range pl.TiersFor(pol, set.Model) {
		if m, ok := pl.reader.Models.Find(t.Model); ok && t.Model != "" {
			p.Summarizer = m.Price
			break
		}
	}
	return p
}
