package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nexus/compactor"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// inForce is a session's label and settings at its tail.
func (e *Engine) inForce(ctx context.Context, s *ledger.Session) (label string, set turns.Settings, err error) {
	if _, label, set, err = e.settings(s); err == nil {
		err = e.fetchApart(ctx, s.Tenant, s.Root, &set)
	}
	return label, set, err
}

// settings is the event that the settings in force stand in, and what it says.
// A large preamble is still in its blob.
func (e *Engine) settings(s *ledger.Session) (ev *turns.Event, label string, set turns.Settings, err error) {
	payload, err := e.Store.EventAt(s.ID, s.Settings)
	if err != nil {
		return nil, "", set, err
	}
	return e.settingsIn(payload)
}

// settingsAt is the settings that were in force when the session's chain had the
// event at index, and the event that they stand in.
func (e *Engine) settingsAt(ctx context.Context, s *ledger.Session, index uint64) (event turns.ID, set turns.Settings, err error) {
	var ev *turns.Event
	if s.Settings <= index {
		ev, _, set, err = e.settings(s)
	} else {
		var payload []byte
		if payload, err = e.Store.SettingsAt(s.ID, index); err == nil {
			ev, _, set, err = e.settingsIn(payload)
		}
	}
	if err != nil {
		return event, set, err
	}
	return ev.ID, set, e.fetchApart(ctx, s.Tenant, s.Root, &set)
}

func (e *Engine) settingsIn(payload []byte) (ev *turns.Event, label string, set turns.Settings, err error) {
	if ev, err = turns.Decode(payload); err != nil {
		return nil, "", set, err
	}
	if ev.Kind == turns.KindOpened {
		var b turns.OpenedBody
		err = e.open(ev, &b)
		return ev, b.Label, b.Settings, err
	}
	var b turns.ChangedBody
	err = e.open(ev, &b)
	return ev, b.Label, b.Settings, err
}

// overhead is the tokens of system and tools: what stands before the messages
// of every call, and what no compaction can shrink.
func overhead(c tokens.Counter, p turns.Preamble) (n uint64) {
	for _, s := range p.System {
		n += 4 + c.Text(s.Name) + c.Text(s.Content)
	}
	for _, t := range p.Tools {
		n += 8 + c.Text(string(t))
	}
	return n
}

// preambleParts is overhead, by the sections of the system part in their order
// and the tools together.
func preambleParts(c tokens.Counter, p turns.Preamble) (out []api.PreamblePart) {
	for _, s := range p.System {
		out = append(out, api.PreamblePart{Type: "system", Name: s.Name, Tokens: overhead(c, turns.Preamble{System: []turns.Section{s}})})
	}
	if n := overhead(c, turns.Preamble{Tools: p.Tools}); n > 0 {
		out = append(out, api.PreamblePart{Type: "tools", Tokens: n})
	}
	return out
}

// gauge is how full the context at a node is.
func (e *Engine) gauge(s *ledger.Session, set *turns.Settings, head lineage.Node) (api.Gauge, policy.Policy, error) {
	pol, err := policy.Resolve(set.Policy)
	if err != nil {
		return api.Gauge{}, pol, err
	}
	n, err := e.contextTokens(s, head)
	if err != nil {
		return api.Gauge{}, pol, err
	}
	g := api.Gauge{Tokens: scaled(n, pol), Budget: pol.Budget(e.limits(set)), Estimated: true}
	if g.Budget > 0 {
		g.Pressure = float64(saturated(g.Tokens, e.overhead(pol.CounterOf(), set))) / float64(g.Budget)
	}
	return g, pol, nil
}

// limits are the session's, and where it states no window those of its model.
func (e *Engine) limits(set *turns.Settings) turns.Limits {
	l := set.Limits
	if l.ContextWindow > 0 || set.Model == "" {
		return l
	}
	if m, ok := e.Models.Find(set.Model); ok {
		l.ContextWindow = m.ContextWindow
		if l.MaxOutputTokens == 0 {
			l.MaxOutputTokens = m.OutputReserve
		}
	}
	return l
}

