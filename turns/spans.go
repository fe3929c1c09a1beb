package turns

import "fmt"

// PartSpans returns where the parts of a body lie in its encoding, in order: those of the
// messages and the response of a turn, of the replacement and the nudge of a compaction.
// Bodies of other kinds have no parts. What each part is made of is not looked at.
// Errors: [ErrMalformed] for bytes that are no body of the kind.
func PartSpans(kind Kind, encoded []byte) (spans [][2]int, err error) {
	var messages, message [2]byte // keys of the lists of messages, and of the message
	switch kind {
	case KindTurn:
		messages, message = [2]byte{1, 1}, [2]byte{2, 2}
	case KindCompaction:
		messages = [2]byte{6, 20}
	default:
		return nil, nil
	}
	f := finder{b: encoded}
	f.object(func(k byte) {
		switch {
		case k == message[0]:
			f.message()
		case k == messages[0] || k == messages[1]:
			for n := f.head(4); n > 0 && !f.bad; n-- {
				f.message()
			}
		default:
			f.skip()
		}
	})
	if f.bad || f.at != len(encoded) {
		return nil, fmt.Errorf("%w: the parts of a body of kind %s are not found", ErrMalformed, kind)
	}
	return f.spans, nil
}

// finder goes through an encoded body.
type finder struct {
	b     []byte
	at    int
	bad   bool
	spans [][2]int
}

func (f *finder) head(major byte) (n uint64) {
	if f.bad || f.at >= len(f.b) || f.b[f.at]>>5 != major {
		f.bad = true
		return 0
	}
	n, size := itemHead(f.b[f.at:])
	if f.at += size; size == 0 || major != 0 && n > uint64(len(f.b)) {
		f.bad = true
		return 0
	}
	return n
}

func (f *finder) skip() {
	n := skip(f.b[f.at:], maxDepth)
	f.at += n
	f.bad = f.bad || n == 0
}

// object calls member for each member of a map whose keys are under 24.
func (f *finder) object(member func(k byte)) {
	for range f.head(5) {
		k := f.head(0)
		if f.bad || k >= 24 {
			f.bad = true
			return
		}
		member(byte(k))
	}
}

func (f *finder) message() {
	f.object(func(k byte) {
		if k != 2 {
			f.skip()
			return
		}
		for n := f.head(4); n > 0 && !f.bad; n-- {
			from := f.at
			f.skip()
			f.spans = append(f.spans, [2]int{from, f.at})
		}
	})
}
