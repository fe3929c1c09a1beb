package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nexus/cmd/internal/engine/archive"
	"nexus/cmd/internal/engine/memories"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// Source is what files are made from. [archive.Archive] implements it.
type Source interface {
	Ledger() string
	Applied() uint64
	WaitFor(ctx context.Context, seq uint64) error
	Touched(from, to uint64) iter.Seq2[turns.ID, error]
	Asks(ctx context.Context, id turns.ID) (*archive.Session, error)
	Heirs(ctx context.Context, id turns.ID) (*ledger.Session, []turns.ID, error)
	Redacted(id turns.ID) (uint64, error)
	Compactions(s *archive.Session) iter.Seq2[lineage.Node, error]
	Covered(ctx context.Context, s *archive.Session, n lineage.Node) iter.Seq2[archive.Line, error]
	Whole(ctx context.Context, s *archive.Session) iter.Seq2[archive.Line, error]
	Turns(ctx context.Context, s *archive.Session, from uint64) iter.Seq2[archive.Turn, error]
	Left(s *archive.Session, ids []turns.ID) (map[turns.ID]bool, error)
	Compacted(n lineage.Node) (*api.Turn, error)
	NotesAt(tenant, agent string) (uint64, error)
	Notes(ctx context.Context, tenant, agent string) (*memories.Notes, error)
}

// Config is what an exporter is made from.
type Config struct {
	Dir      string // made if it is missing
	Source   Source
	Logger   *slog.Logger          // nil is silent; content is never logged
	Registry prometheus.Registerer // nil counts nothing
	// Pause is the time between two passes. 0 means a second.
	Pause time.Duration
}

// Exporter writes the files of all sessions whose policies ask for them. One goroutine
// uses it.
type Exporter struct {
	Config
	root    folder
	units   map[string]*unit // files that grow, by the name of their state
	state   state
	saved   time.Time // when state was saved
	unread  string    // why the last pass could not read the projections; "": it could
	lock    *os.File  // of the folder, while Run writes in it
	waiting bool      // another daemon had the lock when Run asked for it
	written prometheus.Counter
	failed  prometheus.Gauge

	mu      sync.Mutex
	reached state // as the last pass left it, for [Exporter.Reached]
}

// state is where the exporter is. It is kept in the folder of the files, so that a
// folder that is emptied gets its files again.
type state struct {
	Ledger   string              `json:"ledger"`
	Position uint64              `json:"position"`           // what was stored up to it has its files
	Failed   []turns.ID          `json:"failed,omitempty"`   // but for these sessions
	Again    []turns.ID          `json:"again,omitempty"`    // and these, of which an erasure removed files, or will
	Redacted map[turns.ID]uint64 `json:"redacted,omitempty"` // how many events that redact the files of a session know
	Notes    []*note             `json:"notes,omitempty"`    // agents with files of their memory, which have states of their own
}

const (
	stateName = ".nexus-files.json"
	lockName  = ".nexus-files.lock"
	maxState  = 256 << 20 // bytes: some million sessions
	// saveEvery bounds what a start reads again. A lost state costs only time.
	saveEvery = time.Minute
	// retryFailed is how many passes a session waits whose files could not be written.
	retryFailed = 10
)

// Open opens the folder of files. Files are written by [Exporter.Run].
//
// Errors: one that says that the folder has the files of another ledger; those of the
// disk.
func Open(c Config) (*Exporter, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Pause == 0 {
		c.Pause = time.Second
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder of files: %w", err)
	}
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("folder of files: %w", err)
	}
	x := &Exporter{Config: c, root: folder{Root: root}, units: make(map[string]*unit), saved: time.Now(),
		written: prometheus.NewCounter(prometheus.CounterOpts{Name: "nexus_files_written_total", Help: "Files written beside the ledger."}),
		failed:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "nexus_files_failed", Help: "Sessions and agents whose files could not be written; they are tried again."}),
	}
	if err := x.load(); err != nil { // before anybody asks
		return nil, errors.Join(fmt.Errorf("folder of files: %w", err), root.Close())
	}
	if c.Registry != nil {
		c.Registry.MustRegister(x.written, x.failed)
	}
	return x, nil
}

