package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// minBlob is the smallest part that is worth a blob of its own, in bytes. Where
// messages are small a turn of many parts has only small ones to give.
func (e *Engine) minBlob() int { return min(4<<10, e.payload()/256) }

// previewBytes is how much of a moved part stands in its place.
const previewBytes = 256

// offload moves the largest parts of a body to blobs until what is left fits
// [Engine.inlineBytes] of JSON. What could not be read back in one message then is
// refused before anything is stored: [ledger.ErrTooLarge]. Blobs are stored, durably, before the event that names
// them: a crash in between leaves blobs that nothing names, and a retry finds
// them stored. The parts that the body was made from stay as they are.
func (e *Engine) offload(ctx context.Context, tenant string, root turns.ID, ev *turns.Event, body any) error {
	if set := settingsOf(body); set != nil {
		return e.setApart(ctx, tenant, root, ev, set)
	}
	inline := 0
	for _, p := range partsOf(body) {
		inline += shownSize(p)
	}
	var moved []*turns.Part
	rest := inline
	if inline > e.inlineBytes() {
		unshare(body)
		parts := partsOf(body)
		slices.SortStableFunc(parts, func(a, b *turns.Part) int { return shownSize(b) - shownSize(a) })
		for _, p := range parts {
			n := shownSize(p)
			if inline <= e.inlineBytes() || n < e.minBlob() {
				break
			}
			moved = append(moved, p)
			inline, rest = inline-n, rest-n+movedSize(p)
		}
	}
	if err := fits(e.bodyBytes(body), rest, fixedShares(body)...); err != nil {
		return err
	}
	if len(moved) > 0 {
		k, err := e.blobKey(root)
		if err != nil {
			return err
		}
		for _, p := range moved {
			if err := e.move(ctx, tenant, k, p); err != nil {
				return err
			}
		}
	}
	for _, p := range partsOf(body) {
		if p.Ref != nil {
			ev.Blobs = append(ev.Blobs, turns.BlobLink{Digest: p.Ref.Digest, Size: p.Ref.Size})
		}
	}
	slices.SortFunc(ev.Blobs, func(a, b turns.BlobLink) int { return bytes.Compare(a.Digest[:], b.Digest[:]) })
	ev.Blobs = slices.CompactFunc(ev.Blobs, func(a, b turns.BlobLink) bool { return a.Digest == b.Digest })
	return nil
}

func (e *Engine) move(ctx context.Context, tenant string, k seal.Key, p *turns.Part) error {
	content := content(p)
	digest, err := e.store(ctx, tenant, k, content)
	if err != nil {
		return err
	}
	ref := &turns.BlobRef{Digest: digest, Size: uint64(len(content)), MimeType: p.MimeType}
	if p.Type != turns.Blob {
		ref.Preview = preview(string(content))
	}
	p.Content, p.Arguments, p.Response, p.Data, p.Ref = "", nil, nil, nil, ref
	return nil
}

// store stores content as a blob of the tree whose key is k.
func (e *Engine) store(ctx context.Context, tenant string, k seal.Key, content []byte) (turns.Hash, error) {
	digest := seal.BlobDigest(k, content)
	if e.Keys != nil {
		// The nonce follows from the digest, which is keyed and names the content:
		// the same content is sealed to the same bytes, and a try that a crash cut
		// short is completed by the next.
		sealed, err := seal.SealBlob(k, digest, content, bytes.NewReader(digest[:]))
		if err != nil {
			return digest, err
		}
		content = sealed
	}
	return digest, e.Blobs.PutBlob(ctx, tenant, digest, content)
}

// blobKey is the key of the blobs of a tree of forks.
func (e *Engine) blobKey(root turns.ID) (seal.Key, error) {
	if e.Keys == nil {
		return seal.UnsealedKey(root), nil
	}
	return e.Keys.Key(root)
}

// blobName names a blob's content; the key tells one tree's from another's.
type blobName struct {
	tenant string
	key    seal.Key
	digest turns.Hash
	sealed bool // as it is stored
}

// blob is the content that store stored; not to be changed.
func (e *Engine) blob(ctx context.Context, tenant string, k seal.Key, digest turns.Hash) ([]byte, error) {
	name := blobName{tenant: tenant, key: k, digest: digest}
	if b, ok := e.contents.get(name); ok {
		return b, nil
	}
	b, err := e.Blobs.GetBlob(ctx, tenant, digest)
	switch {
	case err != nil:
	case e.Keys != nil:
		b, err = seal.OpenBlob(k, digest, b)
	default:
		err = seal.CheckBlob(k, digest, b)
	}
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", digest, err)
	}
	e.contents.put(name, b, len(b))
	return b, nil
}

