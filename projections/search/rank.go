package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/blevesearch/bleve/v2"
	blevesearch "github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/query"
	index "github.com/blevesearch/bleve_index_api"

	"nexus/ledger"
	"nexus/projections/search/ranking"
)

const (
	// A query of so many words is a question: if fewer than enough documents have all of
	// them, those that have some follow.
	question = 5
	enough   = 10
	// maxForms bounds the forms of a word that a query with some of its words looks for.
	maxForms = 32
	minForm  = 3   // characters of a stem that has forms
	formRate = 0.8 // the weight of another form of a word
	// BM25, by S. Robertson and others, with weighted fields: bm25K1 bounds what
	// repetition adds, bm25B says how far a long document is marked down.
	bm25K1, bm25B = 1.2, 0.4
)

// wanted is the terms that count for each part of a unit. A phrase is there as often as its
// rarest part.
type wanted [][]ranking.Term

// Search returns the documents that match. Errors: [ledger.ErrUnavailable] while the index
// is opened or made again, and when ctx ends.
func (x *Index) Search(ctx context.Context, q Query, f Filter) (Result, error) {
	return x.read(ctx, func(x opened, r *Result) error { return x.search(ctx, q, f, r) })
}

// SearchAny is Search for documents with some of the units, as [Query.Loose] has them.
func (x *Index) SearchAny(ctx context.Context, q Query, f Filter) (Result, error) {
	return x.read(ctx, func(x opened, r *Result) (err error) {
		var total uint64
		r.Hits, total, err = x.some(ctx, q, f)
		r.Cut = total > uint64(len(r.Hits))
		return err
	})
}

// SearchBelow returns the documents that have all units and an id below a document's, newest
// first, so many at most, ranked as those of Search. Cut says that there are more, all of them
// below Last.
func (x *Index) SearchBelow(ctx context.Context, q Query, f Filter, below string, limit int) (Result, error) {
	return x.read(ctx, func(x opened, r *Result) error {
		all, want, err := x.queries(ctx, q)
		if err != nil {
			return err
		}
		req := bleve.NewSearchRequestOptions(query.NewConjunctionQuery(append(all, f.query())), limit, 0, false)
		req.Score = "none"
		req.SortBy([]string{"-_id"})
		req.SetSearchAfter([]string{below})
		res, err := x.idx.SearchInContext(ctx, req)
		if err != nil {
			return err
		}
		r.Hits = hitsOf(res)
		if r.All = len(r.Hits); r.All > 0 {
			r.Last = r.Hits[r.All-1].ID
		}
		r.Cut = r.All == limit
		r.Extras, err = x.rank(ctx, q, want, r.Hits)
		return err
	})
}

// opened is an index while it is open.
type opened struct{ idx bleve.Index }

// read calls f on an index that stays open meanwhile. A long search is in nobody's way: it
// holds no lock.
func (x *Index) read(ctx context.Context, f func(opened, *Result) error) (r Result, err error) {
	x.mu.Lock()
	idx := x.idx
	r.Position = x.at.Seq
	if idx != nil {
		x.readers.Add(1)
		defer x.readers.Done()
	}
	x.mu.Unlock()
	if idx == nil {
		return Result{}, nil // nothing is in it yet; the caller says how far it is behind
	}
	err = protect(func() error { return f(opened{idx}, &r) })
	switch {
	case err == nil:
		return r, nil
	case errors.Is(err, errDamaged):
		signal(x.broken)
	case ctx.Err() == nil:
		return r, fmt.Errorf("search: %w", err)
	}
	return r, fmt.Errorf("%w: search: %w", ledger.ErrUnavailable, err)
}

func (x opened) search(ctx context.Context, q Query, f Filter, r *Result) error {
	all, want, err := x.queries(ctx, q)
	if err != nil {
		return err
	}
	found, total, err := x.askAll(ctx, all, want, f)
	if err != nil {
		return err
	}
	if total > uint64(len(found)) {
		if found, err = x.withExtras(ctx, q, all, f, found); err != nil {
			return err
		}
	}
	if r.Extras, err = x.rank(ctx, q, want, found); err != nil {
		return err
	}
	found = found[:min(len(found), MaxHits)]
	r.Hits, r.All, r.Cut = found, len(found), total > uint64(len(found))
	if len(q.units) == 1 || total > 0 && (!q.IsQuestion() || total >= enough) {
		return nil
	}
	more, total, err := x.some(ctx, q, f)
	if err != nil {
		return err
	}
	have := make(map[string]bool, len(found))
	for _, h := range found {
		have[h.ID] = true
	}
	for _, h := range more {
		if !have[h.ID] && len(r.Hits) < MaxHits {
			r.Hits = append(r.Hits, h)
		}
	}
	r.Cut = total > uint64(len(r.Hits))
	return nil
}

