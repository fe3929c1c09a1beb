package paths

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/turns"
)

// A context loads the turns that the context before it loaded, and a few more. So the
// loader keeps the turns of the segments that it has loaded.

// runKey names a segment.
type runKey struct{ session, segment turns.ID }

// run is a stretch of a segment, decoded. Requests share it; nobody changes it.
//
// Invariant: hash is that of the event of the last turn. The hash covers all events
// before on the session's chain, so it names the content of all turns of the run.
type run struct {
	lo    uint64 // depth of the first turn
	turns []*turn
	hash  turns.Hash
	keys  []turns.ID // that the bodies are sealed under
	size  int
}

// hi returns the depth of the last turn.
func (r *run) hi() uint64 { return r.lo + uint64(len(r.turns)) - 1 }

// knownRun returns what is kept of a range, nil if that is nothing. It compares the
// run with what is stored now, and checks that no key was destroyed.
func (pl *Loader) knownRun(r lineage.Range) (*run, error) {
	name := runKey{r.Session, r.Segment}
	k, ok := pl.runs.Get(name)
	if !ok || r.Lo > k.hi()+1 || r.Hi+1 < k.lo {
		return nil, nil
	}
	stored, err := pl.isStored(k.turns[len(k.turns)-1].event.Ref(), r.Segment, k.hi(), k.hash, k.keys)
	if err != nil {
		return nil, err
	}
	if !stored {
		pl.runs.Drop(name)
		return nil, nil // decoding the turns says what that means for them
	}
	return k, nil
}

// isStored reports whether what was loaded up to a turn is what is stored now: the hash of
// the turn's event is hash, and no key was destroyed.
func (pl *Loader) isStored(ref turns.Ref, segment turns.ID, depth uint64, hash turns.Hash, keys []turns.ID) (bool, error) {
	t, err := pl.reader.Projections.Turn(ref)
	if errors.Is(err, lineage.ErrUnknown) {
		return false, nil // the ledger has lost events
	}
	if err != nil || t.Hash != hash || t.Segment != segment || t.Depth != depth {
		return false, err
	}
	return !slices.ContainsFunc(keys, func(id turns.ID) bool {
		_, err := pl.content.Key(id)
		return err != nil
	}), nil
}

// turnsIn yields the turns of a range, by depth. It decodes those that the loader does
// not keep, and keeps them if keep is set.
func (pl *Loader) turnsIn(ctx context.Context, r lineage.Range, keep bool) iter.Seq2[*turn, error] {
	return func(yield func(*turn, error) bool) {
		epoch := pl.runs.Epoch() // before it reads a key
		known, err := pl.knownRun(r)
		if err != nil {
			yield(nil, err)
			return
		}
		k := collecting{loader: pl, next: r.Lo, broken: !keep}
		scan := func(lo, hi uint64) bool {
			for payload, err := range pl.reader.Projections.Range(lineage.Range{Session: r.Session, Segment: r.Segment, Lo: lo, Hi: hi}) {
				if err == nil && ctx.Err() != nil {
					err = fmt.Errorf("%w: read the path: %w", ledger.ErrUnavailable, ctx.Err())
				}
				var t *turn
				if err == nil {
					t, err = pl.decodeTurn(payload)
				}
				if !yield(t, err) || err != nil {
					return false
				}
				k.add(t, payload)
			}
			return true
		}
		if known == nil {
			if scan(r.Lo, r.Hi) {
				k.keep(epoch, r)
			}
			return
		}
		if r.Lo < known.lo && !scan(r.Lo, known.lo-1) {
			return
		}
		for _, t := range known.turns[max(r.Lo, known.lo)-known.lo : min(r.Hi, known.hi())+1-known.lo] {
			if !yield(t, nil) {
				return
			}
		}
		if r.Lo >= known.lo && r.Hi <= known.hi() {
			return
		}
		k.addRun(known, max(r.Lo, known.lo))
		if r.Hi <= known.hi() || scan(known.hi()+1, r.Hi) {
			k.keep(epoch, r)
		}
	}
}

// collecting is a run while it is read.
type collecting struct {
	loader *Loader
	run
	next   uint64 // depth of the next turn
	last   []byte // payload of the last turn that was decoded; nil: hash is set
	broken bool   // it can't be kept
}

// add adds a turn that was decoded from payload.
func (c *collecting) add(t *turn, payload []byte) {
	if c.size += t.bytes(); t.erased || t.event.Depth != c.next || c.size > c.loader.contentLimit() {
		c.broken, c.turns = true, nil // and the memory is free
	}
	if c.broken {
		return
	}
	if c.next++; len(c.turns) == 0 {
		c.lo = t.event.Depth
	}
	c.turns, c.last = append(c.turns, t), payload
	for _, id := range t.event.Keys {
		if t.event.Kind == turns.KindTurn && !slices.Contains(c.keys, id) {
			c.keys = append(c.keys, id)
		}
	}
}

// addRun adds the turns of a run, from depth lo on.
func (c *collecting) addRun(r *run, lo uint64) {
	for _, t := range r.turns[lo-r.lo:] {
		c.size += t.bytes()
	}
	if c.next != lo || c.size > c.loader.contentLimit() {
		c.broken, c.turns = true, nil
	}
	if c.broken {
		return
	}
	if len(c.turns) == 0 {
		c.lo = lo
	}
	c.turns, c.hash, c.last, c.next = append(c.turns, r.turns[lo-r.lo:]...), r.hash, nil, r.hi()+1
	for _, id := range r.keys {
		if !slices.Contains(c.keys, id) {
			c.keys = append(c.keys, id)
		}
	}
}

// keep keeps the run of a range.
func (c *collecting) keep(epoch uint64, r lineage.Range) {
	if !c.broken && len(c.turns) > 0 {
		k := c.run
		if c.last != nil {
			k.hash = turns.HashEvent(c.last)
		}
		c.loader.runs.PutIn(epoch, runKey{r.Session, r.Segment}, &k, k.size)
	}
}
