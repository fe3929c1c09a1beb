package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"nexus/cmd/internal/wholefile"
	"nexus/ledger"
	"nexus/ledger/tlog"
)

// Files of the data folder.
const (
	KeyFile    = "checkpoint.key"    // the private key; in no backup
	NoteFile   = "checkpoint"        // the newest note
	LargerFile = "checkpoint.larger" // a note of this key that is of a larger tree than the log has
)

// Config says what a [Signer] signs.
type Config struct {
	Data   string // folder
	Origin string
	Out    []string // folders elsewhere, to which each note is appended
	Logger *slog.Logger
	Rand   io.Reader
	Now    func() time.Time
	// Tree reads the tree, Applied says how many leaves it has. Behind says how many records the log has,
	// of which the tree may lack some for a while.
	Tree    func() tlog.Hashes
	Applied func() uint64
	Last    func(context.Context) (uint64, error)

	append func(name string, note []byte) error // nil: appendNote; tests have others
}

// InconsistentError says why no checkpoint is signed any more. Unwrap gives [ledger.ErrCorrupt].
type InconsistentError struct{ Why string }

func (e *InconsistentError) Error() string {
	return "no checkpoint is signed any more: " + e.Why + ". Nothing of the ledger's content is lost by that. If you know why, stop nexusd and run nexusd repair --accept-loss: it begins a new log of hashes, under another origin, which says so to whoever kept a checkpoint"
}

// Unwrap gives ErrCorrupt.
func (e *InconsistentError) Unwrap() error { return ledger.ErrCorrupt }

// Signer signs the checkpoints of one log. It stops for two reasons only: the tree does not extend
// the note that it signed last, or somebody shows a larger note under its own key.
//
// Crash states: a note is in the folder, synced, before anybody sees it. A crash before leaves the one
// before, and nobody has seen the new one. The first note of a key, of the tree as it is, is in the folder before the
// key: a key without a note has lost it.
//
// Safe for concurrent use.
type Signer struct {
	c   Config
	key *tlog.Key

	mu   sync.Mutex
	note []byte
	last tlog.Checkpoint
	when time.Time // the note was written
	why  *InconsistentError
	out  []*folder
}

// folder is a folder elsewhere. Its fields, but for dir, are guarded by the signer's mutex.
type folder struct {
	dir     string
	written uint64        // size of the newest note there
	failed  error         // why the newest note is not there
	busy    chan struct{} // closed when the write that is under way ends; nil: none is
}

// outWait is how long a signature waits for the folders elsewhere. A disk of the network may hang for ever.
const outWait = 3 * time.Second

