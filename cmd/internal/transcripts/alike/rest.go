package alike

import (
	"bytes"
	"slices"

	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// Rest returns what of a the stored turns do not hold, nil if they hold all of it. more
// says that they hold more, since a is of an older copy. ok is false if they hold
// something else.
func Rest(stored []*api.Turn, a *transcript.Append) (rest *transcript.Append, more, ok bool) {
	out := *a
	out.Usage = laterUsage(stored, a)
	var answer []turns.Part // the stored parts of the response
	finish := ""
	for _, t := range stored {
		switch n := len(t.Messages); {
		case n > 0 && answer != nil: // the answer has begun
			return nil, false, false
		case n > len(out.Messages) && a.Response == nil && slices.EqualFunc(t.Messages[:len(out.Messages)], out.Messages, sameMessage):
			return nil, true, true
		case n > len(out.Messages) || !slices.EqualFunc(t.Messages, out.Messages[:n], sameMessage):
			return nil, false, false
		default:
			out.Messages = out.Messages[n:]
		}
		if t.Response != nil {
			answer, finish = append(answer, t.Response.Parts...), t.Response.FinishReason
		}
	}
	switch {
	case answer == nil && finish == "" && !slices.ContainsFunc(stored, func(t *api.Turn) bool { return t.Response != nil }):
		if len(out.Messages) == 0 && a.Response == nil {
			return nil, false, true
		}
		return &out, false, true
	case len(out.Messages) > 0:
		return nil, false, false
	case a.Response == nil:
		return nil, true, true
	}
	parts := a.Response.Parts
	common := min(len(answer), len(parts))
	switch {
	case !slices.EqualFunc(answer[:common], parts[:common], samePart):
		return nil, false, false
	case common == len(parts):
		return nil, len(answer) > common, true
	}
	m := *a.Response
	m.Parts = parts[common:]
	out.Messages, out.Response = []turns.Message{}, &m
	return &out, false, true
}

// storedUsage returns the usage of turns in sum, nil if none has one.
func storedUsage(stored []*api.Turn) (sum *turns.Usage) {
	for _, t := range stored {
		sum = turns.AddUsage(sum, t.Usage)
	}
	return sum
}

// laterUsage returns the usage of a turn that holds the rest of a, nil for none. Of a call
// whose usage is stored it is the output that came since. The input of a call is in one
// turn only: the ledger takes it for the size of the context.
func laterUsage(stored []*api.Turn, a *transcript.Append) *turns.Usage {
	had := storedUsage(stored)
	if had == nil || a.Usage == nil {
		return a.Usage
	}
	if a.Usage.OutputTokens <= had.OutputTokens {
		return nil
	}
	return &turns.Usage{OutputTokens: a.Usage.OutputTokens - had.OutputTokens}
}

// LostUsage returns the part of a's usage that neither the stored turns have nor the
// rest, which may be nil: usage without content makes no turn.
func LostUsage(stored []*api.Turn, a, rest *transcript.Append) turns.Usage {
	var all, had turns.Usage
	if a.Usage != nil {
		all = *a.Usage
	}
	if u := storedUsage(stored); u != nil {
		had = *u
	}
	if rest != nil && rest.Usage != nil {
		had = had.Plus(*rest.Usage)
	}
	return turns.Usage{
		InputTokens: all.InputTokens - min(all.InputTokens, had.InputTokens), OutputTokens: all.OutputTokens - min(all.OutputTokens, had.OutputTokens),
		CacheRead: all.CacheRead - min(all.CacheRead, had.CacheRead), CacheCreation: all.CacheCreation - min(all.CacheCreation, had.CacheCreation),
	}
}

func samePart(a, b turns.Part) bool {
	return sameMessage(turns.Message{Parts: []turns.Part{a}}, turns.Message{Parts: []turns.Part{b}})
}

func sameMessage(a, b turns.Message) bool {
	a.FinishReason, b.FinishReason = "", ""
	x, err := turns.EncodeJSON(a)
	y, err2 := turns.EncodeJSON(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}
