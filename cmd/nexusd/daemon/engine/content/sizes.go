package content

import (
	"unicode/utf8"

	"nexus/cmd/nexusd/daemon/engine/page"
	"nexus/turns"
)

// CheckBodySize checks that replies can show a body as it is stored.
func (cs *Store) CheckBodySize(body any) error {
	inline := 0
	for _, p := range BodyParts(body) {
		inline += shownSize(p)
	}
	return page.CheckFit(cs.page.BodyBytes(body), inline, fixedShares(body)...)
}

// shownSize is the bytes of JSON that the content of a part has in a reply.
func shownSize(p *turns.Part) int {
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
	return page.JSONSize(p.Content)
}

// frameSize is the bytes of JSON of a part without its content, and not less.
func frameSize(p *turns.Part) int {
	const members = 128 // names, type, punctuation
	n := members + page.JSONSize(p.ID) + page.JSONSize(p.Name) + page.JSONSize(p.Modality) + page.JSONSize(p.MimeType) + len(p.Ext)
	if p.Ref != nil {
		n += refSize + page.JSONSize(p.Ref.Preview) + page.JSONSize(p.Ref.MimeType)
	}
	return n
}

const refSize = 160 // of a ref without its preview

// movedSize is what frameSize will be more of a part that is moved.
func movedSize(p *turns.Part) int {
	n := refSize + page.JSONSize(p.MimeType)
	if p.Type != turns.Blob {
		n += page.JSONSize(Preview(string(PartContent(p)[:min(PreviewBytes+utf8.UTFMax, len(PartContent(p)))])))
	}
	return n
}

// fixedShares is what a body has that can't be moved, by the member of the
// request that it came with.
func fixedShares(body any) []page.Share {
	ext, frames := 0, 0
	for _, p := range BodyParts(body) {
		ext += len(p.Ext)
		frames += frameSize(p) - len(p.Ext)
	}
	switch b := body.(type) {
	case *turns.TurnBody:
		out := []page.Share{share("/meta", len(b.Meta), ""), share("/messages", ext, "ext"), share("/messages", frames+64*len(b.Messages), "its parts without their content")}
		if c := b.Context; c != nil {
			out = append(out, share("/context", len(c.Recipe)+page.JSONSize(c.Fingerprint), ""))
		}
		return out
	case *turns.CompactionBody:
		return []page.Share{share("/meta", len(b.Meta), ""), share("/replacement", ext, "ext"), share("/replacement", frames+64*len(b.Replacement), "its parts without their content"), share("/trigger", page.JSONSize(b.Trigger.Kind)+len(b.Trigger.Detail), "")}
	}
	return nil
}

// CheckSettingsSize checks that settings can be shown again.
func (cs *Store) CheckSettingsSize(s *turns.Settings) error {
	system, tools := 0, 0
	for _, x := range s.Preamble.System {
		system += 32 + page.JSONSize(x.Name) + page.JSONSize(x.Content)
	}
	for _, t := range s.Preamble.Tools {
		tools += 1 + len(t)
	}
	return page.CheckFit(cs.page.SettingsBytes(), 0, page.Share{Field: "/system", Bytes: system}, page.Share{Field: "/tools", Bytes: tools}, page.Share{Field: "/meta", Bytes: len(s.Meta)},
		page.Share{Field: "/reset", Bytes: len(s.Reset)}, page.Share{Field: "/user", Bytes: page.JSONSize(s.User)}, page.Share{Field: "/policy", Bytes: len(s.Policy.Set)})
}

func share(field string, bytes int, of string) page.Share {
	return page.Share{Field: field, Bytes: bytes, Part: of}
}
