package watch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/turns"
)

// ErasedFile is a file that is not read any more, as all sessions that it holds were erased. The
// state has neither its name nor theirs.
type ErasedFile struct {
	Inode uint64 `json:"inode,omitzero"` // another file of this name is read
}

// digestOf is the key of a file in [State.Erased].
func digestOf(path string) string {
	sum := sha256.Sum256([]byte("nexus.watch.erased\x00" + path))
	return hex.EncodeToString(sum[:])
}

// isErased reports whether a file is not read any more.
func (s *State) isErased(path string, info fs.FileInfo) bool {
	e, ok := s.Erased[digestOf(path)]
	inode, _ := identity(info)
	return ok && e.Inode == inode
}

// drop replaces the entry of a file by one that says that it is not read any more. What happened to the file
// is forgotten too, since that names it.
func (s *State) drop(path string, inode uint64) {
	delete(s.Files, path)
	if s.Erased == nil {
		s.Erased = make(map[string]ErasedFile)
	}
	s.Erased[digestOf(path)] = ErasedFile{inode}
	s.Events = slices.DeleteFunc(s.Events, func(e Event) bool { return e.File == path || strings.Contains(e.Text, path) })
}

// isErased is [State.isErased] of the watch's state. A file that took the place of another one is
// no longer erased.
func (w *Watcher) isErased(path string, info fs.FileInfo) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state.isErased(path, info) {
		return true
	}
	if _, was := w.state.Erased[digestOf(path)]; was {
		delete(w.state.Erased, digestOf(path))
		w.dirty = true
	}
	return false
}

// errOrphaned is why nothing of a file is in the ledger that begins as a fork of a session that was erased: it repeats what was.
var errOrphaned = errors.New("the session that it was forked from was erased; it repeats what was, so it is not stored")

// checkErased does with a file, of which the ledger refused records since something was erased, what is to be done: if the ledger can
// read none of its sessions, its entry is dropped; if it begins as a fork of one, it has failed. done says that it was one of these.
func (w *Watcher) checkErased(ctx context.Context, f *file, st FileState, r *tally.Report, info fs.FileInfo) (done bool, err error) {
	if !r.Erased && !r.Orphaned {
		return false, nil
	}
	none, err := transcripts.NoneReadable(ctx, w.client, r.Sessions)
	if err != nil || !none {
		return false, err
	}
	f.live, f.keep = nil, nil
	if !r.Erased {
		st.note(info)
		return true, w.fail(ctx, f, st, errOrphaned)
	}
	inode, _ := identity(info)
	w.mu.Lock()
	w.state.drop(f.path, inode)
	w.dirty = true
	w.mu.Unlock()
	w.cfg.Log("%s: it is not read any more, as its session was erased", f.path)
	if w.cfg.saveEach {
		_ = w.save()
	}
	w.step("dropped")
	return true, nil
}

// A request to look at a session that was erased is an empty file of its name, in a folder beside the state.
// Crash states:
//
//   - before the request: who erases makes it, at the latest when the erasure is asked for again;
//   - behind it: the entries of the session are dropped by a watch that is running, by the next one, or by
//     who asks for the erasure again;
//   - the state is saved, the request is still there: it is found again, and changes nothing.
func requestsDir(dir string) string { return filepath.Join(dir, "erased") }

func requestErased(dir string, session turns.ID) error {
	if err := os.MkdirAll(requestsDir(dir), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(requestsDir(dir), session.String()), nil, 0o600)
}

// requested returns the sessions of all requests.
func requested(dir string) (out []turns.ID) {
	list, _ := os.ReadDir(requestsDir(dir))
	for _, e := range list {
		if id, err := turns.ParseID(e.Name()); err == nil {
			out = append(out, id)
		}
	}
	return out
}

func isRequested(dir string, session turns.ID) bool {
	_, err := os.Stat(filepath.Join(requestsDir(dir), session.String()))
	return err == nil
}

// removeLeftovers removes what a kill left of states that were being saved: they name files and sessions. The
// state is locked, and nobody saves it.
func removeLeftovers(dir string) {
	list, _ := filepath.Glob(filepath.Join(dir, "."+filepath.Base(stateFile(dir))+".*"))
	for _, name := range list {
		_ = os.Remove(name) // the next start tries it too
	}
}

