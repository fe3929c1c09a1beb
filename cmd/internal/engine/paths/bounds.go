package paths

import (
	"context"
	"fmt"
	"slices"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/request"
	"nexus/compactor/summary"
	"nexus/ledger"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// A request that plans or renders loads the path since the last compaction. The path
// has no bound: a policy may never compact, and many small turns may name the same
// blob of megabytes. The memory for it has one: the loader keeps the newest content
// whole, and clips older content. So a compaction can be planned on a history of any
// size, and a context that needs clipped content is refused.

const (
	// defaultContent bounds the content of one loaded path, in bytes. No provider
	// takes as much in one request.
	defaultContent = 48 << 20
	// maxFrames bounds the memory of a path without its content, in bytes: its
	// turns, messages and parts. It has room for about 170,000 turns.
	maxFrames = 256 << 20

	halfBytes = 256 // about what a half takes without its parts
	partBytes = 256 // about what a part takes without its content
	// clipBytes is the size of the smallest part that is worth clipping.
	clipBytes = 2 * content.PreviewBytes
)

// contentLimit returns the bound on the content of one loaded path, in bytes.
func (pl *Loader) contentLimit() int {
	if pl.MaxContent <= 0 {
		return defaultContent
	}
	return pl.MaxContent
}

// loading is a path while it is loaded, root first.
type loading struct {
	loader  *Loader
	counter tokens.Counter // of the path
	keep    bool           // keep the turns for the next request
	halves  []summary.HalfTurn
	shared  int        // halves[:shared] are read by others
	content int        // bytes of the content that is not clipped
	frames  int        // bytes of everything else
	clipped int        // halves[:clipped] are clipped
	foreign []int      // indices of the halves that another counter than the ledger's counted
	keys    []turns.ID // that what was loaded is sealed under
	partial bool       // a half is erased, or has content in blobs
}

// resume begins with the halves of an earlier load, for a path to head.
func (l *loading) resume(ctx context.Context, x *tip, head lineage.Node) error {
	l.halves = x.halves.Items()
	l.shared = len(l.halves)
	if more := head.Depth - x.head.Depth; more > 0 {
		l.halves = x.halves.First(l.shared, l.shared+int(min(2*more, maxExpected)))
	}
	l.content, l.frames, l.keys = x.content, x.frames, slices.Clip(x.keys)
	return request.Charge(ctx, x.content+x.frames)
}

// addKeys notes under which keys a turn is sealed.
func (l *loading) addKeys(t *turn) {
	l.partial = l.partial || t.erased
	for _, id := range t.event.Keys {
		if !slices.Contains(l.keys, id) {
			l.keys = append(l.keys, id)
		}
	}
}

// maxExpected bounds the halves that room is made for before they are read.
const maxExpected = 1 << 10

// expect makes room for the halves of ranges.
func (l *loading) expect(ranges []lineage.Range) {
	n := uint64(0)
	for _, r := range ranges {
		n += 2 * (r.Hi - r.Lo + 1)
	}
	l.halves = slices.Grow(l.halves, int(min(n, maxExpected)))
}

// add appends a half whose large parts are still in their blobs, and clips the
// oldest halves if the content is over its bound. The half has size bytes of content,
// and frame beside.
func (l *loading) add(ctx context.Context, h summary.HalfTurn, size, frame int) error {
	l.halves = append(l.halves, h)
	l.content, l.frames = l.content+size, l.frames+frame
	if err := request.Charge(ctx, size+frame); err != nil {
		return err
	}
	for ; l.content > l.loader.contentLimit() && l.clipped < len(l.halves); l.clipped++ {
		if l.clipped < l.shared {
			l.halves, l.shared = slices.Clone(l.halves), 0
		}
		ms := cloneMessages(l.halves[l.clipped].Messages) // the loader may keep the turn
		l.halves[l.clipped].Messages, l.halves[l.clipped].Counts = ms, nil
		was := content.MessagesSize(ms)
		for _, p := range content.MessageParts(ms) {
			clipPart(p)
		}
		clippedSize := content.MessagesSize(ms)
		l.content, l.frames = l.content-was, l.frames+clippedSize
		if err := request.Charge(ctx, clippedSize-was); err != nil {
			return err
		}
	}
	if l.frames > maxFrames {
		return fmt.Errorf("%w: the path has too many turns since its last compaction to be taken at once (%d halves); turn.list reads them in pages", ledger.ErrTooLarge, len(l.halves))
	}
	return nil
}

// fill puts the content of blobs into the parts, newest first, as long as there is
// room. The other parts keep their ref. Then it counts the halves that another
// counter than the ledger's had counted, since their sum would mean nothing.
func (l *loading) fill(ctx context.Context, tenant string, root turns.ID) error {
	var parts []*turns.Part
	for i := len(l.halves) - 1; i >= l.shared; i-- { // those of a tip are whole
		if l.halves[i].Counts == nil { // only halves with content in blobs are not counted
			parts = append(parts, content.MessageParts(l.halves[i].Messages)...)
		}
	}
	if err := l.fillParts(ctx, tenant, root, parts); err != nil {
		return err
	}
	for _, i := range l.foreign {
		h := &l.halves[i]
		if l.counter.Name() == l.loader.content.Counter.Name() {
			h.Tokens = h.Count(l.counter)
		} else {
			h.Tokens = tokens.Messages(l.loader.content.Counter, h.Messages)
		}
	}
	return nil
}

// room returns how many more bytes of content may be loaded.
func (l *loading) room() uint64 { return uint64(max(0, l.loader.contentLimit()-l.content)) }

// fillParts puts the content of blobs into parts, in their order, as long as there
// is room.
func (l *loading) fillParts(ctx context.Context, tenant string, root turns.ID, parts []*turns.Part) error {
	room := l.room()
	var links []content.Blob
	parts = slices.DeleteFunc(slices.Clone(parts), func(p *turns.Part) bool {
		if p.Ref == nil || p.Ref.Digest == (turns.Hash{}) || p.Ref.Size > room {
			return true
		}
		room -= p.Ref.Size
		links = append(links, content.Blob{Digest: p.Ref.Digest, Size: p.Ref.Size})
		return false
	})
	if len(parts) == 0 {
		return nil
	}
	k, err := l.loader.content.Tree(root)
	if err != nil {
		return err
	}
	next := 0
	for i, p := range parts {
		if room := l.room(); room == 0 || p.Ref.Size > room {
			continue
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: read the path: %w", ledger.ErrUnavailable, ctx.Err())
		}
		if i >= next {
			next = i + l.loader.content.ReadAhead(ctx, tenant, k, links[i:])
		}
		if err := l.loader.content.InlinePart(ctx, tenant, k, p); err != nil {
			return err
		}
		n := content.PartSize(p) // the size in the ref may be wrong
		l.content += n
		if err := request.Charge(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// clipPart clips a large part to its preview, as if its content were in a blob.
func clipPart(p *turns.Part) {
	n := content.PartSize(p)
	if p.Ref != nil || n+len(p.Ext) < clipBytes {
		return
	}
	ref := &turns.BlobRef{Size: uint64(n), MimeType: p.MimeType}
	if p.Type != turns.Blob {
		c := p.ContentBytes()
		ref.Preview = content.Preview(string(c[:min(len(c), 2*content.PreviewBytes)]))
	}
	p.Content, p.Arguments, p.Response, p.Data, p.Ext, p.Ref = "", nil, nil, nil, nil, ref
}

// CheckWhole checks that no message has a part whose content was not loaded.
func (pl *Loader) CheckWhole(ms []turns.Message) error {
	for i := range ms {
		if slices.ContainsFunc(ms[i].Parts, func(p turns.Part) bool { return p.Ref != nil }) {
			return fmt.Errorf("%w: the context has more than %d bytes of content; compaction.run makes it shorter", ledger.ErrTooLarge, pl.contentLimit())
		}
	}
	return nil
}
