package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"slices"

	"nexus/ledger/api"
	"nexus/turns"
)

// chunkSize returns how much content a request of blob.put carries to a server with
// messages of limit bytes: a piece, or as large a part of it as has room in base64.
func chunkSize(limit int64) int {
	n := turns.MaxPiece
	for limit > 0 && int64(n)*4/3+1<<10 > limit && n > 1<<10 {
		n /= 2
	}
	return n
}

// PutContent stores content for a part of a turn of a session, with as many requests
// of blob.put as it takes, and returns the part's ref. Over [turns.MaxWhole], or if
// inPieces is set, the content stays in pieces. It can be called again after any error:
// the same content is stored once, and gets the same ref.
//
// It holds one request beside the content. Errors: TooLarge over [turns.MaxPart],
// Malformed for no content.
func (c *Client) PutContent(ctx context.Context, session turns.ID, content []byte, inPieces bool) (*turns.BlobRef, error) {
	if len(content) == 0 {
		return nil, api.Errorf(api.Malformed, nil, "no content: a part holds that itself")
	}
	if len(content) > turns.MaxPart {
		return nil, api.Errorf(api.TooLarge, map[string]any{"limit": turns.MaxPart}, "a part of %d bytes; the limit is %d", len(content), turns.MaxPart)
	}
	inPieces = inPieces || len(content) > turns.MaxWhole
	chunk := chunkSize(c.Conn().MaxPayload())
	var pieces []turns.Hash
	var info *api.BlobInfo
	var err error
	for piece := range slices.Chunk(content, turns.MaxPiece) {
		if info, err = c.putPiece(ctx, session, piece, chunk); err != nil {
			return nil, err
		}
		pieces = append(pieces, info.Digest)
	}
	if inPieces || len(pieces) > 1 {
		if info, err = c.PutBlob(ctx, api.PutBlob{Session: session, Pieces: pieces, InPieces: inPieces}); err != nil {
			return nil, err
		}
	}
	return &turns.BlobRef{Digest: info.Digest, Size: info.Size, Pieces: info.Pieces}, nil
}

// putPiece stores a piece, in chunks that are joined where a message has no room for
// all of it.
func (c *Client) putPiece(ctx context.Context, session turns.ID, piece []byte, chunk int) (info *api.BlobInfo, err error) {
	var chunks []turns.Hash
	for part := range slices.Chunk(piece, chunk) {
		if info, err = c.PutBlob(ctx, api.PutBlob{Session: session, Data: part}); err != nil {
			return nil, err
		}
		chunks = append(chunks, info.Digest)
	}
	if len(chunks) > 1 {
		return c.PutBlob(ctx, api.PutBlob{Session: session, Pieces: chunks})
	}
	return info, nil
}

// ReadContent writes the content that a part's ref names to w, with as many requests of
// blob.get as it takes. It holds one reply at a time.
func (c *Client) ReadContent(ctx context.Context, session turns.ID, ref *turns.BlobRef, w io.Writer) error {
	digests := ref.Pieces
	if len(digests) == 0 {
		digests = []turns.Hash{ref.Digest}
	}
	size := uint64(0)
	for _, d := range digests {
		for r := (api.GetBlob{Session: session, Digest: d}); ; {
			page, err := read[api.BlobData](ctx, c, "blob.get", turns.ID{}, &r)
			if err != nil {
				return err
			}
			n, err := w.Write(page.Data)
			if size += uint64(n); err != nil {
				return err
			}
			if r.Offset = page.Next; r.Offset == 0 {
				break
			}
		}
	}
	if size != ref.Size {
		return api.Errorf(api.Corrupt, nil, "content %s has %d bytes, its ref says %d", ref.Digest, size, ref.Size)
	}
	return nil
}

// Content returns the content that a part's ref names. See [Client.ReadContent] for
// content that is too large to hold.
func (c *Client) Content(ctx context.Context, session turns.ID, ref *turns.BlobRef) ([]byte, error) {
	var b bytes.Buffer
	err := c.ReadContent(ctx, session, ref, &b)
	return b.Bytes(), err
}

// minMoved is the size in bytes of the smallest part that moveParts moves: a ref takes
// about a quarter of it.
const minMoved = 1 << 10

// refBytes bounds the JSON of a ref, without its pieces, and of a piece in it.
const (
	refBytes   = 160
	pieceBytes = 80
)

