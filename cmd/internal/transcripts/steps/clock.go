package steps

import (
	"time"

	"nexus/cmd/internal/transcripts/sessionmeta"
	"nexus/turns"
	"nexus/turns/transcript"
)

// clock is the latest time that is known of each session of a transcript, by the source's
// session: a turn that the source gives no time has it as its bound. So no view takes the
// time of the import for that of the turn.
type clock map[turns.ID]time.Time

// BoundTime returns a step in which each turn and compaction has a time.
func (w *Writer) BoundTime(st transcript.Step) transcript.Step {
	if w.clock == nil {
		w.clock = make(clock)
	}
	switch {
	case st.Open != nil:
		w.clock.begin(st.Open.ID, st.Open.Time)
	case st.Fork != nil:
		w.clock.begin(st.Fork.ID, st.Fork.Time)
	case st.Append != nil:
		a := *st.Append
		a.Time, a.Meta = w.clock.tick(a.Session, a.Time, a.Meta)
		return transcript.Step{Append: &a}
	default:
		k := *st.Compaction
		k.Time, k.Meta = w.clock.tick(k.Session, k.Time, k.Meta)
		return transcript.Step{Compaction: &k}
	}
	return st
}

// begin notes when a session was opened, as far as the source tells it.
func (c clock) begin(session turns.ID, at time.Time) {
	if at.IsZero() {
		at = session.Time() // 1970 where the source has no time at all
	}
	if at.UnixNano() == 0 {
		at = at.Add(1) // zero is no time
	}
	c[session] = at
}

// tick returns the time and the meta of the next turn of a session.
func (c clock) tick(session turns.ID, at time.Time, meta turns.Raw) (time.Time, turns.Raw) {
	bound := turns.TimeBoundOf(meta)
	if at.IsZero() {
		if c[session].IsZero() {
			c.begin(session, at)
		}
		return c[session].UTC(), sessionmeta.With(meta, "time_bound", turns.RawText(string(turns.TimeNotBefore)))
	}
	if bound != turns.TimeNotAfter && at.After(c[session]) {
		c[session] = at
	}
	return at, meta
}
