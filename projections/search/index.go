package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/blevesearch/bleve/v2"
	"github.com/fxamacker/cbor/v2"

	"nexus/ledger"
	"nexus/turns"
)

// Schema is the version of the documents and of the terms. An index of another version is
// discarded and made again.
const Schema = 7

// A batch ends at so many records or bytes of text. They bound the memory of a rebuild.
const (
	batchRecords = 2000
	batchBytes   = 4 << 20
)

// Document is what the index knows of a turn, a memory or an external event.
type Document struct {
	ID      string // unique, made of its position
	Kind    string // turn, memory, event
	Tenant  string
	Agent   string
	Session string // turns and memories of compactions
	Segment string // turns: the segment of the lineage
	Depth   uint64 // turns
	Model   string
	Tools   []string
	Roles   []string // of the messages
	Source  string   // where the agent worked: the program, such as claude-code
	Cwd     string   // the folder
	Branch  string   // of git
	Keys    []string // ids of the content keys
	Time    int64    // Unix ns
	Said    []string // what people and models wrote
	Calls   []string // names and arguments of tool calls
	Output  []string // of tools
}

// size is about how many bytes of text a document has.
func (d *Document) size() (n int) {
	for _, list := range [][]string{d.Said, d.Calls, d.Output} {
		for _, s := range list {
			n += len(s)
		}
	}
	return n
}

// Source is what an index is made from. Safe for concurrent use.
type Source interface {
	// Applied returns the identity of the log, and the last position that can be read.
	Applied() (identity string, seq uint64)
	// WaitFor returns when the position can be read. Errors: [ledger.ErrUnavailable].
	WaitFor(ctx context.Context, seq uint64) error
	// Hash returns the hash of the record at a position.
	Hash(seq uint64) (turns.Hash, error)
	// Documents returns the documents of the record at a position, none for one without
	// words, or whose content can't be read. Errors: [ledger.ErrUnavailable]: ask again.
	Documents(ctx context.Context, seq uint64) ([]Document, error)
	// Erased reports whether the content key with an id was destroyed.
	Erased(key string) bool
}

// Config says where an index is and how it works.
type Config struct {
	Dir    string       // is created; nothing else may be in it
	Logger *slog.Logger // nil: silent. Words are never logged
	// Linger is how long Run waits for more records before it stores a batch. 0: not.
	Linger time.Duration
	// Rest is how many times as long as a batch took Run rests behind it, a minute at most, if
	// events came meanwhile: appends have the processors. A search ends it, and so does a
	// second without an event. 0: none.
	Rest int
	// Delay is how long Run leaves the index closed at first: to open it, it compares all files
	// with their checksums, and a start has other things to do. A search ends it. 0: none.
	Delay time.Duration
	// Retry is the pause after an error. 0: a second.
	Retry time.Duration
	// BatchRecords is the most records of a batch. 0: 2,000.
	BatchRecords int
}

// Index is an index in a folder. Safe for concurrent use.
type Index struct {
	cfg    Config
	erase  chan struct{} // a key was destroyed
	broken chan struct{} // a search found damage

	waiting atomic.Int64  // searches that wait for a position
	hurry   chan struct{} // one came

	mu      sync.Mutex  // never held while something is read or written
	idx     bleve.Index // nil: not open
	at      checkpoint
	moved   chan struct{}  // closed and made anew when at changes
	readers sync.WaitGroup // searches of idx; one begins while mu is held and idx is open
}

// checkpoint is up to where an index has the log.
type checkpoint struct {
	_        struct{} `cbor:",toarray"`
	Schema   uint64
	Identity string // of the log
	Seq      uint64 // last record; 0: none
	Hash     turns.Hash
}

var checkpointKey = []byte("nexus-checkpoint")

var (
	// errDamaged: the files of the index are not what was written.
	errDamaged = errors.New("the index is damaged")
	// errErased: the index has words of a session whose key was destroyed. It is made again,
	// since the library keeps removed words in its files for an unknown time. A crash on the
	// way leaves the key in the index, and the next start finds it.
	errErased = errors.New("a content key was destroyed")
)