// Open reads the key and the newest note of the folder, or makes both. Errors: those of the file system.
// What is wrong with them is no error: the signer does not sign then, and [Signer.Inconsistent] says why.
func Open(ctx context.Context, c Config) (*Signer, error) {
	if c.append == nil {
		c.append = appendNote
	}
	s := &Signer{c: c}
	for _, dir := range c.Out {
		s.out = append(s.out, &folder{dir: dir})
	}
	text, err := os.ReadFile(filepath.Join(c.Data, KeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, s.first()
	}
	if err != nil {
		return nil, err
	}
	if s.key, err = tlog.ParseKey(string(text)); err != nil {
		s.stop("%s: %v", KeyFile, err)
		return s, nil
	}
	if s.key.Origin() != c.Origin {
		s.stop("its key is of the log %s, and this one is %s", s.key.Origin(), c.Origin)
		return s, nil
	}
	if s.note, err = os.ReadFile(filepath.Join(c.Data, NoteFile)); errors.Is(err, fs.ErrNotExist) {
		s.stop("%s is missing, and the key has signed one", NoteFile)
		return s, nil
	} else if err != nil {
		return nil, err
	}
	if st, err := os.Stat(filepath.Join(c.Data, NoteFile)); err == nil {
		s.when = st.ModTime()
	}
	if s.last, err = tlog.OpenCheckpoint(s.note, s.key.Public()); err != nil {
		s.note = nil
		s.stop("%s: %v", NoteFile, err)
		return s, nil
	}
	if b, err := os.ReadFile(filepath.Join(c.Data, LargerFile)); err == nil {
		if shown, err := tlog.OpenCheckpoint(b, s.key.Public()); err == nil {
			s.stopLarger(shown)
			return s, nil
		}
	}
	if _, err := s.Sign(ctx); err != nil && s.Inconsistent() == nil {
		return nil, err
	}
	return s, nil
}

// first makes a key, and its first note.
func (s *Signer) first() (err error) {
	if s.key, err = tlog.NewKey(s.c.Rand, s.c.Origin); err != nil {
		return err
	}
	size := s.c.Applied()
	root, err := tlog.Root(s.c.Tree(), size)
	if err != nil {
		return err
	}
	if b, err := os.ReadFile(filepath.Join(s.c.Data, NoteFile)); err == nil { // it was signed under a key that is gone
		was, err := tlog.ReadCheckpoint(b)
		ok := err == nil && was.Origin != s.c.Origin // of the log before a repair or a restore
		if err == nil && !ok && was.Size <= size {
			if has, err := tlog.Root(s.c.Tree(), was.Size); err != nil {
				return err
			} else if ok = has == was.Root; ok {
				s.c.Logger.Warn("checkpoints: the key is gone, and the log continues what it signed: another key signs from here on", "events", was.Size)
			}
		}
		if !ok {
			s.key = nil
			s.stop("%s is missing, and the log does not continue the checkpoint of %d events that it signed", KeyFile, was.Size)
			return nil
		}
	}
	if err := s.renew(tlog.Checkpoint{Origin: s.c.Origin, Size: size, Root: root}); err != nil {
		return err
	}
	err = wholefile.Write(filepath.Join(s.c.Data, KeyFile), 0o600, wholefile.Bytes([]byte(s.key.Text()+"\n")))
	if err == nil && len(s.c.Out) == 0 {
		s.c.Logger.Info("a key for checkpoints was made. Checkpoints stay on this disk: whoever changes it can change them too. [checkpoint] out = [\"FOLDER\"] in the configuration puts them on another disk as well", "key", s.key.Public())
	}
	return err
}

// stop notes why no checkpoint is signed any more.
func (s *Signer) stop(format string, args ...any) {
	s.why = &InconsistentError{fmt.Sprintf(format, args...)}
	s.c.Logger.Error("checkpoints: the log does not continue what was signed", "why", s.why.Why)
}

func (s *Signer) stopLarger(shown tlog.Checkpoint) {
	s.stop("the ledger was rolled back: its own key has signed %d events, and it has signed %d since", shown.Size, s.last.Size)
}

// Inconsistent says why no checkpoint is signed any more, nil if they are. It is an [*InconsistentError].
func (s *Signer) Inconsistent() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == nil {
		return nil
	}
	return s.why
}

// Public is the public key; "" if there is none.
func (s *Signer) Public() string {
	if s.key == nil {
		return ""
	}
	return s.key.Public()
}

// SignText signs a text that is no checkpoint. There must be a key.
func (s *Signer) SignText(text string) ([]byte, error) { return s.key.SignText(text) }

// Newest returns the newest note, and what it says.
func (s *Signer) Newest() ([]byte, tlog.Checkpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.note), s.last
}

// When says when the newest note was written, by this machine's clock; zero if there is none. No signature covers it.
func (s *Signer) When() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.when
}

// Folder is what a folder elsewhere has.
type Folder struct {
	Dir    string
	Size   uint64 // of the tree of its newest note; 0: none was written since the start
	Failed error  // why it lacks the newest note; nil: it has it
}

// Folders returns the folders elsewhere.
func (s *Signer) Folders() (out []Folder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.out {
		out = append(out, Folder{f.dir, f.written, f.failed})
	}
	return out
}

