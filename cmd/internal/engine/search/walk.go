package search

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/projections/search"
	"nexus/turns"
)

// The lists of a query, one after the other. The index proposes candidates and the ledger
// says which of them are hits. So behind the best candidates come the others, newest first,
// until there are [search.MaxHits] hits. Where no candidate is one, those with some of the
// words follow.
const (
	bestList = ""    // the best candidates of the index
	someList = "any" // those with some of the words
	// Any other list is the candidates below the document of this id, so many at most.
	maxCandidates = 10_000
)

// pageCandidates bounds the candidates that a page reads, however short they are.
const pageCandidates = 30_000

// listKey names a list of a query.
type listKey struct {
	caller   reader.Caller
	digest   string // of the request without after and limit
	position uint64 // that the index had for the first page; 0: this is it
	list     string
}

// cursor is where a page begins.
type cursor struct {
	listKey
	next  int // candidate of the list
	shown int // hits of the pages before
}

func (k cursor) String() string {
	return fmt.Sprintf("%s~%d~%d~%d~%s", k.digest[:16], k.position, k.next, k.shown, k.list)
}

// cursorOf returns where the page of a request begins.
func cursorOf(c reader.Caller, req api.Search) (k cursor, err error) {
	after := req.After
	req.After, req.Limit, req.Read = "", 0, api.Read{}
	b, err := turns.EncodeJSON(req)
	if err != nil {
		return k, err
	}
	sum := sha256.Sum256(b)
	k.caller, k.digest = reader.Caller{Tenant: c.Tenant, Agent: c.Agent}, hex.EncodeToString(sum[:])
	if after == "" {
		return k, nil
	}
	bad := api.FieldErrorf("/after", "not what a page of this query gave as next")
	p := strings.Split(after, "~")
	if len(p) != 5 || p[0] != k.digest[:16] {
		return k, bad
	}
	position, err1 := strconv.ParseUint(p[1], 10, 64)
	next, err2 := strconv.ParseUint(p[2], 10, 16)
	shown, err3 := strconv.ParseUint(p[3], 10, 16)
	k.position, k.next, k.shown, k.list = position, int(next), int(shown), p[4]
	if err1 != nil || err2 != nil || err3 != nil || k.next > maxCandidates || k.shown > search.MaxHits || k.position > search.MaxPosition {
		return k, bad
	}
	if _, _, err := search.ParseDocumentID(k.list); err != nil && k.list != bestList && k.list != someList {
		return k, bad
	}
	return k, nil
}

// walk makes a page of what a query finds.
type walk struct {
	se       *Search
	query    search.Query
	filter   search.Filter
	resolver *resolver
	limit    int
	cursor   cursor
	out      *api.SearchHits
	size     int // bytes of out
	read     int // candidates
}

// page goes through the lists from the cursor on, until the page is full or has looked at
// enough text, or nothing is left.
func (w *walk) page(ctx context.Context) error {
	for {
		found, err := w.list(ctx)
		if err != nil {
			return err
		}
		full, err := w.show(ctx, found)
		k := &w.cursor
		rest := found.Cut && found.All == len(found.Hits) // more have all of the words
		enough := k.shown >= search.MaxHits
		switch {
		case err != nil:
			return err
		case full:
			w.out.Next = k.String()
			w.out.Cut = found.Cut && (!rest || w.isSure())
			return nil
		case rest && !enough:
			k.list, k.next = w.below(found), 0
		case k.list != someList && k.shown == 0 && found.All > 0 && found.All == len(found.Hits) && w.query.Len() > 1,
			k.list != someList && k.list != bestList && k.shown == 0 && w.query.Len() > 1:
			// What the index has all of the words of was none: words of another role, or a
			// phrase by chance.
			k.list, k.next = someList, 0
		default:
			w.out.Cut = found.Cut || enough && k.next < len(found.Hits)
			return nil
		}
	}
}