// some returns the best documents that have some of the units, and how many have.
func (x opened) some(ctx context.Context, q Query, f Filter) (hits []Hit, total uint64, err error) {
	any, want, err := x.queries(ctx, q.Loose())
	if err != nil {
		return nil, 0, err
	}
	if hits, total, err = x.ask(ctx, query.NewDisjunctionQuery(any), want, f); err != nil {
		return nil, 0, err
	}
	_, err = x.rank(ctx, Query{}, want, hits) // of a question's words few stand in a row in its answer
	return hits, total, err
}

// withExtras adds documents to the best ones that the library found, where there are more
// that match: those that also have all of the extras, as the index knows them.
func (x opened) withExtras(ctx context.Context, q Query, all []query.Query, f Filter, found []Hit) ([]Hit, error) {
	extras := q.extras()
	if len(extras) == 0 {
		return found, nil
	}
	all = append(slices.Clone(all), f.query())
	for _, e := range extras {
		if e.whole != "" {
			all = append(all, exactly(fieldWhole, e.whole))
		} else {
			all = append(all, exactly(fieldPair, pairTerm(e.pair[0], e.pair[1])))
		}
	}
	req := bleve.NewSearchRequestOptions(query.NewConjunctionQuery(all), MaxHits, 0, false)
	req.Score = "none"
	res, err := x.idx.SearchInContext(ctx, req)
	if err != nil {
		return nil, err
	}
	have := make(map[string]bool, len(found))
	for _, h := range found {
		have[h.ID] = true
	}
	for _, h := range hitsOf(res) {
		if !have[h.ID] {
			found = append(found, h)
		}
	}
	return found, nil
}

// askAll is ask for documents that match all of the queries. Most queries of several words
// and phrases have few: these are found without the library's scores, which takes it an
// intersection of bitmaps in place of a walk over all documents with a word. Words that most
// documents have do not say which is best: the best of the newest ones are found.
func (x opened) askAll(ctx context.Context, all []query.Query, want []wanted, f Filter) (hits []Hit, total uint64, err error) {
	if common, err := x.areCommon(ctx, want); err != nil {
		return nil, 0, err
	} else if common {
		return x.newest(ctx, all, f)
	}
	if many, err := x.isOfMany(ctx, want, f); err != nil || many {
		if err != nil {
			return nil, 0, err
		}
		return x.ask(ctx, query.NewConjunctionQuery(all), want, f)
	}
	req := bleve.NewSearchRequestOptions(query.NewConjunctionQuery(append(slices.Clone(all), f.query())), MaxHits+1, 0, false) // without scores the library ends there
	req.Score = "none"
	res, err := x.idx.SearchInContext(ctx, req)
	if err != nil {
		return nil, 0, err
	}
	if len(res.Hits) > MaxHits { // which are the best?
		return x.ask(ctx, query.NewConjunctionQuery(all), want, f)
	}
	return hitsOf(res), uint64(len(res.Hits)), nil
}

func hitsOf(res *bleve.SearchResult) []Hit {
	hits := make([]Hit, len(res.Hits))
	for i, h := range res.Hits {
		hits[i] = Hit{ID: h.ID, at: slices.Clone(h.IndexInternalID)}
	}
	return hits
}

// ask returns the documents that match that the library ranks best, and how many do. Of equal
// ones the newest are best. want is what counts for the rank of each unit of what.
func (x opened) ask(ctx context.Context, what query.Query, want []wanted, f Filter) (hits []Hit, total uint64, err error) {
	r, err := x.reader()
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	ctx = withModel(ctx)
	from, err := x.rankingOf(ctx, r, what, want, f)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	best, total, err := ranking.Best(ctx, r, from, MaxHits, fieldBlock)
	for _, h := range best {
		hits = append(hits, Hit{ID: h.ID, at: h.At})
	}
	return hits, total, err
}

// rankingOf returns the documents that match, as the library ranks them.
func (x opened) rankingOf(ctx context.Context, r index.IndexReader, what query.Query, want []wanted, f Filter) (ranking.Ranking, error) {
	if len(want) == 1 && len(want[0]) == 1 {
		var filter blevesearch.Searcher
		all, err := isOfAll(ctx, r, f)
		if err == nil && !all {
			filter, err = f.query().Searcher(ctx, r, x.idx.Mapping(), blevesearch.SearcherOptions{Score: "none"})
		}
		if err != nil {
			return nil, err
		}
		if w, err := ranking.OfWord(ctx, r, want[0][0], filter); err != nil || w != nil {
			return w, err
		}
	}
	q := query.NewBooleanQuery([]query.Query{what}, nil, nil)
	q.AddFilter(f.query())
	s, err := q.Searcher(ctx, r, x.idx.Mapping(), blevesearch.SearcherOptions{})
	if err != nil {
		return nil, err
	}
	return ranking.Of(r, s), nil
}

