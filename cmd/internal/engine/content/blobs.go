package content

import (
	"bytes"
	"context"
	"errors"
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

// Offload moves the largest parts of a body to blobs until the rest fits
// [page.Limits.InlineBytes] of JSON. It refuses a body that no message could show
// with [ledger.ErrTooLarge], before it stores anything. It copies the parts that it
// changes.
//
// Crash states: blobs are durable before the event that names them. A crash in
// between leaves blobs that no event names, and a retry finds them stored.
func (cs *Store) Offload(ctx context.Context, tenant string, root turns.ID, ev *turns.Event, body any) error {
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
		k, err := cs.TreeOf(root, ev)
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
			ev.Blobs = append(ev.Blobs, addresses(refBlobs(p.Ref))...)
		}
	}
	slices.SortFunc(ev.Blobs, func(a, b turns.BlobLink) int { return bytes.Compare(a.Address[:], b.Address[:]) })
	ev.Blobs = slices.CompactFunc(ev.Blobs, func(a, b turns.BlobLink) bool { return a.Address == b.Address })
	return nil
}

// moveToBlob stores the content of a part as a blob, and leaves a ref in the part.
func (cs *Store) moveToBlob(ctx context.Context, tenant string, k Tree, p *turns.Part) error {
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

// StoreBlob stores content as a blob of a tree, and returns its digest. It is durable on
// return.
func (cs *Store) StoreBlob(ctx context.Context, tenant string, k Tree, content []byte) (turns.Hash, error) {
	if k.erased && k.key == (seal.Content{}) {
		return turns.Hash{}, fmt.Errorf("%w: the key of the tree is destroyed", turns.ErrErased)
	}
	digest := seal.BlobDigest(k.key, content)
	if cs.Keys != nil {
		sealed, err := seal.SealBlob(digest, content)
		if err != nil {
			return digest, err
		}
		content = sealed
	}
	return digest, cs.Blobs.PutBlob(ctx, tenant, seal.BlobAddress(digest), content)
}

// Tree is a tree of forks, or a channel, as its blobs know it: by the key of their digests.
type Tree struct {
	key    seal.Content
	erased bool   // the root is: digests of what was stored before can't be checked
	epoch  uint64 // of the caches, before the key was read
}

// Check checks that content belongs to the tree, and is what its digest says.
func (t Tree) Check(digest turns.Hash, content []byte) error {
	if t.erased {
		return nil // the digest opened it: who has it had a reference, of this tree or, in the tenant, another
	}
	return seal.CheckBlob(t.key, digest, content)
}

// Tree returns the tree of forks with a root, or the channel with the id of its key, to read
// its blobs. A root that was erased takes no blobs of its forks with it.
func (cs *Store) Tree(root turns.ID) (Tree, error) {
	if cs.Keys == nil {
		return Tree{key: seal.UnsealedKey(root).Content(), epoch: cs.contents.Epoch()}, nil
	}
	t, err := cs.TreeBy(keyring{cs.Keys}, root)
	if errors.Is(err, turns.ErrErased) {
		return Tree{erased: true, epoch: t.epoch}, nil
	}
	return t, err
}

// TreeBy returns the tree of forks with a root whose key ring has. Errors: those of ring.
func (cs *Store) TreeBy(ring seal.Keyring, root turns.ID) (Tree, error) {
	epoch := cs.contents.Epoch()
	k, err := ring.Content(root)
	return Tree{key: k, epoch: epoch}, err
}

// TreeOf is [Store.Tree] to write a blob that an event names: where the root is erased, new
// content is known in the event's own session only.
func (cs *Store) TreeOf(root turns.ID, ev *turns.Event) (Tree, error) {
	session, _ := ev.Chain.Session()
	return cs.TreeOfSession(root, session)
}

// TreeOfSession is TreeOf for an event to come.
func (cs *Store) TreeOfSession(root, session turns.ID) (Tree, error) {
	t, err := cs.Tree(root)
	if err == nil && t.erased {
		t.key, err = keyring{cs.Keys}.Content(session)
	}
	return t, err
}

// Blob names the content of a blob: its digest and its size in the clear.
type Blob struct {
	Digest turns.Hash
	Size   uint64
}

// Link is how a header names the blob.
func (b Blob) Link() turns.BlobLink {
	return turns.BlobLink{Address: seal.BlobAddress(b.Digest), Size: b.Size}
}

func addresses(blobs []Blob) []turns.BlobLink {
	out := make([]turns.BlobLink, len(blobs))
	for i, b := range blobs {
		out[i] = b.Link()
	}
	return out
}

// blobName names the content of a blob in a cache.
type blobName struct {
	tenant string
	tree   Tree
	digest turns.Hash
	sealed bool // the content is the stored bytes; digest is their address
}

// ReadBlob returns the content that StoreBlob stored. The caller must not change it.
func (cs *Store) ReadBlob(ctx context.Context, tenant string, k Tree, digest turns.Hash) ([]byte, error) {
	return cs.readBlob(ctx, k.epoch, tenant, k, digest, false)
}

// ReadBlobOnce is [Store.ReadBlob] for who goes through all there is. It keeps nothing, so that it
// drives out nothing that is asked for often.
func (cs *Store) ReadBlobOnce(ctx context.Context, tenant string, k Tree, digest turns.Hash) ([]byte, error) {
	return cs.readBlob(ctx, k.epoch, tenant, k, digest, true)
}

// readBlob is ReadBlob. Unless once is set, what it reads is kept, if no key was destroyed since epoch.
func (cs *Store) readBlob(ctx context.Context, epoch uint64, tenant string, k Tree, digest turns.Hash, once bool) ([]byte, error) {
	name := blobName{tenant: tenant, tree: k, digest: digest}
	if b, ok := cs.contents.Get(name); ok {
		return b, nil
	}
	address := seal.BlobAddress(digest)
	b, err := cs.Blobs.GetBlob(ctx, tenant, address)
	if err == nil && cs.Keys != nil {
		b, err = seal.OpenBlob(digest, b)
	}
	if err == nil {
		err = k.Check(digest, b)
	}
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", address, err)
	}
	if !once {
		cs.contents.PutIn(epoch, name, b, len(b))
	}
	return b, nil
}

// SealedBlob returns a blob as it is stored. The caller must not change it. The
// cache keeps it, since each page of an export asks for it.
func (cs *Store) SealedBlob(ctx context.Context, tenant string, address turns.Hash) ([]byte, error) {
	name := blobName{tenant: tenant, digest: address, sealed: true}
	if b, ok := cs.contents.Get(name); ok {
		return b, nil
	}
	b, err := cs.Blobs.GetBlob(ctx, tenant, address)
	if err != nil {
		return nil, err
	}
	cs.contents.Put(name, b, len(b)) // no key was read
	return b, nil
}
