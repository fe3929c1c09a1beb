package handover

import (
	"slices"

	"nexus/cmd/internal/engine/erasure/mark"
	"nexus/turns"
	"nexus/turns/transcript"
)

// redactedSteps has the steps of a transcript that were redacted in the ledger since it was written.
// Written again they have other texts than the agent's file, and in formats that derive ids from
// texts other ids. What was redacted must not come back with the file, so a step is recognized by
// its place and by what is left of it.
type redactedSteps struct {
	after map[turns.ID]transcript.Step // by the turn before it, until it is found
	same  map[turns.ID]turns.ID        // an id of the file → that of the transcript as it is written now
}

func newRedactedSteps() redactedSteps {
	return redactedSteps{after: make(map[turns.ID]transcript.Step), same: make(map[turns.ID]turns.ID)}
}

// add notes a step of what is written now.
func (f redactedSteps) add(st transcript.Step) {
	if before, messages, ok := contentOf(st); ok && slices.ContainsFunc(messages, isRedacted) {
		f.after[before] = st
	}
}

// forget undoes add for a turn.
func (f redactedSteps) forget(id turns.ID) {
	for before, st := range f.after {
		if st.ID() == id {
			delete(f.after, before)
		}
	}
}

// find returns the id that a step of the file has in what is written now, once for each.
func (f redactedSteps) find(st transcript.Step) (turns.ID, bool) {
	before, was, ok := contentOf(st)
	if !ok {
		return turns.ID{}, false
	}
	if id, ok := f.same[before]; ok {
		before = id
	}
	left, ok := f.after[before]
	_, now, _ := contentOf(left)
	if !ok || !slices.EqualFunc(was, now, isLeftOf) || (left.Append == nil) != (st.Append == nil) {
		return turns.ID{}, false
	}
	delete(f.after, before)
	f.same[st.ID()] = left.ID()
	return left.ID(), true
}

// contentOf returns the turn before a step, and what the step says; false: it is neither a turn nor a compaction.
func contentOf(st transcript.Step) (before turns.ID, messages []turns.Message, ok bool) {
	switch a, k := st.Append, st.Compaction; {
	case a != nil:
		messages = slices.Clone(a.Messages)
		if a.Response != nil {
			messages = append(messages, *a.Response)
		}
		return a.Parent, messages, true
	case k != nil:
		return k.Parent, append(slices.Clone(k.Replacement), turns.TextMessage(turns.User, k.Summary)), true
	}
	return turns.ID{}, nil, false
}

func isRedacted(m turns.Message) bool {
	return slices.ContainsFunc(m.Parts, func(p turns.Part) bool { return mark.IsIn(&p) })
}

// isLeftOf reports whether now is what is left of a message of the file.
func isLeftOf(file, now turns.Message) bool {
	return file.Role == now.Role && slices.EqualFunc(file.Parts, now.Parts, func(file, now turns.Part) bool { return mark.IsLeftOf(&now, &file) })
}
