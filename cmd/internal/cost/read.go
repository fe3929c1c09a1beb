package cost

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Scope says which calls are read. The zero value is all of them.
type Scope struct {
	Sessions []turns.ID // with those that they spawned; none: all sessions
	Turn     turns.ID   // only this one
	// Since and Until are the bounds of the calls that are added up, as in [Options]: what is
	// found outside them is not counted, and sessions that nothing was stored in since then
	// are not read.
	Since, Until time.Time
	Now          time.Time // what is older than a call takes has ended; zero: now
	// Keep says which of the sessions are read; nil: all. Those that are named are read in any case.
	Keep func(*api.Session) bool
	// Hidden reads hidden sessions too.
	Hidden bool
	// Superseded reads the sessions too whose transcripts were read anew. Those that are
	// named are read in any case.
	Superseded bool
}

// includes reports whether a time is within the bounds.
func (s *Scope) includes(at time.Time) bool {
	return !at.Before(s.Since) && (s.Until.IsZero() || at.Before(s.Until))
}

// overlaps reports whether calls of a session may be within the bounds.
func (s *Scope) overlaps(x *api.Session) bool {
	last := x.Updated
	if x.HeadTime != nil {
		last = *x.HeadTime
	}
	return !time.Time(last).Before(s.Since) && (s.Until.IsZero() || x.ID.Time().Before(s.Until))
}

// withoutFlush is the default policy, which asks no agent for a flush.
const withoutFlush = "balanced"

// isPast reports whether every call of a session is known to be before the bounds, without reading
// its turns: all of them are on the path of its head, whose time is stated. An import of old
// transcripts has thousands of such sessions, all stored today. A compaction, or a flush of memories,
// is a call of the day on which it was made: so a session with either is read.
func (s *Scope) isPast(x *api.Session) bool {
	return !s.Since.IsZero() && isLine(x) && x.Policy.Name == withoutFlush && len(x.Policy.Set) == 0 &&
		x.HeadTime != nil && x.HeadTimeBound != turns.TimeNotBefore && time.Time(*x.HeadTime).Before(s.Since)
}

// Found says what a reading met besides calls, within the bounds of the scope.
type Found struct {
	Sessions  map[turns.ID]*api.Session // those whose calls are read
	Unread    uint64                    // turns and sessions whose content can't be read
	Branches  uint64                    // branches that no tree lists
	Foreign   uint64                    // compactions that other programs made; no source has their calls
	Inherited uint64                    // sessions that begin with turns of another, where those are counted; with bounds, those with calls in them
	// Superseded counts sessions that are left out, since their transcripts were read anew.
	Superseded uint64
	Hidden     uint64 // sessions that are left out, since they were hidden
	Channels   uint64 // records of extractions that can't be read, by agent
}

// Read reads the calls of a ledger, each once: a session's own turns, on every branch,
// and not those that it inherits. found is complete when the calls are read.
func Read(ctx context.Context, c *client.Client, scope Scope) (found *Found, calls iter.Seq2[Call, error]) {
	if scope.Now.IsZero() {
		scope.Now = time.Now()
	}
	r := newReading(c, scope)
	return r.found, func(yield func(Call, error) bool) {
		if err := r.read(ctx, func(c Call) bool { return yield(c, nil) }); err != nil && !errors.Is(err, errStopped) {
			yield(Call{}, err)
		}
	}
}

func newReading(c *client.Client, scope Scope) *reading {
	return &reading{c: c, scope: scope, picked: make(map[turns.ID]*api.Session), origins: make(map[turns.ID]*api.Session), found: &Found{Sessions: make(map[turns.ID]*api.Session)}, trees: make(map[turns.ID]*api.TreeSession), ahead: make(map[turns.ID]<-chan listed),
		wanted: make(map[turns.ID]bool), contexts: make(map[turns.ID]turns.WorkContext), counted: make(map[turns.Ref]bool),
		before: make(map[turns.ID]turns.ID), stated: make(map[stated]turns.ID)}
}

