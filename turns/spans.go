package turns

import (
	"fmt"

	"nexus/turns/internal/cbor"
)

// PartSpans returns where the parts of a body lie in its encoding, in order: those of the
// messages and the response of a turn, of the replacement and the nudge of a compaction.
// Bodies of other kinds have no parts. What each part is made of is not looked at.
// Errors: [ErrMalformed] for bytes that are no body of the kind.
func PartSpans(kind Kind, encoded []byte) (spans [][2]int, err error) {
	var messages [2]uint64 // keys of the lists of messages
	var message uint64     // of the message
	switch kind {
	case KindTurn:
		messages, message = [2]uint64{1, 1}, 2
	case KindCompaction:
		messages = [2]uint64{6, 20}
	default:
		return nil, nil
	}
	f := finder{Coder: cbor.Reader(encoded)}
	f.object(func(k uint64) {
		switch {
		case k == message:
			f.message()
		case k == messages[0] || k == messages[1]:
			f.array(f.message)
		default:
			f.Skip()
		}
	})
	if err := f.Done(); err != nil {
		return nil, fmt.Errorf("the parts of a body of kind %s: %w", kind, err)
	}
	return f.spans, nil
}

// finder goes through an encoded body.
type finder struct {
	*cbor.Coder
	spans [][2]int
}

// object calls member for each member of a map.
func (f *finder) object(member func(k uint64)) {
	for n := f.Head(5); n > 0 && f.Err() == nil; n-- {
		member(f.Head(0))
	}
}

// array calls element for each element of an array.
func (f *finder) array(element func()) {
	for n := f.Elements(); n > 0 && f.Err() == nil; n-- {
		element()
	}
}

func (f *finder) message() {
	f.object(func(k uint64) {
		if k != 2 {
			f.Skip()
			return
		}
		f.array(func() {
			from := f.At()
			f.Skip()
			f.spans = append(f.spans, [2]int{from, f.At()})
		})
	})
}
