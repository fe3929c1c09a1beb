package content

import (
	"context"

	"golang.org/x/sync/errgroup"

	"nexus/turns"
)

const (
	// readAheadBlobs is how many blobs one request reads at a time.
	readAheadBlobs = 16
	// readAheadBytes bounds one step, by the sizes that the links state, so that
	// the cache still holds the blobs when the request uses them.
	readAheadBytes = 8 << 20
)

// ReadAhead reads the first of links into the cache, several at a time, and returns
// how many it took: at least one. The caller then reads each with [Store.ReadBlob],
// in order, and calls ReadAhead again for the rest. ReadAhead reports no errors: the
// caller meets them in ReadBlob.
func (cs *Store) ReadAhead(ctx context.Context, tenant string, k Tree, links []Blob) int {
	var g errgroup.Group
	g.SetLimit(readAheadBlobs)
	asked := make(map[turns.Hash]bool, readAheadBlobs)
	size, n := uint64(0), 0
	for _, l := range links {
		if n > 0 && (len(asked) >= readAheadBlobs || l.Size > readAheadBytes-min(size, readAheadBytes)) {
			break
		}
		if n++; !asked[l.Digest] {
			asked[l.Digest], size = true, size+min(l.Size, readAheadBytes)
		}
	}
	if len(asked) > 1 { // the caller reads a single one itself
		for digest := range asked {
			g.Go(func() error {
				_, _ = cs.ReadBlob(ctx, tenant, k, digest)
				return nil
			})
		}
	}
	_ = g.Wait()
	return n
}

// InlineParts puts the content of blobs back into the parts that refer to them. k is
// the key of their tree.
func (cs *Store) InlineParts(ctx context.Context, tenant string, k Tree, parts []*turns.Part) error {
	var moved []*turns.Part
	var links []Blob
	for _, p := range parts {
		if p.Ref != nil {
			moved, links = append(moved, p), append(links, Blob{Digest: p.Ref.Digest, Size: p.Ref.Size})
		}
	}
	for i, next := 0, 0; i < len(moved); i++ {
		if i == next {
			next += cs.ReadAhead(ctx, tenant, k, links[i:])
		}
		if err := cs.InlinePart(ctx, tenant, k, moved[i]); err != nil {
			return err
		}
	}
	return nil
}

// InlineBlobs puts the content of blobs back into the parts of a body.
func (cs *Store) InlineBlobs(ctx context.Context, tenant string, root turns.ID, body any) error {
	k, err := cs.Tree(root)
	if err != nil {
		return err
	}
	return cs.InlineParts(ctx, tenant, k, BodyParts(body))
}

// InlinePart puts the content of its blob back into a part that refers to one.
func (cs *Store) InlinePart(ctx context.Context, tenant string, k Tree, p *turns.Part) error {
	b, err := cs.ReadBlob(ctx, tenant, k, p.Ref.Digest)
	if err != nil {
		return err
	}
	p.SetContent(b)
	return nil
}
