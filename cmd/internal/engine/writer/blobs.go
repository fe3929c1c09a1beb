package writer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/request"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// PutBlob is blob.put. It stores content for the parts of later turns, such as an
// attachment larger than a message. A client sends the content in pieces, and then
// one call that names the pieces. The daemon joins them to one blob, or, if the request
// says so, they stay as they are and the reply is a ref to content in pieces. The same
// content is stored once in a tree of forks.
//
// Crash states: pieces that no blob and no event names. A retry finds them stored.
func (wr *Writer) PutBlob(ctx context.Context, c reader.Caller, req api.PutBlob) (*api.BlobInfo, error) {
	s, k, err := wr.reader.BlobTree(ctx, c, req.Session)
	if err != nil {
		return nil, err
	}
	if c.Operator() {
		return nil, &api.Error{Code: api.Denied, Message: "the operator reads all agents and changes nothing; name the session's agent"}
	}
	if err := CheckOpen(s); err != nil {
		return nil, err
	}
	if err := wr.checkSeal(s); err != nil {
		return nil, err
	}
	switch {
	case len(req.Pieces) > 0 && len(req.Data) > 0:
		return nil, api.FieldErrorf("/pieces", "a call brings data or puts pieces together, not both")
	case len(req.Pieces) == 0 && len(req.Data) == 0:
		return nil, api.FieldErrorf("/data", "no data")
	case len(req.Pieces) == 0 && req.InPieces:
		return nil, api.FieldErrorf("/in_pieces", "no pieces")
	}
	if err := request.Expand(ctx, len(req.Pieces)*turns.MaxPiece); err != nil {
		return nil, err
	}
	if req.InPieces {
		return wr.putPieces(ctx, s, k, req.Pieces)
	}
	data, err := wr.joinPieces(ctx, s, k, req.Data, req.Pieces)
	if err != nil {
		return nil, err
	}
	digest, err := wr.content.StoreBlob(ctx, s.Tenant, k, data)
	if err != nil {
		return nil, err
	}
	wr.reader.PutAgain(content.Blob{Digest: digest}.Link().Address)
	return &api.BlobInfo{Digest: digest, Size: uint64(len(data))}, nil
}

// putPieces returns the ref to the content that pieces make. It stores nothing.
func (wr *Writer) putPieces(ctx context.Context, s *ledger.Session, k content.Tree, pieces []turns.Hash) (*api.BlobInfo, error) {
	if len(pieces) > turns.CountPieces(turns.MaxPart) {
		return nil, tooLarge("/pieces", turns.MaxPart, "%d pieces; the limit of a part is %d bytes, which are %d pieces", len(pieces), turns.MaxPart, turns.CountPieces(turns.MaxPart))
	}
	digest, size, err := wr.content.DigestPieces(ctx, s.Tenant, k, pieces)
	if missing := (*content.MissingPieceError)(nil); errors.As(err, &missing) {
		return nil, reader.BlobNotFound(fmt.Sprintf("/pieces/%d", slices.Index(pieces, missing.Digest)), missing.Digest, err)
	}
	if err != nil {
		return nil, err
	}
	return &api.BlobInfo{Digest: digest, Size: size, Pieces: pieces}, nil
}

// joinPieces returns data and the content of pieces, one after the other.
func (wr *Writer) joinPieces(ctx context.Context, s *ledger.Session, k content.Tree, data []byte, pieces []turns.Hash) ([]byte, error) {
	links, next := make([]content.Blob, len(pieces)), 0
	for i, d := range pieces {
		links[i] = content.Blob{Digest: d, Size: uint64(wr.page.PieceBytes())}
	}
	for i, d := range pieces {
		if i == next {
			next += wr.content.ReadAhead(ctx, s.Tenant, k, links[i:])
		}
		piece, err := wr.content.ReadBlob(ctx, s.Tenant, k, d)
		if err != nil {
			return nil, reader.BlobNotFound(fmt.Sprintf("/pieces/%d", i), d, err)
		}
		if len(data)+len(piece) > turns.MaxWhole {
			return nil, tooLarge("/pieces", turns.MaxWhole, "the pieces make more than %d bytes; up to %d stay in pieces of %d, with in_pieces", turns.MaxWhole, turns.MaxPart, turns.MaxPiece)
		}
		data = append(data, piece...)
	}
	if len(data) > turns.MaxWhole {
		return nil, tooLarge("/data", turns.MaxWhole, "%d bytes, the limit of one blob is %d", len(data), turns.MaxWhole)
	}
	return data, nil
}

// tooLarge returns the error for a member over a limit in bytes.
func tooLarge(field string, limit uint64, format string, args ...any) error {
	return api.Errorf(api.TooLarge, map[string]any{"field": field, "limit": limit}, format, args...)
}

