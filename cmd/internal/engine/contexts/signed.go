package contexts

import (
	"cmp"
	"slices"

	"nexus/compactor/summary"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/render"
)

// caller returns the model that is sent the context, and that signatures must be of; "" if
// it is not known, or if the context is not in a provider's format. That is the model of the
// newest turn, as it was called, unless the session's model was set since. A recorded context
// was sent to the model of its turn.
func (v *contextView) caller(req api.GetContext) string {
	switch {
	case req.Model != "":
		return req.Model
	case req.Format == "" || req.Format == "otel":
		return ""
	}
	at, called := v.lastCall()
	isSet := v.event != v.path.Session && at.Time().Before(v.event.Time()) // else it is as the session was made
	if isSet && !req.Recorded {
		return cmp.Or(v.set.Model, called)
	}
	return cmp.Or(called, v.set.Model)
}

// lastCall returns the last turn that names its model, and the model.
func (v *contextView) lastCall() (at turns.ID, model string) {
	for _, halves := range [][]summary.HalfTurn{v.own, v.path.Halves} {
		for _, h := range slices.Backward(halves) {
			if h.Model != "" && h.Model != turns.Synthetic {
				return h.Ref.Turn, h.Model
			}
		}
	}
	return turns.ID{}, ""
}

// readable returns the messages of v as a model may be sent them: without what another
// model signed. It shares memory with v.
func (v *contextView) readable(model string) []turns.Message {
	signers := v.foreignSigners(model)
	if len(signers) == 0 {
		return v.context.Messages
	}
	out := make([]turns.Message, len(v.context.Messages))
	for i, m := range v.context.Messages {
		src := v.context.Sources[v.context.Origins[i]]
		if src.Half == turns.ResponseHalf {
			m = render.WithoutForeignSignatures(m, signers[src.Turn], model)
		}
		out[i] = m
	}
	return out
}

// foreignSigners returns the turns of v that another model than model signed, with that other
// one.
func (v *contextView) foreignSigners(model string) map[turns.Ref]string {
	var out map[turns.Ref]string
	last, isForeign := "", false // most often a turn has the model of the turn before
	for _, halves := range [][]summary.HalfTurn{v.path.Halves, v.own} {
		for i := range halves {
			h := &halves[i]
			if h.Model != last {
				last, isForeign = h.Model, render.IsForeign(h.Model, model)
			}
			if !isForeign {
				continue
			}
			if out == nil {
				out = make(map[turns.Ref]string)
			}
			out[h.Ref] = h.Model
		}
	}
	return out
}