// New returns an index over a folder. It opens nothing: [Index.Run] does.
func New(c Config) *Index {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Retry == 0 {
		c.Retry = time.Second
	}
	if c.BatchRecords == 0 {
		c.BatchRecords = batchRecords
	}
	return &Index{cfg: c, erase: make(chan struct{}, 1), broken: make(chan struct{}, 1), hurry: make(chan struct{}, 1), moved: make(chan struct{})}
}

// Position returns the last position of the log that the index has; 0: none yet.
func (x *Index) Position() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.at.Seq
}

// WaitFor returns when the index has the position. Errors: [ledger.ErrUnavailable] when
// ctx ends.
func (x *Index) WaitFor(ctx context.Context, seq uint64) error {
	x.waiting.Add(1)
	defer x.waiting.Add(-1)
	signal(x.hurry)
	for {
		x.mu.Lock()
		at, moved := x.at.Seq, x.moved
		x.mu.Unlock()
		if at >= seq {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("%w: the search index is at %d, not yet at %d: %w", ledger.ErrUnavailable, at, seq, ctx.Err())
		}
	}
}

// Erase makes the index again, soon, if it has words of a content key that was destroyed.
// It never blocks.
func (x *Index) Erase() { signal(x.erase) }

// Hurry ends a rest: a search found that the index lacks much, and does not wait for it.
// It never blocks.
func (x *Index) Hurry() { signal(x.hurry) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run opens the index, or makes a new one, and follows src until ctx ends. An error of
// the disk or of src is logged once, and tried again after a pause. It closes the index.
func (x *Index) Run(ctx context.Context, src Source) {
	x.delay(ctx)
	last := ""
	for ctx.Err() == nil {
		err := x.follow(ctx, src)
		x.close()
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errErased) {
			x.cfg.Logger.Info("the search index is made again, without the words of a session that was erased")
			if err = x.remove(); err == nil {
				continue
			}
		}
		if errors.Is(err, errDamaged) {
			x.cfg.Logger.Error("the search index is damaged: it is removed and made again", "err", err)
			if err = x.remove(); err == nil {
				continue
			}
		}
		if err != nil && err.Error() != last {
			last = err.Error()
			x.cfg.Logger.Warn("search index: it is tried again", "err", err)
		}
		select {
		case <-time.After(x.cfg.Retry):
		case <-ctx.Done():
		}
	}
}

// delay returns after [Config.Delay], when a search comes, or when ctx ends.
func (x *Index) delay(ctx context.Context) {
	end := time.NewTimer(x.cfg.Delay)
	defer end.Stop()
	select {
	case <-end.C:
	case <-x.hurry:
	case <-ctx.Done():
	}
}

func (x *Index) path() string { return filepath.Join(x.cfg.Dir, "index") }

// remove removes the index. Nothing of it is kept, since its words may be those of a
// session that is erased later.
func (x *Index) remove() error { return os.RemoveAll(x.path()) }

// close closes the index when no search reads it any more.
func (x *Index) close() {
	x.mu.Lock()
	idx := x.idx
	x.idx = nil
	x.set(checkpoint{})
	x.mu.Unlock()
	if idx == nil {
		return
	}
	x.readers.Wait()
	if err := protect(idx.Close); err != nil {
		x.cfg.Logger.Warn("close the search index", "err", err)
	}
}

// set replaces the checkpoint. The caller holds mu.
func (x *Index) set(at checkpoint) {
	x.at = at
	close(x.moved)
	x.moved = make(chan struct{})
}

// follow opens the index and applies what src has, until ctx ends or something fails.
func (x *Index) follow(ctx context.Context, src Source) error {
	idx, at, err := x.open(ctx, src)
	if err != nil {
		return err
	}
	select {
	case <-x.broken: // said of the index before
	default:
	}
	if err := sweep(ctx, src, idx); err != nil { // it may have been destroyed before a crash
		return errors.Join(err, protect(idx.Close))
	}
	x.mu.Lock()
	x.idx = idx
	x.set(at)
	x.mu.Unlock()
	records := x.busyBatch() // a whole one would be without a rest before it
	for {
		if err := x.wait(ctx, src, at.Seq+1); err != nil {
			return err
		}
		select {
		case <-x.erase:
			if err := sweep(ctx, src, idx); err != nil {
				return err
			}
		case <-x.broken:
			return errDamaged
		default:
		}
		began := time.Now()
		_, before := src.Applied()
		if at, err = x.batch(ctx, src, idx, at, records); err != nil {
			return err
		}
		records = x.cfg.BatchRecords
		if _, now := src.Applied(); now != before && x.rest(ctx, src, time.Duration(x.cfg.Rest)*time.Since(began)) {
			records = x.busyBatch()
		}
	}
}

