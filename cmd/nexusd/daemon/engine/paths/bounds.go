package paths

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"nexus/cmd/nexusd/daemon/engine/content"
	"nexus/compactor/summary"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/tokens"
)

// A request that plans or renders loads the path since the last compaction. A
// path has no bound: a policy may never compact, and a turn of 500 bytes may name
// a blob of megabytes that a hundred turns before it name too. What is loaded
// has: the newest content whole, of what is older its beginning. So a compaction
// is planned on a history of any size, and a context that would need what is not
// loaded is refused.

const (
	// contentLimit is how many bytes of content a path is loaded with. It is more
	// than any provider takes in one request.
	defaultContent = 48 << 20
	// maxFrames bounds what a path takes beside its content: its turns, messages
	// and parts, about 170,000 turns.
	maxFrames = 256 << 20
	// defaultLoaded is how much all requests together may have loaded.
	defaultLoaded = 512 << 20

	halfBytes = 256 // of a half without its parts, about
	partBytes = 256 // of a part without its content, about
	// clipBytes is how large a part is worth clipping.
	clipBytes = 2 * content.PreviewBytes
)

// contentLimit is the most content that a path is loaded with, in bytes.
func (pl *Loader) contentLimit() int {
	if pl.MaxContent <= 0 {
		return defaultContent
	}
	return pl.MaxContent
}

// Loaded is how many bytes of content all requests have loaded now.
func (pl *Loader) Loaded() int64 { return pl.loaded.Load() }

// loadedLimit is how many bytes all requests together may have loaded.
func (pl *Loader) loadedLimit() int64 {
	if pl.MaxLoaded <= 0 {
		return defaultLoaded
	}
	return pl.MaxLoaded
}

// meter counts what a request has loaded.
type meter struct {
	total *atomic.Int64 // of all requests
	max   int64         // of all requests
	used  atomic.Int64
}

type meterKey struct{}

// MeterRequest makes a context in which what is loaded counts against what all
// requests together may have in memory; past it they are busy. The function
// that it returns is called when the request is answered.
func (pl *Loader) MeterRequest(ctx context.Context) (context.Context, func()) {
	m := &meter{total: &pl.loaded, max: pl.loadedLimit()}
	return context.WithValue(ctx, meterKey{}, m), func() { m.total.Add(-m.used.Swap(0)) }
}

// meterOf is the meter of a request; nil where nothing counts.
func meterOf(ctx context.Context) *meter {
	m, _ := ctx.Value(meterKey{}).(*meter)
	return m
}

// ReleaseLoaded says that a request keeps nothing of what it has loaded so far.
func ReleaseLoaded(ctx context.Context) {
	if m := meterOf(ctx); m != nil {
		m.total.Add(-m.used.Swap(0))
	}
}

// chargeLoaded counts n bytes more.
func chargeLoaded(ctx context.Context, n int) error {
	m := meterOf(ctx)
	if m == nil {
		return nil
	}
	m.used.Add(int64(n))
	if m.total.Add(int64(n)) > m.max && n > 0 {
		return &api.Error{Code: api.Busy, Message: "the histories that are being read take all the memory that there is for them", Details: map[string]any{"retry_after_ms": 500}}
	}
	return nil
}

// loading is a path being loaded, root first.
type loading struct {
	loader  *Loader
	halves  []summary.HalfTurn
	content int   // bytes of what is whole
	frames  int   // bytes of all the rest
	clipped int   // halves[:clipped] are clipped
	foreign []int // halves whose count is not the ledger's own counter's
}

// add appends a half. Its large parts are still in their blobs.
func (l *loading) add(ctx context.Context, h summary.HalfTurn) error {
	size, frame := content.MessagesSize(h.Messages), halfBytes+partBytes*len(content.MessageParts(h.Messages))
	l.halves = append(l.halves, h)
	l.content, l.frames = l.content+size, l.frames+frame
	if err := chargeLoaded(ctx, size+frame); err != nil {
		return err
	}
	for ; l.content > l.loader.contentLimit() && l.clipped < len(l.halves); l.clipped++ {
		ms := l.halves[l.clipped].Messages
		was := content.MessagesSize(ms)
		for _, p := range content.MessageParts(ms) {
			clipPart(p)
		}
		left := content.MessagesSize(ms)
		l.content, l.frames = l.content-was, l.frames+left
		if err := chargeLoaded(ctx, left-was); err != nil {
			return err
		}
	}
	if l.frames > maxFrames {
		return fmt.Errorf("%w: the path has too many turns since its last compaction to be taken at once (%d halves); turn.list reads them in pages", ledger.ErrTooLarge, len(l.halves))
	}
	return nil
}

// fill puts the content of blobs into the parts that there is room for, newest
// first. The others keep their ref. Then it counts what another counter than the
// ledger's own has counted: sums of both would mean nothing.
func (l *loading) fill(ctx context.Context, tenant string, root turns.ID) error {
	var parts []*turns.Part
	for i := len(l.halves) - 1; i >= 0; i-- {
		parts = append(parts, content.MessageParts(l.halves[i].Messages)...)
	}
	if err := l.fillParts(ctx, tenant, root, parts); err != nil {
		return err
	}
	for _, i := range l.foreign {
		l.halves[i].Tokens = tokens.Messages(l.loader.content.Counter, l.halves[i].Messages)
	}
	return nil
}

// room is how many bytes of content there is room for.
func (l *loading) room() uint64 { return uint64(max(0, l.loader.contentLimit()-l.content)) }

// fillParts fills those of parts that there is room for, in their order.
func (l *loading) fillParts(ctx context.Context, tenant string, root turns.ID, parts []*turns.Part) error {
	room := l.room()
	var links []turns.BlobLink
	parts = slices.DeleteFunc(slices.Clone(parts), func(p *turns.Part) bool {
		if p.Ref == nil || p.Ref.Digest == (turns.Hash{}) || p.Ref.Size > room {
			return true
		}
		room -= p.Ref.Size
		links = append(links, turns.BlobLink{Digest: p.Ref.Digest, Size: p.Ref.Size})
		return false
	})
	if len(parts) == 0 {
		return nil
	}
	k, err := l.loader.content.BlobKey(root)
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
		n := content.PartSize(p) // not what the ref says, which may be another's claim
		l.content += n
		if err := chargeLoaded(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// clipPart leaves of a large part its beginning, as if it were moved to a blob.
func clipPart(p *turns.Part) {
	n := content.PartSize(p)
	if p.Ref != nil || n+len(p.Ext) < clipBytes {
		return
	}
	ref := &turns.BlobRef{Size: uint64(n), MimeType: p.MimeType}
	if p.Type != turns.Blob {
		c := content.PartContent(p)
		ref.Preview = content.Preview(string(c[:min(len(c), 2*content.PreviewBytes)]))
	}
	p.Content, p.Arguments, p.Response, p.Data, p.Ext, p.Ref = "", nil, nil, nil, nil, ref
}

// CheckWhole checks that messages to be shown were loaded with all their content.
func (pl *Loader) CheckWhole(ms []turns.Message) error {
	for _, p := range content.MessageParts(ms) {
		if p.Ref != nil {
			return fmt.Errorf("%w: the context has more than %d bytes of content; compaction.run makes it shorter", ledger.ErrTooLarge, pl.contentLimit())
		}
	}
	return nil
}
