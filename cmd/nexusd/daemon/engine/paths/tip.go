package paths

import (
	"errors"
	"slices"

	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// A session's path is loaded and rendered before each of its calls, a turn or two longer
// each time. So the loader keeps the newest one, and adds to it what came since.

// tip is a path that was loaded last for a session. Requests share it; nobody changes it.
//
// Invariant: all content of its halves is loaded, and no elision is in force.
type tip struct {
	head      lineage.Node
	hash      turns.Hash // of the event of head: it covers all events that the path is made of
	keys      []turns.ID // that their bodies are sealed under
	inForce   *view.InForce
	counter   string
	scan      pathScan
	halves    []summary.HalfTurn
	content   int // bytes of it
	frames    int // bytes of everything else
	rendering *view.Rendering
}

// tipAt returns the tip of a session that a load of head can go on from, nil if there is
// none. in is the compaction in force at head.
func (pl *Loader) tipAt(session turns.ID, head lineage.Node, in turns.Ref, preamble turns.Hash, c tokens.Counter) (*tip, error) {
	x, ok := pl.tips.Get(session)
	if !ok || x.head.Ref.Session != head.Ref.Session || x.head.Segment != head.Segment || x.head.Depth > head.Depth ||
		x.scan.inForce != in || x.scan.preamble != preamble || x.counter != c.Name() {
		return nil, nil
	}
	t, err := pl.reader.Projections.Turn(x.head.Ref)
	if errors.Is(err, lineage.ErrUnknown) {
		return nil, nil // the ledger has lost events
	}
	if err != nil {
		return nil, err
	}
	if t.Hash != x.hash || t.Segment != x.head.Segment || t.Depth != x.head.Depth {
		return nil, nil
	}
	for _, id := range x.keys {
		if _, err := pl.content.Key(id); err != nil {
			pl.tips.Drop(session)
			return nil, nil // loading the turns says what that means for them
		}
	}
	return x, nil
}

// keepTip keeps a path that l has loaded for a session, if another load can go on from it.
// It went on from before, if that is not nil.
func (pl *Loader) keepTip(epoch uint64, p *view.Path, sc *pathScan, l *loading, before *tip) error {
	if l.partial || l.clipped > 0 || len(l.foreign) > 0 || len(l.halves) == 0 {
		return nil
	}
	if f := p.InForce; f != nil && len(f.Span.Elisions)+len(f.Body.Elided) > 0 {
		return nil
	}
	t, err := pl.reader.Projections.Turn(p.Head.Ref)
	if err != nil {
		return err
	}
	x := &tip{head: p.Head, hash: t.Hash, keys: l.keys, inForce: p.InForce, counter: l.counter.Name(), scan: *sc, halves: slices.Clip(l.halves), content: l.content, frames: l.frames}
	if before != nil {
		x.rendering = before.rendering // one of another path would hold content that is not counted
	}
	pl.putTip(epoch, p.Session, x)
	return nil
}

func (pl *Loader) putTip(epoch uint64, session turns.ID, x *tip) {
	pl.tips.PutIn(epoch, session, x, x.content+x.frames+x.rendering.Size())
}

// Render is [view.Render] by the path's own counter. What it rendered for an earlier load
// of the session it does not render again.
func (pl *Loader) Render(p view.Path) (view.Context, error) {
	epoch := pl.tips.Epoch()
	x, ok := pl.tips.Get(p.Session)
	if !ok {
		return view.Render(p, p.Counter)
	}
	out, rendering, err := view.RenderAfter(x.rendering, p, p.Counter)
	if err == nil && rendering != nil && rendering != x.rendering && x.head.Ref == p.Head.Ref {
		now := *x
		now.rendering = rendering
		pl.putTip(epoch, p.Session, &now)
	}
	return out, err
}
