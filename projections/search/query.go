package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/search/query"

	"nexus/ledger"
	"nexus/turns"
)

// The bounds of a query.
const (
	MaxQuery = 4 << 10 // bytes of its text
	maxUnits = 64      // words and phrases
	maxParts = 256     // terms of all of them
	minStem  = 2       // characters before the * of a prefix
	// A prefix stands for the most frequent of the terms that begin with it: so many, among
	// so many that are looked at.
	maxExpanded, maxScanned = 64, 20_000
	// MaxHits bounds the hits of a query.
	MaxHits = 1000
)

// Query is what a search looks for: each of its units.
type Query struct{ units []unit }

// unit is a word, a phrase, or the beginning of a word.
type unit struct {
	parts  []string // terms at consecutive positions
	whole  string   // an identifier or path as one term; "": there is none
	prefix bool     // whole, or the only part, is the beginning of a term
}

// Parse reads the text of a query: words, "phrases in quotes" and beginnings*. All other
// characters separate words, so no text is a fault of syntax.
//
// Errors: [turns.FieldError] of /text: no word, too many, too long.
func Parse(text string) (q Query, err error) {
	if len(text) > MaxQuery {
		return q, &turns.FieldError{Field: "/text", Reason: fmt.Sprintf("%d bytes, the limit is %d", len(text), MaxQuery), Kind: ledger.ErrTooLarge}
	}
	for i, piece := range strings.Split(text, `"`) {
		if i%2 == 1 {
			q.add(unitOf(piece, false, false))
			continue
		}
		for _, word := range strings.Fields(piece) {
			stem := strings.TrimRight(word, "*")
			q.add(unitOf(stem, true, stem != word))
		}
	}
	parts := 0
	for _, u := range q.units {
		parts += len(u.parts)
	}
	fault := func(reason string) error {
		return &turns.FieldError{Field: "/text", Reason: reason, Kind: turns.ErrMalformed}
	}
	switch {
	case len(q.units) == 0:
		return q, fault("it has no word")
	case len(q.units) > maxUnits || parts > maxParts:
		return q, fault(fmt.Sprintf("%d words and phrases of %d terms, the limits are %d and %d", len(q.units), parts, maxUnits, maxParts))
	}
	return q, nil
}

func (q *Query) add(u unit) {
	same := func(o unit) bool { return slices.Equal(o.parts, u.parts) && o.whole == u.whole && o.prefix == u.prefix }
	if len(u.parts) > 0 && !slices.ContainsFunc(q.units, same) {
		q.units = append(q.units, u)
	}
}

// unitOf returns the unit of a word, or of a phrase.
func unitOf(text string, word, prefix bool) (u unit) {
	words := Words(text)
	for _, w := range words {
		if !w.Whole {
			u.parts = append(u.parts, w.Term)
		}
	}
	if !word {
		return u
	}
	for _, w := range words { // the longest is that of all parts
		if w.Whole && len(w.Term) > len(u.whole) && w.Position == 1 {
			u.whole = w.Term
		}
	}
	stem := u.whole
	if len(u.parts) == 1 {
		stem = u.parts[0]
	}
	u.prefix = prefix && len([]rune(stem)) >= minStem
	return u
}

// Filter says where a search looks. The zero value of a field is no bound, but for Tenant.
type Filter struct {
	Tenant, Agent string
	Kinds         []string // empty: all
	Model, Tool   string
	From, To      int64 // Unix ns, [From, To)
	// In bounds the turns: each is one of a session, or one of a segment of a path.
	In []Place
}

// Place is turns: all of a session, or those of a segment from depth Lo to Hi.
type Place struct {
	Session, Segment string
	Lo, Hi           uint64
}

// Hit is a document that a search found.
type Hit struct {
	ID    string
	Score float64
}

// Result is what a search found, best first, of one score the newest first.
type Result struct {
	Hits     []Hit
	Any      bool   // no document has all units; these have some
	Cut      bool   // more than [MaxHits] were found
	Position uint64 // of the log, that the index had
}