// moveParts stores the content of the largest parts of ms with PutContent until a request
// of size bytes has at most limit. It returns ms with refs in their places, and leaves ms
// itself unchanged.
//
// What is moved follows from the content and the limit alone, so that a retry makes the
// same request. The parts that are one blob each have at most [turns.MaxWhole] together;
// the others stay in pieces. If whole is set, none may.
func (c *Client) moveParts(ctx context.Context, session turns.ID, ms []turns.Message, size, limit int64, whole bool) ([]turns.Message, error) {
	ms = slices.Clone(ms)
	type place struct {
		part    *turns.Part
		content []byte
	}
	var places []place
	for i := range ms {
		ms[i].Parts = slices.Clone(ms[i].Parts)
		for j := range ms[i].Parts {
			p := &ms[i].Parts[j]
			if b := p.ContentBytes(); len(b) >= minMoved && p.Type != turns.URI && p.Type != turns.File {
				places = append(places, place{p, b})
			}
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(len(b.content), len(a.content)) })
	room := turns.MaxWhole
	for _, x := range places {
		if size <= limit {
			break
		}
		inPieces := len(x.content) > room
		if inPieces && whole {
			return nil, api.Errorf(api.TooLarge, map[string]any{"limit": turns.MaxWhole}, "the large parts have more than %d bytes together", turns.MaxWhole)
		}
		ref, err := c.PutContent(ctx, session, x.content, inPieces)
		if err != nil {
			return nil, err
		}
		if len(ref.Pieces) == 0 {
			room -= len(x.content)
		}
		size -= contentBytes(x.part) - refBytes - pieceBytes*int64(len(ref.Pieces))
		x.part.Content, x.part.Arguments, x.part.Response, x.part.Data, x.part.Ref = "", nil, nil, nil, ref
	}
	return ms, nil
}

// contentBytes returns the size of the JSON of a part's content.
func contentBytes(p *turns.Part) int64 {
	switch p.Type {
	case turns.ToolCall, turns.ToolCallResponse:
		return int64(len(p.Arguments) + len(p.Response))
	case turns.Blob:
		return int64(base64.StdEncoding.EncodedLen(len(p.Data)))
	}
	n := len(p.Content)
	for i := range len(p.Content) {
		switch c := p.Content[i]; {
		case c == '"' || c == '\\' || c == '\b' || c == '\f' || c == '\n' || c == '\r' || c == '\t':
			n++
		case c < ' ':
			n += len(`\u0000`) - 1
		}
	}
	return int64(n)
}

// fitAppend stores the largest parts of r, a request of size bytes, with blob.put, so that
// it becomes as small as a message.
func (c *Client) fitAppend(ctx context.Context, session turns.ID, r *api.AppendTurn, size int64) error {
	ms := r.Messages
	if r.Response != nil {
		ms = append(slices.Clip(ms), *r.Response)
	}
	ms, err := c.moveParts(ctx, session, ms, size, c.Conn().MaxPayload(), false)
	if err != nil {
		return err
	}
	if r.Messages = ms[:len(r.Messages)]; r.Response != nil {
		r.Response = &ms[len(ms)-1]
	}
	return nil
}

// writeFitting makes a call that is stored under id and whose request has content bytes of content in its parts. If
// the request is larger than a message, writeFitting calls fit with its size in bytes, and
// sends what fit made of it. It does not encode a request whose content alone is too
// large.
func writeFitting[Rep any](ctx context.Context, c *Client, verb string, session, id turns.ID, request any, content int64, fit func(size int64) error) (*Rep, error) {
	if limit := c.Conn().MaxPayload(); limit > 0 && content > limit {
		if err := fit(content); err != nil {
			return nil, err
		}
	}
	rep, err := call[Rep](ctx, c, verb, session, id, request)
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Oversize == 0 {
		return rep, err
	}
	if err := fit(refused.Oversize); err != nil {
		return nil, err
	}
	return call[Rep](ctx, c, verb, session, id, request)
}

// messageBytes returns the size of the JSON of the content of messages.
func messageBytes(ms []turns.Message) (n int64) {
	for i := range ms {
		for j := range ms[i].Parts {
			n += contentBytes(&ms[i].Parts[j])
		}
	}
	return n
}
