package engine

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// What is stored must be readable afterwards, in a message that has room for
// it. Content of parts is moved to blobs where there is too much of it. Nothing
// else can be moved (meta, ext, recipes, settings, very many small parts), so
// that is measured before it is stored, as the JSON that replies show.

// bodyBytes is how many bytes of JSON an event's body may have in a reply.
// What stands beside it in a turn or a page has the rest of the message: a
// compaction has a summary, a list of elisions and more.
func (e *Engine) bodyBytes(body any) int {
	if _, ok := body.(*turns.CompactionBody); ok {
		return e.payload() / 2
	}
	return e.payload() / 4 * 3
}

// summaryBytes is how many bytes of JSON of a compaction's summary are shown.
// One of ours that is longer is whole in the replacement, or in its blob.
func (e *Engine) summaryBytes() int { return e.payload() / 8 }

// settingsBytes is how many bytes of JSON a session's settings may have. They
// stand in session.get, and before the messages on the first page of a context.
func (e *Engine) settingsBytes() int { return e.payload() / 2 }

// wordBytes is how many bytes of JSON a single text may have that is shown
// beside a body.
func (e *Engine) wordBytes() int { return e.payload() / 16 }

// jsonSize is the bytes of s in JSON, without the quotes.
func jsonSize[T string | []byte](s T) int {
	n := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\' || c == '\b' || c == '\f' || c == '\n' || c == '\r' || c == '\t':
			n++
		case c < ' ':
			n += len(`\u0000`) - 1
		}
	}
	return n
}

// clipJSON is as much of s as has most bytes in JSON, and a mark where it ends.
func clipJSON(s string, most int) string {
	if len(s) <= most/6 || jsonSize(s) <= most {
		return s
	}
	const cut = "…"
	n := 0
	for room := most - len(cut); n < len(s); n++ {
		if room -= jsonSize(s[n : n+1]); room < 0 {
			break
		}
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + cut
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
	return jsonSize(p.Content)
}

// frameSize is the bytes of JSON of a part without its content, and not less.
func frameSize(p *turns.Part) int {
	const members = 128 // names, type, punctuation
	n := members + jsonSize(p.ID) + jsonSize(p.Name) + jsonSize(p.Modality) + jsonSize(p.MimeType) + len(p.Ext)
	if p.Ref != nil {
		n += refSize + jsonSize(p.Ref.Preview) + jsonSize(p.Ref.MimeType)
	}
	return n
}

const refSize = 160 // of a ref without its preview

// movedSize is what frameSize will be more of a part that is moved.
func movedSize(p *turns.Part) int {
	n := refSize + jsonSize(p.MimeType)
	if p.Type != turns.Blob {
		n += jsonSize(preview(string(content(p)[:min(previewBytes+utf8.UTFMax, len(content(p)))])))
	}
	return n
}

// share is what a member of a request takes of the room that replies have.
type share struct {
	field string
	bytes int
	of    string // which part of the field; "": all
}

// fixedShares is what a body has that can't be moved, by the member of the
// request that it came with.
func fixedShares(body any) []share {
	ext, frames := 0, 0
	for _, p := range partsOf(body) {
		ext += len(p.Ext)
		frames += frameSize(p) - len(p.Ext)
	}
	switch b := body.(type) {
	case *turns.TurnBody:
		out := []share{{"/meta", len(b.Meta), ""}, {"/messages", ext, "ext"}, {"/messages", frames + 64*len(b.Messages), "its parts without their content"}}
		if c := b.Context; c != nil {
			out = append(out, share{"/context", len(c.Recipe) + jsonSize(c.Fingerprint), ""})
		}
		return out
	case *turns.CompactionBody:
		return []share{{"/meta", len(b.Meta), ""}, {"/replacement", ext, "ext"}, {"/replacement", frames + 64*len(b.Replacement), "its parts without their content"}, {"/trigger", jsonSize(b.Trigger.Kind) + len(b.Trigger.Detail), ""}}
	}
	return nil
}

// fits checks that shares, and what else is shown with them, are not more than
// most. The field of the error is the one that takes the most.
func fits(most, beside int, shares ...share) error {
	total := beside
	largest := share{bytes: -1}
	for _, s := range shares {
		if total += s.bytes; s.bytes > largest.bytes {
			largest = s
		}
	}
	if total <= most {
		return nil
	}
	of := "all of it"
	if largest.of != "" {
		of = largest.of
	}
	return &turns.FieldError{Field: largest.field, Kind: ledger.ErrTooLarge,
		Reason: fmt.Sprintf("a reply would show %d bytes of the request, %d of them from here (%s); %d is the most. Only the content of large parts is moved to blobs",
			total, largest.bytes, of, most)}
}

// fitsWord checks a single text that is shown beside a body.
func fitsWord(field, s string, most int) error {
	if n := jsonSize(s); n > most {
		return &turns.FieldError{Field: field, Reason: fmt.Sprintf("%d bytes as JSON, %d is the most", n, most), Kind: ledger.ErrTooLarge}
	}
	return nil
}

// fitsSettings checks that settings can be shown again.
func (e *Engine) fitsSettings(s *turns.Settings) error {
	system, tools := 0, 0
	for _, x := range s.Preamble.System {
		system += 32 + jsonSize(x.Name) + jsonSize(x.Content)
	}
	for _, t := range s.Preamble.Tools {
		tools += 1 + len(t)
	}
	return fits(e.settingsBytes(), 0, share{field: "/system", bytes: system}, share{field: "/tools", bytes: tools}, share{field: "/meta", bytes: len(s.Meta)},
		share{field: "/reset", bytes: len(s.Reset)}, share{field: "/user", bytes: jsonSize(s.User)}, share{field: "/policy", bytes: len(s.Policy.Set)})
}

// fitCalls leaves of an ack's lists of calls what has room in it.
func (e *Engine) fitCalls(ack *api.Appended) {
	room := e.payload() / 2
	for _, ids := range []*[]string{&ack.Open, &ack.Abandoned, &ack.Late} {
		for i, id := range *ids {
			if room -= 3 + jsonSize(id); room < 0 {
				*ids, ack.CallsCut = slices.Clip((*ids)[:i]), true
				break
			}
		}
	}
}
