package watch

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"nexus/cmd/internal/transcripts/transcriptfile"
)

// job is files to be read one after the other, in this order.
type job struct {
	files  []*file
	begun  int       // of files; the last of them is read now
	newest time.Time // of the writes to them
	seen   time.Time // when one of them was written to while it was watched; zero: a look at all files found them
	last   bool      // after all others
}

// queueGroups queues files. Those that may have to do with each other are read one after
// the other in the order of an import, so that a fork comes after its parent; of the
// groups the one that was written to last comes first.
func (w *Watcher) queueGroups(work []*file, newest map[*file]time.Time) {
	slices.SortFunc(work, func(a, b *file) int { return cmp.Compare(a.path, b.path) })
	if len(work) == 0 {
		return
	}
	list := make([]transcriptfile.File, len(work))
	for i, f := range work {
		list[i] = transcriptfile.File{Name: f.path, Searched: true}
	}
	for _, group := range transcriptfile.Groups(list, "auto") {
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

// writtenNow returns the job of a file that somebody writes to.
func writtenNow(f *file) *job {
	now := time.Now()
	return &job{files: []*file{f}, newest: now, seen: now}
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
			if had.seen.IsZero() {
				had.seen = j.seen
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

// before reports whether j is done before o. What is written now comes before what was
// there: the file that waits longest first, so that none waits for all others again and
// again. Of what was there, the newest comes first.
func (j *job) before(o *job) bool {
	switch {
	case j.last != o.last:
		return o.last
	case j.seen.IsZero() != o.seen.IsZero():
		return o.seen.IsZero()
	case !j.seen.IsZero():
		return j.seen.Before(o.seen)
	}
	return j.newest.After(o.newest)
}

// next takes the job that is done before all others; nil if there is none.
func (w *Watcher) next() (*job, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var best *job
	for _, j := range w.jobs {
		if best == nil || j.before(best) {
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
		w.queue(writtenNow(again))
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
		w.queue(writtenNow(f))
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
