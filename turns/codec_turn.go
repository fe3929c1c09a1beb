package turns

import (
	"fmt"
	"unicode/utf8"
)

// appendTurn appends the encoding of t to b: the bytes that encMode writes, which the
// tests compare. Every append encodes a turn, and the library takes ten times as long
// with the reading back that [EncodeBody] does.
//
// Invariant: the bytes decode. The keys ascend and the heads are the shortest by how they
// are written, so only what the values can spoil is checked: texts that are not UTF-8,
// raw values that are no JSON. The caller checks the size and the number of elements.
func appendTurn(b []byte, t *TurnBody) ([]byte, error) {
	w := bodyWriter{b: b}
	w.turn(t)
	return w.b, w.err
}

// appendMessage appends the encoding of a message of its own to b, as [appendTurn] does.
func appendMessage(b []byte, m *Message) ([]byte, error) {
	w := bodyWriter{b: b}
	w.message(m)
	return w.b, w.err
}

func (w *bodyWriter) turn(t *TurnBody) {
	w.pairs(len(t.Messages) > 0, t.Response != nil, t.Model != "", len(t.Meta) > 0, t.Context != nil, !t.Preamble.IsZero())
	w.messages(1, t.Messages)
	if t.Response != nil {
		w.key(2)
		w.message(t.Response)
	}
	w.text(3, t.Model)
	w.raw(5, t.Meta)
	if c := t.Context; c != nil {
		w.key(6)
		w.pairs(len(c.Recipe) > 0, c.Fingerprint != "")
		w.raw(1, c.Recipe)
		w.text(2, c.Fingerprint)
	}
	if !t.Preamble.IsZero() {
		w.bytes(7, t.Preamble[:])
	}
}

// sizeOfTurn returns a number of bytes that most encodings of t fit into.
func sizeOfTurn(t *TurnBody) int {
	n := 64 + len(t.Model) + len(t.Meta)
	if c := t.Context; c != nil {
		n += 16 + len(c.Recipe) + len(c.Fingerprint)
	}
	for i := range t.Messages {
		n += t.Messages[i].encodedSize()
	}
	if t.Response != nil {
		n += t.Response.encodedSize()
	}
	return n
}

func (m *Message) encodedSize() int {
	n := 32 + len(m.Name) + len(m.FinishReason)
	for i := range m.Parts {
		p := &m.Parts[i]
		n += 64 + len(p.Content) + len(p.ID) + len(p.Name) + len(p.Arguments) + len(p.Response) + len(p.Data) + len(p.MimeType) + len(p.Ext)
		if p.Ref != nil {
			n += 64 + len(p.Ref.Preview) + 34*len(p.Ref.Pieces)
		}
	}
	return n
}

// bodyWriter writes the maps of a body, whose keys are numbers. After an error it goes
// on, and err is the first.
type bodyWriter struct {
	b       []byte
	err     error
	decoded bool // the values were decoded from an encoding: nothing is checked
}

// pairs begins a map of the members that are present.
func (w *bodyWriter) pairs(present ...bool) {
	n := uint64(0)
	for _, p := range present {
		if p {
			n++
		}
	}
	w.b = appendHead(w.b, 5, n)
}

func (w *bodyWriter) key(k uint64) { w.b = appendHead(w.b, 0, k) }

func (w *bodyWriter) bytes(k uint64, v []byte) {
	w.key(k)
	w.b = appendBytes(w.b, v)
}

// text writes a text, and leaves out an empty one.
func (w *bodyWriter) text(k uint64, s string) {
	if s != "" {
		w.mustText(k, s)
	}
}

func (w *bodyWriter) mustText(k uint64, s string) {
	w.key(k)
	w.b = appendText(w.b, s)
	if w.err == nil && !w.decoded && !utf8.ValidString(s) {
		w.err = fmt.Errorf("%w: a text that is not UTF-8", ErrMalformed)
	}
}

// raw writes a JSON value, and leaves out an absent one.
func (w *bodyWriter) raw(k uint64, r Raw) {
	if len(r) == 0 {
		return
	}
	w.bytes(k, r)
	if w.err == nil && !w.decoded {
		w.err = checkJSON(r)
	}
}

func (w *bodyWriter) messages(k uint64, ms []Message) {
	if len(ms) == 0 {
		return
	}
	w.key(k)
	w.b = appendHead(w.b, 4, uint64(len(ms)))
	for i := range ms {
		w.message(&ms[i])
	}
}

func (w *bodyWriter) message(m *Message) {
	w.pairs(true, len(m.Parts) > 0, m.Name != "", m.FinishReason != "")
	w.mustText(1, string(m.Role))
	if len(m.Parts) > 0 {
		w.key(2)
		w.b = appendHead(w.b, 4, uint64(len(m.Parts)))
		for i := range m.Parts {
			w.part(&m.Parts[i])
		}
	}
	w.text(3, m.Name)
	w.text(4, m.FinishReason)
}

func (w *bodyWriter) part(p *Part) {
	w.pairs(true, p.Content != "", p.ID != "", p.Name != "", len(p.Arguments) > 0, len(p.Response) > 0, p.IsError,
		p.Modality != "", p.MimeType != "", len(p.Data) > 0, p.Ref != nil, len(p.Ext) > 0)
	w.mustText(1, string(p.Type))
	w.text(2, p.Content)
	w.text(3, p.ID)
	w.text(4, p.Name)
	w.raw(5, p.Arguments)
	w.raw(6, p.Response)
	if p.IsError {
		w.key(7)
		w.b = append(w.b, 0xf5) // true
	}
	w.text(8, p.Modality)
	w.text(9, p.MimeType)
	if len(p.Data) > 0 {
		w.bytes(10, p.Data)
	}
	if p.Ref != nil {
		w.key(11)
		w.ref(p.Ref)
	}
	w.raw(12, p.Ext)
}

func (w *bodyWriter) ref(r *BlobRef) {
	w.pairs(true, true, r.MimeType != "", r.Preview != "", len(r.Pieces) > 0)
	w.bytes(1, r.Digest[:])
	w.key(2)
	w.b = appendHead(w.b, 0, r.Size)
	w.text(3, r.MimeType)
	w.text(4, r.Preview)
	if len(r.Pieces) > 0 {
		w.key(5)
		w.b = appendHead(w.b, 4, uint64(len(r.Pieces)))
		for i := range r.Pieces {
			w.b = appendBytes(w.b, r.Pieces[i][:])
		}
	}
}
