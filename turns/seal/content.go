package seal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"nexus/turns"
)

// ErrPunctured: events were taken from the key, so it is not here as a whole; what is left of it is.
var ErrPunctured = errors.New("events were taken from the key")

// Content is a content key, or what is left of one from which events were taken. The zero Content is the zero
// Key's. It is comparable.
type Content struct {
	whole Key
	left  *Remains // nil: whole is the key
}

// String keeps a key out of logs.
func (Content) String() string { return "key" }

// GoString keeps a key out of logs.
func (Content) GoString() string { return "key" }

// Content returns k as a [Keyring] gives it.
func (k Key) Content() Content { return Content{whole: k} }

// Content returns r as a [Keyring] gives it.
func (r *Remains) Content() Content { return Content{left: r} }

// Whole returns the key. Errors: [ErrPunctured].
func (c Content) Whole() (Key, error) {
	if c.left != nil {
		return Key{}, ErrPunctured
	}
	return c.whole, nil
}

// Bytes returns the 32 bytes of the key; nil where events were taken from it.
func (c Content) Bytes() []byte {
	if c.left != nil {
		return nil
	}
	return bytes.Clone(c.whole[:])
}

// Remains returns what is left of the key where events were taken from it; nil: none were.
func (c Content) Remains() *Remains { return c.left }

// ReadContent is the key of [Content.Bytes] or what is left of one, of [Remains.Encode]: one of them is not empty.
// Errors: [turns.ErrCorrupt].
func ReadContent(key, remains []byte) (c Content, err error) {
	switch {
	case len(remains) == 0 && len(key) == len(Key{}):
		c.whole = Key(key)
	case len(key) == 0:
		c.left, err = DecodeRemains(remains)
	default:
		err = fmt.Errorf("%w: %d bytes, a key has %d", turns.ErrCorrupt, len(key), len(Key{}))
	}
	return c, err
}

// deriver is a Key or a Content.
type deriver interface{ derive(p purpose) Key }

func (c Content) derive(p purpose) Key {
	if c.left == nil {
		return c.whole.derive(p)
	}
	if k, ok := c.left.infos[p]; ok {
		return k
	}
	return c.left.fresh.derive(p)
}

// event is the key of the event at an index. Errors: [turns.ErrErased].
func (c Content) event(index uint64) (Key, error) {
	if c.left == nil {
		return c.whole.event(index), nil
	}
	return c.left.event(index)
}

// Has reports whether the event at an index of the key's chain can be opened: it was not taken.
func (c Content) Has(index uint64) bool { return c.left == nil || c.left.has(index) }

// Taken is how many events were taken from the key.
func (c Content) Taken() (n uint64) {
	if c.left == nil {
		return 0
	}
	for _, chunk := range c.left.chunks {
		if chunk.events != nil {
			n += chunkEvents - uint64(len(chunk.events))
		}
	}
	return n
}

// Covers reports whether the key of an event was derived from this key, or from what it is left of: not from a new key that took its
// place somewhere else.
func (c Content) Covers(index uint64) bool {
	return c.left == nil || index/chunkEvents < uint64(len(c.left.chunks))
}

// Same reports whether two keys open the same.
func (c Content) Same(other Content) bool {
	return c.whole == other.whole && bytes.Equal(c.left.Encode(), other.left.Encode())
}

// SameOrigin reports whether two keys are, or are left of, one key.
func (c Content) SameOrigin(other Content) bool {
	return c.derive(sharedKey) == other.derive(sharedKey)
}

// IsLeftOf reports whether c is what is left of other after more events were taken.
func (c Content) IsLeftOf(other Content) bool {
	switch {
	case c.left == nil:
		return false
	case other.left == nil:
		return c.left.of(other.whole)
	}
	return c.left.isLeftOf(other.left)
}

// Puncture returns what is left of c without the keys of the events at indexes. begun is how many events the chain has, or may be
// getting: those from the next chunk on have new keys. Errors: [turns.ErrTooLarge]; rand's.
func (c Content) Puncture(begun uint64, indexes []uint64, rand io.Reader) (*Remains, error) {
	for _, i := range indexes {
		begun = max(begun, i+1)
	}
	n := begun/chunkEvents + 1 // the chunk of the next event has begun
	if n > MaxRemains/(1+uint64(len(Key{}))) {
		return nil, fmt.Errorf("%w: a key of %d events can't be taken apart", turns.ErrTooLarge, begun)
	}
	fresh, err := NewKey(rand)
	if err != nil {
		return nil, err
	}
	out := &Remains{fresh: fresh, infos: make(map[purpose]Key)}
	had := c.whole
	if c.left != nil {
		had = c.left.fresh
		maps.Copy(out.infos, c.left.infos)
		out.chunks = slices.Clone(c.left.chunks)
	}
	for _, p := range infosOfContent {
		out.infos[p] = c.derive(p)
	}
	for i := uint64(len(out.chunks)); i < n; i++ {
		out.chunks = append(out.chunks, chunkLeft{key: had.chunk(i)})
	}
	for _, i := range indexes {
		l := &out.chunks[i/chunkEvents]
		events := make(map[byte]Key, chunkEvents)
		if maps.Copy(events, l.events); l.events == nil {
			for at := range chunkEvents {
				events[byte(at)] = l.key.derive(eventKeyOf + purpose([]byte{byte(at)}))
			}
		}
		delete(events, byte(i%chunkEvents))
		*l = chunkLeft{events: events}
	}
	if size := len(out.encode()); size > MaxRemains {
		return nil, fmt.Errorf("%w: what is left of the key takes %d bytes, the limit is %d: too many stretches of %d events have one that was taken",
			turns.ErrTooLarge, size, MaxRemains, chunkEvents)
	}
	return out, nil
}

// CheckTake says whether events can be taken from the key of a chain of begun events. Errors: [turns.ErrTooLarge].
func (c Content) CheckTake(begun uint64, indexes ...uint64) error {
	_, err := c.Puncture(begun, indexes, zeros{})
	return err
}

// zeros is the randomness of a key that nobody uses.
type zeros struct{}

// Read implements [io.Reader].
func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
