package content

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"nexus/cmd/internal/engine/page"
	"nexus/turns"
	"nexus/turns/seal"
)

// minBlob returns the size of the smallest part that is worth a blob, in bytes. It
// is lower on a connection with small messages, where a turn may have only small
// parts to move.
func (cs *Store) minBlob() int { return min(4<<10, cs.page.Payload()/256) }

// PreviewBytes is how much of a moved part stays in the body as its preview.
const PreviewBytes = 256

// offload moves the largest parts of a body to blobs until the rest fits
// [page.Limits.InlineBytes] of JSON. It refuses a body that no message could show
// with [ledger.ErrTooLarge], before it stores anything. It copies the parts that it
// changes.
//
// Crash states: blobs are durable before the event that names them. A crash in
// between leaves blobs that no event names, and a retry finds them stored.
func (cs *Store) offload(ctx context.Context, tenant string, root turns.ID, ev *turns.Event, body any) error {
	if set := settingsOf(body); set != nil {
		return cs.movePreamble(ctx, tenant, root, ev, set)
	}
	inline := 0
	for _, p := range BodyParts(body) {
		inline += contentSize(p)
	}
	var moved []*turns.Part
	rest := inline
	if inline > cs.page.InlineBytes() {
		CopyParts(body)
		parts := BodyParts(body)
		slices.SortStableFunc(parts, func(a, b *turns.Part) int { return contentSize(b) - contentSize(a) })
		for _, p := range parts {
			n := contentSize(p)
			if inline <= cs.page.InlineBytes() || n < cs.minBlob() {
				break
			}
			moved = append(moved, p)
			inline, rest = inline-n, rest-n+refGrowth(p)
		}
	}
	if err := page.CheckFit(cs.page.BodyBytes(body), rest, fixedSizes(body)...); err != nil {
		return err
	}
	if len(moved) > 0 {
		k, err := cs.BlobKey(root)
		if err != nil {
			return err
		}
		for _, p := range moved {
			if err := cs.moveToBlob(ctx, tenant, k, p); err != nil {
				return err
			}
		}
	}
	for _, p := range BodyParts(body) {
		if p.Ref != nil {
			ev.Blobs = append(ev.Blobs, refLinks(p.Ref)...)
		}
	}
	slices.SortFunc(ev.Blobs, func(a, b turns.BlobLink) int { return bytes.Compare(a.Digest[:], b.Digest[:]) })
	ev.Blobs = slices.CompactFunc(ev.Blobs, func(a, b turns.BlobLink) bool { return a.Digest == b.Digest })
	return nil
}

// moveToBlob stores the content of a part as a blob, and leaves a ref in the part.
func (cs *Store) moveToBlob(ctx context.Context, tenant string, k seal.Key, p *turns.Part) error {
	content := p.ContentBytes()
	digest, err := cs.StoreBlob(ctx, tenant, k, content)
	if err != nil {
		return err
	}
	ref := &turns.BlobRef{Digest: digest, Size: uint64(len(content)), MimeType: p.MimeType}
	if p.Type != turns.Blob {
		ref.Preview = Preview(string(content))
	}
	p.Content, p.Arguments, p.Response, p.Data, p.Ref = "", nil, nil, nil, ref
	return nil
}

// StoreBlob stores content as a blob of the tree whose key is k, and returns its
// digest. It is durable on return.
func (cs *Store) StoreBlob(ctx context.Context, tenant string, k seal.Key, content []byte) (turns.Hash, error) {
	digest := seal.BlobDigest(k, content)
	if cs.Keys != nil {
		sealed, err := seal.SealBlob(k, digest, content)
		if err != nil {
			return digest, err
		}
		content = sealed
	}
	return digest, cs.Blobs.PutBlob(ctx, tenant, digest, content)
}

// BlobKey returns the key of the blobs of a tree of forks.
func (cs *Store) BlobKey(root turns.ID) (seal.Key, error) {
	if cs.Keys == nil {
		return seal.UnsealedKey(root), nil
	}
	return keyring{cs.Keys}.Key(root)
}

// blobName names the content of a blob in a cache. The key tells two trees apart.
type blobName struct {
	tenant string
	key    seal.Key
	digest turns.Hash
	sealed bool // the content is the stored bytes
}

// ReadBlob returns the content that StoreBlob stored. The caller must not change it.
func (cs *Store) ReadBlob(ctx context.Context, tenant string, k seal.Key, digest turns.Hash) ([]byte, error) {
	name := blobName{tenant: tenant, key: k, digest: digest}
	if b, ok := cs.contents.Get(name); ok {
		return b, nil
	}
	epoch := cs.contents.Epoch() // a key that is destroyed meanwhile empties the cache
	b, err := cs.Blobs.GetBlob(ctx, tenant, digest)
	switch {
	case err != nil:
	case cs.Keys != nil:
		b, err = seal.OpenBlob(k, digest, b)
	default:
		err = seal.CheckBlob(k, digest, b)
	}
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", digest, err)
	}
	cs.contents.PutIn(epoch, name, b, len(b))
	return b, nil
}

// SealedBlob returns a blob as it is stored. The caller must not change it. The
// cache keeps it, since each page of an export asks for it.
func (cs *Store) SealedBlob(ctx context.Context, tenant string, k seal.Key, digest turns.Hash) ([]byte, error) {
	name := blobName{tenant: tenant, key: k, digest: digest, sealed: true}
	if b, ok := cs.contents.Get(name); ok {
		return b, nil
	}
	b, err := cs.Blobs.GetBlob(ctx, tenant, digest)
	if err != nil {
		return nil, err
	}
	cs.contents.Put(name, b, len(b))
	return b, nil
}
