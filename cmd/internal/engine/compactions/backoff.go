package compactions

import (
	"context"
	"time"

	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
	"nexus/turns"
)

// MinBackoff and MaxBackoff bound the wait before a failed compaction is tried again.
const (
	MinBackoff = 30 * time.Second
	MaxBackoff = 10 * time.Minute
)

// backoff says when a compaction that is due is tried again, after tries that made
// none. If there was nothing to gain, it is not tried again at that head. If it
// failed, it is tried again: at once until the policy's number of failures, and then
// after a wait that doubles each time.
type backoff struct {
	head          turns.ID
	nothingToGain bool
	failures      uint64    // failures in a row
	retryAt       time.Time // no try before this time; zero means at once
}

// nextBackoff returns the backoff after a job failed at a head. The caller holds
// b.mu.
func (b *background) nextBackoff(j *job, head turns.ID) backoff {
	was, _ := b.backoffs.Load(j.session)
	s, _ := was.(backoff)
	s.head, s.nothingToGain = head, false
	if s.failures++; s.failures >= max(1, j.maxFailures) {
		wait := MaxBackoff
		if more := s.failures - max(1, j.maxFailures); more < 5 {
			wait = min(MaxBackoff, MinBackoff<<more)
		}
		s.retryAt = j.ended.Add(wait)
	}
	return s
}

// setBackoff stores a backoff, and reports whether it pauses the session's
// compaction anew. The caller holds b.mu.
func (b *background) setBackoff(session turns.ID, s backoff) (paused bool) {
	if b.backoffCount >= writer.MaxIdle {
		b.backoffs.Clear()
		b.backoffCount = 0
	}
	was, had := b.backoffs.Swap(session, s)
	if !had {
		b.backoffCount++
	}
	old, _ := was.(backoff)
	return s.nothingToGain && (!old.nothingToGain || old.head != s.head) || s.retryAt.After(old.retryAt)
}

// clearBackoff removes the backoff of a session. The caller holds b.mu.
func (b *background) clearBackoff(session turns.ID) {
	if _, had := b.backoffs.LoadAndDelete(session); had {
		b.backoffCount--
	}
}

// pause notes that a compaction which is due at a head gains nothing there, and
// announces it once. Until the head moves, no other is tried in the background.
func (cm *Compactions) pause(ctx context.Context, c reader.Caller, session, head turns.ID) {
	leave := cm.lockQueue(ctx)
	paused := cm.background.setBackoff(session, backoff{head: head, nothingToGain: true})
	leave()
	if paused {
		cm.writer.Announce(c, session, "compaction.paused", turns.ID{}, "", nil)
	}
}

// IsBackedOff reports whether a compaction is not tried at a head for now. It takes
// no lock, since appends call it. The same holds for IsPreparing and DueState.
func (cm *Compactions) IsBackedOff(id, head turns.ID) bool {
	at, _ := cm.background.backoffs.Load(id)
	s, _ := at.(backoff)
	return s.nothingToGain && s.head == head || cm.reader.Now().Before(s.retryAt)
}

// DueState returns the state of a compaction that is due at a head, as acks show it.
func (cm *Compactions) DueState(id, head turns.ID) string {
	if cm.IsBackedOff(id, head) {
		return "paused"
	}
	return "due"
}
