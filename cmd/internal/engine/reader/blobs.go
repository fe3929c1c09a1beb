package reader

import (
	"context"
	"errors"
	"fmt"

	"nexus/cmd/internal/engine/content"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// GetBlob is blob.get. It returns a range of the content of a blob.
func (rd *Reader) GetBlob(ctx context.Context, c Caller, req api.GetBlob) (*api.BlobData, error) {
	s, k, err := rd.BlobTree(ctx, c, req.Session)
	if err != nil {
		return nil, err
	}
	taken, err := rd.IsTaken(ctx, s, content.Blob{Digest: req.Digest}.Link().Address)
	if err == nil && taken {
		err = ledger.ErrNotFound
	}
	if err != nil {
		return nil, BlobNotFound("/digest", req.Digest, err)
	}
	b, err := rd.content.ReadBlob(ctx, s.Tenant, k, req.Digest)
	if err != nil {
		return nil, BlobNotFound("/digest", req.Digest, err)
	}
	if req.Offset > uint64(len(b)) {
		return nil, api.FieldErrorf("/offset", "the blob has %d bytes", len(b))
	}
	out := &api.BlobData{Digest: req.Digest, Size: uint64(len(b)), Offset: req.Offset}
	rest := b[req.Offset:]
	if piece := rd.page.PieceBytes(); len(rest) > piece {
		rest, out.Next = rest[:piece], req.Offset+uint64(piece)
	}
	out.Data = rest
	return out, nil
}

// BlobTree returns a session and its tree.
func (rd *Reader) BlobTree(ctx context.Context, c Caller, id turns.ID) (*ledger.Session, content.Tree, error) {
	if id.IsZero() {
		return nil, content.Tree{}, api.FieldErrorf("/session", "a blob belongs to a session's tree; name the session")
	}
	s, err := rd.FindSession(ctx, c, id, false)
	if err != nil {
		return nil, content.Tree{}, err
	}
	k, err := rd.content.TreeOfSession(s.Root, s.ID)
	return s, k, err
}

// BlobNotFound maps the error for a digest that a request names and the key of its
// tree does not open. It says not found, and does not tell whether another tree has
// the blob, or whether a blob of this tree is damaged: audit.verify reports that.
func BlobNotFound(field string, digest turns.Hash, err error) error {
	if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, turns.ErrCorrupt) {
		return &api.Error{Code: api.NotFound, Message: fmt.Sprintf("no blob %s in this session's tree of forks; put it again with blob.put: one that no event names is collected after some days", digest),
			Details: map[string]any{"field": field, "digest": digest.String()}}
	}
	return err
}
