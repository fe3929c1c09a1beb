package seal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"nexus/turns"
)

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

// MaxRemains is how many bytes [Remains.Encode] returns at most: 8 kB for each chunk of 256 events of which one
// was taken, 33 for others.
const MaxRemains = 1 << 20

// infosOfContent are the infos by which keys are derived from a content key, but for that of chunks.
var infosOfContent = []purpose{sharedKey, blobDigestKey, labelKey, policyKey, agentKey, memoryKey, channelKey, successorKey, tokenKey, tokenNonceKey}

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

func (r *Remains) has(index uint64) bool { _, err := r.event(index); return err == nil }

// of reports whether r is what is left of k.
func (r *Remains) of(k Key) bool { return r.infos[sharedKey] == k.derive(sharedKey) }

// isLeftOf reports whether r has no key that other lacks: it is left of it, after more was taken.
func (r *Remains) isLeftOf(other *Remains) bool {
	if len(r.chunks) < len(other.chunks) || len(r.infos) != len(other.infos) {
		return false
	}
	for p, k := range other.infos {
		if r.infos[p] != k {
			return false
		}
	}
	for i, c := range r.chunks {
		if c.events == nil {
			var had Key
			switch {
			case i >= len(other.chunks):
				had = other.fresh.chunk(uint64(i))
			case other.chunks[i].events != nil:
				return false
			default:
				had = other.chunks[i].key
			}
			if c.key != had {
				return false
			}
			continue
		}
		for at, k := range c.events {
			if had, err := other.event(uint64(i)*chunkEvents + uint64(at)); err != nil || had != k {
				return false
			}
		}
	}
	return true
}

// Encode returns r as the key log, files of keys and exports have it; docs/FORMAT.md has the bytes. Who has them
// opens what r opens. nil has none.
func (r *Remains) Encode() []byte {
	if r == nil {
		return nil
	}
	return r.encode()
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
	if len(b) > MaxRemains {
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