// withModel returns a context in which searchers score as [newMapping] says.
func withModel(ctx context.Context) context.Context {
	return context.WithValue(ctx, blevesearch.GetScoringModelCallbackKey, blevesearch.GetScoringModelCallbackFn(func() string { return index.BM25Scoring }))
}

// reader returns a view of the index as it is now.
func (x opened) reader() (index.IndexReader, error) {
	adv, err := x.idx.Advanced()
	if err != nil {
		return nil, err
	}
	return adv.Reader()
}

// queries returns the query of each unit, and what counts for its rank.
func (x opened) queries(ctx context.Context, q Query) (out []query.Query, want []wanted, err error) {
	for _, u := range q.units {
		one, w, err := x.unitQuery(ctx, u, q.lang)
		if err != nil {
			return nil, nil, err
		}
		out, want = append(out, one), append(want, w)
	}
	return out, want, nil
}

func (x opened) unitQuery(ctx context.Context, u unit, lang *language) (query.Query, wanted, error) {
	var w wanted
	var all []query.Query
	for i, word := range u.parts {
		forms := []ranking.Term{{Text: word, Weight: 1}}
		last := i == len(u.parts)-1
		switch {
		case u.prefix && last:
			begun, err := x.begin(ctx, word)
			if err != nil {
				return nil, w, err
			}
			forms = forms[:0]
			for _, s := range begun {
				forms = append(forms, ranking.Term{Text: s, Weight: 1})
			}
		case lang != nil && u.isWord():
			others, err := x.forms(ctx, word, lang)
			if err != nil {
				return nil, w, err
			}
			for _, s := range others {
				forms = append(forms, ranking.Term{Text: s, Weight: formRate})
			}
		}
		var any []query.Query
		var counts []ranking.Term
		look := func(t ranking.Term) {
			q := query.NewTermQuery(t.Text)
			q.SetField(t.Field)
			q.SetBoost(t.Weight)
			any, counts = append(any, q), append(counts, t)
		}
		for _, f := range forms {
			for _, t := range textFields {
				look(ranking.Term{Field: t.field, Text: f.Text, Weight: f.Weight * t.boost})
			}
			if len(u.parts) == 1 {
				look(ranking.Term{Field: fieldWhole, Text: f.Text, Weight: f.Weight})
			}
		}
		if len(any) == 0 {
			return query.NewMatchNoneQuery(), w, nil
		}
		w = append(w, counts)
		all = append(all, query.NewDisjunctionQuery(any))
		if i > 0 && !(u.prefix && last) {
			all = append(all, exactly(fieldPair, pairTerm(u.parts[i-1], word)))
		}
	}
	if len(all) == 1 {
		return all[0], w, nil
	}
	return query.NewConjunctionQuery(all), w, nil
}

