package engine

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"nexus/ledger"
	"nexus/turns"
	"nexus/turns/seal"
)

// minBlob is the smallest part that is worth a blob of its own, in bytes.
const minBlob = 4 << 10

// previewBytes is how much of a moved part stands in its place.
const previewBytes = 256

// offload moves the largest parts of a body to blobs until what is left fits
// [turns.InlineBody]. Blobs are stored, durably, before the event that names
// them: a crash in between leaves blobs that nothing names, and a retry finds
// them stored.
func (e *Engine) offload(ctx context.Context, tenant string, root turns.ID, ev *turns.Event, body any) error {
	parts := partsOf(body)
	total := 0
	for _, p := range parts {
		total += contentSize(p)
	}
	if total > turns.InlineBody {
		slices.SortStableFunc(parts, func(a, b *turns.Part) int { return contentSize(b) - contentSize(a) })
		k, err := e.key(root)
		if err != nil {
			return err
		}
		for _, p := range parts {
			n := contentSize(p)
			if total <= turns.InlineBody || n < minBlob {
				break
			}
			if err := e.move(ctx, tenant, k, p); err != nil {
				return err
			}
			total -= n
		}
		if total > turns.MaxPayload/2 {
			return fmt.Errorf("%w: %d bytes are left in parts too small to move", ledger.ErrTooLarge, total)
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
	ref := &turns.BlobRef{Digest: seal.BlobDigest(k, content), Size: uint64(len(content)), MimeType: p.MimeType}
	if p.Type != turns.Blob {
		ref.Preview = preview(string(content))
	}
	if e.Keys != nil {
		// The nonce follows from the digest, which is keyed and names the content:
		// the same content is sealed to the same bytes, and a try that a crash cut
		// short is completed by the next.
		sealed, err := seal.SealBlob(k, ref.Digest, content, bytes.NewReader(ref.Digest[:]))
		if err != nil {
			return err
		}
		content = sealed
	}
	if err := e.Blobs.PutBlob(ctx, tenant, ref.Digest, content); err != nil {
		return err
	}
	p.Content, p.Arguments, p.Response, p.Data, p.Ref = "", nil, nil, nil, ref
	return nil
}

// inline puts the content of blobs back into the parts of a body.
func (e *Engine) inline(ctx context.Context, tenant string, root turns.ID, body any) error {
	for _, p := range partsOf(body) {
		if p.Ref == nil {
			continue
		}
		b, err := e.Blobs.GetBlob(ctx, tenant, p.Ref.Digest)
		if err != nil {
			return fmt.Errorf("blob %s: %w", p.Ref.Digest, err)
		}
		k, err := e.key(root)
		if err != nil {
			return err
		}
		if e.Keys != nil {
			if b, err = seal.OpenBlob(k, p.Ref.Digest, b); err != nil {
				return fmt.Errorf("blob %s: %w", p.Ref.Digest, err)
			}
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
	}
	return nil
}

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
