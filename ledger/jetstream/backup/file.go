package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"nexus/ledger"
	"nexus/ledger/jetstream/mark"
)

// partSuffix is added to the name of a file until its first run is complete.
const partSuffix = ".partial"

// syncEvery is how many bytes may be written without a fsync.
const syncEvery = 64 << 20

// File is a backup that is being written. Close it. Not safe for concurrent use.
//
// Crash states: before the first run is complete, NAME.partial, of which the next Open
// keeps what is sound. In a later run, NAME with an unfinished run behind the complete
// ones; the next Open goes on after its last whole frame.
type File struct {
	*Checker
	f        *os.File
	name     string
	named    bool // it has its name
	unsynced int64
	buf      []byte
}

// Open opens a file to go on with, or creates NAME.partial. It reads and checks everything
// in it, and cuts off a frame that was written in part, and zeros that a power cut left. progress is called with the bytes
// that were read.
//
// Errors: [ledger.ErrCorrupt]: a complete run is damaged, or something that is not
// an unfinished frame follows it; [ledger.ErrUnsupported]: the file is no backup;
// [ledger.ErrConflict]: another process writes it; those of the file system.
func Open(ctx context.Context, name string, progress func(int)) (_ *File, err error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	fresh := errors.Is(err, fs.ErrNotExist)
	if fresh {
		f, err = os.OpenFile(name+partSuffix, os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: another process writes %s", ledger.ErrConflict, f.Name())
	} else if err != nil {
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	report, c, err := Check(ctx, Counted{f, progress}, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	if report.State == Damaged && !fresh {
		return nil, fmt.Errorf("%s: %w; the complete runs are sound (backup verify names them): keep the file, and begin another file", name, report.Err())
	}
	x := &File{Checker: c, f: f, name: name, named: !fresh}
	if report.Read == 0 { // not even its first bytes are whole
		_, err = f.WriteAt([]byte(magic), 0)
	}
	if err == nil {
		err = f.Truncate(c.bytes)
	}
	if err == nil {
		_, err = f.Seek(c.bytes, io.SeekStart)
	}
	if err != nil {
		return nil, err
	}
	if fresh && c.isWhole() { // a crash after the end of the run
		return x, x.rename()
	}
	return x, removeLink(name)
}

// removeLink removes the first name of a file that has both: a crash between the two steps
// of rename left it.
func removeLink(name string) error {
	a, err := os.Lstat(name)
	b, partErr := os.Lstat(name + partSuffix)
	if err != nil || partErr != nil || !os.SameFile(a, b) {
		return nil
	}
	return os.Remove(name + partSuffix)
}

// Counted is a reader that tells Count how many bytes each read got. Count may be nil.
type Counted struct {
	io.Reader
	Count func(int)
}

func (c Counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if c.Count != nil {
		c.Count(n)
	}
	return n, err
}

// InRun reports whether a run is begun and not ended.
func (x *File) InRun() bool { return x.inRun }

// StartRun begins a run of a ledger.
func (x *File) StartRun(ledgerID string, created time.Time, sealed bool, now time.Time) error {
	b, err := appendJSON(x.buf[:0], beginKind, Begin{Ledger: ledgerID, Created: created.UTC(), Sealed: sealed, Run: x.begin.Run + 1, Began: now.UTC()})
	if err != nil {
		return err
	}
	x.buf = b
	return x.write(b)
}

// Add checks frames of records and writes them. What it refuses is not written.
func (x *File) Add(frames []byte) error {
	for r := bytes.NewReader(frames); ; {
		var err error
		if x.buf, err = readFrame(r, x.buf); errors.Is(err, io.EOF) {
			return nil
		} else if errors.Is(err, errShort) {
			return fmt.Errorf("%w: %w", ledger.ErrCorrupt, err)
		} else if err != nil {
			return err
		}
		if k := x.buf[0]; k != logKind && k != blobKind {
			return fmt.Errorf("%w: a frame of kind %q is no record", ledger.ErrCorrupt, k)
		}
		if err := x.write(x.buf); err != nil {
			return err
		}
	}
}

// write checks a frame and writes it.
func (x *File) write(frame []byte) error {
	if err := x.Frame(frame); err != nil {
		return err
	}
	if _, err := x.f.Write(frame); err != nil {
		return fmt.Errorf("write %s: %w", x.f.Name(), err)
	}
	if x.unsynced += int64(len(frame)); x.unsynced < syncEvery {
		return nil
	}
	x.unsynced = 0
	return x.f.Sync()
}

// EndRun makes the run durable, then ends it, and gives a new file its name. The end is
// the commit point.
func (x *File) EndRun(now time.Time) (*End, error) {
	if err := x.f.Sync(); err != nil {
		return nil, err
	}
	e := x.makeEnd()
	e.Ended = now.UTC()
	b, err := appendJSON(x.buf[:0], endKind, e)
	if err != nil {
		return nil, err
	}
	x.buf = b
	if err := x.write(b); err != nil {
		return nil, err
	}
	if err := x.f.Sync(); err != nil {
		return nil, err
	}
	return x.end, x.rename()
}

// rename gives the file its name, unless it has it. A file that came there meanwhile stays.
func (x *File) rename() error {
	if x.named {
		return nil
	}
	if err := os.Link(x.f.Name(), x.name); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s is there now, and is not written over; the backup is %s", ledger.ErrConflict, x.name, x.f.Name())
	} else if err != nil { // a file system without links
		if _, err := os.Lstat(x.name); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %s is there now, and is not written over; the backup is %s", ledger.ErrConflict, x.name, x.f.Name())
		}
		if err := os.Rename(x.f.Name(), x.name); err != nil {
			return err
		}
	} else if err := os.Remove(x.f.Name()); err != nil {
		return err
	}
	x.named = true
	return mark.SyncDir(filepath.Dir(x.name))
}

// Close closes the file. What is unfinished stays for the next [Open].
func (x *File) Close() error { return x.f.Close() }
