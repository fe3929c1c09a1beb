package search

import (
	"context"
	"errors"

	"nexus/cmd/internal/engine/memories"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/projections/search"
	"nexus/turns"
	"nexus/turns/secrets"
)

// resolver makes hits of what the index found, for one request.
type resolver struct {
	se       *Search
	caller   reader.Caller
	query    search.Query
	loose    search.Query // for hits that have some of the words
	filter   search.Filter
	covered  bool   // only what the model does not see, or not whole
	onPath   bool   // turns of the session's path only
	secrets  bool   // are shown
	hidden   bool   // turns of hidden sessions too
	project  string // turns of its sessions only
	view     *view  // of the session that was named; nil: that of each turn
	memories *memories.View
	views    map[turns.ID]*view // by session
	looked   int                // bytes of text in which words were looked for
	base     float64            // of the hit that is made, without them
	extras   []float64          // what words in a row and whole identifiers are worth; nil: nothing
}

// hit returns what the index found as the ledger has it now. ok is false for what is not
// there, is not the caller's, or can't be read.
func (r *resolver) hit(ctx context.Context, found search.Hit, some bool) (h api.SearchHit, ok bool, err error) {
	seq, item, err := search.ParseDocumentID(found.ID)
	if err != nil {
		return h, false, nil
	}
	ev, subject, err := r.se.eventAt(seq)
	if err != nil {
		return h, false, skip(err)
	}
	at := timeOf(ev)
	if f := &r.filter; f.From != 0 && at < f.From || f.To != 0 && at >= f.To || f.Through != 0 && seq > f.Through {
		return h, false, nil
	}
	if r.covered && (!ev.Kind.IsTurn() || item > 0) {
		return h, false, nil // memories and events are not covered
	}
	r.base = found.Base
	h = api.SearchHit{Score: found.Score, Some: some, Time: api.UnixTime(at), Position: page.FormatPosition(seq)}
	tenant, chain, err := ledger.ParseSubject(subject)
	if err != nil || tenant != r.caller.Tenant {
		return h, false, nil
	}
	switch {
	case ev.Kind.IsTurn() && item == 0:
		ok, err = r.turn(ctx, &h, ev, seq, found.Beside)
	case ev.Kind == turns.KindCompaction:
		s, serr := r.se.reader.Projections.Session(ev.Ref().Session)
		if serr != nil {
			return h, false, skip(serr)
		}
		ok, err = r.memory(&h, s.Agent, turns.LearnedID(ev.Ref(), int(item-1)))
	case ev.Kind == turns.KindMemory:
		ok, err = r.memory(&h, chain.ID, ev.ID)
	case ev.Kind == turns.KindDescribed, ev.Kind == turns.KindNoted:
		ok, err = r.remark(&h, ev)
	case ev.Kind == turns.KindReceived:
		ok, err = r.received(ctx, &h, ev, chain, seq)
	}
	if r.covered && h.State != compacted && h.State != elided {
		ok = false
	}
	return h, ok, skip(err)
}

// skip returns nil for an error that leaves one hit out, and not the others.
func skip(err error) error {
	if errors.Is(err, ledger.ErrUnavailable) {
		return err
	}
	return nil
}

// mine reports whether the caller may see what is an agent's.
func (r *resolver) mine(agent string) bool { return r.caller.Operator() || agent == r.caller.Agent }

// turn fills in a hit that is a turn. With beside it needs no word of the query.
func (r *resolver) turn(ctx context.Context, h *api.SearchHit, ev *turns.Event, seq uint64, beside bool) (bool, error) {
	row, err := r.se.reader.Projections.Turn(ev.Ref())
	if err != nil || row.Seq != seq {
		return false, err
	}
	own, err := r.viewOf(row.Ref.Session)
	if err != nil || own.session.Tenant != r.caller.Tenant || !r.mine(own.session.Agent) {
		return false, err
	}
	v := r.view
	if v == nil {
		v = own
	}
	if r.covered { // before the texts are read: most turns are not
		if can, err := r.se.canBeCovered(v, row.Node); err != nil || !can {
			return false, err
		}
	}
	if r.view == nil && (own.session.Hidden && !r.hidden || r.isSuperseded(own.session)) || !r.inProject(own) {
		return false, nil
	}
	texts, err := r.se.textsOf(ctx, own.session, ev, false)
	if err != nil {
		return false, err
	}
	h.TimeBound = turns.TimeBoundOf(texts.meta)
	p, ok := r.best(h, texts.parts, beside)
	if !ok {
		return false, nil
	}
	state, onPath, err := r.se.state(v, row.Node, &p)
	if err != nil || !onPath && (r.onPath || v.session.ID != row.Ref.Session) {
		return false, err
	}
	h.Kind, h.Agent, h.State = "turn", own.session.Agent, state
	h.Session, h.Turn, h.Depth, h.Type, h.Role, h.Tool = row.Ref.Session, row.Ref.Turn, row.Depth, "normal", string(p.role), p.tool
	if ev.Kind == turns.KindCompaction {
		h.Type = "compaction"
	}
	if p.half != 0 {
		h.Half = p.half.String()
	}
	return true, nil
}

