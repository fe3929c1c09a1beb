package groupsync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"nexus/ledger"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/mark"
)

// Stream syncs the blocks of one stream. Safe for concurrent use. A nil Stream
// waits for nothing: the server did the fsync.
type Stream struct {
	cfg Config

	synced  atomic.Uint64 // every record up to here is on the disk
	begun   atomic.Int64  // writes that began
	arrived atomic.Int64  // of them, those that wait for a fsync, or ended without
	syncs   atomic.Uint64
	took    time.Duration // of the last fsync; of run only
	shared  int           // writes that the last fsync covered; of run only
	kick    chan struct{} // has one if somebody arrived
	stop    chan struct{} // nil when run has ended and nobody has opened it again
	stopped chan struct{}

	mu   sync.Mutex
	next *group // what the next fsync covers
	// now is what the fsync that runs covers, and covered the last record that was in the
	// blocks when it began; nil if none runs, or before that is known.
	now     *group
	covered uint64
	err     error         // why no Wait succeeds any more
	moved   chan struct{} // closed when synced or err changes; nil: nobody waits for it

	block uint32 // the newest block that was seen; 0: none yet. The rest is of run only
	file  *os.File
	end   int64  // of the last whole record of file
	seq   uint64 // of that record
}

// group is the writes that one fsync covers.
type group struct {
	high   uint64        // the highest position
	n      int           // who waits for it
	writes int           // of them
	done   chan struct{} // closed after the fsync
	err    error         // read after done is closed
}

// Config says what to sync.
type Config struct {
	Dir string // the folder of the stream
	Top string // the data folder above it
	// Failed is called once, when a fsync failed: what the kernel then still shows may
	// not be on the disk. No Wait succeeds after it.
	Failed func(error)
	Fsync  func(*os.File) error // nil: [os.File.Sync]; tests make it slow, or fail
}

// Open syncs the folder of a stream as it is, with the folders above it, and
// returns a Stream that syncs what is written from now on.
func Open(c Config) (*Stream, error) {
	if c.Fsync == nil {
		c.Fsync = (*os.File).Sync
	}
	s := &Stream{cfg: c, kick: make(chan struct{}, 1)}
	return s, s.open()
}

// open begins to sync the files as they are now. No other method but those that read the
// counters may run.
func (s *Stream) open() error {
	s.block, s.end, s.seq = 0, 0, 0
	err := s.openNewest()
	if err == nil { // after the last record was read: the server may be writing more
		err = Tree(s.cfg.Dir, s.cfg.Top)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("sync the stream in %s: %w", s.cfg.Dir, err), s.closeFile())
	}
	s.synced.Store(s.seq)
	s.stop, s.stopped = make(chan struct{}), make(chan struct{})
	s.mu.Lock()
	s.next, s.now, s.err = newGroup(), nil, nil
	s.mu.Unlock()
	go s.run()
	return nil
}

// Reopen begins again after a failure, or when the files were replaced. What is in the files
// must be what the server shows. Those who wait get an error. After an error of Reopen every Wait
// fails, and Reopen can be called again.
func (s *Stream) Reopen() error {
	if err := s.Close(); err != nil {
		return err
	}
	return s.open()
}

func newGroup() *group { return &group{done: make(chan struct{})} }

// Synced is the position up to which every record is on the disk; 0 if s does not know.
func (s *Stream) Synced() uint64 {
	if s == nil {
		return 0
	}
	return s.synced.Load()
}

// Dir is the folder of the stream.
func (s *Stream) Dir() string { return s.cfg.Dir }

// Syncs counts the fsyncs since Open.
func (s *Stream) Syncs() uint64 { return s.syncs.Load() }

// Write is a write that is on its way to the server. A fsync waits a little for it.
type Write struct {
	s       *Stream
	arrived bool
}

// Begin begins a write. The caller calls End when he is done.
func (s *Stream) Begin() Write {
	if s == nil {
		return Write{}
	}
	s.begun.Add(1)
	return Write{s: s}
}

// Wait is [Stream.Wait] for the record that the server acknowledged.
func (w *Write) Wait(ctx context.Context, seq uint64) error {
	if w.s == nil {
		return nil
	}
	w.arrived = true
	return w.s.wait(ctx, seq, 1)
}

// End ends the write, whatever became of it.
func (w *Write) End() {
	if w.s != nil && !w.arrived {
		w.arrived = true
		w.s.arrive(1)
	}
}

