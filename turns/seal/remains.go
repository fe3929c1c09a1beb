package seal

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
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

// Remains returns what is left of a key from which events were taken; nil: none were.
func (c Content) Remains() *Remains { return c.left }

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

// infosOfContent are the infos by which keys are derived from a content key, but for that of chunks.
var infosOfContent = []purpose{sharedKey, blobDigestKey, labelKey, policyKey, agentKey, memoryKey, channelKey, successorKey, tokenKey, tokenNonceKey}

// Remains is what is left of a content key from which events were taken: the keys derived from it, but for those
// of these events, and a new key in its place for all that has none yet. It never changes.
type Remains struct {
	fresh  Key // of chunks from the number of chunks on, and of other infos
	infos  map[purpose]Key
	chunks []chunkLeft
}

// chunkLeft is what is left of a chunk: its key, or, where events were taken, those of the others.
type chunkLeft struct {
	key    Key
	events map[byte]Key // not nil: events were taken
}

// MaxPunctured is how many bytes the remains of a key have at most: 8 kB for each chunk of 256 events of which one
// was taken, 33 for others.
const MaxPunctured = maxBody

func (r *Remains) event(index uint64) (Key, error) {
	chunk, at := index/chunkEvents, byte(index%chunkEvents)
	if chunk >= uint64(len(r.chunks)) {
		return r.fresh.event(index), nil
	}
	c := r.chunks[chunk]
	if c.events == nil {
		return c.key.derive(eventKeyOf + purpose([]byte{at})), nil
	}
	k, ok := c.events[at]
	if !ok {
		return Key{}, fmt.Errorf("%w: the key of event %d was taken", turns.ErrErased, index)
	}
	return k, nil
}

// Has reports whether the event at an index of the key's chain can be opened: it was not taken.
func (c Content) Has(index uint64) bool { return c.left == nil || c.left.has(index) }

func (r *Remains) has(index uint64) bool { _, err := r.event(index); return err == nil }

// puncture returns c without the keys of the events at indexes. begun is how many events the chain has, or may be
// getting: those from the next chunk on have new keys. Errors: [turns.ErrTooLarge]; rand's.
func (c Content) puncture(begun uint64, indexes []uint64, rand io.Reader) (*Remains, error) {
	for _, i := range indexes {
		begun = max(begun, i+1)
	}
	n := begun/chunkEvents + 1 // the chunk of the next event has begun
	if n > MaxPunctured/(1+uint64(len(Key{}))) {
		return nil, fmt.Errorf("%w: a key of %d events can't be taken apart", turns.ErrTooLarge, begun)
	}
	fresh, err := newKey(rand)
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
	if size := len(out.encode()); size > MaxPunctured {
		return nil, fmt.Errorf("%w: what is left of the key takes %d bytes, the limit is %d: too many stretches of %d events have one that was taken",
			turns.ErrTooLarge, size, MaxPunctured, chunkEvents)
	}
	return out, nil
}

// of reports whether r is what is left of k.
func (r *Remains) of(k Key) bool { return r.infos[sharedKey] == k.derive(sharedKey) }

// Encode returns r as the key log, files of keys and exports have it; docs/FORMAT.md has the bytes. Who has them
// opens what r opens. nil has none.
func (r *Remains) Encode() []byte {
	if r == nil {
		return nil
	}
	return r.encode()
}

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

// Same reports whether two keys open the same.
func (c Content) Same(other Content) bool {
	return c.whole == other.whole && bytes.Equal(c.left.Encode(), other.left.Encode())
}

const (
	wholeChunk   = 1
	touchedChunk = 2
)

func (r *Remains) encode() []byte {
	out := append([]byte(nil), r.fresh[:]...)
	out = append(out, byte(len(r.infos)))
	for _, p := range slices.Sorted(maps.Keys(r.infos)) {
		out = append(append(out, byte(len(p))), p...)
		k := r.infos[p]
		out = append(out, k[:]...)
	}
	out = binary.BigEndian.AppendUint32(out, uint32(len(r.chunks)))
	for _, c := range r.chunks {
		if c.events == nil {
			out = append(append(out, wholeChunk), c.key[:]...)
			continue
		}
		out = append(out, touchedChunk)
		at := len(out)
		out = append(out, make([]byte, chunkEvents/8)...)
		for i := range chunkEvents {
			if k, ok := c.events[byte(i)]; ok {
				out[at+i/8] |= 0x80 >> (i % 8)
				out = append(out, k[:]...)
			}
		}
	}
	return out
}

// DecodeRemains reads what [Remains.Encode] wrote. Errors: [turns.ErrCorrupt], which quotes nothing of it.
func DecodeRemains(b []byte) (*Remains, error) {
	bad := func() (*Remains, error) {
		return nil, fmt.Errorf("%w: %d bytes are not what is left of a key", turns.ErrCorrupt, len(b))
	}
	if len(b) > MaxPunctured {
		return bad()
	}
	rest, short := b, false
	take := func(n int) []byte {
		if short = short || n > len(rest); short {
			return make([]byte, n)
		}
		out := rest[:n]
		rest = rest[n:]
		return out
	}
	r := &Remains{fresh: Key(take(len(Key{}))), infos: make(map[purpose]Key)}
	for range int(take(1)[0]) {
		p := purpose(take(int(take(1)[0])))
		r.infos[p] = Key(take(len(Key{})))
	}
	for n := binary.BigEndian.Uint32(take(4)); n > 0 && !short; n-- {
		c := chunkLeft{}
		switch take(1)[0] {
		case wholeChunk:
			c.key = Key(take(len(Key{})))
		case touchedChunk:
			c.events = make(map[byte]Key)
			for i, has := 0, take(chunkEvents/8); i < chunkEvents; i++ {
				if has[i/8]&(0x80>>(i%8)) != 0 {
					c.events[byte(i)] = Key(take(len(Key{})))
				}
			}
		default:
			return bad()
		}
		r.chunks = append(r.chunks, c)
	}
	if _, ok := r.infos[sharedKey]; !ok || short || !bytes.Equal(r.encode(), b) {
		return bad()
	}
	return r, nil
}

func punctured(id turns.ID) error { return fmt.Errorf("%w %s", ErrPunctured, id) }

// take is what one rewrite takes from the key of an id: events, or, with put, all but what put has.
type take struct {
	id      turns.ID
	begun   uint64
	indexes []uint64
	put     *Remains
}

// of is what is left of a key. changed: it is not what is there. Errors: those of [Store.Puncture] and [Store.PutRemains].
func (t take) of(has Content, there error) (left *Remains, changed bool, err error) {
	switch {
	case t.put == nil && there != nil:
		return nil, false, there
	case t.put == nil:
		if has.left != nil && !slices.ContainsFunc(t.indexes, has.left.has) {
			return has.left, false, nil
		}
		left, err = has.puncture(t.begun, t.indexes, rand.Reader)
		return left, true, err
	case there == nil && has.left != nil:
		switch {
		case bytes.Equal(has.left.encode(), t.put.encode()), has.left.isLeftOf(t.put): // it lacks what is to be taken already
			return has.left, false, nil
		case t.put.isLeftOf(has.left):
			return t.put, true, nil
		}
		return nil, false, different(t.id)
	case there == nil && !t.put.of(has.whole):
		return nil, false, different(t.id)
	case there == nil, errors.Is(there, ErrNoKey), errors.Is(there, turns.ErrCorrupt):
		return t.put, true, nil
	}
	return nil, false, there
}