// load reads the state. A state that can't be read is that of an empty folder: every
// file that is there is kept, and those that are missing are written.
func (x *Exporter) load() error {
	x.state = state{Ledger: x.Source.Ledger()}
	var s state
	err := x.root.readFile(stateName, func(r io.Reader) error {
		b, err := io.ReadAll(io.LimitReader(r, maxState))
		if err != nil {
			return err
		}
		return turns.DecodeJSON(b, &s)
	})
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		x.Logger.Warn("the state of the files is damaged: files that are missing are written", "err", err)
		return nil
	case s.Ledger != x.state.Ledger:
		return fmt.Errorf("%s: the folder has the files of ledger %s, this is %s; name another folder with --files; if the folder is this ledger's, delete that file, which is damaged; the others are kept",
			filepath.Join(x.Dir, stateName), s.Ledger, x.state.Ledger)
	case s.Position > x.Source.Applied():
		s.Position = 0 // the log was cut; its files are checked again
	}
	x.state = s
	return nil
}

// save writes the state.
func (x *Exporter) save() error {
	x.saved = time.Now()
	return x.root.replace(stateName, func(w io.Writer) error {
		b, err := turns.EncodeJSON(x.state)
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	}, nil)
}

// Close saves the state, unless another daemon has the folder, and closes the folder. No Run
// may be going on.
func (x *Exporter) Close() error {
	var err error
	if !x.waiting {
		err = x.save()
	}
	if x.lock != nil {
		err = errors.Join(err, x.lock.Close())
	}
	return errors.Join(err, x.root.Close())
}

// hold locks the folder, as soon as no other daemon has it. Two of them would append to the
// same files, each at the length that it knows. The kernel releases the lock when the
// process ends, however it ends. It returns false if ctx ended or the folder is another
// ledger's by now.
func (x *Exporter) hold(ctx context.Context) bool {
	for said := ""; ; {
		f, err := x.root.openRegular(lockName, os.O_CREATE|os.O_RDWR)
		if err == nil {
			if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
				_ = f.Close()
			}
		}
		if err == nil {
			x.lock = f
			if x.waiting {
				err = x.load() // what the other has written
			}
			if x.waiting = err != nil; err == nil {
				return true
			}
			x.Logger.Error("files: they can't be written", "err", err)
			return false
		}
		x.waiting = true
		if text := err.Error(); text != said {
			said = text
			if errors.Is(err, syscall.EWOULDBLOCK) {
				x.Logger.Info("files: another daemon writes them; this one waits for its end", "folder", x.Dir)
			} else {
				x.Logger.Error("files: the folder can't be locked; it is tried again", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(x.Pause):
		}
	}
}

// Run writes files until ctx ends. Files that can't be written are tried again; it
// ends for nothing else. Where another daemon writes them, it waits.
func (x *Exporter) Run(ctx context.Context) {
	if !x.hold(ctx) {
		return
	}
	x.noteReached() // what is not behind its position has its files
	for pass := 0; ; pass++ {
		next := x.state.Position + 1
		if len(x.state.Failed) > 0 || len(x.state.Again) > 0 || slices.ContainsFunc(x.state.Notes, func(n *note) bool { return n.failed }) {
			next = x.state.Position // there is work, whatever is stored
		}
		if err := x.Source.WaitFor(ctx, next); err != nil && ctx.Err() == nil {
			x.Logger.Debug("files: the projections can't be read", "err", err) // an outage says so
		}
		if ctx.Err() != nil {
			return
		}
		x.Pass(ctx, pass%retryFailed == 0)
		select {
		case <-ctx.Done():
			return
		case <-time.After(x.Pause):
		}
	}
}

// Pass writes what the events behind the position ask for. retry says to try again
// what failed before. It returns how many files it wrote.
func (x *Exporter) Pass(ctx context.Context, retry bool) (written int) {
	to := x.Source.Applied()
	touched := make(map[turns.ID]bool)
	if retry {
		for _, id := range x.state.Failed {
			touched[id] = true
		}
	}
	for id, err := range x.Source.Touched(x.state.Position, to) {
		if err != nil {
			x.reportOnce(err)
			return 0
		}
		touched[id] = true
	}
	x.unread = ""
	var failed, later []turns.ID
	for id := range touched {
		n, err := x.session(ctx, id)
		if written += n; ctx.Err() != nil {
			return written // the position stays, and the rest is found again
		}
		if errors.Is(err, archive.ErrKeyStays) {
			later = append(later, id)
			continue
		}
		if err != nil {
			failed = append(failed, id)
			if !slices.Contains(x.state.Failed, id) {
				x.Logger.Error("files: they can't be written; they are tried again", "session", id, "err", err)
			}
		}
	}
	for _, id := range x.state.Failed {
		if !touched[id] {
			failed = append(failed, id)
		}
	}
	for _, id := range x.state.Again {
		n, err := x.session(ctx, id)
		if written += n; ctx.Err() != nil {
			return written
		}
		if errors.Is(err, archive.ErrKeyStays) {
			later = append(later, id)
			continue
		}
		if err != nil && !slices.Contains(failed, id) {
			x.Logger.Error("files: they can't be written; they are tried again", "session", id, "err", err)
			failed = append(failed, id)
		}
	}
	again := len(x.state.Again)+len(later) > 0
	x.state.Again = later
	written += x.notes(ctx, retry)
	slices.SortFunc(failed, turns.ID.Compare)
	changed := again || !slices.Equal(failed, x.state.Failed)
	x.state.Position, x.state.Failed = to, failed
	x.failed.Set(float64(len(failed) + x.failedNotes()))
	if written > 0 || changed || time.Since(x.saved) > saveEvery {
		if err := x.save(); err != nil {
			x.Logger.Warn("files: their state can't be saved; a start reads more of the log again", "err", err)
		}
	}
	x.noteReached()
	return written
}

// noteReached notes where the exporter is, for [Exporter.Reached].
func (x *Exporter) noteReached() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reached = state{Position: x.state.Position, Failed: slices.Concat(x.state.Failed, x.state.Again)}
	if x.failedNotes() > 0 {
		x.reached.Position = 0
	}
}

