package search

import (
	"context"
	"slices"
	"strings"
	"time"

	"nexus/cmd/internal/engine/cache"
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/memories"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/projections/search"
	"nexus/turns"
)

const (
	// maxSegments bounds the segments of a path in a query.
	maxSegments = 500
	// maxCwd bounds the name of a folder; the index has no more of one.
	maxCwd = 512
	// A search waits this long for an index that is so little behind. While an import runs, the index
	// is further behind all the time: then a person wants what is there, and waits a moment only.
	patience    = 5 * time.Second
	littleEvent = 1_000
	moment      = time.Second
	muchEvent   = 10_000
	// pageText is how many bytes of text a page looks at, about. The words of a text are
	// looked for to show a snippet, which takes longer than to find it in the index.
	pageText = 8 << 20
)

// Search answers search.query. Safe for concurrent use.
type Search struct {
	// PageText is about how many bytes of the texts of candidates a page looks at. Then it
	// ends, with fewer hits than its limit, or none.
	PageText int

	index    *search.Index // nil: it is off
	content  *content.Store
	page     *page.Limits
	reader   *reader.Reader
	memories *memories.Memories
	results  *cache.Cache[listKey, search.Result] // for the pages after the first; they hold no text
	works    *cache.Cache[turns.Ref, stated]
	metas    *cache.Cache[metaKey, turns.WorkContext]
}

// New returns a search over index; nil: searches are refused.
func New(index *search.Index, cs *content.Store, limits *page.Limits, r *reader.Reader, ms *memories.Memories, budget *cache.Budget) *Search {
	se := &Search{PageText: pageText, index: index, content: cs, page: limits, reader: r, memories: ms, results: cache.New[listKey, search.Result](budget, "searches")}
	own := cache.NewBudget(max(budget.Max()/workShare, leastWorkBytes))
	se.works, se.metas = cache.New[turns.Ref, stated](own, "work contexts"), cache.New[metaKey, turns.WorkContext](own, "work contexts")
	if cs.Keys != nil {
		cs.Keys.OnDestroy(own.Clear)
	}
	if index != nil && cs.Keys != nil {
		cs.Keys.OnDestroy(index.Erase)
	}
	return se
}

// Without reports whether the index is past a position of the log, and has no words of a session.
func (se *Search) Without(ctx context.Context, session turns.ID, at uint64) (bool, error) {
	return se.index.Without(ctx, session.String(), "", at)
}

// WithoutRedacted reports whether the index is past a position of the log, and has no words of a session from before so many events of
// it were redacted.
func (se *Search) WithoutRedacted(ctx context.Context, session turns.ID, taken, at uint64) (bool, error) {
	return se.index.Without(ctx, session.String(), keyName(session, taken), at)
}

// Run opens the index and follows the projections until ctx ends. Without an index it
// returns at once.
func (se *Search) Run(ctx context.Context) {
	if se.index != nil {
		se.index.Run(ctx, se)
	}
}

// Behind returns how many events the index has not seen yet.
func (se *Search) Behind() uint64 {
	if se.index == nil {
		return 0
	}
	at := se.index.Position()
	if last := se.reader.Projections.Applied().Seq; last > at {
		return last - at
	}
	return 0
}

// Query is search.query.
func (se *Search) Query(ctx context.Context, c reader.Caller, req api.Search) (*api.SearchHits, error) {
	if se.index == nil {
		return nil, &api.Error{Code: api.Unsupported, Message: "this daemon keeps no search index; start it with --search on"}
	}
	limit, err := req.LimitOf(20, 100)
	if err != nil {
		return nil, err
	}
	q, err := search.Parse(req.Text)
	if err != nil {
		return nil, err
	}
	f, err := filterOf(c, req)
	if err != nil {
		return nil, err
	}
	res := &resolver{se: se, caller: c, query: q, loose: q.Loose(), filter: f, covered: req.Covered, secrets: req.ShowSecrets, onPath: req.BranchOnly, hidden: req.Hidden, project: req.Project, views: make(map[turns.ID]*view)}
	cut, err := se.scope(ctx, c, req, &f, res)
	if err != nil {
		return nil, err
	}
	if err := se.wait(ctx, req.Read); err != nil {
		return nil, err
	}
	w := &walk{se: se, query: q, filter: f, resolver: res, limit: limit, out: &api.SearchHits{Hits: []api.SearchHit{}, Behind: se.Behind()}}
	if w.cursor, err = cursorOf(c, req); err != nil {
		return nil, err
	}
	first := w.cursor.shown == 0
	if err := w.page(ctx); err != nil {
		return nil, err
	}
	w.out.Cut = w.out.Cut || cut
	w.out.Any = first && len(w.out.Hits) > 0 && w.out.Hits[0].Some
	return w.out, nil
}