// prices are what calls of a session cost, and summaries of it, as far as the
// models are known.
func (e *Engine) prices(set *turns.Settings, pol policy.Policy) (p view.Prices) {
	if m, ok := e.Models.Find(set.Model); ok && set.Model != "" {
		p.Model = m.Price
	}
	for _, t := range compactor.ForModel(e.Tiers, pol.SummaryModels(set.Model)...) {
		if m, ok := e.Models.Find(t.Model); ok && t.Model != "" {
			p.Summarizer = m.Price
			break
		}
	}
	return p
}

// scaled is a sum of the ledger's own counts as the policy would about count it.
func scaled(n uint64, pol policy.Policy) uint64 {
	if f := tokens.Scale(pol.Counter); f != 1 {
		return uint64(float64(n) * f)
	}
	return n
}

// load is what is known of the context at a node without reading it.
func (e *Engine) load(s *ledger.Session, g api.Gauge, head lineage.Node) (view.Load, error) {
	l := view.Load{Tokens: g.Tokens, Turns: head.Depth}
	in, err := e.inForceAt(s, head)
	if err != nil || head.Ref.IsZero() {
		return l, err
	}
	if !in.IsZero() {
		c, err := e.Store.Nodes(in)
		if err != nil {
			return l, err
		}
		l.Turns = head.Depth - c[0].Depth
	}
	return l, nil
}

// idle is how long ago the turn of a node was recorded.
func (e *Engine) idle(n lineage.Node) time.Duration {
	t, err := e.Store.Turn(n.Ref)
	if err != nil {
		return 0
	}
	return max(0, e.Now().Sub(time.Unix(0, t.Recorded)))
}

// contextTokens is the tokens of the messages at a node: the replacement in
// force and what is kept behind it. It reads O(log n) nodes.
func (e *Engine) contextTokens(s *ledger.Session, head lineage.Node) (uint64, error) {
	if head.Ref.IsZero() {
		return 0, nil
	}
	in, err := e.inForceAt(s, head)
	if err != nil || in.IsZero() {
		return head.Sum, err
	}
	c, err := e.Store.Nodes(in)
	if err != nil {
		return 0, err
	}
	kept, err := lineage.TokensFrom(e.Store, head, c[0].Cut)
	if c[0].Saved > kept { // a projection can't know better than to show none
		return c[0].Replaced, err
	}
	return saturated(kept-c[0].Saved, c[0].Replaced), err
}

// inForceAt is the compaction that counts for session s when its head is at
// node n.
func (e *Engine) inForceAt(s *ledger.Session, n lineage.Node) (turns.Ref, error) {
	ignores, err := s.Ignores(n.Ref.Session, e.Store.Session)
	if err != nil || ignores {
		return turns.Ref{}, err
	}
	return n.Compaction, nil
}

// headNode is the node of the session's head; the zero Node before the first.
func (e *Engine) headNode(s *ledger.Session) (lineage.Node, error) {
	if s.Head.IsZero() {
		return lineage.Node{}, nil
	}
	ns, err := e.Store.Nodes(s.Head)
	if err != nil {
		return lineage.Node{}, err
	}
	return ns[0], nil
}