// Sign signs the tree as it is, if it grew, and returns the newest note. It waits a while for the folders elsewhere, and goes
// on without one that hangs. Errors: [*InconsistentError];
// [ledger.ErrUnavailable] while the tree is made anew; those of the tree and the file system.
func (s *Signer) Sign(ctx context.Context) ([]byte, error) {
	note, err := s.sign(ctx)
	if err == nil {
		s.publish(ctx)
	}
	return note, err
}

func (s *Signer) sign(ctx context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != nil {
		return nil, s.why
	}
	size := s.c.Applied()
	if size < s.last.Size {
		end, err := s.c.Last(ctx)
		if err != nil {
			return nil, err
		}
		if end >= s.last.Size {
			return nil, fmt.Errorf("%w: the tree is being made, it has %d of %d leaves", ledger.ErrUnavailable, size, s.last.Size)
		}
		s.stop("the log was rolled back: %d events were signed, it has %d", s.last.Size, end)
		return nil, s.why
	}
	tree := s.c.Tree()
	before, err := tlog.Root(tree, s.last.Size)
	if err != nil {
		return nil, err
	}
	if before != s.last.Root {
		s.stop("another history was signed: of the first %d events, one or more differ", s.last.Size)
		return nil, s.why
	}
	if size > s.last.Size {
		root, err := tlog.Root(tree, size)
		if err != nil {
			return nil, err
		}
		if err := s.renew(tlog.Checkpoint{Origin: s.c.Origin, Size: size, Root: root}); err != nil {
			return nil, err
		}
	}
	return bytes.Clone(s.note), nil
}

// renew signs a checkpoint and writes it into the folder.
func (s *Signer) renew(c tlog.Checkpoint) error {
	n, err := s.key.Sign(c)
	if err != nil {
		return err
	}
	if err := wholefile.Write(filepath.Join(s.c.Data, NoteFile), 0o600, wholefile.Bytes(n)); err != nil {
		return err
	}
	s.note, s.last, s.when = n, c, s.c.Now()
	return nil
}

// publish appends the newest note in each folder elsewhere that lacks it. What fails is tried again
// with the next note. A write that is under way ends before the next one to its folder begins: one that hangs holds up
// nothing else.
func (s *Signer) publish(ctx context.Context) {
	s.mu.Lock()
	var writes []*folder
	var ends []chan struct{}
	for _, f := range s.out {
		if f.written >= s.last.Size && f.written > 0 {
			continue
		}
		if f.busy == nil {
			f.busy = make(chan struct{})
			go s.write(f, bytes.Clone(s.note), s.last.Size, f.busy)
		}
		writes, ends = append(writes, f), append(ends, f.busy)
	}
	s.mu.Unlock()
	if len(writes) == 0 {
		return
	}
	wait := time.NewTimer(outWait)
	defer wait.Stop()
	for i, end := range ends {
		select {
		case <-end:
			continue
		case <-wait.C:
			wait.Reset(0)
		case <-ctx.Done():
		}
		s.mu.Lock()
		if writes[i].busy == end {
			s.fail(writes[i], errHangs)
		}
		s.mu.Unlock()
	}
}

var errHangs = errors.New("a write to it has not ended yet: the folder hangs")

// write appends a note to the file of the day in a folder.
func (s *Signer) write(f *folder, note []byte, size uint64, end chan struct{}) {
	err := s.c.append(filepath.Join(f.dir, OutFile(s.c.Origin, s.c.Now())), note)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		f.written = size
	}
	s.fail(f, err)
	f.busy = nil
	close(end)
}

// fail notes why a folder lacks the newest note; nil: it has it. s.mu is held.
func (s *Signer) fail(f *folder, err error) {
	if err != nil && f.failed == nil {
		s.c.Logger.Error("checkpoints are not written elsewhere", "folder", f.dir, "err", err)
	}
	f.failed = err
}

// OutFile is the name of the file in a folder elsewhere that has the notes of a day.
func OutFile(origin string, day time.Time) string {
	return "nexus-" + tlog.LedgerOf(origin) + "-" + day.UTC().Format("2006-01-02") + ".checkpoints"
}

