package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/search/query"
	index "github.com/blevesearch/bleve_index_api"

	"nexus/ledger"
	"nexus/projections/search/words"
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
type Query struct {
	units []unit
	lang  *language // a word is any of its forms; nil: as it stands
}

// Len returns how many units a text must have to match.
func (q Query) Len() int { return len(q.units) }

// IsQuestion reports whether it has so many units that few texts have all of them.
func (q Query) IsQuestion() bool { return len(q.units) >= question }

// HasPhrase reports whether a unit has several words. A document may lack these in a row
// though the index finds it.
func (q Query) HasPhrase() bool {
	return slices.ContainsFunc(q.units, func(u unit) bool { return len(u.parts) > 1 })
}

// Loose returns the query for documents that have some of the units: a word is any of its
// forms, and words that say nothing of the subject do not count, unless there are no others.
func (q Query) Loose() Query {
	lang := languageOf(q.units)
	telling := slices.DeleteFunc(slices.Clone(q.units), func(u unit) bool { return u.isWord() && lang.stop[u.parts[0]] })
	if len(telling) == 0 {
		telling = q.units
	}
	return Query{units: telling, lang: &lang}
}

// unit is a word, a phrase, or the beginning of a word.
type unit struct {
	parts  []string // words that follow each other
	prefix bool     // the last of them is the beginning of a word
	quoted bool
	whole  string // the identifier that the parts are of; "": of none
	stop   bool   // a word that says nothing of the subject, beside others that do
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
			u := unitOf(piece, false)
			u.quoted = true
			q.add(u)
			continue
		}
		for _, word := range strings.Fields(piece) {
			stem := strings.TrimRight(word, "*")
			q.add(unitOf(stem, stem != word))
		}
	}
	q.markStops()
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

// ParseAny reads a text of any form and length: each of its words is a unit, as many as a
// query may have. ok is false if it has no word.
func ParseAny(text string) (q Query, ok bool) {
	parts := 0
	for _, word := range strings.Fields(text) {
		u := unitOf(strings.Trim(word, `"*`), false)
		if parts += len(u.parts); len(q.units) == maxUnits || parts > maxParts {
			break
		}
		q.add(u)
	}
	q.markStops()
	return q, len(q.units) > 0
}

// markStops marks the words that say nothing of the subject, unless there are no others.
func (q *Query) markStops() {
	lang := languageOf(q.units)
	isStop := func(u *unit) bool { return u.isWord() && lang.stop[u.parts[0]] }
	if !slices.ContainsFunc(q.units, func(u unit) bool { return !isStop(&u) }) {
		return
	}
	for i := range q.units {
		q.units[i].stop = isStop(&q.units[i])
	}
}

func (q *Query) add(u unit) {
	same := func(o unit) bool { return slices.Equal(o.parts, u.parts) && o.prefix == u.prefix }
	if len(u.parts) > 0 && !slices.ContainsFunc(q.units, same) {
		q.units = append(q.units, u)
	}
}

// unitOf returns the unit of a word, or of a phrase.
func unitOf(text string, prefix bool) (u unit) {
	found := words.Of(text)
	for _, w := range found {
		if !w.Whole {
			u.parts = append(u.parts, w.Term)
		}
	}
	if last := len(found) - 1; last > 0 && !prefix && found[last].Whole && found[last].Start == found[0].Start {
		u.whole = found[last].Term
	}
	if n := len(u.parts); n > 0 {
		u.prefix = prefix && (n > 1 || len([]rune(u.parts[0])) >= minStem)
	}
	return u
}

// Filter says where a search looks. The zero value of a field is no bound, but for Tenant.
type Filter struct {
	Tenant, Agent string
	Kinds         []string // empty: all
	Model, Tool   string
	Role          string
	Source        string
	Cwd           string // this folder, and those in it
	Branch        string
	From, To      int64  // Unix ns, [From, To): to the hour, the caller compares the rest
	Through       uint64 // last position: to the block, the caller compares the rest
	// In bounds the turns: each is one of a session, or one of a segment of a path.
	In []Place
}

// isZero reports whether f bounds nothing.
func (f *Filter) isZero() bool {
	return f.Tenant+f.Agent+f.Model+f.Tool+f.Role+f.Source+f.Cwd+f.Branch == "" && len(f.Kinds)+len(f.In) == 0 && f.From == 0 && f.To == 0 && f.Through == 0
}

// Place is turns: all of a session, or those of a segment from depth Lo to Hi.
type Place struct {
	Session, Segment string
	Lo, Hi           uint64
}

