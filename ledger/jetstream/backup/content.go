package backup

import (
	"cmp"
	"slices"

	"nexus/ledger"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/turns"
)

// ContentLoss is an event whose content is in a blob that lacks a chunk.
type ContentLoss struct {
	Tenant string     `json:"tenant"`
	Chain  Chain      `json:"chain"`
	Seq    uint64     `json:"seq,string"`
	Blob   turns.Hash `json:"blob"`
}

// content remembers which blobs events name, and how many chunks of each a file has. A blob
// of which a chunk was stored twice may lack another one unseen.
type content struct {
	links  []ContentLoss
	chunks map[jetstream.BlobKey]count
	number uint64 // of the stream of the chunks
}

// count is how many chunks of a blob there are, and how many its first one states; 0: that is missing.
type count struct{ have, want int }

// event notes the blobs of an event.
func (c *content) event(subject string, seq uint64, payload []byte) {
	ev, err := turns.Decode(payload)
	tenant, chain, perr := ledger.ParseSubject(subject)
	if err != nil || perr != nil {
		return
	}
	for _, b := range ev.Blobs {
		c.links = append(c.links, ContentLoss{tenant, Chain{chain.Entity, chain.ID}, seq, b.Address})
	}
}

// chunk notes a chunk. The stream with the highest number has all blobs.
func (c *content) chunk(number uint64, r blocks.Record) {
	key, ok := jetstream.KeyOf(r.Subject)
	if !ok {
		return
	}
	if c.chunks == nil || number != c.number {
		c.chunks, c.number = make(map[jetstream.BlobKey]count), number
	}
	n := c.chunks[key]
	n.have++
	n.want = max(n.want, jetstream.Chunks(r.Header))
	c.chunks[key] = n
}

// lost returns the events whose blobs lack a chunk, by position.
func (c *content) lost() []ContentLoss {
	var out []ContentLoss
	for _, l := range c.links {
		key, ok := jetstream.KeyOfBlob(l.Tenant, l.Blob)
		if n := c.chunks[key]; ok && (n.want == 0 || n.have < n.want) {
			out = append(out, l)
		}
	}
	slices.SortStableFunc(out, func(a, b ContentLoss) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}