// appendNote adds a note to a file, and syncs it. It makes no folder: one that is missing may be a
// disk that is not mounted. An end that a crash tore is ended first.
func appendNote(name string, note []byte) error {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	b := append(bytes.Clone(note), '\n')
	if st, serr := f.Stat(); serr == nil && st.Size() > 0 {
		end := make([]byte, 2)
		if _, rerr := f.ReadAt(end, max(0, st.Size()-2)); rerr == nil && string(end) != "\n\n" {
			b = append([]byte("\n\n"), b...)
		}
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// Elsewhere returns the size of the tree that every folder elsewhere has a note of; 0 if there is no folder,
// or one has none since the start. failed is why a folder lacks the newest note.
func (s *Signer) Elsewhere() (size uint64, failed error) {
	for i, f := range s.Folders() {
		if i == 0 || f.Size < size {
			size = f.Size
		}
		failed = errors.Join(failed, f.Failed)
	}
	return size, failed
}

// Shown takes a note that somebody kept. If it is of this key, and of a larger tree than the log has, or of another one, the
// ledger was rolled back: nothing is signed any more, which a restart remembers. A note of another key says nothing.
func (s *Signer) Shown(ctx context.Context, note []byte) error {
	if s.key == nil {
		return nil
	}
	c, err := tlog.OpenCheckpoint(note, s.key.Public())
	if err != nil {
		return nil
	}
	end, err := s.c.Last(ctx)
	if err != nil {
		return err
	}
	if c.Size <= s.c.Applied() { // it may have grown again since it was rolled back
		if root, err := tlog.Root(s.c.Tree(), c.Size); err != nil || root == c.Root {
			return err
		}
	} else if c.Size <= end {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != nil {
		return s.why
	}
	s.stopLarger(c)
	return errors.Join(s.why, wholefile.Write(filepath.Join(s.c.Data, LargerFile), 0o600, wholefile.Bytes(note)))
}

// Run signs every interval, until ctx ends.
func (s *Signer) Run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_, err := s.Sign(ctx)
		if err != nil && !failing && s.Inconsistent() == nil && ctx.Err() == nil {
			s.c.Logger.Warn("no checkpoint was signed; the next try is in a while", "err", err)
		}
		failing = err != nil
	}
}

// Broken says why the files of a folder can't go on signing, whatever the log has; "" if they can. note is the newest note,
// nil if it can't be read. Of a folder that never signed it returns neither. Errors: those of the file system.
func Broken(data string) (note []byte, why string, err error) {
	text, err := os.ReadFile(filepath.Join(data, KeyFile))
	hasKey := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	note, err = os.ReadFile(filepath.Join(data, NoteFile))
	switch {
	case errors.Is(err, fs.ErrNotExist) && hasKey:
		return nil, NoteFile + " is missing", nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", nil
	case err != nil:
		return nil, "", err
	}
	signed, err := tlog.ReadCheckpoint(note)
	if err != nil {
		return nil, fmt.Sprintf("%s: %v", NoteFile, err), nil
	}
	if !hasKey {
		return note, KeyFile + " is missing", nil
	}
	key, err := tlog.ParseKey(string(text))
	if err != nil {
		return note, fmt.Sprintf("%s: %v", KeyFile, err), nil
	}
	if _, err := tlog.OpenCheckpoint(note, key.Public()); err != nil {
		return note, fmt.Sprintf("%s: %v", NoteFile, err), nil
	}
	if _, err := os.Stat(filepath.Join(data, LargerFile)); err == nil {
		return note, fmt.Sprintf("somebody has shown a larger note than that of %d events", signed.Size), nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return note, "", err
	}
	return note, "", nil
}

// Retire puts the key and the notes of a folder aside, so that the next start begins a new log. stamp is part of the names.
func Retire(data, stamp string) error {
	for _, name := range []string{KeyFile, LargerFile, NoteFile} { // the note last: a crash between leaves one without a key
		err := os.Rename(filepath.Join(data, name), filepath.Join(data, strings.Join([]string{name, stamp}, ".")))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
