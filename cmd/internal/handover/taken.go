package handover

import (
	"slices"
	"strings"

	"nexus/turns"
	"nexus/turns/transcript"
)

// takenFrom has the steps of a transcript that something was taken out of in the ledger since it was
// written. Written again they have other texts than the agent's file, and in formats whose ids follow
// from texts other ids. What was taken out must not come back with the file, so they are known by
// their place and by what is left of them.
type takenFrom struct {
	after map[turns.ID]transcript.Step // by the turn before it, until it is found
	same  map[turns.ID]turns.ID        // an id of the file → that of the transcript as it is written now
}

func newTakenFrom() takenFrom {
	return takenFrom{after: make(map[turns.ID]transcript.Step), same: make(map[turns.ID]turns.ID)}
}

// add notes a step of what is written now.
func (f takenFrom) add(st transcript.Step) {
	if before, messages, ok := said(st); ok && slices.ContainsFunc(messages, hasMarker) {
		f.after[before] = st
	}
}

// forget undoes add for a turn.
func (f takenFrom) forget(id turns.ID) {
	for before, st := range f.after {
		if st.ID() == id {
			delete(f.after, before)
		}
	}
}

// find returns the id that a step of the file has in what is written now, once for each.
func (f takenFrom) find(st transcript.Step) (turns.ID, bool) {
	before, was, ok := said(st)
	if !ok {
		return turns.ID{}, false
	}
	if id, ok := f.same[before]; ok {
		before = id
	}
	left, ok := f.after[before]
	_, now, _ := said(left)
	if !ok || !slices.EqualFunc(was, now, isLeftOf) || (left.Append == nil) != (st.Append == nil) {
		return turns.ID{}, false
	}
	delete(f.after, before)
	f.same[st.ID()] = left.ID()
	return left.ID(), true
}

// said returns the turn before a step, and what the step says; false: it is neither a turn nor a compaction.
func said(st transcript.Step) (before turns.ID, messages []turns.Message, ok bool) {
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

func hasMarker(m turns.Message) bool {
	return slices.ContainsFunc(m.Parts, func(p turns.Part) bool {
		return strings.Contains(p.Content, turns.RedactedText) || strings.Contains(string(p.Arguments), turns.RedactedText) || strings.Contains(string(p.Response), turns.RedactedText)
	})
}

// isLeftOf reports whether now is what is left of was.
func isLeftOf(was, now turns.Message) bool {
	return was.Role == now.Role && slices.EqualFunc(was.Parts, now.Parts, func(was, now turns.Part) bool {
		if now.Type == turns.Text && now.Content == turns.RedactedText { // all of it was taken
			return true
		}
		return was.Type == now.Type && was.Name == now.Name && fits(was.Content, now.Content) && fits(string(was.Arguments), string(now.Arguments)) && fits(string(was.Response), string(now.Response))
	})
}

// fits reports whether a text is another one with anything in the place of its markers.
func fits(was, now string) bool {
	pieces := strings.Split(now, turns.RedactedText)
	last := pieces[len(pieces)-1]
	if len(pieces) == 1 {
		return was == now
	}
	was, ok := strings.CutPrefix(was, pieces[0])
	if !ok {
		return false
	}
	for _, p := range pieces[1 : len(pieces)-1] {
		if _, was, ok = strings.Cut(was, p); !ok {
			return false
		}
	}
	return strings.HasSuffix(was, last)
}
