package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/fsnotify/fsnotify"

	"nexus/cmd/ledgerctl/transcripts"
	"nexus/ledger/api"
)

const (
	defaultRescan = 30 * time.Second
	// defaultWorkers wait for the ledger most of the time; appends that come together share
	// its fsyncs.
	defaultWorkers = 16
	// gather is how long notifications are gathered before their files are read: a line is
	// often several writes.
	gather = 50 * time.Millisecond
	// saveAfter is how old the state on the disk may be. What a crash loses of it is read and
	// offered to the ledger again.
	saveAfter = 2 * time.Second
	// restAfter is how long nobody wrote to a file when all that was read of it is compared
	// with its hash, and its reading is dropped from memory.
	restAfter = 10 * time.Second
)

// Watcher follows files. Make one with [New].
type Watcher struct {
	cfg    Config
	client *api.Client
	step   func(string)

	mu    sync.Mutex
	state *State
	files map[string]*file
	dirty bool // the state differs from the one on the disk

	unread map[string]string // why a part of a source can't be read, as it was logged; for the loop only

	jobs    map[string]*job // by each of its files; those that no worker has begun
	running map[*job]bool
	again   map[string]bool // files that changed while a worker reads them
	wake    chan struct{}   // closed, and made anew, when there is a job or none is left
}

// job is files to be read one after the other, in this order.
type job struct {
	files  []*file
	begun  int       // of files; the last of them is read now
	newest time.Time // of the writes to them
	last   bool      // after all others
}

// New returns a watcher; an error if the configuration is wrong.
func New(cfg Config) (*Watcher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Rescan, cfg.Settle, cfg.Workers = cmp.Or(cfg.Rescan, defaultRescan), cmp.Or(cfg.Settle, transcripts.SettleTime), cmp.Or(cfg.Workers, defaultWorkers)
	w := &Watcher{cfg: cfg, step: cfg.step, files: make(map[string]*file), unread: make(map[string]string), jobs: make(map[string]*job), running: make(map[*job]bool), again: make(map[string]bool), wake: make(chan struct{})}
	if w.step == nil {
		w.step = func(string) {}
	}
	if cfg.Log == nil {
		w.cfg.Log = func(string, ...any) {}
	}
	return w, nil
}

// Run follows the sources until ctx ends; with Once, until everything that is there is in
// the ledger. It returns [ErrRunning] if another process uses the state. A ledger that does
// not answer is waited for.
func (w *Watcher) Run(ctx context.Context) (err error) {
	if err := os.MkdirAll(w.cfg.State, 0o700); err != nil {
		return err
	}
	own, err := os.OpenFile(filepath.Join(w.cfg.State, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer own.Close()
	if err := lock(own); err != nil {
		return err
	}
	w.load()
	defer func() { err = errors.Join(err, w.save()) }()
	if w.client, err = w.connect(ctx); err != nil {
		return err
	}
	w.checkLedger(ctx)
	ctx, stop := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer stop()
	for range w.cfg.Workers {
		workers.Go(func() { w.work(ctx) })
	}
	notes := w.notifications()
	if notes != nil {
		defer notes.Close()
	}
	w.scan(notes)
	if w.cfg.Once {
		return w.finish(ctx)
	}
	return w.loop(ctx, notes)
}

// loop reacts to notifications and to the time, until ctx ends.
func (w *Watcher) loop(ctx context.Context, notes *fsnotify.Watcher) error {
	var events chan fsnotify.Event
	var faults chan error
	if notes != nil {
		events, faults = notes.Events, notes.Errors
	}
	rescan := time.NewTicker(w.cfg.Rescan)
	defer rescan.Stop()
	gathered := make(map[string]bool)
	gatherer, saver := time.NewTimer(time.Hour), time.NewTimer(saveAfter)
	defer gatherer.Stop()
	defer saver.Stop()
	gatherer.Stop()
	saving := true
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-events:
			if e.Op == fsnotify.Chmod {
				continue
			}
			if len(gathered) == 0 {
				gatherer.Reset(gather)
			}
			gathered[e.Name] = true
		case err := <-faults: // events were lost
			w.cfg.Log("notifications: %v; all files are looked at", err)
			w.scan(notes)
		case <-gatherer.C:
			for name := range gathered {
				w.noticed(name, notes)
			}
			clear(gathered)
		case <-rescan.C:
			w.scan(notes)
			w.rest()
		case <-saver.C:
			saving = false
			if err := w.save(); err != nil {
				w.cfg.Log("the state can't be saved: %v", err)
			}
		}
		if !saving && w.isDirty() {
			saver.Reset(saveAfter)
			saving = true
		}
		if !saving && len(w.jobsLeft()) > 0 { // what workers do now is saved after
			saver.Reset(saveAfter)
			saving = true
		}
	}
}