// OfSession is what the own turns of one session used and cost, without those that it spawned
// and the extractions of its memories. Unlike [Read] it reads nothing of other sessions, so a turn
// that is in two of them counts in each. It is a lower bound where turns can't be read.
func OfSession(ctx context.Context, c *client.Client, s *api.Session, models tokens.Models) (Amount, error) {
	sum := NewSum(Options{Models: models})
	found, calls := ReadOne(ctx, c, s)
	for call, err := range calls {
		if err != nil {
			return sum.Total(), err
		}
		sum.Add(call)
	}
	a := sum.Total()
	a.WithoutUsage += found.Unread
	return a, nil
}

// ReadOne reads the calls that [OfSession] adds up. found is complete when the calls are read.
func ReadOne(ctx context.Context, c *client.Client, s *api.Session) (found *Found, calls iter.Seq2[Call, error]) {
	r := newReading(c, Scope{Sessions: []turns.ID{s.ID}, Now: time.Now()})
	r.found.Sessions[s.ID] = s
	return r.found, func(yield func(Call, error) bool) {
		if err := r.session(ctx, s, func(c Call) bool { return yield(c, nil) }); err != nil && !errors.Is(err, errStopped) {
			yield(Call{}, err)
		}
	}
}

// OfTurn is what the calls of one turn used and cost.
func OfTurn(s *api.Session, t *api.Turn, models tokens.Models) Amount {
	u, sum := *t, NewSum(Options{Models: models})
	withLateUsage(&u, turns.LateUsages(s.Meta))
	if c, ok := callOf(s, &u, turns.WorkContextOf(u.Meta).Or(turns.WorkContextOf(s.Meta))); ok {
		further := furtherCalls(&c, u.Meta)
		sum.Add(c)
		for _, f := range further {
			sum.Add(f)
		}
	}
	return sum.Total()
}

// errStopped says that the caller wants no more calls.
var errStopped = errors.New("stopped")

// reading is one pass over sessions.
type reading struct {
	c        *client.Client
	scope    Scope
	found    *Found
	trees    map[turns.ID]*api.TreeSession
	picked   map[turns.ID]*api.Session      // those in scope, also where nothing was stored since
	origins  map[turns.ID]*api.Session      // all sessions that others may be forked from
	wanted   map[turns.ID]bool              // turns that a branch or a fork begins at
	contexts map[turns.ID]turns.WorkContext // at those turns
	counted  map[turns.Ref]bool             // turns that were read, with their parents: two files may have one, in sessions of their own; nil: one session is read
	before   map[turns.ID]turns.ID          // by session: the one that it continues, since its file lost turns
	ahead    map[turns.ID]<-chan listed     // by session: those that are read ahead
	stated   map[stated]turns.ID            // calls of those, and the session that each was counted in
	passed   func(*api.Turn)                // is called behind each turn; nil: nothing is
}

// stated is what a source states of a call, of sessions that continue each other: those may
// have the same turn, under ids of their own.
type stated struct {
	first turns.ID // of the sessions
	time  int64    // ns since 1970
	model string
	usage turns.Usage
}

// noteContinued notes what a session continues.
func (r *reading) noteContinued(s *api.Session) {
	var m struct {
		By turns.Raw `json:"continued_by"`
	}
	_ = json.Unmarshal(s.Meta, &m) // a client's meta may be anything
	text, _ := m.By.Text()
	if next, err := turns.ParseID(text); err == nil {
		r.before[next] = s.ID
	}
}

// isStated reports whether a session that s continues, or that continues s, has a turn of s
// too, and it was counted there. A response with an id is told by that: see [Sum].
func (r *reading) isStated(s *api.Session, t *api.Turn) bool {
	if t.Time == nil || t.Usage == nil || turns.TimeBoundOf(t.Meta) != "" || messageID(t.Meta) != "" {
		return false
	}
	k := stated{first: s.ID, time: time.Time(*t.Time).UnixNano(), model: t.Model, usage: *t.Usage}
	for n := 0; n < len(r.before); n++ {
		up, ok := r.before[k.first]
		if !ok {
			break
		}
		k.first = up
	}
	in, ok := r.stated[k]
	if !ok {
		r.stated[k] = s.ID
	}
	return ok && in != s.ID
}

