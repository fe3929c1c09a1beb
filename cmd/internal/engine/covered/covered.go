package covered

import (
	"context"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/paths"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/search"
	"nexus/compactor/summary"
	"nexus/ledger"
	"nexus/lineage"
	"nexus/turns"
)

// Covered reads what compactions stand for. Safe for concurrent use.
type Covered struct {
	content *content.Store
	page    *page.Limits
	paths   *paths.Loader
	reader  *reader.Reader
	search  *search.Search
}

// New returns the covered turns of the sessions that r reads.
func New(cs *content.Store, limits *page.Limits, pl *paths.Loader, r *reader.Reader, se *search.Search) *Covered {
	return &Covered{content: cs, page: limits, paths: pl, reader: r, search: se}
}

// halvesBetween returns the halves of the normal turns on the path of head in [lo, hi).
// partial is set where the content was more than a request may load: then the oldest
// have only the beginnings of their parts.
func (cv *Covered) halvesBetween(ctx context.Context, s *ledger.Session, head lineage.Node, lo, hi lineage.Cut) (out []summary.HalfTurn, partial bool, err error) {
	last := min(hi.Last(), head.Depth)
	if last == 0 || lo >= hi {
		return nil, false, nil
	}
	end, err := lineage.At(cv.reader.Projections, head, last)
	if err != nil {
		return nil, false, err
	}
	all, err := cv.paths.Halves(ctx, s, end, lo)
	if err != nil {
		return nil, false, err
	}
	for _, h := range all {
		if lineage.CutBefore(h.Depth, h.Half) < hi {
			out = append(out, h)
			partial = partial || isClipped(h.Messages)
		}
	}
	return out, partial, nil
}

// isClipped reports whether content of some messages was not loaded.
func isClipped(ms []turns.Message) bool {
	for i := range ms {
		for j := range ms[i].Parts {
			if ms[i].Parts[j].Ref != nil {
				return true
			}
		}
	}
	return false
}

// compactionsAt returns the compactions whose summaries stand for what is covered at a
// node of a session's path, one inside the other, the one in force first.
func (cv *Covered) compactionsAt(s *ledger.Session, head lineage.Node) (out []lineage.Node, err error) {
	if head.Ref.IsZero() {
		return nil, nil
	}
	if head.Compaction, err = cv.reader.CompactionAt(s, head); err != nil {
		return nil, err
	}
	for n, err := range lineage.Compactions(cv.reader.Projections, head) {
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// covering returns which of some compactions cover a half of a turn: the innermost first,
// which is the one that read the turn itself, then those whose summaries include its
// summary, up to the one in force. A pass that only shortened parts is left out unless it
// is in force. all is as compactionsAt returns it.
func covering(all []lineage.Node, depth uint64, half turns.Half) (out []lineage.Node) {
	at, before := lineage.CutBefore(depth, half), lineage.Cut(0)
	for i := len(all) - 1; i >= 0; i-- {
		if n := all[i]; at < n.Cut && (n.Cut != before || i == 0) {
			out = append(out, n)
		}
		before = all[i].Cut
	}
	return out
}