// kinds are what a search can find.
var kinds = []string{"turn", "memory", "event", "note", "session"}

// filterOf returns the filter of a request, but for its session.
func filterOf(c reader.Caller, req api.Search) (f search.Filter, err error) {
	f = search.Filter{Tenant: c.Tenant, Agent: c.Agent, Kinds: req.Kinds, Model: req.Model, Tool: req.Tool, Role: req.Role, Source: req.Source, Cwd: req.Cwd, Branch: req.Branch}
	if req.AsOf != "" {
		if f.Through, err = page.ParsePosition(string(req.AsOf)); err != nil || f.Through == 0 {
			return f, api.FieldErrorf("/as_of", "%.40q is not a position", req.AsOf)
		}
	}
	if r := turns.Role(req.Role); req.Role != "" && r != turns.User && r != turns.Assistant && r != turns.Tool && r != turns.System {
		return f, api.FieldErrorf("/role", "%.40q is not one of user, assistant, tool, system", req.Role)
	}
	switch {
	case req.Agent != "" && !turns.ValidName(req.Agent):
		return f, api.FieldErrorf("/agent", "%.80q is not a name: a to z, 0 to 9 and -, at most 64 characters", req.Agent)
	case c.Operator():
		f.Agent = req.Agent
	case req.Agent != "" && req.Agent != c.Agent:
		return f, &api.Error{Code: api.NotFound, Message: "no agent " + req.Agent}
	}
	for _, x := range []struct{ field, value string }{{"/model", req.Model}, {"/tool", req.Tool}, {"/source", req.Source}, {"/branch", req.Branch}} {
		if len(x.value) > turns.MaxName {
			return f, api.FieldErrorf(x.field, "%d bytes, the limit is %d", len(x.value), turns.MaxName)
		}
	}
	if len(req.Cwd) > maxCwd {
		return f, api.FieldErrorf("/cwd", "%d bytes, the limit is %d", len(req.Cwd), maxCwd)
	}
	if len(req.Kinds) > len(kinds) {
		return f, api.FieldErrorf("/kinds", "%d kinds; there are %d", len(req.Kinds), len(kinds))
	}
	for _, k := range req.Kinds {
		if !slices.Contains(kinds, k) {
			return f, api.FieldErrorf("/kinds", "%.40q is not one of %s", k, strings.Join(kinds, ", "))
		}
	}
	for _, x := range []struct {
		field string
		from  *api.Time
		to    *int64
	}{{"/from", req.From, &f.From}, {"/to", req.To, &f.To}} {
		if x.from == nil {
			continue
		}
		ns, ok := x.from.UnixNano()
		if !ok {
			return f, api.FieldErrorf(x.field, "before 1678, after 2261 or 1970-01-01T00:00:00Z")
		}
		*x.to = ns
	}
	return f, nil
}

// scope bounds f and res by the session of a request.
func (se *Search) scope(ctx context.Context, c reader.Caller, req api.Search, f *search.Filter, res *resolver) (cut bool, err error) {
	if req.Session.IsZero() {
		if req.BranchOnly {
			return false, api.FieldErrorf("/branch_only", "it needs a session: name the one whose branch is meant")
		}
		res.memories = se.memories.View(nil, lineage.Node{})
		return false, se.reader.WaitPosition(ctx, req.Read)
	}
	s, head, err := se.reader.SessionAt(ctx, c, req.Session, turns.ID{}, req.Read)
	if err != nil {
		return false, err
	}
	if res.view, err = se.viewOf(s); err != nil {
		return false, err
	}
	res.views[s.ID] = res.view
	res.memories, f.Agent = se.memories.View(s, head), s.Agent
	if len(f.Kinds) == 0 {
		f.Kinds = []string{"turn", "memory", "note", "session"} // an external event is of no session
	}
	f.In, cut, err = se.places(s, head, req.BranchOnly)
	return cut, err
}

// wait waits for the index: as long as the request lasts for a position that it names,
// else for a moment. What is missing then is in the reply's behind.
func (se *Search) wait(ctx context.Context, r api.Read) error {
	if r.MinPosition != "" {
		seq, err := page.ParsePosition(string(r.MinPosition))
		if err != nil {
			return err
		}
		return se.index.WaitFor(ctx, seq)
	}
	n := se.Behind()
	if r.StaleOK || n == 0 {
		return nil
	}
	if n > muchEvent {
		se.index.Hurry() // it would rest, and lack more each minute
		return nil
	}
	most := patience
	if n > littleEvent {
		most = moment
	}
	soon, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	_ = se.index.WaitFor(soon, se.reader.Projections.Applied().Seq) // the reply says what is missing
	return nil
}
