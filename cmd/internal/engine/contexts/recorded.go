package contexts

import (
	"context"
	"slices"

	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// How a recorded context is known, as in protocol JSON.
const (
	byRecipe = "recipe" // the context that the call was given, made again, and the turn
	byPath   = "path"   // what the compactions on the turn's path leave of it
)

// checkRecorded checks the members of a request that ask for a recorded context.
func checkRecorded(req *api.GetContext) error {
	switch {
	case req.Before && !req.Recorded:
		return api.FieldErrorf("/before", "it goes with recorded")
	case !req.Recorded:
		return nil
	case req.At.IsZero():
		return api.FieldErrorf("/recorded", "it takes at, the turn whose call is meant")
	case req.Recipe != nil || req.Policy != nil || req.Budget != 0 || req.Query != "":
		return api.FieldErrorf("/recorded", "recipe, policy, budget and query ask for another context than the one that was recorded")
	}
	return nil
}

// recordedView makes the context that the model call of a turn was given, as far as the
// ledger tells, with the turn's own messages, and with its response unless the request
// says before.
//
// A turn that came with the recipe of its context has that context. Any other has what
// is in force on its path: the compactions that its source recorded, or that the ledger
// made before the call. Nothing is shortened to a budget, since nothing says which one the agent had.
func (cx *Contexts) recordedView(ctx context.Context, s *ledger.Session, head lineage.Node, req api.GetContext) (v *contextView, by string, err error) {
	if head.Ref.Session != s.ID {
		return nil, "", api.FieldErrorf("/at", "the turn is of session %s, and so is what was recorded of its call", head.Ref.Session)
	}
	t, ev, err := cx.reader.TurnEvent(head.Ref)
	if err != nil {
		return nil, "", err
	}
	if ev.Kind == turns.KindTurn {
		given, err := cx.givenContext(ctx, s, ev, api.GetContext{At: req.At, Format: req.Format, Explain: req.Explain, Read: req.Read})
		if err != nil {
			return nil, "", err
		}
		if given != nil {
			own, err := cx.paths.Halves(ctx, s, head, lineage.CutBefore(head.Depth, turns.MessagesHalf))
			if err != nil {
				return nil, "", err
			}
			given.context = given.context.WithoutPending()
			for _, h := range asked(own, req.Before) {
				given.context = given.context.WithHalf(h.Ref, h.Half, h.Messages, given.path.Counter)
			}
			given.own, given.reported = own, reportedOf(ev, req.Before)
			return given, byRecipe, nil
		}
	}
	v = new(contextView)
	if v.event, v.set, err = cx.reader.SettingsAt(ctx, s, t.Index-1); err != nil {
		return nil, "", err
	}
	v.policy, v.limits = policy.AsRecorded(), cx.reader.Limits(&v.set)
	v.digest, v.budget = v.policy.Digest(), v.policy.Budget(v.limits)
	if ev.Claimed != 0 {
		v.path, err = cx.paths.LoadAsOf(ctx, s, &v.set, v.policy, head, ev.Claimed)
	} else {
		v.path, err = cx.paths.Load(ctx, s, &v.set, v.policy, head)
	}
	if err != nil {
		return nil, "", err
	}
	v.path.Limits = v.limits
	if own := slices.IndexFunc(v.path.Halves, func(h summary.HalfTurn) bool { return h.Ref == head.Ref }); own >= 0 {
		v.path.Halves = slices.Concat(v.path.Halves[:own], asked(v.path.Halves[own:], req.Before))
	}
	if v.context, err = view.Render(v.path, v.path.Counter); err != nil {
		return nil, "", err
	}
	v.context = v.context.WithoutPending()
	v.reported = reportedOf(ev, req.Before)
	return v, byPath, nil
}

// asked returns the halves of a turn that a request asks for: without the response if before
// is set.
func asked(halves []summary.HalfTurn, before bool) []summary.HalfTurn {
	if !before {
		return halves
	}
	return slices.DeleteFunc(slices.Clone(halves), func(h summary.HalfTurn) bool { return h.Half == turns.ResponseHalf })
}

// givenContext makes the context that the call of a turn was given, by the recipe that
// the turn came with; nil if it came with none that this build can follow. It is of the turn before,
// or, where compactions were committed while the call was under way, of the one before them.
func (cx *Contexts) givenContext(ctx context.Context, s *ledger.Session, ev *turns.Event, req api.GetContext) (*contextView, error) {
	var n lineage.Node // before the first turn
	if !ev.Parent.IsZero() {
		var err error
		if n, err = cx.reader.Projections.Node(ev.Parent); err != nil {
			return nil, err
		}
	}
	r, err := cx.StoredRecipe(s, n, ev)
	for err == nil && r == nil && n.Kind == turns.KindCompaction && n.Ref.Session == s.ID {
		if n.Parent.IsZero() {
			n = lineage.Node{}
		} else if n, err = cx.reader.Projections.Node(n.Parent); err != nil {
			return nil, err
		}
		r, err = cx.StoredRecipe(s, n, ev)
	}
	if err != nil || r == nil {
		return nil, err
	}
	req.At = n.Ref.Turn
	v, err := cx.viewAt(ctx, s, n, req, r, true, nil, false)
	if isUnresolved(err) {
		return nil, nil
	}
	return v, err
}

// reportedOf returns the provider's count of the call of a turn, 0 if there is none: of
// its input, with the response too unless before is set.
func reportedOf(ev *turns.Event, before bool) uint64 {
	if ev.Kind != turns.KindTurn || ev.Usage == nil || ev.Usage.InputTokens == 0 {
		return 0
	}
	if before {
		return ev.Usage.InputTokens
	}
	return ev.Usage.InputTokens + ev.Usage.OutputTokens
}
