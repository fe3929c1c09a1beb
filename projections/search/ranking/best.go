package ranking

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"slices"

	index "github.com/blevesearch/bleve_index_api"
)

// best keeps the documents with the highest scores, of equal ones those with the highest
// ids. Add them in the order of the index.
type best struct {
	size  int
	total uint64
	top   lowFirst
	// equal and replaced are documents outside of top with the lowest score in it. Of these
	// and the ones in top with that score the ids decide. replaced were in top before.
	equal    docSet
	replaced []uint64
}

// candidate is a document by its number in the index.
type candidate struct {
	score float64
	doc   uint64
}

func newBest(size int, docs uint64) *best {
	return &best{size: size, top: make(lowFirst, 0, size), equal: docSet{words: make([]uint64, docs/64+1)}}
}

// add offers a document.
func (b *best) add(score float64, doc uint64) {
	if b.total++; len(b.top) < b.size {
		heap.Push(&b.top, candidate{score, doc})
		return
	}
	low := b.top[0]
	switch {
	case score == low.score:
		b.equal.add(doc)
	case score > low.score:
		b.top[0] = candidate{score, doc}
		heap.Fix(&b.top, 0)
		if b.top[0].score > low.score {
			b.equal.clear()
			b.replaced = b.replaced[:0]
		} else {
			b.replaced = append(b.replaced, low.doc)
		}
	}
}

// hits returns the best documents, in any order.
func (b *best) hits(ctx context.Context, r index.IndexReader, blocks string) (out []Hit, err error) {
	if len(b.replaced) == 0 && b.equal.count == 0 {
		return appendHits(nil, r, b.top)
	}
	low, same := b.top[0].score, docSet{words: b.equal.words}
	above := make([]candidate, 0, len(b.top))
	for _, c := range b.top {
		if c.score > low {
			above = append(above, c)
		} else {
			same.add(c.doc)
		}
	}
	for _, doc := range b.replaced {
		same.add(doc)
	}
	if out, err = appendHits(nil, r, above); err != nil {
		return nil, err
	}
	newest, err := same.newest(ctx, r, blocks, b.size-len(above))
	return append(out, newest...), err
}

func appendHits(out []Hit, r index.IndexReader, list []candidate) ([]Hit, error) {
	for _, c := range list {
		at := index.NewIndexInternalID(nil, c.doc)
		id, err := r.ExternalID(at)
		if err != nil {
			return nil, err
		}
		out = append(out, Hit{ID: id, At: at})
	}
	return out, nil
}

// lowFirst is a heap with the lowest score first.
type lowFirst []candidate

func (h lowFirst) Len() int           { return len(h) }
func (h lowFirst) Less(i, j int) bool { return h[i].score < h[j].score }
func (h lowFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *lowFirst) Push(x any)        { *h = append(*h, x.(candidate)) }
func (h *lowFirst) Pop() any          { panic("nothing is taken from it") }

// docSet is a set of documents of an index: a bit each.
type docSet struct {
	words    []uint64
	from, to uint64 // words with bits, [from, to), since clear
	count    int
}

func (s *docSet) add(doc uint64) {
	w := doc / 64
	if n := int(w) + 1 - len(s.words); n > 0 { // documents that were removed have numbers, too
		s.words = append(s.words, make([]uint64, n)...)
	}
	if s.count == 0 {
		s.from, s.to = w, w
	}
	s.from, s.to = min(s.from, w), max(s.to, w+1)
	s.words[w] |= 1 << (doc % 64)
	s.count++
}

func (s *docSet) has(doc uint64) bool {
	return doc/64 < uint64(len(s.words)) && s.words[doc/64]&(1<<(doc%64)) != 0
}

// clear removes all. Where documents are added in their order, all calls together pass over the words once.
func (s *docSet) clear() {
	if s.count > 0 {
		clear(s.words[s.from:s.to])
	}
	s.count = 0
}

// newest returns so many documents of the set with the highest ids. It goes through the terms of
// the field blocks, whose order is that of ids, from the last one.
func (s *docSet) newest(ctx context.Context, r index.IndexReader, field string, limit int) (out []Hit, err error) {
	blocks, err := TermsOf(r, field)
	if err != nil {
		return nil, err
	}
	var at index.TermFieldDoc
	for _, block := range slices.Backward(blocks) {
		if len(out) >= limit {
			break
		}
		docs, err := r.TermFieldReader(ctx, []byte(block), field, false, false, false)
		if err != nil {
			return nil, err
		}
		var found []candidate
		for {
			d, err := docs.Next(at.Reset())
			if err != nil {
				return nil, errors.Join(err, docs.Close())
			}
			if d == nil {
				break
			}
			if doc := d.ID.Value(); s.has(doc) {
				found = append(found, candidate{doc: doc})
			}
		}
		if err := docs.Close(); err != nil {
			return nil, err
		}
		begin := len(out)
		if out, err = appendHits(out, r, found); err != nil {
			return nil, err
		}
		slices.SortFunc(out[begin:], func(a, b Hit) int { return cmp.Compare(b.ID, a.ID) })
	}
	return out[:min(len(out), limit)], nil
}

// TermsOf returns the terms of a field, in their order.
func TermsOf(r index.IndexReader, field string) (out []string, err error) {
	d, err := r.FieldDict(field)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for {
		e, err := d.Next()
		if err != nil || e == nil {
			return out, err
		}
		out = append(out, e.Term)
	}
}

// checkEach is after how many documents a search looks whether its caller still waits.
const checkEach = 1024

// Best returns the documents of a ranking with the highest scores, in any order, so many at most, and how many
// it has. Of equal scores it returns the documents with the highest ids. The documents of a term of the field
// blocks have lower ids than those of the next term.
func Best(ctx context.Context, r index.IndexReader, from Ranking, most int, blocks string) (hits []Hit, total uint64, err error) {
	docs, err := r.DocCount()
	if err != nil {
		return nil, 0, err
	}
	b := newBest(most, docs)
	for n := 0; ; n++ {
		if n%checkEach == 0 && ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		score, doc, more, err := from.Next()
		if err != nil {
			return nil, 0, err
		}
		if !more {
			break
		}
		b.add(score, doc)
	}
	hits, err = b.hits(ctx, r, blocks)
	return hits, b.total, err
}