// Hit is a document that a search found.
type Hit struct {
	ID     string
	Score  float64
	Base   float64 // the score without what [Result.Extras] add
	Beside bool    // it has no word of the query, the turn beside it has; set by the caller of [Index]

	at index.IndexInternalID // where the index had the document; a hint
}

// Result is what a search found, best first, of one score the newest first.
type Result struct {
	Hits []Hit
	All  int    // so many of Hits have all units; the others, behind them, have some
	Cut  bool   // there are more
	Last string // of [Index.SearchBelow]: the lowest id
	// Extras is what each thing that a document may have beside the words adds to its score,
	// as far as the index can tell that it has it. Who has the text knows: [Matches.Extra].
	Extras   []float64
	Position uint64 // of the log, that the index had
}

// begin returns the most frequent words that begin with stem.
func (x opened) begin(ctx context.Context, stem string) (out []string, err error) {
	counts := make(map[string]uint64)
	for _, field := range []string{fieldSaid, fieldCalls, fieldOutput, fieldWhole} {
		n := 0
		err := dictionary(ctx, x.idx, field, stem, func(term string, count uint64) bool {
			counts[term] += count
			n++
			return n < maxScanned
		})
		if err != nil {
			return nil, err
		}
	}
	out = slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	return out[:min(len(out), maxExpanded)], nil
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

// Without reports whether the index is past a position of the log, and has no words of what is sealed under a
// content key, by that key's name or that name with @ behind it, but for the name but: they were not there, or it was made again.
// Errors: [ledger.ErrUnavailable].
func (x *Index) Without(ctx context.Context, key, but string, seq uint64) (bool, error) {
	open, has := false, false
	r, err := x.read(ctx, func(o opened, _ *Result) error {
		open = true
		var names []string
		err := protect(func() error {
			return dictionary(ctx, o.idx, "key", key, func(term string, _ uint64) bool {
				if (term == key || strings.HasPrefix(term, key+"@")) && term != but {
					names = append(names, term)
				}
				return true
			})
		})
		for _, name := range names {
			if err != nil || has {
				break
			}
			var n *bleve.SearchResult
			if n, err = o.idx.SearchInContext(ctx, bleve.NewSearchRequestOptions(exactly("key", name), 0, 0, false)); err == nil {
				has = n.Total > 0
			}
		}
		return err
	})
	return err == nil && open && !has && r.Position >= seq, err
}

func exactly(field, term string) query.Query {
	q := query.NewTermQuery(term)
	q.SetField(field)
	return q
}

// within is the documents with a term of field in [lo, hi]; "" is no bound.
func within(field, lo, hi string) query.Query {
	yes := true
	q := query.NewTermRangeInclusiveQuery(lo, hi, &yes, &yes)
	q.SetField(field)
	return q
}

// query returns f as the index takes it.
func (f *Filter) query() query.Query {
	all := []query.Query{exactly("tenant", f.Tenant)}
	for _, x := range []struct{ field, term string }{
		{"agent", f.Agent}, {"model", f.Model}, {"tool", f.Tool}, {"role", f.Role}, {"source", f.Source}, {"branch", f.Branch},
	} {
		if x.term != "" {
			all = append(all, exactly(x.field, x.term))
		}
	}
	if f.Cwd != "" {
		folder := strings.TrimRight(bound(f.Cwd), "/")
		below := query.NewPrefixQuery(folder + "/")
		below.SetField("cwd")
		all = append(all, query.NewDisjunctionQuery([]query.Query{exactly("cwd", folder), below}))
	}
	if len(f.Kinds) > 0 {
		var any []query.Query
		for _, k := range f.Kinds {
			any = append(any, exactly("kind", k))
		}
		all = append(all, query.NewDisjunctionQuery(any))
	}
	if times := timeTerms(f.From, f.To); len(times) > 0 {
		var any []query.Query
		for _, r := range times {
			any = append(any, within(r[0], r[1], r[2]))
		}
		all = append(all, query.NewDisjunctionQuery(any))
	}
	if f.Through != 0 {
		all = append(all, within(fieldBlock, "", blockTerm(f.Through)))
	}
	if len(f.In) > 0 {
		any := []query.Query{exactly("kind", "memory"), exactly("kind", "event")}
		for _, p := range f.In {
			if p.Segment == "" {
				any = append(any, exactly("session", p.Session))
				continue
			}
			any = append(any, within(fieldPlace, placeTerm(p.Segment, p.Lo), placeTerm(p.Segment, p.Hi)))
		}
		all = append(all, query.NewDisjunctionQuery(any))
	}
	return query.NewConjunctionQuery(all)
}