// session is s as the contract shows it.
func (e *Engine) session(ctx context.Context, s *ledger.Session) (*api.Session, error) {
	out := outline(s)
	label, set, err := e.inForce(ctx, s)
	erased := errors.Is(err, turns.ErrErased)
	if err != nil && !erased {
		return nil, err
	}
	head, err := e.headNode(s)
	if err != nil {
		return nil, err
	}
	out.Label, out.Depth, out.Model, out.Limits, out.User, out.Meta = label, head.Depth, set.Model, set.Limits, set.User, set.Meta
	out.Policy = api.PolicyInForce{Name: set.Policy.Name, Set: set.Policy.Set, Digest: set.Policy.Digest}
	if erased {
		out.State = turns.Erased.String()
		return out, nil
	}
	g, pol, err := e.gauge(s, &set, head)
	if err != nil {
		return nil, err
	}
	out.Overhead = e.overhead(pol.CounterOf(), &set)
	if out.Reported, err = e.reported(s, &set, head); err != nil {
		return nil, err
	}
	g = lead(g, out.Overhead, out.Reported)
	out.Tokens, out.Budget, out.Pressure = g.Tokens, g.Budget, g.Pressure
	out.WindowGuess = windowGuessed(pol, e.limits(&set))
	return out, nil
}

// outline is what the fold alone says of a session.
func outline(s *ledger.Session) *api.Session {
	out := &api.Session{
		ID: s.ID, Agent: s.Agent, Kind: s.Kind, State: s.State.String(), Turns: s.Turns, Compactions: s.Compactions,
		Successor: s.Successor, Usage: s.Usage, Created: api.UnixTime(s.Recorded), Updated: api.UnixTime(s.Updated),
		Hash: s.Tail.Hash, Position: position(s.Tail.Seq),
	}
	if !s.Head.IsZero() {
		out.Head = &s.Head.Turn
		if s.Head.Session != s.ID {
			out.HeadSession = s.Head.Session
		}
	}
	if f := s.ForkOf; f != nil {
		out.ForkedFrom = &api.ForkedFrom{Session: f.At.Session, Turn: f.At.Turn, Hash: f.Hash, Mode: f.Mode.String()}
	}
	if sp := s.Spawned; !sp.IsZero() {
		out.SpawnedBy = &api.SpawnedBy{Session: sp.Session, Turn: sp.Turn}
	}
	return out
}

// listed is a session as a list shows it: one that can't be read, or whose chain
// was set aside, is there by what is known of it, and stops no other.
func (e *Engine) listed(ctx context.Context, s *ledger.Session) *api.Session {
	out, err := e.session(ctx, s)
	if err != nil {
		out = outline(s)
	} else if e.Store.Aside() > 0 {
		err = e.whyAside(s.Tenant, s.ID)
	}
	if err != nil {
		out.Error = api.FromError(err).Code
	}
	return out
}

// Get is session.get.
func (e *Engine) Get(ctx context.Context, c Caller, id turns.ID, r api.Read) (*api.Session, error) {
	if err := e.ready(ctx, r); err != nil {
		return nil, err
	}
	s, err := e.row(ctx, c, id, !r.StaleOK)
	if err != nil {
		return nil, err
	}
	return e.session(ctx, s)
}

// GetAbout is session.get, with what tells conversations apart where it is asked for.
func (e *Engine) GetAbout(ctx context.Context, c Caller, id turns.ID, r api.GetSession) (*api.Session, error) {
	out, err := e.Get(ctx, c, id, r.Read)
	if err != nil || !r.About.About {
		return out, err
	}
	s, err := e.row(ctx, c, id, false)
	if err != nil {
		return nil, err
	}
	e.about(ctx, s, out)
	return out, nil
}

