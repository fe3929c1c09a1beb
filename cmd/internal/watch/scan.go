package watch

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// notifications returns a watcher of the file system, nil if there is none.
func (w *Watcher) notifications() *fsnotify.Watcher {
	if w.cfg.Once || w.cfg.Polling {
		return nil
	}
	n, err := fsnotify.NewWatcher()
	if err != nil {
		w.limited(err)
		return nil
	}
	return n
}

// limited records that folders have no notifications: their files are read at the next
// look at all files.
func (w *Watcher) limited(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state.Limited == "" {
		w.cfg.Log("not all folders have notifications, their files are read every %s: %v", w.cfg.Rescan, err)
		w.state.Limited, w.dirty = err.Error(), true
	}
}

// scan looks at all files, and queues those that are not as they were.
func (w *Watcher) scan(notes *fsnotify.Watcher) {
	found := make(map[string]bool)
	var work []*file
	newest := make(map[*file]time.Time)
	watched := make(map[string]bool)
	if notes != nil {
		for _, name := range notes.WatchList() {
			watched[name] = true
		}
	}
	for _, src := range w.cfg.Sources {
		for parent := nearest(src.Root); notes != nil && parent != src.Root && !watched[parent]; parent = nearest(src.Root) { // it may be made just now
			if watched[parent] = true; notes.Add(parent) != nil {
				break // the next look finds it
			}
		}
		folder := func(path string) {
			if notes != nil && !watched[path] {
				if err := notes.Add(path); err != nil {
					w.limited(err)
				}
			}
		}
		if err := src.find(folder, func(path string, info fs.FileInfo) {
			found[path] = true
			f := w.fileOf(path, src)
			if w.needsWork(f, info) {
				work = append(work, f)
				newest[f] = info.ModTime()
			}
		}); err != nil && w.unread[src.Root] != err.Error() {
			w.unread[src.Root] = err.Error()
			w.cfg.Log("%s: %v", src.Root, err)
		}
	}
	w.queueGroups(append(work, w.missing(found)...), newest)
}

// nearest returns a folder, or the nearest above it that is there: where it will be made.
func nearest(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// isAbove reports whether a folder is the root of a source, or above it.
func (w *Watcher) isAbove(name string) bool {
	return slices.ContainsFunc(w.cfg.Sources, func(s Source) bool {
		rel, err := filepath.Rel(name, s.Root)
		return err == nil && filepath.IsLocal(rel)
	})
}

// scanFolder looks at a folder that was made or moved here, and queues its files.
func (w *Watcher) scanFolder(name string, notes *fsnotify.Watcher) {
	for _, src := range w.cfg.Sources {
		if rel, err := filepath.Rel(src.Root, name); err != nil || !filepath.IsLocal(rel) {
			continue
		}
		folder := func(path string) {
			if notes != nil {
				if err := notes.Add(path); err != nil {
					w.limited(err)
				}
			}
		}
		err := src.findIn(name, folder, func(path string, info fs.FileInfo) {
			if f := w.fileOf(path, src); w.needsWork(f, info) {
				w.queue(writtenNow(f))
			}
		})
		if err != nil {
			w.cfg.Log("%s: %v", name, err)
		}
	}
}

// needsWork reports whether a file is not as it was when it was read, or has ended since,
// or failed and is due.
func (w *Watcher) needsWork(f *file, info fs.FileInfo) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	st := w.state.Files[f.path]
	switch {
	case w.state.isErased(f.path, info):
		return false
	case st == nil || !st.Gone.IsZero():
		return true
	case st.Failed != "":
		return !st.sameFile(info) || time.Now().After(st.retryAt())
	}
	return !st.sameFile(info) || !st.Final && time.Since(info.ModTime()) > w.cfg.Settle
}

// missing returns the files of the state that were not found and are not known to be gone.
func (w *Watcher) missing(found map[string]bool) (out []*file) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, st := range w.state.Files {
		if src, ok := w.sourceOf(path); ok && !found[path] && st.Gone.IsZero() {
			out = append(out, w.fileLocked(path, src))
		}
	}
	return out
}

// sourceOf returns the source that takes a path.
func (w *Watcher) sourceOf(path string) (Source, bool) {
	for _, s := range w.cfg.Sources {
		if rel, err := filepath.Rel(s.Root, path); err == nil && filepath.IsLocal(rel) && s.takes(rel) {
			return s, true
		}
	}
	return Source{}, false
}

// noticed queues what a notification names: a file, or the files of a folder.
func (w *Watcher) noticed(name string, notes *fsnotify.Watcher) {
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		if w.isAbove(name) {
			w.scan(notes)
		} else {
			w.scanFolder(name, notes)
		}
		return
	}
	src, ok := w.sourceOf(name)
	if !ok {
		return
	}
	f := w.fileOf(name, src)
	if err != nil {
		w.mu.Lock()
		known := w.state.Files[name] != nil
		w.mu.Unlock()
		if known {
			w.queue(writtenNow(f))
		}
		return
	}
	if info.Mode().IsRegular() {
		w.queue(writtenNow(f))
	}
}
