package contexts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// inputs is everything a context is made from besides its history: the settings, and
// all that may differ when the context is asked for again.
type inputs struct {
	event     turns.ID // the event with the settings
	set       turns.Settings
	requested *view.RequestedPolicy // replaces the session's policy; nil if none does
	policy    policy.Policy
	digest    turns.Hash // of policy
	limits    turns.Limits
	budget    uint64
	bounded   bool          // the context must fit the budget
	idle      time.Duration // since the newest turn
	source    *view.Recipe  // the recipe that the inputs come from; nil if none
	then      NextCall      // of an older turn without a recipe; zero: the call is to come
}

// inputsAt returns the inputs of the context at a node. At the head they are those
// in force. With a recipe they are those of the recipe. At an older turn they are
// those of the call that was made there: its recipe, if the next turn came with one
// and stored is set, or else the settings and the time when the next turn came.
func (cx *Contexts) inputsAt(ctx context.Context, s *ledger.Session, head lineage.Node, req api.GetContext, r *view.Recipe, stored bool) (g inputs, err error) {
	index, idle := s.Settings, cx.reader.IdleTime(head)
	if r == nil && !req.At.IsZero() {
		then, err := cx.NextCallAfter(ctx, s, head)
		if err != nil {
			return g, err
		}
		g.then = then
		if index = then.Settings; then.Ended {
			idle = then.Idle
		}
		if stored && req.Policy == nil && req.Budget == 0 {
			r = then.Recipe
		}
	}
	if r != nil {
		return cx.inputsFromRecipe(ctx, s, r)
	}
	g.idle = idle
	if g.event, g.set, err = cx.reader.SettingsAt(ctx, s, index); err != nil {
		return g, err
	}
	if req.Policy != nil {
		g.requested = &view.RequestedPolicy{Name: req.Policy.Name, Set: req.Policy.Set}
	}
	if err := cx.resolve(ctx, s, &g, turns.Hash{}); err != nil {
		return g, err
	}
	g.limits = cx.reader.Limits(&g.set)
	g.budget, g.bounded = g.policy.Budget(g.limits), !g.policy.Unlimited(g.limits)
	if req.Budget != 0 {
		g.budget, g.bounded = req.Budget, true
	}
	return g, nil
}

// inputsFromRecipe returns the inputs that a recipe of a session names.
func (cx *Contexts) inputsFromRecipe(ctx context.Context, s *ledger.Session, r *view.Recipe) (inputs, error) {
	if m := r.Memory; m != nil && m.Ledger != cx.ledgerName() {
		return inputs{}, &turns.FieldError{Field: "/recipe/memory/ledger", Reason: "it is of the memories of another ledger", Kind: turns.ErrUnsupported}
	}
	g := inputs{event: r.Settings, requested: r.Requested, limits: r.Limits, budget: r.Budget, bounded: r.Budget > 0, source: r}
	index, err := cx.reader.Projections.Index(s.ID, r.Settings)
	if err == nil {
		g.event, g.set, err = cx.reader.SettingsAt(ctx, s, index)
	}
	if errors.Is(err, ledger.ErrNotFound) || (err == nil && g.event != r.Settings) {
		return g, api.FieldErrorf("/recipe/settings", "no event of session %s that holds settings", s.ID)
	}
	if err != nil {
		return g, err
	}
	if err := cx.resolve(ctx, s, &g, r.Policy); err != nil {
		return g, err
	}
	if !g.bounded {
		g.budget = g.policy.Budget(g.limits)
	}
	return g, nil
}

// resolve sets the policy, in the version that the digest pins.
func (cx *Contexts) resolve(ctx context.Context, s *ledger.Session, g *inputs, pinned turns.Hash) (err error) {
	ref := g.set.Policy
	if g.requested != nil {
		ref = turns.PolicyRef{Name: g.requested.Name, Set: g.requested.Set}
	}
	if !pinned.IsZero() {
		ref.Digest = pinned
	}
	if g.policy, err = cx.reader.FindPolicy(ctx, s.Tenant, ref); err != nil {
		return err
	}
	if g.digest = ref.Digest; g.digest.IsZero() {
		g.digest = g.policy.Digest()
	}
	return nil
}

// applyTo returns path p, which was loaded at the node, under these inputs.
func (g *inputs) applyTo(p view.Path) (view.Path, error) {
	if g.source != nil {
		return g.source.Replay(p, g.policy)
	}
	p.Limits, p.Idle, p.Cold = g.limits, g.idle, g.policy.Cold(g.idle)
	return p, nil
}

// newRecipe returns the recipe of a context of p.
func (g *inputs) newRecipe(p view.Path) view.Recipe {
	budget := g.budget
	if !g.bounded {
		budget = 0
	}
	r := view.NewRecipe(p, g.digest, budget)
	r.Settings, r.Requested = g.event, g.requested
	return r
}

// NextCall describes the first model call that a session made at a turn, so far as
// the events after the turn show it.
type NextCall struct {
	Settings uint64        // index of the last event before the call
	Ended    bool          // an event shows when the call was made, or that the head left the turn
	Idle     time.Duration // from the turn to that event; 0 if Ended is false
	Recipe   *view.Recipe  // the recipe of the call, if its turn came with one
	Position uint64        // of that event on the log, or if that is not known, of the turn; 0 if Ended is false
	Time     int64         // when that event was recorded, in Unix ns
}

// maxNextCallEvents bounds the events that are read for the call at a turn. Only
// very frequent changes of settings before the call reach it.
const maxNextCallEvents = 1000