// List is session.list: by id, which is by claimed time.
func (e *Engine) List(ctx context.Context, c Caller, req api.ListSessions) (*api.SessionList, error) {
	p := req.Page
	if err := e.ready(ctx, req.Read); err != nil {
		return nil, err
	}
	after, err := optionalID("/after", p.After)
	if err != nil {
		return nil, err
	}
	if !after.IsZero() {
		if _, err := e.row(ctx, c, after, false); err != nil {
			return nil, fieldErr("/after", "not a session of this list")
		}
	}
	limit, err := p.LimitOf(100, 1000)
	if err != nil {
		return nil, err
	}
	agent := c.Agent
	if c.Operator() {
		agent = ""
	}
	out := &api.SessionList{Sessions: []api.Session{}}
	size := 0
	for s, err := range e.Store.Sessions(c.Tenant, agent, after) {
		if err != nil {
			return nil, err
		}
		if len(out.Sessions) == limit {
			out.Next = out.Sessions[limit-1].ID.String()
			break
		}
		v := e.listed(ctx, &s)
		if req.About.About && v.Error == "" {
			e.about(ctx, &s, v)
		}
		n, err := sizeOf(v)
		if err != nil {
			return nil, err
		}
		if n > e.itemBytes() {
			v, n = outline(&s), outlineBytes
			v.Error = api.TooLarge
		}
		if size += n; len(out.Sessions) > 0 && size > e.pageBytes() {
			out.Next = out.Sessions[len(out.Sessions)-1].ID.String()
			break
		}
		out.Sessions = append(out.Sessions, *v)
	}
	return out, nil
}

func optionalID(field, s string) (turns.ID, error) {
	if s == "" {
		return turns.ID{}, nil
	}
	id, err := turns.ParseID(s)
	if err != nil || id.IsZero() {
		return id, fieldErr(field, "not an id")
	}
	return id, nil
}

// Set is session.set. Another label is claimed before the session says that it
// has it; the one that it had is free from then on.
//
// Crash states: after the claim, the session with its old label; the claim ends
// with its lease, and a retry makes another.
func (e *Engine) Set(ctx context.Context, c Caller, id turns.ID, req api.SetSession, canonical []byte) (*api.Session, error) {
	r := request{id: req.ID, what: "session.set", canonical: canonical}
	err := e.mutate(ctx, c, id, func(_ *chain, s *ledger.Session) (*draft, error) {
		ev, done, err := e.begin(s, r, turns.KindChanged)
		if done || err != nil {
			return nil, err
		}
		label, set, err := e.inForce(ctx, s)
		if err != nil {
			return nil, err
		}
		was := label
		if label, err = e.applySettings(&set, label, req.SessionSettings); err != nil {
			return nil, err
		}
		d := &draft{event: ev, body: &turns.ChangedBody{Label: label, Settings: set}}
		if label == was {
			return d, nil
		}
		l, release, err := e.holdLabel(ctx, c, label, s.ID)
		if err != nil {
			return nil, err
		}
		d.release = release
		if err := l.claim(ctx, s.ID); err != nil {
			release()
			return nil, err
		}
		d.claimed = true
		return d, nil
	})
	if req.Label != nil {
		err = e.taken(ctx, c, *req.Label, err)
	}
	return e.after(ctx, c, id, err)
}

// Close is session.close.
func (e *Engine) CloseSession(ctx context.Context, c Caller, id turns.ID, req api.CloseSession, canonical []byte) (*api.Session, error) {
	r := request{id: req.ID, what: "session.close", canonical: canonical}
	err := e.mutate(ctx, c, id, func(_ *chain, s *ledger.Session) (*draft, error) {
		ev, done, err := e.begin(s, r, turns.KindState)
		if s.State == turns.Closed && errors.Is(err, ledger.ErrClosed) {
			return nil, nil // it stays so, whoever asks
		}
		if done || err != nil {
			return nil, err
		}
		ev.State = turns.Closed
		return &draft{event: ev, body: &turns.StateBody{Cause: req.Cause}}, nil
	})
	return e.after(ctx, c, id, err)
}