// remark fills in a hit that is what a person says of a session, or noted on a turn. What was said
// before that is no hit.
func (r *resolver) remark(h *api.SearchHit, ev *turns.Event) (bool, error) {
	s, texts, err := r.se.remarkTexts(ev)
	if err != nil || s.Tenant != r.caller.Tenant || !r.mine(s.Agent) || s.Hidden && !r.hidden && r.view == nil || r.filter.Role != "" {
		return false, err
	}
	if v, err := r.viewOf(s.ID); err != nil || !r.inProject(v) || r.view == nil && r.isSuperseded(v.session) {
		return false, err
	}
	newest := s.Described
	if ev.Kind == turns.KindNoted {
		if newest, err = r.se.reader.Projections.NoteOn(s.ID, ev.To); err != nil {
			return false, err
		}
	}
	if newest != ev.Index {
		return false, nil
	}
	if _, ok := r.best(h, texts, false); !ok {
		return false, nil
	}
	h.Kind, h.Agent, h.State, h.Session = "session", s.Agent, live, s.ID
	if ev.Kind == turns.KindNoted {
		h.Kind, h.Turn = "note", ev.To.Turn
		n, err := r.se.reader.Projections.Node(ev.To)
		if err != nil {
			return false, err
		}
		h.Depth = n.Depth
	}
	return true, nil
}

// inProject reports whether a session is of the project that was asked for.
func (r *resolver) inProject(v *view) bool {
	if r.project == "" {
		return true
	}
	if v.inProject == nil {
		in := false
		_, _, set, err := r.se.reader.StoredSettings(v.session)
		if err == nil {
			var said turns.DescribedBody
			if said, err = r.se.reader.Description(v.session); err == nil {
				p, name := r.se.reader.ProjectOf(v.session, &set, said.Project)
				in = p.Has(name, r.project)
			}
		}
		v.inProject = &in
	}
	return *v.inProject
}

// isSuperseded reports whether an import made another session in place of s, which has its
// turns as they are read now.
func (r *resolver) isSuperseded(s *ledger.Session) bool {
	_, _, set, err := r.se.reader.StoredSettings(s)
	return err == nil && !r.se.reader.SupersededBy(s, &set).IsZero()
}

// viewOf returns the view of a session.
func (r *resolver) viewOf(id turns.ID) (*view, error) {
	if v := r.views[id]; v != nil {
		return v, nil
	}
	s, err := r.se.reader.Projections.Session(id)
	if err != nil {
		return nil, err
	}
	v, err := r.se.viewOf(&s)
	if err == nil {
		r.views[id] = v
	}
	return v, err
}

// memory fills in a hit that is a memory.
func (r *resolver) memory(h *api.SearchHit, agent string, id turns.ID) (bool, error) {
	if !r.mine(agent) {
		return false, nil
	}
	m, text, ok, err := r.memories.Get(r.caller.Tenant, agent, id, r.hidden)
	if err != nil || !ok {
		return false, err
	}
	if _, ok := r.best(h, []part{{text: text}}, false); !ok {
		return false, nil
	}
	st := m.Now()
	if h.State = archived; st.InForce() {
		h.State = live
	}
	h.Kind, h.Agent, h.Memory = "memory", agent, id
	return true, nil
}

// received fills in a hit that is an external event.
func (r *resolver) received(ctx context.Context, h *api.SearchHit, ev *turns.Event, chain turns.Chain, seq uint64) (bool, error) {
	row, err := r.se.reader.Projections.Channel(r.caller.Tenant, chain.ID)
	if err != nil || row.Agent == "" || !r.mine(row.Agent) {
		return false, err
	}
	parts, body, err := r.se.receivedParts(ctx, r.caller.Tenant, row.Agent, seq, false)
	if err != nil {
		return false, err
	}
	if _, ok := r.best(h, parts, false); !ok {
		return false, nil
	}
	h.Kind, h.Agent, h.State, h.Channel, h.Event = "event", row.Agent, live, body.Channel, ev.ID
	return true, nil
}

// best fills in the snippet of the part that has the most of the query, and returns it. ok
// is false if the texts do not match: the index takes a few words in a row for a phrase that
// they are not, and knows the roles of a turn, not those of its words. With beside no word
// has to match.
func (r *resolver) best(h *api.SearchHit, parts []part, beside bool) (p part, ok bool) {
	q := r.query
	if h.Some {
		q = r.loose
	}
	var spans []search.Span
	most, all := -1, q.Matches()
	for _, x := range parts {
		if r.filter.Role != "" && string(x.role) != r.filter.Role {
			continue
		}
		r.looked += len(x.text)
		at := q.Find(x.text, all)
		if x.name != "" {
			q.Find(x.name, all)
		}
		if n := at.Units; n > most {
			p, spans, most = x, at.Spans, n
		}
	}
	if n := all.Count(); n < q.Len() && !h.Some || n == 0 && (!beside || p.text == "") {
		return p, false
	}
	if !h.Some && !beside && r.extras != nil {
		h.Score = r.base + all.Extra(r.extras) // the index knows it only about
	}
	var mask func(from, to int) string
	if !r.secrets {
		mask = func(from, to int) string { return secrets.MaskPart(p.text, from, to) }
	}
	s := search.Snip(p.text, spans, mask)
	h.Snippet, h.Matches = s.Text, s.Matches
	if h.Matches == nil {
		h.Matches = [][2]int{}
	}
	return p, true
}

// places returns where the turns of a session's search are: on the path of its head and,
// unless onPath is set, on its other branches. cut is set if the path has more segments
// than a query may name; then the oldest are left out.
func (se *Search) places(s *ledger.Session, head lineage.Node, onPath bool) (in []search.Place, cut bool, err error) {
	if !onPath {
		in = append(in, search.Place{Session: s.ID.String()})
	}
	if !head.Ref.IsZero() {
		ranges, err := lineage.Segments(se.reader.Projections, head, 1)
		if err != nil {
			return nil, false, err
		}
		if n := len(ranges) - maxSegments; n > 0 {
			ranges, cut = ranges[n:], true
		}
		for _, r := range ranges {
			in = append(in, search.Place{Segment: segmentName(r.Session, r.Segment), Lo: r.Lo, Hi: r.Hi})
		}
	}
	if len(in) == 0 { // no turn is on its path
		in = []search.Place{{Session: "none"}}
	}
	return in, cut, nil
}