// NextCallAfter finds the first model call that the session made while its head was at
// turn n.
//
//   - In general it is the call of the next turn on the session's chain.
//   - If the head left n and a move brought it back, the turn after the move counts too.
//   - If compactions lie between n and the next turn, that call may have started
//     before them. It counts if its recipe names n, or if no other call at n follows.
//   - If n is inherited, the session's calls start at its fork point, or at a turn
//     that the head moved to.
//
// It reads only events that follow a moment at which the head came to n, and at most
// maxNextCallEvents, however long the chain is.
func (cx *Contexts) NextCallAfter(ctx context.Context, s *ledger.Session, n lineage.Node) (f NextCall, err error) {
	t, err := cx.reader.Projections.Turn(n.Ref)
	if err != nil {
		return f, err
	}
	end := func(recorded int64) NextCall {
		f.Ended, f.Idle, f.Time = true, max(0, time.Duration(recorded-t.Recorded)), recorded
		f.Position = max(f.Position, t.Seq)
		return f
	}
	atTurn := n.Ref.Session == s.ID || n.Ref == s.ForkOf.At // the head is at the turn
	next := uint64(1)                                       // index of the event to read
	if n.Ref.Session == s.ID {
		next = t.Index + 1
	}
	everAtTurn, compacting := atTurn, false // compacting: only compactions came since
	var candidate *NextCall                 // the call after those compactions
	for reads := 0; next <= s.Tail.Index && reads < maxNextCallEvents; reads++ {
		if ctx.Err() != nil {
			return f, fmt.Errorf("%w: read the chain of session %s: %w", ledger.ErrUnavailable, s.ID, ctx.Err())
		}
		if !atTurn && !compacting {
			var back bool
			if next, back, err = cx.reader.Projections.NextMove(s.ID, n.Ref, next); err != nil {
				return f, err
			}
			if !back || next > s.Tail.Index {
				next = s.Tail.Index + 1
				break
			}
		}
		f.Settings = next - 1
		payload, err := cx.reader.Projections.EventAt(s.ID, next)
		if err != nil {
			return f, err
		}
		ev, err := turns.Decode(payload)
		if err != nil {
			return f, err
		}
		switch ev.Kind {
		case turns.KindTurn:
			next, err := cx.reader.Projections.Turn(ev.Ref())
			if err != nil {
				return f, err
			}
			f.Position = next.Seq
			if f.Recipe, err = cx.StoredRecipe(s, n, ev); atTurn || f.Recipe != nil || err != nil {
				return end(ev.Recorded), err
			}
			if candidate == nil {
				call := end(ev.Recorded)
				f.Ended, f.Idle, f.Position, f.Time, candidate = false, 0, 0, 0, &call
			}
			compacting = false
		case turns.KindCompaction:
			atTurn, compacting = false, true
		case turns.KindMoved:
			if atTurn {
				return end(ev.Recorded), nil
			}
			atTurn, compacting = ev.To == n.Ref, false
			everAtTurn = everAtTurn || atTurn
		case turns.KindState:
			if atTurn {
				return end(ev.Recorded), nil
			}
		}
		next++
	}
	switch {
	case candidate != nil && !atTurn:
		return *candidate, nil
	case !everAtTurn:
		f.Settings = 0
		return end(s.Recorded), nil
	}
	f.Settings = next - 1
	return f, nil
}

// StoredRecipe returns the recipe that a turn came with, if it is of a context of
// this session at n and this build can make it again; nil otherwise.
func (cx *Contexts) StoredRecipe(s *ledger.Session, n lineage.Node, ev *turns.Event) (*view.Recipe, error) {
	var b turns.TurnBody
	if err := cx.content.Open(ev, &b); err != nil || b.Context == nil {
		if errors.Is(err, turns.ErrErased) {
			err = nil
		}
		return nil, err
	}
	r, err := view.ParseRecipe(b.Context.Recipe)
	if err != nil || r.Session != s.ID || r.Head.Ref() != n.Ref {
		return nil, nil // the agent may store anything there
	}
	if m := r.Memory; m != nil {
		t, err := cx.reader.Projections.Turn(ev.Ref())
		if err != nil || m.Ledger != cx.ledgerName() || m.Position >= t.Seq {
			return nil, err
		}
	}
	return &r, nil
}

// recipeOf parses the recipe of a request, nil if it has none.
func recipeOf(session turns.ID, req api.GetContext) (*view.Recipe, error) {
	if req.Recipe == nil {
		return nil, nil
	}
	if req.Query != "" || req.QueryTokens != 0 {
		return nil, &api.Error{Code: api.Unsupported, Message: "query: a recipe says what its context brought back", Details: map[string]any{"field": "/query"}}
	}
	if !req.At.IsZero() || req.Policy != nil || req.Budget != 0 {
		return nil, api.FieldErrorf("/recipe", "a recipe says at which turn, by which policy and in which budget; at, policy and budget do not go with it")
	}
	r, err := view.ParseRecipe(req.Recipe)
	if errors.Is(err, turns.ErrUnsupported) {
		kind := turns.ErrUnsupported
		if later := (*turns.VersionError)(nil); errors.As(err, &later) {
			kind = later
		}
		return nil, &turns.FieldError{Field: "/recipe", Reason: err.Error(), Kind: kind}
	}
	if err != nil {
		return nil, api.FieldErrorf("/recipe", "%v", err)
	}
	if r.Session != session {
		return nil, api.FieldErrorf("/recipe/session", "it is of session %s", r.Session)
	}
	return &r, nil
}
