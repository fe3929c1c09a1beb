package keyring

import (
	"errors"
	"fmt"

	"nexus/turns"
	"nexus/turns/seal"
)

// erasure is what one rewrite destroys.
type erasure struct {
	ids     []turns.ID
	takes   []*take
	done    chan struct{}
	err     error           // after done
	refused map[*take]error // after done
}

// Destroy makes the keys of ids unreadable for ever, here, and durably so when it
// returns nil; until then it is to be called again. No key can be made or put
// under them any more, whether there was one or not. It writes all other keys anew, once
// for all calls that wait.
func (s *Store) Destroy(ids ...turns.ID) error {
	if len(ids) == 0 {
		return nil
	}
	if err := s.erase(ids, nil); err != nil {
		return fmt.Errorf("destroy the keys of %v: %w", ids, err)
	}
	return nil
}

// Puncture makes the events at indexes of the chain whose content key id has unreadable for ever, and everything
// else opens as before: what is left of the key takes its place. It is durable, and to be repeated, as [Store.Destroy].
// begun is how many events the chain has: none may be sealed there meanwhile but by who calls.
// Errors: those of [Store.Content]; [turns.ErrTooLarge] where what is left has over [seal.MaxRemains] bytes.
func (s *Store) Puncture(id turns.ID, begun uint64, indexes ...uint64) error {
	if len(indexes) == 0 {
		return nil
	}
	return s.takeFrom(&take{id: id, begun: begun, indexes: indexes})
}

// PutRemains stores what is left of a key, in the place of the whole one if that is here. Errors: [ErrDifferent]
// if id has another key or something else is left of it; [turns.ErrErased].
func (s *Store) PutRemains(id turns.ID, left *seal.Remains) error {
	return s.takeFrom(&take{id: id, put: left})
}

func (s *Store) takeFrom(t *take) error {
	if err := s.erase(nil, t); err != nil {
		return fmt.Errorf("take from the key of %s: %w", t.id, err)
	}
	return nil
}

// erase has keys destroyed, or something taken from one, by the next rewrite.
func (s *Store) erase(ids []turns.ID, t *take) error {
	s.reportWarnings()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	e, first := s.waiting, s.waiting == nil
	if first {
		e = &erasure{done: make(chan struct{}), refused: make(map[*take]error)}
		s.waiting = e
	}
	e.ids = append(e.ids, ids...)
	if t != nil {
		e.takes = append(e.takes, t)
	}
	s.mu.Unlock()
	if first {
		s.destroy(e)
	}
	<-e.done
	if err := errors.Join(e.err, e.refused[t]); err != nil {
		return err
	}
	s.mu.RLock()
	onDestroy := s.onDestroy
	s.mu.RUnlock()
	for _, f := range onDestroy {
		f()
	}
	return nil
}

// destroy destroys the keys of an erasure, which takes in others until no write is under way.
func (s *Store) destroy(e *erasure) {
	defer close(e.done)
	s.stageA.Lock()
	defer s.stageA.Unlock()
	s.stageB.Lock()
	defer s.stageB.Unlock()
	s.mu.Lock()
	s.waiting = nil
	s.mu.Unlock()
	if e.err = s.reload(); e.err != nil {
		return
	}
	left, changed := s.keys.after(e) // nobody writes them: we have both stages
	if changed {
		e.err = s.rewrite(left)
	}
}

// after returns k as an erasure leaves it, and notes what it refuses. Where nothing changes, it returns k itself.
func (k keys) after(e *erasure) (out keys, changed bool) {
	out = k
	change := func(id turns.ID) {
		if !changed {
			out, changed = k.clone(), true
		}
		delete(out.byID, id)
		delete(out.left, id)
		delete(out.broken, id)
	}
	for _, id := range e.ids {
		if _, ok := out.erased[id]; !ok {
			change(id)
			out.erased[id] = struct{}{}
		}
	}
	for _, t := range e.takes {
		has, there := out.content(t.id)
		left, isNew, err := t.of(has, there)
		if err != nil {
			e.refused[t] = err
		} else if isNew {
			change(t.id)
			out.left[t.id] = left
		}
	}
	return out, changed
}
