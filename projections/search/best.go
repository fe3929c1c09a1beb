package search

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"math"
	"slices"

	blevesearch "github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/query"
	"github.com/blevesearch/bleve/v2/search/searcher"
	index "github.com/blevesearch/bleve_index_api"
)

// A word may be in every document. Which are the best cannot be known without the library's
// score of each, since it keeps no bounds of scores. So a score costs no allocation and no id: the ids of
// documents, which decide between equal scores, are read for those that are returned, and of equal
// ones for the newest.

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
func (b *best) hits(ctx context.Context, r index.IndexReader) (out []Hit, err error) {
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
	newest, err := same.newest(ctx, r, b.size-len(above))
	return append(out, newest...), err
}

func appendHits(out []Hit, r index.IndexReader, list []candidate) ([]Hit, error) {
	for _, c := range list {
		at := index.NewIndexInternalID(nil, c.doc)
		id, err := r.ExternalID(at)
		if err != nil {
			return nil, err
		}
		out = append(out, Hit{ID: id, at: at})
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

// newest returns so many documents of the set with the highest ids. It goes through the blocks of
// positions from the last one.
func (s *docSet) newest(ctx context.Context, r index.IndexReader, limit int) (out []Hit, err error) {
	blocks, err := termsOf(r, fieldBlock)
	if err != nil {
		return nil, err
	}
	var at index.TermFieldDoc
	for _, block := range slices.Backward(blocks) {
		if len(out) >= limit {
			break
		}
		docs, err := r.TermFieldReader(ctx, []byte(block), fieldBlock, false, false, false)
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

// termsOf returns the terms of a field, in their order.
func termsOf(r index.IndexReader, field string) (out []string, err error) {
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

// ranking is documents with the library's scores, in the order of the index.
type ranking interface {
	// next returns the next document; more is false behind the last one.
	next() (score float64, doc uint64, more bool, err error)
	Close() error
}

// checkEach is after how many documents a search looks whether its caller still waits.
const checkEach = 1024

// bestOf returns the documents of a ranking with the highest scores, [MaxHits] at most, and how many it has.
func bestOf(ctx context.Context, r index.IndexReader, from ranking) (hits []Hit, total uint64, err error) {
	docs, err := r.DocCount()
	if err != nil {
		return nil, 0, err
	}
	b := newBest(MaxHits, docs)
	for n := 0; ; n++ {
		if n%checkEach == 0 && ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		score, doc, more, err := from.next()
		if err != nil {
			return nil, 0, err
		}
		if !more {
			break
		}
		b.add(score, doc)
	}
	hits, err = b.hits(ctx, r)
	return hits, b.total, err
}

// rankingOf returns the documents that match, as the library ranks them.
func (x opened) rankingOf(ctx context.Context, r index.IndexReader, what query.Query, f Filter) (ranking, error) {
	q := query.NewBooleanQuery([]query.Query{what}, nil, nil)
	q.AddFilter(f.query())
	s, err := q.Searcher(ctx, r, x.idx.Mapping(), blevesearch.SearcherOptions{})
	if err != nil {
		return nil, err
	}
	return &libraryRanking{s, contextOf(r, s.DocumentMatchPoolSize()+2)}, nil
}

func contextOf(r index.IndexReader, matches int) *blevesearch.SearchContext {
	return &blevesearch.SearchContext{DocumentMatchPool: blevesearch.NewDocumentMatchPool(matches, 0), IndexReader: r}
}

// withModel returns a context in which searchers score as [newMapping] says.
func withModel(ctx context.Context) context.Context {
	return context.WithValue(ctx, blevesearch.GetScoringModelCallbackKey, blevesearch.GetScoringModelCallbackFn(func() string { return index.BM25Scoring }))
}

type libraryRanking struct {
	blevesearch.Searcher
	ctx *blevesearch.SearchContext
}

func (l *libraryRanking) next() (score float64, doc uint64, more bool, err error) {
	m, err := l.Next(l.ctx)
	if err != nil || m == nil {
		return 0, 0, false, err
	}
	score, doc = m.Score, m.IndexInternalID.Value()
	l.ctx.DocumentMatchPool.Put(m)
	return score, doc, true, nil
}

// wordRanking is what [opened.rankingOf] returns for a single word: the sum of the scores of its terms, times the
// share of them that a document has. It takes the library's scores of terms, and adds them
// up as the library does, without its five searchers around them.
type wordRanking struct {
	terms  []*termRanking
	docs   []uint64             // of each term: the next document that has it; [math.MaxUint64]: none has
	filter blevesearch.Searcher // nil: all documents
	passes uint64               // one more than the last document of filter that was looked up; 0: none
	id     [8]byte              // of the document that is looked up
	ctx    *blevesearch.SearchContext
	begun  bool
}

// wordRankingOf returns nil for terms that the library adds up in another way.
func (x opened) wordRankingOf(ctx context.Context, r index.IndexReader, want []wanted, f Filter) (w *wordRanking, err error) {
	lengths, ok := r.(index.BM25Reader)
	if !ok || len(want) != 1 || len(want[0]) != 1 || len(want[0][0]) > searcher.DisjunctionHeapTakeover {
		return nil, nil
	}
	w = new(wordRanking)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	for _, t := range want[0][0] {
		one, err := termRankingOf(ctx, lengths, t)
		if err != nil {
			return w, err
		}
		w.terms = append(w.terms, one)
	}
	slices.SortStableFunc(w.terms, func(a, b *termRanking) int { return cmp.Compare(a.docs.Count(), b.docs.Count()) }) // the order in which the library adds
	sum := 0.0
	for _, t := range w.terms {
		sum += t.library.Weight()
	}
	for _, t := range w.terms {
		t.library.SetQueryNorm(1 / math.Sqrt(sum))
	}
	all, err := isOfAll(ctx, r, f)
	if err != nil {
		return w, err
	}
	matches := 1 // of a term
	if !all {
		if w.filter, err = f.query().Searcher(ctx, r, x.idx.Mapping(), blevesearch.SearcherOptions{Score: "none"}); err != nil {
			return w, err
		}
		matches += w.filter.DocumentMatchPoolSize() + 2
	}
	w.docs, w.ctx = make([]uint64, len(w.terms)), contextOf(r, matches)
	return w, nil
}

// termRanking is documents that have a term, with the library's scores. A score depends on how often
// the document has the term and on the length of the field, which it has in common with many, so the
// library is asked for it once, while there is room.
type termRanking struct {
	docs    index.TermFieldReader
	at      *index.TermFieldDoc
	library blevesearch.Searcher // of a reader that shows it the document at
	known   [512]knownScore
}

// knownScore is the score of the documents that have a term so often in a field of a length.
type knownScore struct {
	freq        uint64 // 0: none
	norm, score float64
}

func termRankingOf(ctx context.Context, r index.BM25Reader, term fieldTerm) (t *termRanking, err error) {
	t = &termRanking{at: new(index.TermFieldDoc)}
	if t.docs, err = r.TermFieldReader(ctx, []byte(term.text), term.field, true, true, false); err != nil {
		return nil, err
	}
	// The searcher closes what it reads, also if there is none.
	t.library, err = searcher.NewTermSearcher(ctx, shownReader{r, shownTerm{t.docs, t.at}}, term.text, term.field, term.weight, blevesearch.SearcherOptions{})
	return t, err
}

// next brings a term to its next document, and returns its number.
func (t *termRanking) next() (doc uint64, err error) {
	d, err := t.docs.Next(t.at.Reset())
	if err != nil || d == nil {
		return math.MaxUint64, err
	}
	return d.ID.Value(), nil
}

// score returns the library's score of the document that the term is at.
func (t *termRanking) score(ctx *blevesearch.SearchContext) (float64, error) {
	freq, norm := t.at.Freq, t.at.Norm
	length := math.Float64bits(norm) >> 29 // it was a float32
	k := &t.known[(length^length>>9^length>>18^freq*61)%uint64(len(t.known))]
	if k.freq == freq && k.norm == norm {
		return k.score, nil
	}
	m, err := t.library.Next(ctx)
	if err != nil {
		return 0, err
	}
	*k = knownScore{freq: freq, norm: norm, score: m.Score}
	ctx.DocumentMatchPool.Put(m)
	return k.score, nil
}

// shownReader is a reader of which each term is the one that is shown.
type shownReader struct {
	index.BM25Reader
	term shownTerm
}

func (r shownReader) TermFieldReader(context.Context, []byte, string, bool, bool, bool) (index.TermFieldReader, error) {
	return r.term, nil
}

// shownTerm is a term whose next document is always the one that it was brought to.
type shownTerm struct {
	index.TermFieldReader
	at *index.TermFieldDoc
}

func (t shownTerm) Next(*index.TermFieldDoc) (*index.TermFieldDoc, error) { return t.at, nil }

// isOfAll reports whether each document of an index passes a filter, as far as counts of terms say it.
func isOfAll(ctx context.Context, r index.IndexReader, f Filter) (bool, error) {
	terms := map[string]string{"tenant": f.Tenant, "agent": f.Agent}
	if f.Agent == "" {
		delete(terms, "agent")
	}
	if f.Tenant, f.Agent = "", ""; !f.isZero() {
		return false, nil
	}
	all, err := r.DocCount()
	if err != nil {
		return false, err
	}
	for field, term := range terms {
		if n, err := countOf(ctx, r, field, term); err != nil || n < all {
			return false, err
		}
	}
	return true, nil
}

// countOf returns how many documents have a term.
func countOf(ctx context.Context, r index.IndexReader, field, term string) (n uint64, err error) {
	docs, err := r.TermFieldReader(ctx, []byte(term), field, false, false, false)
	if err != nil {
		return 0, err
	}
	n = docs.Count()
	return n, docs.Close()
}

// isOfMany reports whether a query is a word of more documents than it has hits, and all documents pass the filter.
func (x opened) isOfMany(ctx context.Context, want []wanted, f Filter) (many bool, err error) {
	if len(want) != 1 || len(want[0]) != 1 {
		return false, nil
	}
	r, err := x.reader()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if all, err := isOfAll(ctx, r, f); err != nil || !all {
		return false, err
	}
	for _, t := range want[0][0] {
		if n, err := countOf(ctx, r, t.field, t.text); err != nil || n > MaxHits {
			return err == nil, err
		}
	}
	return false, nil
}

func (w *wordRanking) next() (score float64, doc uint64, more bool, err error) {
	if !w.begun {
		w.begun = true
		for i, t := range w.terms {
			if w.docs[i], err = t.next(); err != nil {
				return 0, 0, false, err
			}
		}
	}
	for {
		if doc = slices.Min(w.docs); doc == math.MaxUint64 {
			return 0, 0, false, nil
		}
		ok, err := w.isIn(doc)
		if err != nil {
			return 0, 0, false, err
		}
		sum, n := 0.0, 0
		for i, t := range w.terms {
			if w.docs[i] != doc {
				continue
			}
			if ok {
				one, err := t.score(w.ctx)
				if err != nil {
					return 0, 0, false, err
				}
				sum, n = sum+one, n+1
			}
			if w.docs[i], err = t.next(); err != nil {
				return 0, 0, false, err
			}
		}
		if ok {
			return sum * (float64(n) / float64(len(w.terms))), doc, true, nil
		}
	}
}

// isIn reports whether a document passes the filter. Documents come in their order.
func (w *wordRanking) isIn(doc uint64) (bool, error) {
	if w.filter == nil || w.passes == doc+1 {
		return true, nil
	}
	if w.passes <= doc {
		m, err := w.filter.Advance(w.ctx, index.NewIndexInternalID(w.id[:], doc))
		if err != nil {
			return false, err
		}
		w.passes = math.MaxUint64
		if m != nil {
			w.passes = m.IndexInternalID.Value() + 1
			w.ctx.DocumentMatchPool.Put(m)
		}
	}
	return w.passes == doc+1, nil
}

func (w *wordRanking) Close() (err error) {
	for _, t := range w.terms {
		err = errors.Join(err, t.library.Close())
	}
	if w.filter != nil {
		err = errors.Join(err, w.filter.Close())
	}
	return err
}
