package reader

import (
	"context"
	"errors"
	"fmt"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// GetBlob is blob.get: a stretch of a blob's content.
func (rd *Reader) GetBlob(ctx context.Context, c Caller, req api.GetBlob) (*api.BlobData, error) {
	s, k, err := rd.BlobTree(ctx, c, req.Session)
	if err != nil {
		return nil, err
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
	if most := rd.page.PieceBytes(); len(rest) > most {
		rest, out.Next = rest[:most], req.Offset+uint64(most)
	}
	out.Data = rest
	return out, nil
}

// BlobTree is a session and the key of its tree's blobs.
func (rd *Reader) BlobTree(ctx context.Context, c Caller, id turns.ID) (*ledger.Session, seal.Key, error) {
	if id.IsZero() {
		return nil, seal.Key{}, api.FieldErrorf("/session", "a blob belongs to a session's tree; name the session")
	}
	s, err := rd.FindSession(ctx, c, id, false)
	if err != nil {
		return nil, seal.Key{}, err
	}
	k, err := rd.content.BlobKey(s.Root)
	return s, k, err
}

// BlobNotFound is the answer to a digest that a request names and this tree's key
// does not open. Whether another tree has it is nobody's business, so it is not
// found; that a blob of this tree is damaged is for verify to say.
func BlobNotFound(field string, digest turns.Hash, err error) error {
	if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, turns.ErrCorrupt) {
		return &api.Error{Code: api.NotFound, Message: fmt.Sprintf("no blob %s in this session's tree of forks; blob.put stores one", digest),
			Details: map[string]any{"field": field}}
	}
	return err
}
