package content

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"

	"nexus/ledger"
	"nexus/turns"
	"nexus/turns/pieces"
	"nexus/turns/seal"
)

// Content in pieces has no blob of its own. Each piece is a blob of the tree, and the
// header of the event that names the content links to all of them. So an export, an
// import and a verification handle the pieces like any other blob.

// refBlobs returns the blobs that a ref names: one, or the pieces.
func refBlobs(r *turns.BlobRef) []Blob {
	if len(r.Pieces) == 0 {
		return []Blob{{Digest: r.Digest, Size: r.Size}}
	}
	blobs := make([]Blob, len(r.Pieces))
	for i, d := range r.Pieces {
		blobs[i] = Blob{Digest: d, Size: turns.PieceSize(r.Size, i)}
	}
	return blobs
}

// MissingPieceError says that a piece of content can't be read.
type MissingPieceError struct {
	Digest turns.Hash // of the piece
	Err    error
}

// Error returns the text of the error.
func (e *MissingPieceError) Error() string { return e.Err.Error() }

// Unwrap returns the error of [Store.ReadBlob].
func (e *MissingPieceError) Unwrap() error { return e.Err }

// DigestPieces returns the digest and the size of the content that pieces make
// together. It reads one piece at a time.
//
// Errors: [*MissingPieceError]; [*turns.FieldError] with the index of a piece that has
// another size than pieces have.
func (cs *Store) DigestPieces(ctx context.Context, tenant string, k Tree, pieces []turns.Hash) (digest turns.Hash, size uint64, err error) {
	last := len(pieces) - 1
	end, err := cs.ReadBlob(ctx, tenant, k, pieces[last])
	if err != nil {
		return digest, 0, &MissingPieceError{pieces[last], err}
	}
	size = uint64(last)*turns.MaxPiece + uint64(len(end))
	whole := seal.NewBlobDigest(k.key, size)
	if err := cs.readPieces(ctx, tenant, k, &turns.BlobRef{Size: size, Pieces: pieces}, whole); err != nil {
		return digest, 0, err
	}
	return sum(whole), size, nil
}

// CheckPieces checks a part whose content is in pieces: that the pieces are stored and
// make the content that the ref names, and that it is UTF-8, or JSON, where the part's
// type asks for it. It returns the preview of the content.
//
// Errors: [*MissingPieceError]; [*turns.FieldError] for a piece of another size and for
// content that the part can't have; [*DigestError].
func (cs *Store) CheckPieces(ctx context.Context, tenant string, k Tree, p *turns.Part) (preview string, err error) {
	whole, scanner := seal.NewBlobDigest(k.key, p.Ref.Size), pieces.NewScanner(p.Type)
	var head prefix
	if err := cs.readPieces(ctx, tenant, k, p.Ref, whole, scanner, &head); err != nil {
		return "", err
	}
	if err := scanner.Close(); err != nil {
		return "", err
	}
	if got := sum(whole); got != p.Ref.Digest && !k.erased {
		return "", &DigestError{Stated: p.Ref.Digest, Actual: got}
	}
	if p.Type == turns.Blob {
		return "", nil
	}
	return Preview(string(head)), nil
}

// DigestError says that pieces make other content than their ref names.
type DigestError struct{ Stated, Actual turns.Hash }

// Error returns the text of the error.
func (e *DigestError) Error() string {
	return fmt.Sprintf("the pieces make content %s, the ref says %s", seal.BlobAddress(e.Actual), seal.BlobAddress(e.Stated))
}

// readPieces writes the pieces of a ref to each of to, in their order.
func (cs *Store) readPieces(ctx context.Context, tenant string, k Tree, r *turns.BlobRef, to ...io.Writer) error {
	links, next := refBlobs(r), 0
	for i, l := range links {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: read the pieces: %w", ledger.ErrUnavailable, ctx.Err())
		}
		if i == next {
			next += cs.ReadAhead(ctx, tenant, k, links[i:])
		}
		b, err := cs.ReadBlob(ctx, tenant, k, l.Digest)
		if err != nil {
			return &MissingPieceError{l.Digest, err}
		}
		if uint64(len(b)) != l.Size {
			return &turns.FieldError{Field: fmt.Sprintf("/pieces/%d", i), Kind: ledger.ErrMalformed,
				Reason: fmt.Sprintf("it has %d bytes; every piece but the last has %d, and the last of %d bytes has %d", len(b), turns.MaxPiece, r.Size, turns.PieceSize(r.Size, len(links)-1))}
		}
		for _, w := range to {
			if _, err := w.Write(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// FindInPieces reports whether content in pieces has what find finds in at most longest bytes.
func (cs *Store) FindInPieces(ctx context.Context, tenant string, k Tree, r *turns.BlobRef, longest int, find func([]byte) bool) (bool, error) {
	w := &window{longest: longest, find: find}
	err := cs.readPieces(ctx, tenant, k, r, w)
	return w.found, err
}

// window looks for something in what is written to it, also where two writes meet.
type window struct {
	longest int
	find    func([]byte) bool
	tail    []byte
	found   bool
}

// Write implements [io.Writer].
func (w *window) Write(b []byte) (int, error) {
	joined := append(w.tail, b...)
	w.found = w.found || w.find(joined)
	w.tail = append([]byte(nil), joined[max(0, len(joined)-w.longest):]...)
	return len(b), nil
}

func sum(h hash.Hash) turns.Hash { return turns.Hash(h.Sum(nil)) }

// prefix keeps the beginning of what is written to it, enough for a preview.
type prefix []byte

// Write implements [io.Writer].
func (p *prefix) Write(b []byte) (int, error) {
	const enough = PreviewBytes + 1 // so that [Preview] cuts between characters
	*p = append(*p, b[:min(len(b), enough-len(*p))]...)
	return len(b), nil
}

// checkPieces checks the parts of a stored body whose content is in pieces, and
// returns the pieces that it read.
func (cs *Store) checkPieces(ctx context.Context, tenant string, k Tree, body any) (read map[turns.Hash]bool, err error) {
	read = make(map[turns.Hash]bool)
	size := uint64(0)
	for _, p := range BodyParts(body) {
		if !p.InPieces() {
			continue
		}
		if size += p.Ref.Size; size > turns.MaxInPieces {
			return nil, fmt.Errorf("%w: its body refers to more than %d bytes in pieces", ledger.ErrCorrupt, turns.MaxInPieces)
		}
		preview, err := cs.CheckPieces(ctx, tenant, k, p)
		if missing := (*MissingPieceError)(nil); errors.As(err, &missing) || ctx.Err() != nil {
			return nil, err
		}
		if err == nil && preview != p.Ref.Preview {
			err = errors.New("its preview is not its beginning")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: content %s in pieces: %v", ledger.ErrCorrupt, seal.BlobAddress(p.Ref.Digest), err)
		}
		for _, d := range p.Ref.Pieces {
			read[d] = true
		}
	}
	return read, nil
}
