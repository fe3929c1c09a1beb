package watch

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// fileOf returns the file of a path.
func (w *Watcher) fileOf(path string, src Source) *file {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fileLocked(path, src)
}

func (w *Watcher) fileLocked(path string, src Source) *file {
	f := w.files[path]
	if f == nil {
		f = &file{path: path, source: src}
		w.files[path] = f
	}
	return f
}

// stateOf returns a copy of the state of a file.
func (w *Watcher) stateOf(f *file) FileState {
	w.mu.Lock()
	defer w.mu.Unlock()
	if st := w.state.Files[f.path]; st != nil {
		return *st
	}
	return FileState{Agent: f.source.Agent}
}

// commit replaces the state of a file. It is on the disk some seconds later.
func (w *Watcher) commit(f *file, st FileState) {
	w.step("commit")
	w.mu.Lock()
	if e, ok := w.state.Erased[digestOf(f.path)]; !ok || e.Inode != st.Inode { // else it was erased meanwhile
		st.Agent, st.Sessions = cmp.Or(st.Agent, f.source.Agent), w.without(st.Sessions)
		w.state.Files[f.path], w.dirty = &st, true
	}
	w.mu.Unlock()
	if w.cfg.saveEach {
		_ = w.save()
	}
	w.step("committed")
}

// removeName removes the entry of a name that a file had.
func (w *Watcher) removeName(f *file) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.state.Files, f.path)
	w.dirty = true
}

// event records what a source should not do.
func (w *Watcher) event(what, path, text string) {
	w.cfg.Log("%s: %s; %s", path, what, text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.Events = append(w.state.Events, Event{Time: time.Now(), What: what, File: path, Text: text})
	if n := len(w.state.Events); n > maxEvents {
		w.state.Events = slices.Clone(w.state.Events[n-maxEvents:])
	}
	w.dirty = true
}

func (w *Watcher) isDirty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dirty
}

// save writes the state to the disk. Nobody waits for the disk but who calls it: workers go
// on meanwhile, and what they commit is in the next save.
func (w *Watcher) save() error {
	w.saving.Lock()
	defer w.saving.Unlock()
	b, err := w.stateToSave()
	if err == nil && b != nil {
		w.step("save")
		err = saveState(w.cfg.State, b)
	}
	if err != nil {
		w.mu.Lock()
		w.dirty = true
		w.mu.Unlock()
		return fmt.Errorf("save the state: %w", err)
	}
	if b != nil {
		w.step("saved")
	}
	return nil
}

// stateToSave returns the state as it is saved; nil if the disk has it.
func (w *Watcher) stateToSave() ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.dirty {
		return nil, nil
	}
	w.state.Saved = time.Now()
	b, err := w.state.encode()
	w.dirty = err != nil
	return b, err
}