// load reads the state. One that can't be used is forgotten: everything is offered again.
func (w *Watcher) load() {
	s, err := loadState(w.cfg.State)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		w.cfg.Log("the state is not used: %v", err)
	case s.Ledger != w.cfg.Ledger:
		w.cfg.Log("the state is of %s; all is offered to %s", s.Ledger, w.cfg.Ledger)
	default:
		w.state = s
	}
	if w.state == nil {
		w.state = newState(w.cfg.Ledger)
	}
	w.state.Process, w.state.Started, w.state.Waiting, w.state.Limited, w.dirty = os.Getpid(), time.Now(), "", "", true
}

// connect asks for a client until there is one.
func (w *Watcher) connect(ctx context.Context) (*api.Client, error) {
	said := false
	c, err := backoff.Retry(ctx, func() (*api.Client, error) {
		c, err := w.cfg.Connect(ctx)
		if err != nil && !said {
			said = true
			w.cfg.Log("waiting for the ledger: %v", err)
			w.waiting(err.Error())
			_ = w.save() // for who asks for the status
		}
		return c, err
	}, backoff.WithMaxElapsedTime(0), backoff.WithBackOff(&backoff.ExponentialBackOff{InitialInterval: 200 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 1.5, MaxInterval: 5 * time.Second}))
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	w.waiting("")
	return c.OnWaiting(5*time.Second, func(x api.Waiting) {
		w.cfg.Log("waiting for the ledger: %s", x.Why.Message)
		w.waiting(x.Why.Message)
	}), nil
}

func (w *Watcher) waiting(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state.Waiting != why {
		w.state.Waiting, w.dirty = why, true
	}
}

// checkLedger forgets the state if the ledger lacks sessions that the newest files had: it
// is another one.
func (w *Watcher) checkLedger(ctx context.Context) {
	const looks = 3
	w.mu.Lock()
	files := slices.SortedFunc(maps.Values(w.state.Files), func(a, b *FileState) int { return b.Delivered.Compare(a.Delivered) })
	w.mu.Unlock()
	for i, st := range files {
		if i == looks {
			return
		}
		if w.has(ctx, st.Session) {
			continue
		}
		w.cfg.Log("the ledger lacks sessions that it had; all is offered again")
		w.mu.Lock()
		w.state.Files, w.dirty = make(map[string]*FileState), true
		w.mu.Unlock()
		return
	}
}

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
				w.queue(&job{files: []*file{f}, newest: info.ModTime()})
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
			w.queue(&job{files: []*file{f}, newest: time.Now()})
		}
		return
	}
	if info.Mode().IsRegular() {
		w.queue(&job{files: []*file{f}, newest: info.ModTime()})
	}
}

// queueGroups queues files. Those that may have to do with each other are read one after
// the other in the order of an import, so that a fork comes after its parent; of the
// groups the one that was written to last comes first.
func (w *Watcher) queueGroups(work []*file, newest map[*file]time.Time) {
	slices.SortFunc(work, func(a, b *file) int { return cmp.Compare(a.path, b.path) })
	if len(work) == 0 {
		return
	}
	list := make([]transcripts.File, len(work))
	for i, f := range work {
		list[i] = transcripts.File{Name: f.path, Searched: true}
	}
	for _, group := range transcripts.Groups(list, "auto") {
		j := new(job)
		for _, i := range group {
			j.files = append(j.files, work[i])
			if t := newest[work[i]]; t.After(j.newest) {
				j.newest = t
			}
		}
		w.queue(j)
	}
}

// queue adds a job. Files that are queued already are not queued twice; a file that a worker
// reads now is read again after.
func (w *Watcher) queue(j *job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var files []*file
	for _, f := range j.files {
		had := w.jobs[f.path]
		switch {
		case had != nil:
			if j.newest.After(had.newest) {
				had.newest = j.newest
			}
		case w.isRunning(f):
			w.again[f.path] = true
		default:
			files = append(files, f)
		}
	}
	if j.files = files; len(files) == 0 {
		return
	}
	for _, f := range files {
		w.jobs[f.path] = j
	}
	w.signal()
}

// isRunning reports whether a worker reads a file, or has it before it in its job. w.mu is
// held.
func (w *Watcher) isRunning(f *file) bool {
	for j := range w.running {
		if slices.Contains(j.files[max(j.begun-1, 0):], f) {
			return true
		}
	}
	return false
}