// Move is session.move. The head goes to any turn of the tree's path that is the
// session's own or inherited; nothing is deleted, and it can go forward again.
func (e *Engine) Move(ctx context.Context, c Caller, id turns.ID, req api.MoveSession, canonical []byte) (*api.Session, error) {
	r := request{id: req.ID, what: "session.move", canonical: canonical}
	err := e.mutate(ctx, c, id, func(_ *chain, s *ledger.Session) (*draft, error) {
		ev, done, err := e.begin(s, r, turns.KindMoved)
		if done || err != nil {
			return nil, err
		}
		if !req.IfHead.IsZero() && req.IfHead != s.Head.Turn {
			return nil, headMoved(s, "the head is not "+req.IfHead.String())
		}
		if req.To != nil {
			t, err := e.find(s, *req.To)
			if err != nil {
				return nil, err
			}
			ev.To = t.Ref
		} else if s.ForkOf != nil {
			return nil, fieldErr("/to", "a fork can't go before its inherited turns; name a turn")
		}
		if ev.To == s.Head && req.ID.IsZero() {
			return nil, nil // with an id it is kept, or a late retry would move the head back
		}
		return &draft{event: ev, body: &turns.MovedBody{Note: req.Note}}, nil
	})
	return e.after(ctx, c, id, err)
}

// begin starts an event of a session that takes changes. Done: the same
// request stored it before.
func (e *Engine) begin(s *ledger.Session, r request, k turns.Kind) (ev *turns.Event, done bool, err error) {
	digest, err := e.digest(s.ID, r)
	if err != nil {
		return nil, false, err
	}
	was, err := e.stored(s, r, digest)
	if was != nil || err != nil {
		return was, was != nil, err
	}
	if err := takes(s); err != nil {
		return nil, false, err
	}
	id, err := e.newID(r.id)
	if err != nil {
		return nil, false, err
	}
	return &turns.Event{ID: id, Kind: k, Digest: digest}, false, nil
}

// takes reports why a session takes no more events.
func takes(s *ledger.Session) error {
	if !s.Final() {
		return nil
	}
	if s.State == turns.Erased {
		return &api.Error{Code: api.Erased, Message: fmt.Sprintf("session %s is erased", s.ID)}
	}
	out := &api.Error{Code: api.Closed, Message: fmt.Sprintf("session %s is %s", s.ID, s.State)}
	if !s.Successor.IsZero() {
		out.Details = map[string]any{"successor": s.Successor.String()}
	}
	return out
}

func headMoved(s *ledger.Session, why string) error {
	out := &api.Error{Code: api.Conflict, Message: fmt.Sprintf("%s: the head is %s", why, s.Head.Turn), Details: map[string]any{"head": s.Head.Turn.String()}}
	if s.Head.IsZero() {
		out.Message, out.Details = why+": the session has no turn yet", map[string]any{"head": nil}
	}
	return out
}

// after is the session behind a mutation that ended with err.
func (e *Engine) after(ctx context.Context, c Caller, id turns.ID, err error) (*api.Session, error) {
	if err != nil {
		return nil, err
	}
	out, err := e.Get(ctx, c, id, api.Read{})
	return out, written(err)
}

// find is a turn of the session's own chain or of what it inherits, by its id:
// own turns on any branch, others if they are on the path of the fork point.
func (e *Engine) find(s *ledger.Session, id turns.ID) (lineage.Node, error) {
	at := turns.Ref{Session: s.ID, Turn: id}
	for sess := s; ; {
		t, err := e.Store.Turn(turns.Ref{Session: sess.ID, Turn: id})
		if err == nil {
			if sess == s {
				return t.Node, nil
			}
			point, err := e.Store.Nodes(at)
			if err != nil {
				return lineage.Node{}, err
			}
			ok, err := lineage.IsAncestor(e.Store, t.Node, point[0])
			if err != nil || ok {
				return t.Node, err
			}
		} else if !errors.Is(err, lineage.ErrUnknown) {
			return lineage.Node{}, err
		}
		if sess.ForkOf == nil {
			return lineage.Node{}, &api.Error{Code: api.NotFound, Message: fmt.Sprintf("no turn %s on session %s or what it inherits", id, s.ID)}
		}
		if sess == s {
			at = s.ForkOf.At
		}
		up, err := e.Store.Session(sess.ForkOf.At.Session)
		if err != nil {
			return lineage.Node{}, err
		}
		sess = &up
	}
}