func (r *reading) read(ctx context.Context, yield func(Call) bool) error {
	sessions, err := r.sessions(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for i := range sessions {
		s := &sessions[i]
		r.readAhead(ctx, sessions[i:])
		r.found.Sessions[s.ID] = s
		if s.Error != "" {
			r.found.Unread++
			continue
		}
		if err := r.session(ctx, s, yield); err != nil {
			return err
		}
	}
	if !r.scope.Turn.IsZero() {
		return nil
	}
	return r.extractions(ctx, yield)
}

// sessions returns the sessions to read, oldest first.
func (r *reading) sessions(ctx context.Context) (out []api.Session, err error) {
	picked := make(map[turns.ID]bool)
	for _, id := range r.scope.Sessions {
		picked[id] = true
	}
	var all []api.Session
	by := make(map[turns.ID]turns.ID) // the session that supersedes one
	for s, err := range r.c.ListSessions(ctx, api.ListSessions{About: api.About{About: true}, Superseded: true, Hidden: true}) {
		if err != nil {
			return nil, err
		}
		all = append(all, s)
		r.noteContinued(&s)
		if by[s.ID] = s.SupersededBy; s.ForkedFrom != nil {
			r.wanted[s.ForkedFrom.Turn] = true
		}
	}
	for i := range all {
		r.origins[all[i].ID] = &all[i]
	}
	named := maps.Clone(picked)
	for grew := len(picked) > 0; grew; { // a session may be older than the one that spawned it
		grew = false
		for i := range all {
			sp := all[i].SpawnedBy
			if sp == nil || picked[all[i].ID] {
				continue
			}
			for up, n := sp.Session, 0; !up.IsZero() && n < len(all); up, n = by[up], n+1 {
				if picked[up] {
					picked[all[i].ID], grew = true, true
					break
				}
			}
		}
	}
	for i := range all {
		if len(picked) > 0 && !picked[all[i].ID] {
			continue
		}
		if !all[i].SupersededBy.IsZero() && !named[all[i].ID] && !r.scope.Superseded {
			if r.scope.overlaps(&all[i]) {
				r.found.Superseded++
			}
			continue
		}
		if !named[all[i].ID] && (r.scope.Keep != nil && !r.scope.Keep(&all[i])) {
			continue
		}
		if all[i].Hidden && !named[all[i].ID] && !r.scope.Hidden {
			if r.scope.overlaps(&all[i]) {
				r.found.Hidden++
			}
			continue
		}
		if r.picked[all[i].ID] = &all[i]; time.Time(all[i].Updated).Before(r.scope.Since) || r.scope.isPast(&all[i]) {
			continue
		}
		out = append(out, all[i])
	}
	return out, nil
}

func (r *reading) session(ctx context.Context, s *api.Session, yield func(Call) bool) error {
	t, err := r.tree(ctx, s)
	if isErased(err) {
		r.found.Unread++
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case s.ForkedFrom == nil:
	case r.scope.Since.IsZero() && r.scope.Until.IsZero():
		r.found.Inherited++
	default:
		all, found := yield, false
		yield = func(c Call) bool {
			if !found && !c.Added && r.scope.includes(c.Time) {
				found = true
				r.found.Inherited++
			}
			return all(c)
		}
	}
	r.found.Branches += t.BranchCount - min(t.BranchCount, uint64(len(t.Branches)))
	for i := range t.Branches {
		if p := t.Branches[i].Parent; p != nil {
			r.wanted[*p] = true
		}
	}
	own, before := newOwnCalls(s), *r.found
	for i := range t.Branches {
		at := new(place)
		if err := r.branch(ctx, s, &t.Branches[i], at, own, yield); isErased(err) {
			r.found.Unread++
		} else if err != nil {
			return err
		}
		for _, call := range r.unanswered(at) {
			if !yield(call) {
				return errStopped
			}
		}
	}
	if n := turns.UncountedCalls(s.Meta); n > 0 && r.scope.Turn.IsZero() && !yield(uncounted(s, n)) {
		return errStopped
	}
	isWhole := !own.isPartial && r.found.Unread == before.Unread && t.BranchCount <= uint64(len(t.Branches)) && r.scope.Turn.IsZero()
	if call, ok := own.flushes(s); ok && isWhole && !yield(call) {
		return errStopped
	}
	return nil
}

// withLateUsage gives a turn the usage that an import found after it had stored the turn.
func withLateUsage(t *api.Turn, late map[turns.ID]turns.LateUsage) {
	u, ok := late[t.ID]
	if !ok || t.Usage != nil || t.Compaction != nil {
		return
	}
	t.Usage = &u.Usage
	if t.Model == "" {
		t.Model = u.Model
	}
	if !u.Time.IsZero() {
		t.Time, t.Meta = (*api.Time)(&u.Time), nil
	}
}

// uncounted returns the calls of a session that no turn has.
func uncounted(s *api.Session, n uint64) Call {
	w := turns.WorkContextOf(s.Meta)
	c := Call{Kind: Answer, Session: s.ID, Time: s.ID.Time(), Bound: turns.TimeNotBefore, Agent: s.Agent, Source: w.Source, Project: cmp.Or(s.Project, w.Cwd), Folder: w.Cwd, Branch: w.Branch, Model: s.Model, Uncounted: n}
	if s.HeadTime != nil {
		c.Time, c.Bound = time.Time(*s.HeadTime), s.HeadTimeBound
	}
	return c
}

const (
	// maxShort is how many turns a session may have that is read ahead: all of them are kept until it is its turn.
	maxShort = 32
	// maxAhead is how many sessions are read ahead. One after the other they would wait behind all else
	// that the daemon does, each once.
	maxAhead = 8
)

// listed is the turns of a session, all of them.
type listed struct {
	turns []api.Turn
	err   error
}

// readAhead begins to read the short ones of the next sessions.
func (r *reading) readAhead(ctx context.Context, next []api.Session) {
	for i := range next[:min(len(next), maxAhead)] {
		s := &next[i]
		if r.ahead[s.ID] != nil || s.Error != "" || s.Head == nil || s.Turns > maxShort || !isLine(s) {
			continue
		}
		ch := make(chan listed, 1)
		r.ahead[s.ID] = ch
		go func() {
			var l listed
			for t, err := range r.c.Turns(ctx, s.ID, api.ListTurns{At: *s.Head}) {
				if err != nil {
					l.err = err
					break
				}
				l.turns = append(l.turns, t)
			}
			ch <- l
		}()
	}
}

// turns yields the turns of a branch, its first one first.
func (r *reading) turns(ctx context.Context, s *api.Session, list api.ListTurns) iter.Seq2[api.Turn, error] {
	ch := r.ahead[s.ID]
	if ch == nil {
		return r.c.Turns(ctx, s.ID, list)
	}
	return func(yield func(api.Turn, error) bool) {
		l := <-ch
		delete(r.ahead, s.ID)
		for _, t := range l.turns {
			if !yield(t, nil) {
				return
			}
		}
		if l.err != nil {
			yield(api.Turn{}, l.err)
		}
	}
}

// line returns what the tree has of a session whose turns are all on the path of its head.
func line(s *api.Session) *api.TreeSession {
	t := &api.TreeSession{ID: s.ID}
	if s.Head != nil {
		t.Branches, t.BranchCount = []api.Branch{{Tip: *s.Head}}, 1
	}
	return t
}

// isLine reports whether a session was never rewound, forks none and has no compaction.
func isLine(s *api.Session) bool {
	return s.ForkedFrom == nil && s.Compactions == 0 && s.Depth == s.Turns && (s.Head != nil || s.Turns == 0)
}

// tree returns what the tree of a session has of it. Most sessions are a line, and take no request.
func (r *reading) tree(ctx context.Context, s *api.Session) (*api.TreeSession, error) {
	if isLine(s) {
		return line(s), nil
	}
	if r.trees[s.ID] == nil {
		tree, err := r.c.Tree(ctx, s.ID)
		if err != nil {
			return nil, err
		}
		for i := range tree.Sessions {
			r.trees[tree.Sessions[i].ID] = &tree.Sessions[i]
		}
	}
	if t := r.trees[s.ID]; t != nil {
		return t, nil
	}
	return nil, api.Errorf(api.NotFound, nil, "the tree of session %s does not have it", s.ID)
}

// place is how far the turns of a branch were read. The zero value is its beginning.
type place struct {
	after turns.ID          // the last turn that was read; zero: none
	where turns.WorkContext // there
	// pending is that turn, if it is the tip and has no response: nobody knows yet whether it gets one.
	pending *api.Turn
	call    Call // of pending
}

// branch reads the turns of a branch behind a place, the first one first, and moves the place on.
func (r *reading) branch(ctx context.Context, s *api.Session, b *api.Branch, at *place, own *ownCalls, yield func(Call) bool) error {
	list, late := api.ListTurns{At: b.Tip}, turns.LateUsages(s.Meta)
	where := at.where
	switch {
	case at.after == b.Tip && !b.Tip.IsZero():
		return nil
	case !at.after.IsZero():
		list.After = at.after.String()
	default:
		where = turns.WorkContextOf(s.Meta)
		if b.Parent != nil {
			list.After = b.Parent.String()
			if s.ForkedFrom != nil && *b.Parent == s.ForkedFrom.Turn {
				where = where.Or(r.contexts[*b.Parent]).Or(r.originContext(s))
			} else {
				where = r.contexts[*b.Parent].Or(where)
			}
		}
	}
	for t, err := range r.turns(ctx, s, list) {
		if err != nil {
			return err
		}
		where = turns.WorkContextOf(t.Meta).Or(where)
		if r.wanted[t.ID] {
			r.contexts[t.ID] = where
		}
		at.pending = nil
		if err := r.turn(s, b, &t, where, late, at, own, yield); err != nil {
			return err
		}
		at.after, at.where = t.ID, where
		if r.passed != nil {
			r.passed(&t)
		}
	}
	return nil
}

// turn adds a turn of a branch, which was said in where, to own, and yields its calls.
func (r *reading) turn(s *api.Session, b *api.Branch, t *api.Turn, where turns.WorkContext, late map[turns.ID]turns.LateUsage, at *place, own *ownCalls, yield func(Call) bool) error {
	once := turns.Ref{Turn: t.ID}
	if t.Parent != nil {
		once.Session = *t.Parent
	}
	switch {
	case t.Session != s.ID || t.Depth < b.From || !r.scope.Turn.IsZero() && t.ID != r.scope.Turn:
		return nil
	case r.counted[once], t.Error == "" && len(r.before) > 0 && r.isStated(s, t):
		own.add(t, where)
		return nil
	case t.Error != "" && t.Usage == nil:
		own.isPartial = true
		if r.scope.includes(timeOf(t)) {
			r.found.Unread++
		}
		return nil
	}
	if r.counted != nil {
		r.counted[once] = true
	}
	withLateUsage(t, late)
	own.add(t, where)
	call, ok := callOf(s, t, where)
	if t.ID == b.Tip && t.Pending {
		at.pending, at.call = t, call
		return nil
	}
	if !ok && asksModel(t.Compaction) && r.scope.includes(timeOf(t)) {
		r.found.Foreign++
	}
	if !ok {
		return nil
	}
	if !yield(call) {
		return errStopped
	}
	for _, further := range furtherCalls(&call, t.Meta) {
		if !yield(further) {
			return errStopped
		}
	}
	return nil
}

// unanswered returns the calls of the tip of a branch that was read, where that is a request of /v1 that gets no answer any
// more. A branch that begins there has it.
func (r *reading) unanswered(at *place) []Call {
	if at.pending == nil || r.wanted[at.pending.ID] || !isUnanswered(at.pending, r.scope.Now) {
		return nil
	}
	call := at.call
	call.Unanswered, call.Missing = true, call.Missing+1
	return append([]Call{call}, furtherCalls(&call, at.pending.Meta)...)
}

// originContext returns what the sessions state that a fork was made from: they may be out
// of scope.
func (r *reading) originContext(s *api.Session) (w turns.WorkContext) {
	for n := 0; s != nil && s.ForkedFrom != nil && n < len(r.origins); n++ {
		if s = r.origins[s.ForkedFrom.Session]; s != nil {
			w = w.Or(turns.WorkContextOf(s.Meta))
		}
	}
	return w
}

// timeOf returns when a turn was said, else when it was stored.
func timeOf(t *api.Turn) time.Time {
	if t.Time != nil {
		return time.Time(*t.Time)
	}
	return time.Time(t.Recorded)
}

// asksModel reports whether another program made a compaction by a call of a model: one that clears results alone has no summary.
func asksModel(k *api.Compaction) bool {
	return k != nil && k.Provenance == turns.Imported.String() && (k.Covered > 0 || max(k.Elided, uint64(len(k.Elisions))) == 0)
}
