package ranking

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	blevesearch "github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/searcher"
	index "github.com/blevesearch/bleve_index_api"
)

// Term is a term of a word in a field. Its scores count so much.
type Term struct {
	Field, Text string
	Weight      float64
}

// wordRanking is the [Ranking] that [Of] gives for the query of a single word: the sum of the scores of its terms, times the
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

// OfWord returns the documents with one of the terms of a word that pass a filter; nil: all pass. It
// returns nil for terms that the library adds up in another way. Close closes the filter.
func OfWord(ctx context.Context, r index.IndexReader, terms []Term, filter blevesearch.Searcher) (out Ranking, err error) {
	lengths, ok := r.(index.BM25Reader)
	if !ok || len(terms) > searcher.DisjunctionHeapTakeover {
		if filter != nil {
			err = filter.Close()
		}
		return nil, err
	}
	w := &wordRanking{filter: filter}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	for _, t := range terms {
		one, err := termRankingOf(ctx, lengths, t)
		if err != nil {
			return nil, err
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
	matches := 1 // of a term
	if filter != nil {
		matches += filter.DocumentMatchPoolSize() + 2
	}
	w.docs, w.ctx = make([]uint64, len(w.terms)), contextOf(r, matches)
	return w, nil
}

func (w *wordRanking) Next() (score float64, doc uint64, more bool, err error) {
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

func termRankingOf(ctx context.Context, r index.BM25Reader, term Term) (t *termRanking, err error) {
	t = &termRanking{at: new(index.TermFieldDoc)}
	if t.docs, err = r.TermFieldReader(ctx, []byte(term.Text), term.Field, true, true, false); err != nil {
		return nil, err
	}
	// The searcher closes what it reads, also if there is none.
	t.library, err = searcher.NewTermSearcher(ctx, shownReader{r, shownTerm{t.docs, t.at}}, term.Text, term.Field, term.Weight, blevesearch.SearcherOptions{})
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
