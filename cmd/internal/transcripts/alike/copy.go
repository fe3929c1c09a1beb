package alike

import (
	"slices"
	"strings"
	"time"

	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// IsCopy reports whether a stored turn and a say the same, but for what one of them does not
// state.
func IsCopy(t *api.Turn, a *transcript.Append) bool {
	if t.Type != "normal" || !slices.EqualFunc(t.Messages, a.Messages, sameSaid) || (t.Response == nil) != (a.Response == nil) {
		return false
	}
	if a.Response != nil && !sameSaid(*t.Response, *a.Response) {
		return false
	}
	isTimed := a.Usage != nil || turns.TimeBoundOf(a.Meta) == "" && !StoredTime(a.Time).IsZero()
	wasTimed := t.Usage != nil || turns.TimeBoundOf(t.Meta) == "" && t.Time != nil
	if !isTimed || !wasTimed {
		return true
	}
	return t.Time != nil && time.Time(*t.Time).Equal(StoredTime(a.Time)) && (t.Usage == nil) == (a.Usage == nil) && (a.Usage == nil || *t.Usage == *a.Usage)
}

// sameSaid reports whether two messages are the same but for reasoning, which a history may
// lack.
func sameSaid(a, b turns.Message) bool {
	said := func(m turns.Message) turns.Message {
		m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p turns.Part) bool { return p.Type == turns.Reasoning })
		return m
	}
	return sameMessage(said(a), said(b))
}

// IsBeginning reports whether a response is the beginning of another: the file was copied
// while the answer came.
func IsBeginning(m, of *turns.Message) bool {
	if m == nil || of == nil || len(m.Parts) > len(of.Parts) {
		return m == nil
	}
	for i := range m.Parts {
		p, q := m.Parts[i], of.Parts[i]
		if i == len(m.Parts)-1 && p.Type == q.Type && p.Type == turns.Text && strings.HasPrefix(q.Content, p.Content) {
			continue
		}
		if SumOf(p) != SumOf(q) {
			return false
		}
	}
	return true
}

// Bounded reports whether what the ledger holds and what a file states differ only in what one of
// them does not know, since it is of a copy: the time, of which a bound stands there, or the usage.
func Bounded(storedMeta, statedMeta turns.Raw, stored, stated *turns.Usage) bool {
	isBound := turns.TimeBoundOf(storedMeta) != "" || turns.TimeBoundOf(statedMeta) != ""
	isUsage := stored == nil || stated == nil || *stored == *stated
	return isUsage && (isBound || (stored == nil) != (stated == nil))
}

// ClaimedTime returns a time that a source states, nil if an event can't hold it.
func ClaimedTime(t time.Time) *api.Time {
	if _, ok := api.Time(t).UnixNano(); !ok {
		return nil
	}
	return (*api.Time)(&t)
}

// StoredTime returns a time as the ledger has it: zero where no event can hold it.
func StoredTime(t time.Time) time.Time {
	if ClaimedTime(t) == nil {
		return time.Time{}
	}
	return t
}