// InlineAttachments replaces the refs in a body with the content of their blobs. The
// parts of the request stay as they are. The content is validated like content that
// came with the request, and is stored again under the same digest. A ref to content in
// pieces stays, with its preview; the content is validated piece by piece.
func (wr *Writer) InlineAttachments(ctx context.Context, c reader.Caller, session turns.ID, body any) error {
	if !slices.ContainsFunc(content.BodyParts(body), func(p *turns.Part) bool { return p.Ref != nil }) {
		return nil
	}
	s, k, err := wr.reader.BlobTree(ctx, c, session)
	if err != nil {
		return err
	}
	content.CopyParts(body)
	field := requestField(body)
	whole, inPieces, err := attachments(field, body)
	if err != nil {
		return err
	}
	held := 0
	for _, p := range whole {
		held += int(p.Ref.Size)
	}
	for _, p := range inPieces { // read piece by piece: what they take is time
		held += int(p.Ref.Size)
	}
	if err := request.Expand(ctx, held); err != nil {
		return err
	}
	if err := wr.inlineWhole(ctx, s, k, field, whole); err != nil {
		return err
	}
	for _, p := range inPieces {
		if err := wr.checkInPieces(ctx, s, k, field, p); err != nil {
			return err
		}
	}
	switch b := body.(type) {
	case *turns.TurnBody:
		if err := turns.ValidateMessages(field, b.Messages); err != nil {
			return err
		}
		return turns.ValidateResponse("/response", b.Response)
	case *turns.CompactionBody:
		return turns.ValidateMessages(field, b.Replacement)
	}
	return nil
}

// attachments returns the parts of a request that refer to one blob, and those whose
// content is in pieces.
func attachments(field string, body any) (whole, inPieces []*turns.Part, err error) {
	wholeSize, piecesSize := uint64(0), uint64(0)
	for _, p := range content.BodyParts(body) {
		switch {
		case p.Ref == nil:
		case !p.InPieces():
			if p.Ref.Size > turns.MaxWhole-wholeSize {
				return nil, nil, tooLarge(field, turns.MaxWhole, "the request's attachments that are one blob each have more than %d bytes; content in pieces may have %d", turns.MaxWhole, turns.MaxPart)
			}
			whole, wholeSize = append(whole, p), wholeSize+p.Ref.Size
		case field == "/replacement":
			return nil, nil, api.FieldErrorf(field, "content in pieces is never shown whole, so it can't replace anything")
		default:
			if p.Ref.Size > turns.MaxInPieces-piecesSize {
				return nil, nil, tooLarge(field, turns.MaxInPieces, "the request's attachments in pieces have more than %d bytes", turns.MaxInPieces)
			}
			inPieces, piecesSize = append(inPieces, p), piecesSize+p.Ref.Size
		}
	}
	return whole, inPieces, nil
}

// inlineWhole replaces the refs of parts with the content of their blobs.
func (wr *Writer) inlineWhole(ctx context.Context, s *ledger.Session, k content.Tree, field string, parts []*turns.Part) error {
	links, next := make([]content.Blob, len(parts)), 0
	for i, p := range parts {
		links[i] = content.Blob{Digest: p.Ref.Digest, Size: p.Ref.Size}
	}
	for _, p := range parts {
		if err := wr.notTaken(ctx, s, field, content.Blob{Digest: p.Ref.Digest}); err != nil {
			return err
		}
	}
	for i, p := range parts {
		if i == next {
			next += wr.content.ReadAhead(ctx, s.Tenant, k, links[i:])
		}
		ref := *p.Ref
		if err := wr.content.InlinePart(ctx, s.Tenant, k, p); err != nil {
			return reader.BlobNotFound(field, ref.Digest, err)
		}
		if uint64(content.PartSize(p)) != ref.Size {
			return api.FieldErrorf(field, "blob %s has %d bytes, the ref says %d", ref.Digest, content.PartSize(p), ref.Size)
		}
		if p.MimeType == "" && p.Type == turns.Blob {
			p.MimeType = ref.MimeType
		}
	}
	return nil
}

// notTaken refuses a ref to content that was redacted.
func (wr *Writer) notTaken(ctx context.Context, s *ledger.Session, field string, b content.Blob) error {
	taken, err := wr.reader.IsTaken(ctx, s, b.Link().Address)
	if err == nil && taken {
		err = reader.BlobNotFound(field, b.Digest, ledger.ErrNotFound)
	}
	return err
}

// checkInPieces checks a part whose content is in pieces, and sets its preview.
func (wr *Writer) checkInPieces(ctx context.Context, s *ledger.Session, k content.Tree, field string, p *turns.Part) error {
	for _, d := range p.Ref.Pieces {
		if err := wr.notTaken(ctx, s, field, content.Blob{Digest: d}); err != nil {
			return err
		}
	}
	preview, err := wr.content.CheckPieces(ctx, s.Tenant, k, p)
	var missing *content.MissingPieceError
	var wrong *content.DigestError
	var invalid *turns.FieldError
	switch {
	case errors.As(err, &missing):
		return reader.BlobNotFound(field, missing.Digest, err)
	case errors.As(err, &wrong):
		return api.FieldErrorf(field, "%v", wrong)
	case errors.As(err, &invalid):
		return &turns.FieldError{Field: field, Reason: fmt.Sprintf("content %s%s: %s", p.Ref.Digest, invalid.Field, invalid.Reason), Kind: invalid.Kind}
	case err != nil:
		return err
	}
	ref := *p.Ref
	ref.Preview = preview
	if p.MimeType == "" && p.Type == turns.Blob {
		p.MimeType = ref.MimeType
	}
	ref.MimeType = p.MimeType
	p.Ref = &ref
	return nil
}

// requestField returns the member of a request that a body's parts come from.
func requestField(body any) string {
	if _, ok := body.(*turns.CompactionBody); ok {
		return "/replacement"
	}
	return "/messages"
}
