package turns

import (
	"bytes"
	"fmt"
)

// RedactedBody is the body of a redacted event: that of an event of the chain again, without what was taken out of
// it, and what shows that the rest is as it was. The key of the event itself is destroyed behind it.
type RedactedBody struct {
	Kind   Kind           `cbor:"1,keyasint"`           // of the event whose body it is
	Body   []byte         `cbor:"2,keyasint"`           // the encoded body, with markers in the places of what was taken
	Leaves []RedactedLeaf `cbor:"3,keyasint,omitempty"` // of the commitment of that event, in their order
}

// RedactedLeaf is a leaf of the commitment of an event that was redacted.
type RedactedLeaf struct {
	_     struct{} `cbor:",toarray"`
	State LeafState
	Value Hash // the salt of a leaf that stays, the hash of one that was taken
}

// LeafState says what became of a leaf.
type LeafState uint8

// The states.
const (
	LeafStays LeafState = 1
	LeafTaken LeafState = 2
)

// Redact is the body of a redacted event that puts after in the place of before, the encoded body of an event of a
// kind with its salts. was is the redacted body that before is from, nil for the event's own: what was taken stays
// so. Errors: [ErrMalformed] if they are no bodies of the kind, or have not the same number of parts.
func Redact(kind Kind, before, after []byte, salts Salts, was *RedactedBody) (*RedactedBody, error) {
	if was != nil {
		salts = was.salts
	}
	hashes, _, spans, err := leaves(kind, before, salts)
	if err != nil {
		return nil, err
	}
	now, err := PartSpans(kind, after)
	if err != nil {
		return nil, err
	}
	if len(now) != len(spans) {
		return nil, fmt.Errorf("%w: a body of %d parts in the place of one of %d", ErrMalformed, len(now), len(spans))
	}
	out := &RedactedBody{Kind: kind, Body: after, Leaves: make([]RedactedLeaf, len(hashes))}
	for i := range hashes {
		out.Leaves[i] = RedactedLeaf{State: LeafStays, Value: salts(i)}
		taken := was != nil && was.Leaves[i].State == LeafTaken
		if taken {
			hashes[i] = was.Leaves[i].Value
		}
		if taken || i > 0 && !bytes.Equal(before[spans[i-1][0]:spans[i-1][1]], after[now[i-1][0]:now[i-1][1]]) {
			out.Leaves[i] = RedactedLeaf{State: LeafTaken, Value: hashes[i]}
		}
	}
	if outline := outlined(before, spans, hashes); out.Leaves[0].State == LeafStays && !bytes.Equal(outline, outlined(after, now, hashes)) {
		out.Leaves[0] = RedactedLeaf{State: LeafTaken, Value: hashLeaf(salts(0), outline)}
	}
	return out, nil
}

// salts gives the salt of each leaf that stays.
func (b *RedactedBody) salts(leaf int) Hash {
	if leaf < len(b.Leaves) && b.Leaves[leaf].State == LeafStays {
		return b.Leaves[leaf].Value
	}
	return Hash{}
}

// tree returns the hashes of the leaves, leaf 0, and the places of the parts.
func (b *RedactedBody) tree() (hashes []Hash, outline []byte, spans [][2]int, err error) {
	if spans, err = PartSpans(b.Kind, b.Body); err != nil {
		return nil, nil, nil, err
	}
	if len(b.Leaves) != len(spans)+1 {
		return nil, nil, nil, fmt.Errorf("%w: a body of %d parts has %d leaves", ErrMalformed, len(spans), len(b.Leaves))
	}
	hashes = make([]Hash, len(b.Leaves))
	for i, l := range b.Leaves {
		switch {
		case l.State == LeafTaken:
			hashes[i] = l.Value
		case l.State != LeafStays:
			return nil, nil, nil, fmt.Errorf("%w: leaf %d has state %d", ErrUnsupported, i, l.State)
		case i > 0:
			hashes[i] = hashLeaf(l.Value, b.Body[spans[i-1][0]:spans[i-1][1]])
		}
	}
	outline = outlined(b.Body, spans, hashes)
	if b.Leaves[0].State == LeafStays {
		hashes[0] = hashLeaf(b.Leaves[0].Value, outline)
	}
	return hashes, outline, spans, nil
}

// Check checks that all that stays is what the header of the event commits to. What stands in the places of what was
// taken nothing shows. Errors: [ErrCorrupt], [ErrMalformed], [ErrUnsupported].
func (b *RedactedBody) Check(e *Event) error {
	if b.Kind != e.Kind || e.Kind == KindRedacted {
		return fmt.Errorf("%w: a body of kind %s for an event of kind %s", ErrCorrupt, b.Kind, e.Kind)
	}
	hashes, _, _, err := b.tree()
	if err != nil {
		return err
	}
	if root(hashes) != e.Commitment {
		return fmt.Errorf("%w: what stays of event %s is not what its header commits to", ErrCorrupt, e.ID)
	}
	return nil
}

// Disclose is a leaf that stays, as [Disclose] gives one of a whole body.
// Errors: [ErrErased] for a leaf that was taken; [ErrMalformed].
func (b *RedactedBody) Disclose(leaf int) (*Disclosed, error) {
	hashes, outline, spans, err := b.tree()
	if err != nil {
		return nil, err
	}
	if leaf < 0 || leaf >= len(hashes) {
		return nil, fmt.Errorf("%w: leaf %d of %d", ErrMalformed, leaf, len(hashes))
	}
	if b.Leaves[leaf].State == LeafTaken {
		return nil, fmt.Errorf("%w: leaf %d was redacted", ErrErased, leaf)
	}
	d := &Disclosed{Leaf: leaf, Count: len(hashes), Salt: b.Leaves[leaf].Value, Bytes: outline, Path: path(hashes, leaf)}
	if leaf > 0 {
		d.Bytes = b.Body[spans[leaf-1][0]:spans[leaf-1][1]]
	}
	return d, nil
}

// Taken are the leaves that were taken.
func (b *RedactedBody) Taken() (out []int) {
	for i, l := range b.Leaves {
		if l.State == LeafTaken {
			out = append(out, i)
		}
	}
	return out
}
