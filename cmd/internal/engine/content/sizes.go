package content

import (
	"unicode/utf8"

	"nexus/cmd/internal/engine/page"
	"nexus/turns"
)

// CheckBodySize checks that a reply can show a body as it is stored.
func (cs *Store) CheckBodySize(body any) error {
	inline := 0
	for _, p := range BodyParts(body) {
		inline += contentSize(p)
	}
	return page.CheckFit(cs.page.BodyBytes(body), inline, fixedSizes(body)...)
}

// contentSize returns how many bytes of JSON the content of a part takes in a reply.
func contentSize(p *turns.Part) int {
	switch {
	case p.Ref != nil:
		return 0
	case p.Type == turns.Blob:
		return (len(p.Data) + 2) / 3 * 4
	case p.Type == turns.ToolCall:
		return len(p.Arguments)
	case p.Type == turns.ToolCallResponse:
		return len(p.Response)
	}
	return page.EscapedSize(p.Content)
}

// frameSize returns an upper bound on the bytes of JSON of a part without its
// content.
func frameSize(p *turns.Part) int {
	const members = 128 // names, type, punctuation
	n := members + page.EscapedSize(p.ID) + page.EscapedSize(p.Name) + page.EscapedSize(p.Modality) + page.EscapedSize(p.MimeType) + len(p.Ext)
	if p.Ref != nil {
		n += refSize + pieceSize*len(p.Ref.Pieces) + page.EscapedSize(p.Ref.Preview) + page.EscapedSize(p.Ref.MimeType)
	}
	return n
}

// refSize bounds the bytes of JSON of a ref without its preview.
const refSize = 160

// pieceSize bounds the bytes of JSON of a piece's digest in a ref.
const pieceSize = 80

// refGrowth returns by how much frameSize grows when a part is moved to a blob.
func refGrowth(p *turns.Part) int {
	n := refSize + page.EscapedSize(p.MimeType)
	if p.Type != turns.Blob {
		n += page.EscapedSize(Preview(string(p.ContentBytes()[:min(PreviewBytes+utf8.UTFMax, len(p.ContentBytes()))])))
	}
	return n
}

// fixedSizes returns the sizes of everything in a body that can't be moved to blobs,
// by the member of the request.
func fixedSizes(body any) []page.FieldSize {
	ext, frames := 0, 0
	for _, p := range BodyParts(body) {
		ext += len(p.Ext)
		frames += frameSize(p) - len(p.Ext)
	}
	switch b := body.(type) {
	case *turns.TurnBody:
		out := []page.FieldSize{fieldSize("/meta", len(b.Meta), ""), fieldSize("/messages", ext, "ext"), fieldSize("/messages", frames+64*len(b.Messages), "its parts without their content")}
		if c := b.Context; c != nil {
			out = append(out, fieldSize("/context", len(c.Recipe)+page.EscapedSize(c.Fingerprint), ""))
		}
		return out
	case *turns.CompactionBody:
		return []page.FieldSize{fieldSize("/meta", len(b.Meta), ""), fieldSize("/replacement", ext, "ext"), fieldSize("/replacement", frames+64*len(b.Replacement), "its parts without their content"), fieldSize("/trigger", page.EscapedSize(b.Trigger.Kind)+len(b.Trigger.Detail), "")}
	}
	return nil
}

// CheckSettingsSize checks that a reply can show settings.
func (cs *Store) CheckSettingsSize(s *turns.Settings) error {
	system, tools := 0, 0
	for _, x := range s.Preamble.System {
		system += 32 + page.EscapedSize(x.Name) + page.EscapedSize(x.Content)
	}
	for _, t := range s.Preamble.Tools {
		tools += 1 + len(t)
	}
	return page.CheckFit(cs.page.SettingsBytes(), 0, page.FieldSize{Field: "/system", Bytes: system}, page.FieldSize{Field: "/tools", Bytes: tools}, page.FieldSize{Field: "/meta", Bytes: len(s.Meta)},
		page.FieldSize{Field: "/reset", Bytes: len(s.Reset)}, page.FieldSize{Field: "/user", Bytes: page.EscapedSize(s.User)}, page.FieldSize{Field: "/policy", Bytes: len(s.Policy.Set)})
}

// fieldSize returns the size of a part of a field; of is "" for the whole field.
func fieldSize(field string, bytes int, of string) page.FieldSize {
	return page.FieldSize{Field: field, Bytes: bytes, Part: of}
}