// arrive notes the end of n writes. A fsync may wait for them; a reader, of none, wakes nobody.
func (s *Stream) arrive(n int64) {
	if n > 0 {
		s.arrived.Add(n)
		s.wake()
	}
}

func (s *Stream) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Wait returns nil when the record at seq, which was read, is on the disk.
//
// Errors: [ledger.ErrIndeterminate] if the fsync failed, now or before, or if ctx
// ended first: the record may be on the disk or not.
func (s *Stream) Wait(ctx context.Context, seq uint64) error {
	if s == nil {
		return nil
	}
	return s.wait(ctx, seq, 0)
}

// wait joins the next group. arrived is 1 for a [Write].
func (s *Stream) wait(ctx context.Context, seq uint64, arrived int64) error {
	if seq <= s.synced.Load() {
		s.arrive(arrived)
		return nil
	}
	s.mu.Lock()
	if err := s.err; err != nil {
		s.mu.Unlock()
		s.arrive(arrived)
		return err
	}
	g := s.next
	if s.now != nil && seq <= s.covered {
		g = s.now
	} else {
		g.high, g.n, g.writes = max(g.high, seq), g.n+1, g.writes+int(arrived)
	}
	s.mu.Unlock()
	s.arrived.Add(arrived)
	s.wake()
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		return fmt.Errorf("%w: wait for the fsync of record %d: %w", ledger.ErrIndeterminate, seq, ctx.Err())
	}
}

// run does one fsync after the other while somebody waits.
func (s *Stream) run() {
	defer close(s.stopped)
	for {
		select {
		case <-s.kick:
		case <-s.stop:
			s.fail(errors.New("the stream is closed"))
			return
		}
		s.linger()
		s.mu.Lock()
		g := s.next
		s.next = newGroup()
		s.mu.Unlock()
		if g.n == 0 {
			continue // the group before had it
		}
		began := time.Now()
		err := s.sync(g)
		s.took = time.Since(began)
		if err == nil && s.seq < g.high { // the server numbers its blocks in another way
			err = errors.Join(s.openNewest(), Tree(s.cfg.Dir, s.cfg.Top))
		}
		if err == nil && s.seq < g.high {
			err = fmt.Errorf("record %d was acknowledged; the blocks end at %d", g.high, s.seq)
		}
		if err != nil {
			s.cfg.Failed(err) // before anybody hears of it
			g.err = s.fail(err)
			close(g.done)
			return
		}
		s.syncs.Add(1)
		s.shared = g.writes
		s.synced.Store(s.seq)
		s.mu.Lock()
		s.now = nil
		s.move()
		s.mu.Unlock()
		close(g.done)
	}
}

// move wakes those who follow. The caller holds mu.
func (s *Stream) move() {
	if s.moved != nil {
		close(s.moved)
		s.moved = nil
	}
}