// Reached reports whether the files are those of the log up to a position, as far as a session is concerned. Safe
// for concurrent use.
func (x *Exporter) Reached(session turns.ID, at uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.reached.Position >= at && !slices.Contains(x.reached.Failed, session)
}

// reportOnce logs why the projections can't be read, once for each reason. No file is
// written until they can.
func (x *Exporter) reportOnce(err error) {
	if text := err.Error(); text != x.unread {
		x.unread = text
		x.Logger.Error("files: the projections can't be read, so no file is written; they are read again", "err", err)
	}
}

// session writes the files of a session that are missing.
func (x *Exporter) session(ctx context.Context, id turns.ID) (written int, err error) {
	s, err := x.Source.Asks(ctx, id)
	if errors.Is(err, ledger.ErrErased) {
		return 0, x.erase(ctx, id, false)
	}
	if err == nil {
		n, err := x.Source.Redacted(id)
		if err != nil {
			return 0, err
		}
		if n > x.state.Redacted[id] {
			if err := x.erase(ctx, id, true); err != nil {
				return 0, err
			}
			if x.state.Redacted == nil {
				x.state.Redacted = make(map[turns.ID]uint64)
			}
			x.state.Redacted[id] = n // saved with the position, which is behind the removal
			return 0, nil
		}
	}
	if errors.Is(err, ledger.ErrNotFound) {
		return 0, nil // there is nothing that could be written
	}
	if err != nil || !s.Files.On() {
		return 0, err
	}
	switch s.Files.Layout {
	case "gsv":
		return x.gsv(ctx, s)
	case "autobyteus":
		return x.autobyteus(ctx, s)
	case "wolffish":
		return x.wolffish(ctx, s)
	}
	return 0, nil
}

// gsv writes the archives of the design GSV: one for each compaction, and the whole
// session when it has ended.
func (x *Exporter) gsv(ctx context.Context, s *archive.Session) (written int, err error) {
	x.remembers(s.Tenant, s.Agent)
	if !s.Files.Archive {
		return 0, nil
	}
	base := path.Join(agentFolder(s.Tenant, s.Agent), "sessions", s.ID.String())
	n := 0
	for c, err := range x.Source.Compactions(s) {
		if err != nil {
			return written, err
		}
		n++
		k, err := x.archive(fmt.Sprintf("%s.partial-%d.jsonl.gz", base, n), x.Source.Covered(ctx, s, c))
		if written += k; err != nil {
			return written, err
		}
	}
	if !s.Final() {
		return written, nil
	}
	k, err := x.archive(base+".jsonl.gz", x.Source.Whole(ctx, s))
	return written + k, err
}

// archive writes an archive if it is missing. What it holds never changes.
func (x *Exporter) archive(name string, lines iter.Seq2[archive.Line, error]) (written int, err error) {
	if ok, err := x.root.exists(name); ok || err != nil {
		return 0, err
	}
	if err := x.root.writeArchive(name, lines); err != nil {
		return 0, err
	}
	x.written.Inc()
	return 1, nil
}

// agentFolder returns the folder of an agent. The tenant default has the paths of the
// designs, which know no tenants. Names of tenants and agents have letters, digits and
// dashes only.
func agentFolder(tenant, agent string) string {
	if tenant == "default" {
		return path.Join("agents", agent)
	}
	return path.Join("tenants", tenant, "agents", agent)
}
