package paths

import (
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/shared"
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
	halves    *shared.List[summary.HalfTurn]
	totals    *view.Totals // nil: none are of halves
	content   int          // bytes of it
	frames    int          // bytes of everything else
	rendering *view.Rendering
}

// totalsBefore returns the totals that a path which goes on from x may go on from.
func (x *tip) totalsBefore() *view.Totals {
	if x == nil {
		return nil
	}
	return x.totals
}

// tipAt returns the tip of a session that a load of head can go on from, nil if there is
// none. in is the compaction in force at head.
func (pl *Loader) tipAt(session turns.ID, head lineage.Node, in turns.Ref, preamble turns.Hash, c tokens.Counter) (*tip, error) {
	x, ok := pl.tips.Get(session)
	if !ok || x.head.Ref.Session != head.Ref.Session || x.head.Segment != head.Segment || x.head.Depth > head.Depth ||
		x.scan.inForce != in || x.scan.preamble != preamble || x.counter != c.Name() {
		return nil, nil
	}
	stored, err := pl.isStored(x.head.Ref, x.head.Segment, x.head.Depth, x.hash, x.keys)
	if err != nil {
		return nil, err
	}
	if !stored {
		pl.tips.Drop(session)
		return nil, nil // loading the turns says what that means for them
	}
	return x, nil
}

// keepTip keeps a path that l has loaded for a session, if another load can go on from it.
// hash is that of the event of its head. l went on from before, if that is not nil.
func (pl *Loader) keepTip(epoch uint64, p *view.Path, hash turns.Hash, sc *pathScan, l *loading, before *tip) {
	if l.partial || l.clipped > 0 || len(l.foreign) > 0 || len(l.halves) == 0 {
		return
	}
	if f := p.InForce; f != nil && len(f.Span.Elisions)+len(f.Body.Elided) > 0 {
		return
	}
	halves := shared.Of(l.halves)
	x := &tip{head: p.Head, hash: hash, keys: l.keys, inForce: p.InForce, counter: l.counter.Name(), scan: *sc, halves: &halves, content: l.content, frames: l.frames}
	if &p.Halves[0] == &l.halves[0] { // else they are of halves that were counted anew
		x.totals = p.Totals
	}
	if before != nil {
		x.rendering = before.rendering // one of another path would hold content that is not counted
	}
	pl.putTip(epoch, p.Session, x)
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
	// p may be another path than x, changed or loaded while a key was destroyed.
	if err == nil && rendering != nil && rendering != x.rendering && rendering.IsOf(x.halves.Items()) {
		now := *x
		now.rendering = rendering
		pl.putTip(epoch, p.Session, &now)
	}
	return out, err
}