// busyBatch returns how many records a batch has while events come.
func (x *Index) busyBatch() int { return max(1, x.cfg.BatchRecords/busyPart) }

// rest leaves the processors to others after a batch in which events came: for d, unless
// a search comes, one found damage, or no more events come. It reports whether events still come.
func (x *Index) rest(ctx context.Context, src Source, d time.Duration) bool {
	if d <= 0 || x.waiting.Load() > 0 {
		return false
	}
	select {
	case <-x.hurry: // of a search that waited before
	default:
	}
	if x.waiting.Load() > 0 {
		return false
	}
	end := time.NewTimer(min(d, maxRest))
	defer end.Stop()
	look := time.NewTicker(calm)
	defer look.Stop()
	for _, before := src.Applied(); ; {
		select {
		case <-end.C:
			return true
		case <-look.C:
			_, now := src.Applied()
			if now == before {
				return false
			}
			before = now
		case <-x.hurry:
			return false
		case <-x.erase:
			x.Erase() // follow takes it
			return false
		case <-x.broken:
			signal(x.broken) // the same
			return false
		case <-ctx.Done():
			return false
		}
	}
}

const (
	// maxRest bounds a rest, so that an index that is far behind goes on.
	maxRest = time.Minute
	// calm is how long no event comes before a rest ends.
	calm = time.Second
	// busyPart is how many batches are made of one while events come, so that a rest is long
	// enough for each.
	busyPart = 4
)

// wait returns nil when src has a position, or when there is something else to do.
func (x *Index) wait(ctx context.Context, src Source, seq uint64) error {
	if _, last := src.Applied(); last >= seq {
		return ctx.Err()
	}
	waiting, cancel := context.WithCancel(ctx)
	ready := make(chan error, 1)
	go func() { ready <- src.WaitFor(waiting, seq) }()
	var err error
	select {
	case err = <-ready:
		cancel()
		if err == nil && x.cfg.Linger > 0 {
			select {
			case <-time.After(x.cfg.Linger):
			case <-ctx.Done():
			}
		}
		return errors.Join(err, ctx.Err())
	case <-x.erase:
		x.Erase() // follow takes it
	case <-x.broken:
		err = errDamaged
	}
	cancel()
	<-ready
	return err
}

// batch stores the documents of the next records, so many at most, with the checkpoint behind them. It
// returns at if there are none.
//
// A crash before the batch is durable leaves the checkpoint before it, and the same
// records are applied again. Documents have ids of their positions, so nothing is there
// twice.
func (x *Index) batch(ctx context.Context, src Source, idx bleve.Index, at checkpoint, records int) (checkpoint, error) {
	identity, last := src.Applied()
	if last <= at.Seq {
		return at, nil
	}
	next, bytes := at, 0
	next.Identity = identity
	b := idx.NewBatch()
	for next.Seq < last && next.Seq < at.Seq+uint64(records) && bytes < batchBytes {
		docs, err := src.Documents(ctx, next.Seq+1)
		if err != nil {
			return at, fmt.Errorf("record %d: %w", next.Seq+1, err)
		}
		next.Seq++
		for i := range docs {
			if err := b.IndexAdvanced(docs[i].indexed()); err != nil {
				return at, fmt.Errorf("record %d: %w", next.Seq, err)
			}
			bytes += docs[i].size()
		}
	}
	var err error
	if next.Hash, err = src.Hash(next.Seq); err != nil {
		return at, err
	}
	value, err := cbor.Marshal(next)
	if err != nil {
		return at, err
	}
	b.SetInternal(checkpointKey, value)
	if err := protect(func() error { return idx.Batch(b) }); err != nil {
		return at, err
	}
	x.mu.Lock()
	x.set(next)
	x.mu.Unlock()
	return next, nil
}

// sweep returns errErased if the index has words of a destroyed key.
func sweep(ctx context.Context, src Source, idx bleve.Index) error {
	keys, err := terms(ctx, idx, "key")
	for _, key := range keys {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if src.Erased(key) {
			return errErased
		}
	}
	return err
}