// Follow returns [Stream.Synced] once it is seq or more. It causes no fsync: the record at
// seq may not exist yet.
//
// Errors: that of ctx; [ledger.ErrIndeterminate] if no Wait succeeds any more.
func (s *Stream) Follow(ctx context.Context, seq uint64) (uint64, error) {
	for {
		if synced := s.synced.Load(); synced >= seq {
			return synced, nil
		}
		s.mu.Lock()
		if s.synced.Load() >= seq {
			s.mu.Unlock()
			continue
		}
		if err := s.err; err != nil {
			s.mu.Unlock()
			return 0, err
		}
		if s.moved == nil {
			s.moved = make(chan struct{})
		}
		moved := s.moved
		s.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// fail makes every Wait fail from now on, those that wait included.
func (s *Stream) fail(why error) error {
	err := fmt.Errorf("%w: fsync of the stream in %s: %w", ledger.ErrIndeterminate, s.cfg.Dir, why)
	s.mu.Lock()
	s.err, s.now = err, nil
	g := s.next
	s.move()
	s.mu.Unlock()
	g.err = err
	close(g.done)
	return err
}

// linger waits for the writes that have begun, so that they share the fsync: at most a few
// times as long as the last fsync took. Behind a group of a crowd it waits until none begins
// or arrives for a moment, or for so long where some are on their way. A lone writer waits for
// nobody.
func (s *Stream) linger() {
	want, patience := s.begun.Load(), min(max(lingerFactor*s.took, lingerMin), lingerMax)
	if s.shared < crowd {
		if s.arrived.Load() >= want {
			return
		}
		end := time.NewTimer(patience)
		defer end.Stop()
		for s.arrived.Load() < want {
			select {
			case <-s.kick:
			case <-end.C:
				return
			case <-s.stop:
				return
			}
		}
		return
	}
	quiet := func() time.Duration {
		d := min(s.took, quietMax)
		if s.arrived.Load() < want {
			d += patience
		}
		return d
	}
	end, still := time.NewTimer(lingerMax), time.NewTimer(quiet())
	defer end.Stop()
	defer still.Stop()
	for {
		select {
		case <-s.kick:
		case <-still.C:
			if s.begun.Load() == want {
				return
			}
		case <-end.C:
			return
		case <-s.stop:
			return
		}
		want = s.begun.Load()
		still.Reset(quiet())
	}
}

const (
	lingerFactor = 2
	lingerMin    = 500 * time.Microsecond
	lingerMax    = 5 * time.Millisecond
	// crowd is how many writes share a fsync where the processors are what they wait for: to
	// wait for more costs none of them anything.
	crowd = 16
	// quietMax bounds how long none begins before a crowd's fsync: half of the time of an
	// append on a busy processor.
	quietMax = 250 * time.Microsecond
)

// sync makes what is in the blocks durable, and notes the last record of it. Those who
// wait for one of these records join g.
func (s *Stream) sync(g *group) error {
	for {
		next, err := os.OpenFile(s.path(s.block+1), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return s.syncBlock(g)
		}
		if err != nil {
			return err
		}
		// The server has gone on to another block: the one before is whole.
		if err := errors.Join(s.syncBlock(nil), mark.SyncDir(filepath.Join(s.cfg.Dir, "msgs"))); err != nil {
			return errors.Join(err, next.Close())
		}
		if s.file != nil {
			_ = s.file.Close()
		}
		s.block, s.file, s.end = s.block+1, next, 0
	}
}

// syncBlock syncs the newest block. g is what its fsync covers; nil: nothing yet.
func (s *Stream) syncBlock(g *group) error {
	if s.file == nil {
		return nil
	}
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < s.end {
		return fmt.Errorf("block %d has %d bytes, it had %d", s.block, info.Size(), s.end)
	}
	seq, end, err := blocks.LastSeq(s.file, s.end, info.Size())
	if err != nil {
		return fmt.Errorf("block %d: %w", s.block, err)
	}
	s.seq, s.end = max(s.seq, seq), end
	s.mu.Lock()
	s.now, s.covered = g, s.seq
	s.mu.Unlock()
	return s.cfg.Fsync(s.file)
}

func (s *Stream) path(block uint32) string { return filepath.Join(s.cfg.Dir, blocks.Path(block)) }

// Tree syncs every file and folder under dir, the folder of a stream, and the folders above
// it up to top.
func Tree(dir, top string) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = mark.SyncDir(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the server removes files of its own
		}
		return err
	})
	for ; err == nil && len(dir) > len(top); dir = filepath.Dir(dir) {
		err = mark.SyncDir(filepath.Dir(dir))
	}
	return err
}

// openNewest opens the newest block. The server may remove an empty one meanwhile, and
// begin another.
func (s *Stream) openNewest() error {
	var err error
	for range 10 {
		if err = s.tryNewest(); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

func (s *Stream) tryNewest() error {
	numbers, err := blocks.Numbers(s.cfg.Dir)
	if err != nil || len(numbers) == 0 {
		return err
	}
	newest := len(numbers) - 1
	f, err := os.OpenFile(s.path(numbers[newest]), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := s.closeFile(); err != nil {
		return errors.Join(err, f.Close())
	}
	s.block, s.file, s.end = numbers[newest], f, 0
	err = s.syncBlock(nil)
	for i := newest - 1; err == nil && s.seq == 0 && i >= 0; i-- { // the newest holds nothing yet
		s.seq, err = lastSeq(s.path(numbers[i]))
	}
	return err
}

// lastSeq returns the sequence of the last record of a block; 0 if it has none.
func lastSeq(name string) (uint64, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	seq, _, err := blocks.LastSeq(f, 0, info.Size())
	return seq, err
}

// Close ends what waits with an error. The files stay as they are. It can be called again,
// by one caller after the other.
func (s *Stream) Close() error {
	if s == nil || s.stop == nil {
		return nil
	}
	close(s.stop)
	<-s.stopped
	s.stop = nil
	return s.closeFile()
}

func (s *Stream) closeFile() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}
