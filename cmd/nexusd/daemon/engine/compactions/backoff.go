package compactions

import (
	"context"
	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/cmd/nexusd/daemon/engine/writer"
	"nexus/turns"
	"time"
)

// backoff is what came of tries in vain to make a compaction that is due. Where
// there was nothing to gain, none is tried again at that head. Where it failed,
// it is tried again, at once until there were as many strikes as the policy
// says, and then after a wait, twice as long each time.
type backoff struct {
	head          turns.ID
	nothingToGain bool
	failures      uint64    // in a row
	retryAt       time.Time // not tried before; zero: at once
}

// nextBackoff is the strikes after a job that failed at a head. b.mu is held.
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

// setBackoff notes strikes, and reports whether they pause the session's compaction
// anew. b.mu is held.
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

// clearBackoff forgets a session's strikes. b.mu is held.
func (b *background) clearBackoff(session turns.ID) {
	if _, had := b.backoffs.LoadAndDelete(session); had {
		b.backoffCount--
	}
}

// pause notes that a compaction which is due at a head gains nothing there, and
// tells so once: until the head moves, no other is tried in the background.
func (cm *Compactions) pause(ctx context.Context, c reader.Caller, session, head turns.ID) {
	leave := cm.lockQueue(ctx)
	paused := cm.background.setBackoff(session, backoff{head: head, nothingToGain: true})
	leave()
	if paused {
		cm.writer.Announce(c, session, "compaction.paused", turns.ID{}, "", nil)
	}
}

// IsBackedOff reports whether a compaction is not tried at a head for now. It locks
// nothing, and preparing and dueState don't: appends ask them.
func (cm *Compactions) IsBackedOff(id, head turns.ID) bool {
	at, _ := cm.background.backoffs.Load(id)
	s, _ := at.(backoff)
	return s.nothingToGain && s.head == head || cm.reader.Now().Before(s.retryAt)
}

// DueState is the state of a compaction that is due at a head.
func (cm *Compactions) DueState(id, head turns.ID) string {
	if cm.IsBackedOff(id, head) {
		return "paused"
	}
	return "due"
}