// isSure reports whether each candidate of the index is a hit, but for a few.
func (w *walk) isSure() bool {
	return !w.query.HasPhrase() && !w.resolver.covered && w.filter.Role == "" && w.resolver.project == ""
}

// below returns the list behind one: of the candidates of the first page's index, the newest
// are behind the best ones.
func (w *walk) below(found search.Result) string {
	if w.cursor.list == bestList {
		return search.DocumentID(w.cursor.position+1, 0)
	}
	return found.Last
}

// list returns the list of the cursor. A later page goes on in what the first one found,
// also if events came since. If that was dropped, or is of another daemon, the query is
// asked again.
func (w *walk) list(ctx context.Context) (r search.Result, err error) {
	k := w.cursor.listKey
	if k.position != 0 {
		if r, ok := w.se.results.Get(k); ok {
			return r, nil
		}
	}
	index := w.se.index
	switch k.list {
	case bestList:
		r, err = index.Search(ctx, w.query, w.filter)
	case someList:
		r, err = index.SearchAny(ctx, w.query, w.filter)
	default:
		r, err = w.others(ctx)
	}
	if err == nil && (k.list == bestList || k.list == someList) {
		r, err = w.se.withNeighbours(ctx, w.query, w.filter, r)
	}
	if err != nil {
		return r, err
	}
	if k.position == 0 {
		k.position = r.Position
		w.cursor.position = r.Position
	}
	w.se.results.Put(k, r, 64*len(r.Hits)+512)
	return r, nil
}

// others returns the candidates of a list that are not among the best ones.
func (w *walk) others(ctx context.Context) (search.Result, error) {
	best := *w
	best.cursor.list = bestList
	shown, err := best.list(ctx)
	if err != nil {
		return shown, err
	}
	r, err := w.se.index.SearchBelow(ctx, w.query, w.filter, w.cursor.list, maxCandidates)
	if err != nil {
		return r, err
	}
	have := make(map[string]bool, len(shown.Hits))
	for _, h := range shown.Hits {
		have[h.ID] = true
	}
	r.Hits = slices.DeleteFunc(r.Hits, func(h search.Hit) bool { return have[h.ID] })
	r.All = len(r.Hits)
	return r, nil
}

// sortBest sorts the hits of the page from one on that have all of the words: where the
// index took words of a long turn to stand side by side, its text says whether they do.
func (w *walk) sortBest(from int) {
	hits := w.out.Hits[min(from, len(w.out.Hits)):]
	if n := slices.IndexFunc(hits, func(h api.SearchHit) bool { return h.Some }); n >= 0 {
		hits = hits[:n]
	}
	slices.SortStableFunc(hits, func(a, b api.SearchHit) int { return cmp.Compare(b.Score, a.Score) })
}

// show adds the hits of a list to the page, and moves the cursor. It reports whether the page
// is full before the list is at its end.
func (w *walk) show(ctx context.Context, found search.Result) (full bool, err error) {
	w.resolver.extras = nil
	if w.cursor.list == bestList {
		w.resolver.extras = found.Extras
		defer w.sortBest(len(w.out.Hits))
	}
	for k := &w.cursor; k.next < len(found.Hits) && k.shown < search.MaxHits; k.next++ {
		if len(w.out.Hits) == w.limit || w.size > w.se.page.PageBytes() || w.resolver.looked > w.se.PageText || w.read == pageCandidates {
			return true, nil
		}
		if ctx.Err() != nil {
			return false, fmt.Errorf("%w: search: %w", ledger.ErrUnavailable, ctx.Err())
		}
		w.read++
		h, ok, err := w.resolver.hit(ctx, found.Hits[k.next], k.next >= found.All)
		if err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		n, err := page.EncodedSize(h)
		if err != nil {
			return false, err
		}
		k.shown++
		w.out.Hits, w.size = append(w.out.Hits, h), w.size+n
	}
	return false, nil
}
