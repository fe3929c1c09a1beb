package writer

import (
	"context"
	"fmt"
	"slices"

	"nexus/cmd/nexusd/daemon/engine/content"
	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// PutBlob is blob.put. It stores content for the parts of later turns, such as an
// attachment larger than a message. A client sends the content in pieces, and then
// one call that names the pieces. The same content is stored once in a tree of
// forks.
//
// Crash states: pieces that no blob names. A retry finds them stored.
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
	data := []byte(req.Data)
	switch {
	case len(req.Pieces) > 0 && len(data) > 0:
		return nil, api.FieldErrorf("/pieces", "a call brings data or puts pieces together, not both")
	case len(req.Pieces) == 0 && len(data) == 0:
		return nil, api.FieldErrorf("/data", "no data")
	}
	links, next := make([]turns.BlobLink, len(req.Pieces)), 0
	for i, d := range req.Pieces {
		links[i] = turns.BlobLink{Digest: d, Size: uint64(wr.page.PieceBytes())}
	}
	for i, d := range req.Pieces {
		if i == next {
			next += wr.content.ReadAhead(ctx, s.Tenant, k, links[i:])
		}
		piece, err := wr.content.ReadBlob(ctx, s.Tenant, k, d)
		if err != nil {
			return nil, reader.BlobNotFound(fmt.Sprintf("/pieces/%d", i), d, err)
		}
		if len(data)+len(piece) > content.MaxAttachment {
			return nil, fmt.Errorf("%w: the pieces make more than %d bytes", ledger.ErrTooLarge, content.MaxAttachment)
		}
		data = append(data, piece...)
	}
	digest, err := wr.content.StoreBlob(ctx, s.Tenant, k, data)
	if err != nil {
		return nil, err
	}
	return &api.BlobInfo{Digest: digest, Size: uint64(len(data))}, nil
}

// InlineAttachments replaces the refs in a body with the content of their blobs. The
// parts of the request stay as they are. The content is validated like content that
// came with the request, and is stored again under the same digest.
func (wr *Writer) InlineAttachments(ctx context.Context, c reader.Caller, session turns.ID, body any) error {
	if !slices.ContainsFunc(content.BodyParts(body), func(p *turns.Part) bool { return p.Ref != nil }) {
		return nil
	}
	s, k, err := wr.reader.BlobTree(ctx, c, session)
	if err != nil {
		return err
	}
	content.CopyParts(body)
	field, total := requestField(body), uint64(0)
	var links []turns.BlobLink
	for _, p := range content.BodyParts(body) {
		if p.Ref == nil {
			continue
		}
		if p.Ref.Size > content.MaxAttachment-total {
			return fmt.Errorf("%w: the request's attachments have more than %d bytes", ledger.ErrTooLarge, content.MaxAttachment)
		}
		total += p.Ref.Size
		links = append(links, turns.BlobLink{Digest: p.Ref.Digest, Size: p.Ref.Size})
	}
	next, i := 0, 0
	for _, p := range content.BodyParts(body) {
		if p.Ref == nil {
			continue
		}
		if i == next {
			next += wr.content.ReadAhead(ctx, s.Tenant, k, links[i:])
		}
		i++
		ref := *p.Ref
		err := wr.content.InlinePart(ctx, s.Tenant, k, p)
		if err != nil {
			return reader.BlobNotFound(field, ref.Digest, err)
		}
		if uint64(content.PartSize(p)) != ref.Size {
			return api.FieldErrorf(field, "blob %s has %d bytes, the ref says %d", ref.Digest, content.PartSize(p), ref.Size)
		}
		if p.MimeType == "" && p.Type == turns.Blob {
			p.MimeType = ref.MimeType
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

// requestField returns the member of a request that a body's parts come from.
func requestField(body any) string {
	if _, ok := body.(*turns.CompactionBody); ok {
		return "/replacement"
	}
	return "/messages"
}
