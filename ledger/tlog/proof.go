package tlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nexus/turns"
)

// proofHeader is the first line of a proof.
const proofHeader = "c2sp.org/tlog-proof@v1"

// Proof says that an entry is a leaf of the tree of a checkpoint, in the form of c2sp.org/tlog-proof.
type Proof struct {
	Index uint64
	Path  []turns.Hash
	Note  []byte // the checkpoint
}

// Encode is the file of the proof.
func (p *Proof) Encode() []byte {
	b := fmt.Appendf(nil, "%s\nindex %d\n", proofHeader, p.Index)
	for _, h := range p.Path {
		b = append(base64.StdEncoding.AppendEncode(b, h[:]), '\n')
	}
	return append(append(b, '\n'), p.Note...)
}

// maxPath is the longest path of a tree.
const maxPath = 63

// ParseProof reads the file of a proof, in its one form only. Errors: [turns.ErrMalformed].
func ParseProof(b []byte) (*Proof, error) {
	bad := func(why string) (*Proof, error) {
		return nil, fmt.Errorf("%w: it is no proof: %s", turns.ErrMalformed, why)
	}
	head, note, ok := strings.Cut(string(b), "\n\n")
	lines := strings.Split(head, "\n")
	if !ok || lines[0] != proofHeader || len(lines) < 2 || len(lines) > 2+maxPath {
		return bad("it does not begin as one")
	}
	digits, ok := strings.CutPrefix(lines[1], "index ")
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || strconv.FormatUint(n, 10) != digits {
		return bad("its index is no number")
	}
	p := &Proof{Index: n, Note: []byte(note)}
	for _, line := range lines[2:] {
		h, err := decodeHash(line)
		if err != nil {
			return bad("a line of its path is no hash")
		}
		p.Path = append(p.Path, h)
	}
	return p, nil
}

// Verify checks the proof for an entry, under a public key. Errors: those of [OpenCheckpoint];
// [turns.ErrCorrupt].
func (p *Proof) Verify(entry turns.Hash, public string) (Checkpoint, error) {
	c, err := OpenCheckpoint(p.Note, public)
	if err != nil {
		return c, err
	}
	return c, CheckInclusion(p.Path, p.Index, c.Size, c.Root, entry)
}

// Event is the file beside a proof: the header of an event, the hash of its body, and the leaves of
// the body that are shown.
type Event struct {
	Version int         `json:"nexus_event"` // 1
	Header  Bytes       `json:"header"`
	Body    Bytes       `json:"body"` // SHA-256 of the body as it is stored
	Leaves  []ShownLeaf `json:"leaves,omitempty"`
	Key     *EventKey   `json:"key,omitempty"`
}

// ShownLeaf is a leaf of the commitment in the header; see [turns.Disclosed].
type ShownLeaf struct {
	Leaf  int     `json:"leaf"`
	Count int     `json:"count"`
	Salt  Bytes   `json:"salt"`
	Bytes Bytes   `json:"bytes"`
	Path  []Bytes `json:"path,omitempty"`
}

// Bytes stand in JSON as base64 in its one form.
type Bytes []byte

// UnmarshalText reads base64. Errors: [turns.ErrMalformed].
func (b *Bytes) UnmarshalText(s []byte) error {
	d, err := strict.DecodeString(string(s))
	if err != nil || base64.StdEncoding.EncodeToString(d) != string(s) {
		return fmt.Errorf("%w: it is no base64 in its one form", turns.ErrMalformed)
	}
	*b = d
	return nil
}

// EventKey is the content key of a session: who has it reads all of it.
type EventKey struct {
	ID  turns.ID `json:"id"`
	Key []byte   `json:"key"`
}

