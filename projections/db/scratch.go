package db

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/ledger"
	"nexus/projections/rows"
)

// Scratch is a database for a while, in a folder of its own within that of another. It has
// the checkpoint of empty projections.
//
// Crash states: the folder is left. [Folder.RemoveScratches] removes it.
//
// For use by one goroutine.
type Scratch struct {
	*DB
	of    *Folder
	dir   string // in base
	base  vfs.FS // the disk, without syncs
	cache *pebble.Cache
}

// scratchFolder is how the name of a folder of a Scratch begins.
const scratchFolder = "verify-"

// leftFree is how many bytes of the disk a Scratch leaves to the rest of the ledger.
const leftFree = 64 << 20

// maxScratchAbandoned bounds how many scratch databases a process leaves behind; see
// [maxAbandoned].
const maxScratchAbandoned = 4

// ErrNoRoom: the disk lacks the room for the rows that a verification makes.
var ErrNoRoom = fmt.Errorf("%w: not enough room on the disk for a verification", ledger.ErrUnavailable)

// Scratch makes a Scratch. Size is how many bytes of the disk it is expected to take. The caller
// closes it. Errors: [ErrNoRoom], those of the disk.
func (f *Folder) Scratch(size uint64) (_ *Scratch, err error) {
	if f.scratchAbandoned.Load() >= maxScratchAbandoned {
		return nil, fmt.Errorf("%w: the disk failed under %d verifications of this process; start it again", ledger.ErrUnavailable, maxScratchAbandoned)
	}
	t := &Scratch{of: f, base: unsynced{f.disk()}}
	t.dir = t.base.PathJoin(f.config.Dir, scratchFolder+strconv.FormatInt(f.scratches.Add(1), 10))
	if err := t.CheckRoom(size + size/4); err != nil {
		return nil, err
	}
	if err := t.base.MkdirAll(t.dir, 0o700); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	t.cache = pebble.NewCache(16 << 20)
	t.DB = &DB{fault: newFault(t.dir)}
	o := t.options(t.base, t.cache, slog.New(slog.DiscardHandler))
	o.DisableWAL = true
	err = t.Guard(func() (err error) { t.DB.DB, err = pebble.Open(t.dir, o); return err })
	if err == nil {
		err = t.Guard(t.putFirst)
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// putFirst writes the checkpoint of empty projections, as [Open] does.
func (t *Scratch) putFirst() error {
	b := t.NewBatch()
	defer b.Close()
	if err := b.PutCheckpoint(rows.Checkpoint{Schema: rows.Schema}); err != nil {
		return err
	}
	return b.Commit()
}

// Guard runs work on the database; see [DB.Guard]. A failure of it says nothing of the folder's own database.
func (t *Scratch) Guard(work func() error) error { return t.Own(t.fault.guard(work)) }

// Own returns an error of the scratch database as one of the verification: no damage of the
// store, nor of the log.
func (t *Scratch) Own(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: verify in %s: %v", ledger.ErrUnavailable, t.dir, err)
}

// CheckRoom returns [ErrNoRoom] if the disk has not so many bytes free, and 64 MiB that are left
// to the rest of the ledger.
func (t *Scratch) CheckRoom(bytes uint64) error {
	u, err := t.base.GetDiskUsage(t.of.config.Dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("verify: free space: %w", err)
	}
	if u.AvailBytes < bytes+leftFree {
		return fmt.Errorf("%w: it makes the projections a second time, in %s, which needs %d MiB free; %d MiB are", ErrNoRoom, t.of.config.Dir, (bytes+leftFree)>>20, u.AvailBytes>>20)
	}
	return nil
}

// Close closes the database and removes its folder.
func (t *Scratch) Close() error {
	var err error
	parked := t.fault.isParked()
	if t.DB.DB != nil && !parked {
		err = t.fault.guard(t.DB.DB.Close)
		parked = t.fault.isParked()
	}
	if parked {
		t.of.scratchAbandoned.Add(1)
		err = t.abandon()
	} else {
		t.cache.Unref()
	}
	return errors.Join(err, t.base.RemoveAll(t.dir))
}

// RemoveScratches removes what scratch databases left when the process ended under them.
func (f *Folder) RemoveScratches() error {
	if f.config.ReadOnly {
		return nil
	}
	fs := f.disk()
	names, err := fs.List(f.config.Dir)
	for _, name := range names {
		if strings.HasPrefix(name, scratchFolder) {
			err = errors.Join(err, fs.RemoveAll(fs.PathJoin(f.config.Dir, name)))
		}
	}
	if err != nil {
		return fmt.Errorf("open projections: %w", err)
	}
	return nil
}