// takeRequests does what the requests ask for, saves the state, and removes them.
func (w *Watcher) takeRequests(ctx context.Context, save func() error) error {
	list := requested(w.cfg.State)
	for _, id := range list {
		erased, err := transcripts.IsErased(ctx, w.client, id)
		if err == nil && erased { // here: the state may be of another ledger
			err = w.dropSession(ctx, id)
		}
		if err != nil {
			return err
		}
	}
	if len(list) == 0 {
		return nil
	}
	if err := save(); err != nil {
		return err
	}
	w.step("requested")
	for _, id := range list {
		if err := os.Remove(filepath.Join(requestsDir(w.cfg.State), id.String())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	w.step("removed")
	return nil
}

// dropSession takes a session that was erased out of the state: files that hold no other are not read any more.
func (w *Watcher) dropSession(ctx context.Context, id turns.ID) error {
	w.mu.Lock()
	if w.gone == nil {
		w.gone = make(map[turns.ID]bool)
	}
	w.gone[id] = true // a worker may be about to commit it
	of := make(map[string]FileState)
	for path, st := range w.state.Files {
		if slices.Contains(st.Sessions, id) {
			of[path] = *st
		}
	}
	w.mu.Unlock()
	for path, st := range of {
		none, err := transcripts.NoneReadable(ctx, w.client, st.Sessions)
		if err != nil {
			return err
		}
		w.mu.Lock()
		if none {
			w.state.drop(path, st.Inode)
		} else if now := w.state.Files[path]; now != nil {
			now.Sessions = w.without(now.Sessions)
		}
		w.dirty = true
		w.mu.Unlock()
	}
	return nil
}

// without returns sessions without those that were erased while the watch ran. w.mu is held.
func (w *Watcher) without(sessions []turns.ID) []turns.ID {
	return slices.DeleteFunc(slices.Clone(sessions), func(id turns.ID) bool { return w.gone[id] })
}

// Entries is what the state of a watch has of a session.
type Entries struct {
	Files  []string // the transcripts that hold it
	Ledger string   // that the state is of
}

// EntriesOf returns what the state in a folder has of a session; nothing where there is no state.
func EntriesOf(dir string, session turns.ID) (out Entries, err error) {
	s, err := loadState(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.Ledger = s.Ledger
	for path, st := range s.Files {
		if slices.Contains(st.Sessions, session) {
			out.Files = append(out.Files, path)
		}
	}
	slices.Sort(out.Files)
	return out, nil
}

// Forget takes a session that was erased out of the state of a watch. Files that hold no other are not read
// any more, and not named. done is false while a watch is running that has not done it yet; it can be called
// again. It changes nothing if the state is of another ledger than cfg.Ledger. cfg needs no sources.
func Forget(ctx context.Context, cfg Config, session turns.ID) (done bool, err error) {
	_, lockErr := os.Stat(filepath.Join(cfg.State, "lock"))
	s, err := loadState(cfg.State)
	switch {
	case errors.Is(err, fs.ErrNotExist) && lockErr != nil: // nobody ever watched
		return true, nil
	case err == nil && s.Ledger != cfg.Ledger:
		return true, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	if err := requestErased(cfg.State, session); err != nil {
		return false, err
	}
	own, err := os.OpenFile(filepath.Join(cfg.State, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	defer own.Close()
	if err := lock(own); err != nil { // of a watch that is running: it finds the request
		if errors.Is(err, ErrRunning) {
			err = nil
		}
		return false, err
	}
	removeLeftovers(cfg.State)
	w := &Watcher{cfg: cfg, step: func(string) {}}
	if w.state, err = loadState(cfg.State); errors.Is(err, fs.ErrNotExist) {
		w.state = newState(cfg.Ledger)
	} else if err != nil {
		return false, err
	}
	if w.client, err = cfg.Connect(ctx); err != nil {
		return false, err
	}
	err = w.takeRequests(ctx, func() error {
		if !w.dirty {
			return nil
		}
		b, err := w.state.encode()
		if err == nil {
			err = saveState(cfg.State, b)
		}
		return err
	})
	return err == nil, err
}

// IsForgotten reports whether a watch has done what [Forget] or [Ask] asked of it.
func IsForgotten(dir string, session turns.ID) bool { return !isRequested(dir, session) }

// Ask asks the watch of a state, which is running or will be, to take a session out of it.
func Ask(dir string, session turns.ID) error {
	if err := requestErased(dir, session); err != nil {
		return fmt.Errorf("ask the watch: %w", err)
	}
	return nil
}