// NewEvent is the file of the event with a payload, with the leaves that are shown.
// Errors: [turns.ErrCorrupt] for a payload of no event.
func NewEvent(payload []byte, shown ...*turns.Disclosed) (*Event, error) {
	header, body, err := turns.SplitPayload(payload)
	if err != nil {
		return nil, err
	}
	e := &Event{Version: 1, Header: bytes.Clone(header), Body: body[:]}
	for _, d := range shown {
		l := ShownLeaf{Leaf: d.Leaf, Count: d.Count, Salt: d.Salt[:], Bytes: d.Bytes}
		for _, h := range d.Path {
			l.Path = append(l.Path, h[:])
		}
		e.Leaves = append(e.Leaves, l)
	}
	return e, nil
}

// Encode is the file: JSON.
func (e *Event) Encode() ([]byte, error) {
	b, err := turns.EncodeJSON(e)
	return append(b, '\n'), err
}

// ParseEvent reads the file. Errors: [turns.ErrMalformed].
func ParseEvent(b []byte) (*Event, error) {
	e := new(Event)
	if err := turns.DecodeJSON(b, e); err != nil {
		return nil, err
	}
	sound := len(e.Body) == len(turns.Hash{})
	for i, l := range e.Leaves {
		// A leaf could take another's place in a tree of another size: one size, and each place once.
		sound = sound && l.Count == e.Leaves[0].Count && !slices.ContainsFunc(e.Leaves[:i], func(o ShownLeaf) bool { return o.Leaf == l.Leaf })
		sound = sound && len(l.Salt) == len(turns.Hash{}) && !slices.ContainsFunc(l.Path, func(h Bytes) bool { return len(h) != len(turns.Hash{}) })
	}
	if !sound {
		return nil, fmt.Errorf("%w: the file of an event has a hash that is none", turns.ErrMalformed)
	}
	if e.Version != 1 {
		return nil, fmt.Errorf("%w: version %d of the file of an event", turns.ErrMalformed, e.Version)
	}
	return e, nil
}

// Shows reports whether a leaf of the body is shown.
func (e *Event) Shows(leaf int) bool {
	return slices.ContainsFunc(e.Leaves, func(l ShownLeaf) bool { return l.Leaf == leaf })
}

// Entry is the entry of the event in the tree.
func (e *Event) Entry() turns.Hash { return turns.HashHeader(e.Header, turns.Hash(e.Body)) }

// Verify checks the leaves that are shown against the header, and returns the header's event, without a body.
// Errors: [turns.ErrCorrupt], [turns.ErrMalformed], [turns.ErrUnsupported].
func (e *Event) Verify() (*turns.Event, error) {
	ev, err := turns.DecodeHeader(e.Header)
	if err != nil {
		return nil, err
	}
	for _, l := range e.Leaves {
		d := turns.Disclosed{Leaf: l.Leaf, Count: l.Count, Salt: turns.Hash(l.Salt), Bytes: l.Bytes}
		for _, h := range l.Path {
			d.Path = append(d.Path, turns.Hash(h))
		}
		if err := d.Check(ev.Commitment); err != nil {
			return nil, err
		}
	}
	return ev, e.checkPlaces()
}

// checkPlaces compares the places of the parts that are shown with leaf 0, if that is shown too: a path alone fits
// another place in a tree of another size.
func (e *Event) checkPlaces() error {
	i := slices.IndexFunc(e.Leaves, func(l ShownLeaf) bool { return l.Leaf == 0 && l.Count > 1 })
	if i < 0 {
		return nil
	}
	places, err := turns.Places(e.Leaves[i].Bytes)
	if err != nil {
		return err
	}
	for _, l := range e.Leaves {
		if l.Count != len(places)+1 {
			return fmt.Errorf("%w: leaf 0 has %d parts, leaf %d says that there are %d", turns.ErrCorrupt, len(places), l.Leaf, l.Count-1)
		}
		if l.Leaf > 0 && places[l.Leaf-1] != turns.Hash(sha256.Sum256(slices.Concat([]byte{0}, l.Salt, l.Bytes))) {
			return fmt.Errorf("%w: part %d is not at its place", turns.ErrCorrupt, l.Leaf)
		}
	}
	return nil
}