// Search returns the documents that match. Errors: [ledger.ErrUnavailable] while the index
// is opened or made again, and when ctx ends.
func (x *Index) Search(ctx context.Context, q Query, f Filter) (r Result, err error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.idx == nil {
		return r, nil // nothing is in it yet; the caller says how far it is behind
	}
	r.Position = x.at.Seq
	err = protect(func() error {
		units := make([]query.Query, len(q.units))
		for i, u := range q.units {
			if units[i], err = x.unitQuery(ctx, u); err != nil {
				return err
			}
		}
		found, total, err := x.ask(ctx, query.NewConjunctionQuery(units), f)
		if err == nil && total == 0 && len(units) > 1 {
			r.Any = true
			found, total, err = x.ask(ctx, query.NewDisjunctionQuery(units), f)
		}
		r.Hits, r.Cut = found, total > uint64(len(found))
		return err
	})
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

// ask returns the best documents that match, and how many do.
func (x *Index) ask(ctx context.Context, what query.Query, f Filter) (hits []Hit, total uint64, err error) {
	q := query.NewBooleanQuery([]query.Query{what}, nil, nil)
	q.AddFilter(f.query())
	req := bleve.NewSearchRequestOptions(q, MaxHits, 0, false)
	req.SortBy([]string{"-_score", "-" + fieldSeq, "_id"})
	res, err := x.idx.SearchInContext(ctx, req)
	if err == nil {
		err = ctx.Err() // a phrase finds nothing more then
	}
	if err != nil {
		return nil, 0, err
	}
	hits = make([]Hit, len(res.Hits))
	for i, h := range res.Hits {
		hits[i] = Hit{ID: h.ID, Score: h.Score}
	}
	return hits, res.Total, nil
}

// unitQuery returns the query of a unit, in each of the fields of texts.
func (x *Index) unitQuery(ctx context.Context, u unit) (query.Query, error) {
	var any []query.Query
	for _, t := range texts {
		term := func(term string, boost float64) {
			q := query.NewTermQuery(term)
			q.SetField(t.field)
			q.SetBoost(boost)
			any = append(any, q)
		}
		switch {
		case u.prefix:
			stem := u.whole
			if len(u.parts) == 1 {
				stem = u.parts[0]
			}
			all, err := x.begin(ctx, t.field, stem)
			if err != nil {
				return nil, err
			}
			for _, s := range all {
				term(s, t.boost)
			}
		case len(u.parts) == 1:
			term(u.parts[0], t.boost)
		default:
			any = append(any, &phrase{u.parts, t.field, t.boost})
		}
		if u.whole != "" && !u.prefix {
			term(u.whole, 2*t.boost)
		}
	}
	if len(any) == 0 {
		return query.NewMatchNoneQuery(), nil
	}
	return query.NewDisjunctionQuery(any), nil
}

// begin returns the most frequent terms of a field that begin with stem.
func (x *Index) begin(ctx context.Context, field, stem string) (out []string, err error) {
	type counted struct {
		term  string
		count uint64
	}
	var all []counted
	err = dictionary(ctx, x.idx, field, stem, func(term string, count uint64) bool {
		all = append(all, counted{term, count})
		return len(all) < maxScanned
	})
	slices.SortStableFunc(all, func(a, b counted) int {
		switch {
		case a.count > b.count:
			return -1
		case a.count < b.count:
			return 1
		}
		return 0
	})
	for _, c := range all[:min(len(all), maxExpanded)] {
		out = append(out, c.term)
	}
	return out, err
}

// dictionary yields the terms of a field with a prefix, and in how many documents each
// is, until yield returns false.
func dictionary(ctx context.Context, idx bleve.Index, field, prefix string, yield func(string, uint64) bool) (err error) {
	d, err := idx.FieldDictPrefix(field, []byte(prefix))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := d.Next()
		if err != nil || e == nil {
			return err
		}
		if !yield(e.Term, e.Count) {
			return nil
		}
	}
}

// terms returns all terms of a field.
func terms(ctx context.Context, idx bleve.Index, field string) (out []string, err error) {
	err = protect(func() error {
		return dictionary(ctx, idx, field, "", func(term string, _ uint64) bool { out = append(out, term); return true })
	})
	return out, err
}

func exactly(field, term string) query.Query {
	q := query.NewTermQuery(term)
	q.SetField(field)
	return q
}

// between is the documents with field in [lo, hi]; nil is no bound.
func between(field string, lo, hi *float64) query.Query {
	yes := true
	q := query.NewNumericRangeInclusiveQuery(lo, hi, &yes, &yes)
	q.SetField(field)
	return q
}

// query returns f as the index takes it.
func (f *Filter) query() query.Query {
	all := []query.Query{exactly("tenant", f.Tenant)}
	for field, term := range map[string]string{"agent": f.Agent, "model": f.Model, "tool": f.Tool} {
		if term != "" {
			all = append(all, exactly(field, term))
		}
	}
	if len(f.Kinds) > 0 {
		var any []query.Query
		for _, k := range f.Kinds {
			any = append(any, exactly("kind", k))
		}
		all = append(all, query.NewDisjunctionQuery(any))
	}
	if f.From != 0 || f.To != 0 {
		var lo, hi *float64
		if f.From != 0 {
			ms := float64(f.From/1e6 - 1)
			lo = &ms
		}
		if f.To != 0 {
			ms := float64(f.To/1e6 + 1)
			hi = &ms
		}
		all = append(all, between("time", lo, hi)) // the caller compares the ns
	}
	if len(f.In) > 0 {
		any := []query.Query{exactly("kind", "memory"), exactly("kind", "event")}
		for _, p := range f.In {
			if p.Segment == "" {
				any = append(any, exactly("session", p.Session))
				continue
			}
			lo, hi := float64(p.Lo), float64(p.Hi)
			any = append(any, query.NewConjunctionQuery([]query.Query{exactly("segment", p.Segment), between("depth", &lo, &hi)}))
		}
		all = append(all, query.NewDisjunctionQuery(any))
	}
	return query.NewConjunctionQuery(all)
}