// forms returns other words of the index with the stem of word.
func (x opened) forms(ctx context.Context, word string, lang *language) (out []string, err error) {
	stem := lang.stemOf(word)
	r := []rune(stem)
	if len(r) < minForm {
		return nil, nil
	}
	begin := string(r[:max(minForm-1, len(r)-1)]) // the last letter of a stem may be another one in a form: carry, carries
	for _, t := range textFields {
		n := 0
		err := dictionary(ctx, x.idx, t.field, begin, func(s string, _ uint64) bool {
			n++
			if len(s) <= len(word)+6 && s != word && !slices.Contains(out, s) && lang.stemOf(s) == stem {
				out = append(out, s)
			}
			return n < maxScanned && len(out) < maxForms
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// rank scores documents by BM25 over the fields, best first, of one score the newest first.
// The forms of a word count as one word. It returns what the extras of q are worth.
func (x opened) rank(ctx context.Context, q Query, want []wanted, hits []Hit) (extras []float64, err error) {
	if len(hits) == 0 {
		return nil, nil
	}
	reader, err := x.reader()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	s, err := newScorer(reader, hits)
	if err != nil {
		return nil, err
	}
	for _, w := range want { // one is empty where no word of the index begins so
		if err := s.count(ctx, w); err != nil {
			return nil, err
		}
	}
	s.countWords()
	if extras, err = s.extras(ctx, q.extras()); err != nil {
		return nil, err
	}
	s.score()
	for i := range s.docs {
		d := &s.docs[i]
		hits[d.hit].Score, hits[d.hit].Base = d.score+d.extra, d.score
	}
	slices.SortStableFunc(hits, func(a, b Hit) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return strings.Compare(b.ID, a.ID)
	})
	return extras, nil
}

// scorer scores a few documents, in the order of the index.
type scorer struct {
	reader index.IndexReader
	total  float64 // documents of the index
	docs   []scored
	units  [][]partCount
	length map[string][]float64 // words of a field, by document; 0: not known
	words  []float64            // by document, of the fields that have a word of the query
}

type scored struct {
	id    index.IndexInternalID
	hit   int
	score float64
	extra float64 // beside score
}

// partCount is how often the terms of a part are in each document, by field.
type partCount struct {
	freq map[string][]float64
	df   float64 // documents that have one, about
}

func newScorer(reader index.IndexReader, hits []Hit) (*scorer, error) {
	n, err := reader.DocCount()
	if err != nil {
		return nil, err
	}
	s := &scorer{reader: reader, total: float64(n), length: make(map[string][]float64)}
	for i, h := range hits {
		id := h.at
		if id != nil { // the document is there, unless the index changed since
			if s, err := reader.ExternalID(id); err != nil || s != h.ID {
				id = nil
			}
		}
		if id == nil {
			if id, err = reader.InternalID(h.ID); err != nil {
				return nil, err
			}
		}
		if id != nil {
			s.docs = append(s.docs, scored{id: slices.Clone(id), hit: i})
		}
	}
	slices.SortFunc(s.docs, func(a, b scored) int { return a.id.Compare(b.id) })
	return s, nil
}

// count reads how often the terms of a unit are in the documents.
func (s *scorer) count(ctx context.Context, w wanted) error {
	var unit []partCount
	for _, part := range w {
		c := partCount{freq: make(map[string][]float64)}
		df := make(map[string]float64)
		for _, t := range part {
			if c.freq[t.Field] == nil {
				c.freq[t.Field] = make([]float64, len(s.docs))
			}
			n, err := s.term(ctx, t, c.freq[t.Field])
			if err != nil {
				return err
			}
			df[t.Field] += n
		}
		for _, n := range df {
			c.df = max(c.df, min(n, s.total))
		}
		unit = append(unit, c)
	}
	s.units = append(s.units, unit)
	return nil
}

// term adds how often a term is in each document, and returns how many of all have it.
func (s *scorer) term(ctx context.Context, t ranking.Term, freq []float64) (df float64, err error) {
	often := t.Field != fieldWhole && t.Field != fieldPair
	r, err := s.reader.TermFieldReader(ctx, []byte(t.Text), t.Field, often, often, false)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	df = float64(r.Count())
	var at index.TermFieldDoc
	for j := 0; df > 0 && j < len(s.docs); {
		d, err := r.Advance(s.docs[j].id, at.Reset())
		if err != nil || d == nil {
			return df, err
		}
		for j < len(s.docs) && s.docs[j].id.Compare(d.ID) < 0 {
			j++
		}
		if j == len(s.docs) || !s.docs[j].id.Equals(d.ID) {
			continue
		}
		if !often {
			freq[j] += t.Weight
		} else {
			freq[j] += t.Weight * float64(d.Freq)
			if s.length[t.Field] == nil {
				s.length[t.Field] = make([]float64, len(s.docs))
			}
			s.length[t.Field][j] = lengthOf(1 / (d.Norm * d.Norm))
		}
		j++
	}
	return df, nil
}

// countWords sets words.
func (s *scorer) countWords() {
	s.words = make([]float64, len(s.docs))
	for _, all := range s.length {
		for j, n := range all {
			s.words[j] += n
		}
	}
}

// score computes the scores from what was counted. A field's words count less the longer it
// is, compared with those of the other documents here.
func (s *scorer) score() {
	for _, all := range s.length {
		sum, n := 0.0, 0.0
		for _, l := range all {
			if l > 0 {
				sum, n = sum+l, n+1
			}
		}
		for j, l := range all {
			all[j] = 1 - bm25B + bm25B*l*n/max(sum, 1)
		}
	}
	for j := range s.docs {
		for _, unit := range s.units {
			if len(unit) == 0 {
				continue
			}
			least, rarity := math.Inf(1), 0.0
			for _, part := range unit {
				tf := 0.0
				for field, freq := range part.freq {
					if freq[j] == 0 {
						continue
					}
					if lengths := s.length[field]; lengths != nil {
						tf += freq[j] / lengths[j]
					} else {
						tf += freq[j]
					}
				}
				least = min(least, tf)
				rarity += idf(s.total, part.df)
			}
			s.docs[j].score += rarity * least * (bm25K1 + 1) / (least + bm25K1)
		}
	}
}