// PutBlob is blob.put: content for the parts of turns still to come, such as
// an attachment larger than a message may be. It is sent in pieces; a last call
// that names them puts them together. Content is known by its digest within one
// tree of forks, and put twice is stored once.
//
// Crash states: pieces that nothing names, which a retry finds stored.
func (e *Engine) PutBlob(ctx context.Context, c Caller, req api.PutBlob) (*api.BlobInfo, error) {
	s, k, err := e.tree(ctx, c, req.Session)
	if err != nil {
		return nil, err
	}
	if c.Operator() {
		return nil, &api.Error{Code: api.Denied, Message: "the operator reads all agents and changes nothing; name the session's agent"}
	}
	if err := takes(s); err != nil {
		return nil, err
	}
	data := []byte(req.Data)
	switch {
	case len(req.Pieces) > 0 && len(data) > 0:
		return nil, fieldErr("/pieces", "a call brings data or puts pieces together, not both")
	case len(req.Pieces) == 0 && len(data) == 0:
		return nil, fieldErr("/data", "no data")
	}
	links, next := make([]turns.BlobLink, len(req.Pieces)), 0
	for i, d := range req.Pieces {
		links[i] = turns.BlobLink{Digest: d, Size: uint64(e.pieceBytes())}
	}
	for i, d := range req.Pieces {
		if i == next {
			next += e.readAhead(ctx, s.Tenant, k, links[i:])
		}
		piece, err := e.blob(ctx, s.Tenant, k, d)
		if err != nil {
			return nil, foreign(fmt.Sprintf("/pieces/%d", i), d, err)
		}
		if len(data)+len(piece) > maxAttachment {
			return nil, fmt.Errorf("%w: the pieces make more than %d bytes", ledger.ErrTooLarge, maxAttachment)
		}
		data = append(data, piece...)
	}
	digest, err := e.store(ctx, s.Tenant, k, data)
	if err != nil {
		return nil, err
	}
	return &api.BlobInfo{Digest: digest, Size: uint64(len(data))}, nil
}

// maxAttachment is the most bytes that one blob may hold.
const maxAttachment = 32 << 20

// GetBlob is blob.get: a stretch of a blob's content.
func (e *Engine) GetBlob(ctx context.Context, c Caller, req api.GetBlob) (*api.BlobData, error) {
	s, k, err := e.tree(ctx, c, req.Session)
	if err != nil {
		return nil, err
	}
	b, err := e.blob(ctx, s.Tenant, k, req.Digest)
	if err != nil {
		return nil, foreign("/digest", req.Digest, err)
	}
	if req.Offset > uint64(len(b)) {
		return nil, fieldErr("/offset", "the blob has %d bytes", len(b))
	}
	out := &api.BlobData{Digest: req.Digest, Size: uint64(len(b)), Offset: req.Offset}
	rest := b[req.Offset:]
	if most := e.pieceBytes(); len(rest) > most {
		rest, out.Next = rest[:most], req.Offset+uint64(most)
	}
	out.Data = rest
	return out, nil
}

// tree is a session and the key of its tree's blobs.
func (e *Engine) tree(ctx context.Context, c Caller, id turns.ID) (*ledger.Session, seal.Key, error) {
	if id.IsZero() {
		return nil, seal.Key{}, fieldErr("/session", "a blob belongs to a session's tree; name the session")
	}
	s, err := e.row(ctx, c, id, false)
	if err != nil {
		return nil, seal.Key{}, err
	}
	k, err := e.blobKey(s.Root)
	return s, k, err
}

// foreign is the answer to a digest that a request names and this tree's key
// does not open. Whether another tree has it is nobody's business, so it is not
// found; that a blob of this tree is damaged is for verify to say.
func foreign(field string, digest turns.Hash, err error) error {
	if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, turns.ErrCorrupt) {
		return &api.Error{Code: api.NotFound, Message: fmt.Sprintf("no blob %s in this session's tree of forks; blob.put stores one", digest),
			Details: map[string]any{"field": field}}
	}
	return err
}

