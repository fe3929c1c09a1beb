package watch

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/fsnotify/fsnotify"

	"nexus/cmd/internal/repository"
	"nexus/cmd/internal/transcripts"
	"nexus/ledger/api/client"
	"nexus/turns"
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
	client *client.Client
	step   func(string)
	look   bool // read a file also if all of it is in the ledger

	projects repository.Cache

	saving sync.Mutex // one save at a time; locked before mu

	mu    sync.Mutex
	state *State
	files map[string]*file
	dirty bool              // the state differs from the one on the disk
	gone  map[turns.ID]bool // sessions that were erased, and that no entry names any more

	unread map[string]string // why a part of a source can't be read, as it was logged; for the loop only

	jobs    map[string]*job // by each of its files; those that no worker has begun
	running map[*job]bool
	again   map[string]bool // files that changed while a worker reads them
	wake    chan struct{}   // closed, and made anew, when there is a job or none is left
}

// New returns a watcher; an error if the configuration is wrong.
func New(cfg Config) (*Watcher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Rescan, cfg.Settle, cfg.Workers = cmp.Or(cfg.Rescan, defaultRescan), cmp.Or(cfg.Settle, transcripts.SettleTime), cmp.Or(cfg.Workers, defaultWorkers)
	cfg.ClosedWithin = cmp.Or(cfg.ClosedWithin, closedWithin)
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
	if err := os.MkdirAll(requestsDir(w.cfg.State), 0o700); err != nil {
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
	removeLeftovers(w.cfg.State)
	w.load()
	defer func() { err = errors.Join(err, w.save()) }()
	if w.client, err = w.connect(ctx); err != nil {
		return err
	}
	w.checkLedger(ctx)
	notes := w.notifications()
	if notes != nil {
		defer notes.Close()
		_ = notes.Add(requestsDir(w.cfg.State)) // else the next look at all files finds what is there
	}
	w.forget(ctx)
	ctx, stop := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer stop()
	for range w.cfg.Workers {
		workers.Go(func() { w.work(ctx) })
	}
	w.scan(notes)
	if w.cfg.Once {
		err := w.finish(ctx)
		w.forget(ctx) // what was asked meanwhile
		return err
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
	saving, saved := true, make(chan struct{}, 1)
	var saves sync.WaitGroup
	defer saves.Wait()
	requests := make(chan struct{}, 1)
	defer close(requests)
	saves.Go(func() { // a ledger that does not answer holds up no file
		for range requests {
			w.forget(ctx)
		}
	})
	look := func() {
		select {
		case requests <- struct{}{}:
		default:
		}
	}
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
				if filepath.Dir(name) == requestsDir(w.cfg.State) {
					look()
					continue
				}
				w.noticed(name, notes)
			}
			clear(gathered)
		case <-rescan.C:
			w.scan(notes)
			w.rest()
			look()
		case <-saver.C:
			saves.Go(func() { // a slow disk holds up no file
				if err := w.save(); err != nil {
					w.cfg.Log("the state can't be saved: %v", err)
				}
				saved <- struct{}{}
			})
		case <-saved:
			saving = false
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

// forget takes sessions that were erased out of the state, as requests ask.
func (w *Watcher) forget(ctx context.Context) {
	if err := w.takeRequests(ctx, w.save); err != nil && ctx.Err() == nil {
		w.cfg.Log("sessions that were erased are in the state still: %v", err)
	}
}

// connect asks for a client until there is one.
func (w *Watcher) connect(ctx context.Context) (*client.Client, error) {
	said := false
	c, err := backoff.Retry(ctx, func() (*client.Client, error) {
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
	return c.OnWaiting(5*time.Second, func(x client.Waiting) {
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
		if w.has(ctx, st.session()) {
			continue
		}
		w.cfg.Log("the ledger lacks sessions that it had; all is offered again")
		w.mu.Lock()
		w.state.Files, w.dirty = make(map[string]*FileState), true
		w.mu.Unlock()
		return
	}
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