// signal wakes who waits for jobs to come or to end. w.mu is held.
func (w *Watcher) signal() {
	close(w.wake)
	w.wake = make(chan struct{})
}

// next takes the job that was written to last; nil if there is none.
func (w *Watcher) next() (*job, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var best *job
	for _, j := range w.jobs {
		if best == nil || !j.last && best.last || j.last == best.last && j.newest.After(best.newest) {
			best = j
		}
	}
	if best != nil {
		for _, f := range best.files {
			delete(w.jobs, f.path)
		}
		w.running[best] = true
	}
	return best, w.wake
}

// work does jobs until ctx ends.
func (w *Watcher) work(ctx context.Context) {
	for ctx.Err() == nil {
		j, wake := w.next()
		if j == nil {
			select {
			case <-ctx.Done():
				return
			case <-wake:
			}
			continue
		}
		var later, soon []*file
		for _, f := range j.files {
			w.beginFile(j)
			switch err := w.read(ctx, f); {
			case errors.Is(err, errLater):
				later = append(later, f)
			case errors.Is(err, errChanged):
				soon = append(soon, f)
			}
			if ctx.Err() != nil {
				break
			}
		}
		w.done(j, soon, later)
	}
}

// beginFile notes that the next file of a job is read. The one before it may be queued
// again from now on.
func (w *Watcher) beginFile(j *job) {
	w.mu.Lock()
	var again *file
	if j.begun > 0 {
		if f := j.files[j.begun-1]; w.again[f.path] {
			delete(w.again, f.path)
			again = f
		}
	}
	j.begun++
	w.mu.Unlock()
	if again != nil {
		w.queue(&job{files: []*file{again}, newest: time.Now()})
	}
}

// done ends a job, and queues what is to be read again.
func (w *Watcher) done(j *job, soon, later []*file) {
	w.mu.Lock()
	delete(w.running, j)
	for _, f := range j.files {
		if w.again[f.path] {
			delete(w.again, f.path)
			if !slices.Contains(soon, f) && !slices.Contains(later, f) {
				soon = append(soon, f)
			}
		}
	}
	w.signal()
	w.mu.Unlock()
	now := time.Now()
	for _, f := range soon {
		w.queue(&job{files: []*file{f}, newest: now})
	}
	for _, f := range later {
		w.queue(&job{files: []*file{f}, newest: now, last: true})
	}
	w.waiting("")
}

// busyElsewhere reports whether another file is read or waits to be.
func (w *Watcher) busyElsewhere(f *file) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.jobs) > 0 || len(w.running) > 1 || !w.isRunningAlone(f)
}

// isRunningAlone reports whether the job that has f has no other file. w.mu is held.
func (w *Watcher) isRunningAlone(f *file) bool {
	for j := range w.running {
		if slices.Contains(j.files, f) {
			return len(j.files) == 1
		}
	}
	return true
}

func (w *Watcher) jobsLeft() map[string]*job {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.running) > 0 {
		return map[string]*job{"": nil}
	}
	return maps.Clone(w.jobs)
}

// finish waits until no job is left.
func (w *Watcher) finish(ctx context.Context) error {
	for {
		w.mu.Lock()
		left, wake := len(w.jobs)+len(w.running), w.wake
		w.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		}
	}
}

// rest drops the readings of files that nobody writes to, after a look at what was read of
// them: a write into the middle, with the end as it was, is noticed here.
func (w *Watcher) rest() {
	w.mu.Lock()
	var idle []*file
	for _, f := range w.files {
		if f.live != nil && !w.isRunning(f) && time.Since(f.live.used) > restAfter {
			idle = append(idle, f)
		}
	}
	w.mu.Unlock()
	for _, f := range idle {
		w.queue(&job{files: []*file{f}})
	}
}

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
	st.Agent = cmp.Or(st.Agent, f.source.Agent)
	w.state.Files[f.path], w.dirty = &st, true
	w.mu.Unlock()
	if w.cfg.saveEach {
		_ = w.save()
	}
	w.step("committed")
}

// forget removes the entry of a name that a file had.
func (w *Watcher) forget(f *file) {
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

// save writes the state to the disk.
func (w *Watcher) save() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.dirty {
		return nil
	}
	w.step("save")
	w.state.Saved = time.Now()
	if err := w.state.save(w.cfg.State); err != nil {
		return fmt.Errorf("save the state: %w", err)
	}
	w.dirty = false
	w.step("saved")
	return nil
}