// adopt puts the content of blobs that a request refers to in their place, in
// parts of the body's own: the request's stay as they are. The content is
// validated like content that came with the request, and stored under the same
// digest again.
func (e *Engine) adopt(ctx context.Context, c Caller, session turns.ID, body any) error {
	if !slices.ContainsFunc(partsOf(body), func(p *turns.Part) bool { return p.Ref != nil }) {
		return nil
	}
	s, k, err := e.tree(ctx, c, session)
	if err != nil {
		return err
	}
	unshare(body)
	field, total := fieldOf(body), uint64(0)
	var links []turns.BlobLink
	for _, p := range partsOf(body) {
		if p.Ref == nil {
			continue
		}
		if p.Ref.Size > maxAttachment-total {
			return fmt.Errorf("%w: the request's attachments have more than %d bytes", ledger.ErrTooLarge, maxAttachment)
		}
		total += p.Ref.Size
		links = append(links, turns.BlobLink{Digest: p.Ref.Digest, Size: p.Ref.Size})
	}
	next, i := 0, 0
	for _, p := range partsOf(body) {
		if p.Ref == nil {
			continue
		}
		if i == next {
			next += e.readAhead(ctx, s.Tenant, k, links[i:])
		}
		i++
		ref := *p.Ref
		err := e.inlinePart(ctx, s.Tenant, k, p)
		if err != nil {
			return foreign(field, ref.Digest, err)
		}
		if uint64(contentSize(p)) != ref.Size {
			return fieldErr(field, "blob %s has %d bytes, the ref says %d", ref.Digest, contentSize(p), ref.Size)
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

// fieldOf is the member of a request that a body's parts come from.
func fieldOf(body any) string {
	if _, ok := body.(*turns.CompactionBody); ok {
		return "/replacement"
	}
	return "/messages"
}

// inline puts the content of blobs back into the parts of a body.
func (e *Engine) inline(ctx context.Context, tenant string, root turns.ID, body any) error {
	k, err := e.blobKey(root)
	if err != nil {
		return err
	}
	return e.inlineParts(ctx, tenant, k, partsOf(body))
}

func (e *Engine) inlinePart(ctx context.Context, tenant string, k seal.Key, p *turns.Part) error {
	b, err := e.blob(ctx, tenant, k, p.Ref.Digest)
	if err != nil {
		return err
	}
	switch p.Type {
	case turns.ToolCall:
		p.Arguments = b
	case turns.ToolCallResponse:
		p.Response = b
	case turns.Blob:
		p.Data = b
	default:
		p.Content = string(b)
	}
	p.Ref = nil
	return nil
}

// unshare gives a body messages and parts of its own, so that what is done to
// them is not done to the request, or the plan, that it was made from: after a
// lost compare-and-set it is decided on that again.
func unshare(body any) {
	own := func(ms []turns.Message) []turns.Message {
		ms = slices.Clone(ms)
		for i := range ms {
			ms[i].Parts = slices.Clone(ms[i].Parts)
		}
		return ms
	}
	switch b := body.(type) {
	case *turns.TurnBody:
		b.Messages = own(b.Messages)
		if b.Response != nil {
			b.Response = &own([]turns.Message{*b.Response})[0]
		}
	case *turns.CompactionBody:
		b.Replacement = own(b.Replacement)
	}
}

// partsOf is the parts of a body that may be moved to blobs.
func partsOf(body any) (parts []*turns.Part) {
	add := func(ms []turns.Message) {
		for i := range ms {
			for j := range ms[i].Parts {
				parts = append(parts, &ms[i].Parts[j])
			}
		}
	}
	switch b := body.(type) {
	case *turns.TurnBody:
		add(b.Messages)
		if b.Response != nil {
			for j := range b.Response.Parts {
				parts = append(parts, &b.Response.Parts[j])
			}
		}
	case *turns.CompactionBody:
		add(b.Replacement)
	}
	return parts
}

func content(p *turns.Part) []byte {
	switch p.Type {
	case turns.ToolCall:
		return p.Arguments
	case turns.ToolCallResponse:
		return p.Response
	case turns.Blob:
		return p.Data
	}
	return []byte(p.Content)
}

func contentSize(p *turns.Part) int {
	if p.Ref != nil {
		return 0
	}
	return len(content(p))
}

func preview(s string) string {
	if len(s) <= previewBytes {
		return s
	}
	s = s[:previewBytes]
	for len(s) > 0 && !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}
