package projections

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

// scratch is projections that a comparison makes anew, in a folder of their own within that of
// the store. The applier writes them, as it writes the store's.
//
// Crash states: the folder is left. [Open] removes it.
//
// For use by one goroutine.
type scratch struct {
	*database
	parent *Store
	folder string // in base
	base   vfs.FS // the disk, without syncs
	cache  *pebble.Cache

	a       *applier
	decided decided
	applied rows.Checkpoint // with the batch
	aside   int             // chains set aside before the batch
	records int             // of the batch
	bytes   int             // of their payloads
	since   int64           // bytes of payloads since the room was checked
}

// decided is what became of a record.
type decided struct {
	ledger.Admitted
	refused error // why nothing follows from it; nil if something does
}

// scratchFolder is how the name of a folder in that of the store begins, which a comparison has.
const scratchFolder = "verify-"

// A comparison leaves so many bytes of the disk to the rest of the ledger, and looks after so
// many bytes of payloads whether they are there.
const leftFree, checkRoomEvery = 64 << 20, 32 << 20

// maxScratchAbandoned bounds how many scratch databases a process leaves behind; see
// [maxAbandoned].
const maxScratchAbandoned = 4

// ErrNoRoom: the disk lacks the room for the rows that a verification makes.
var ErrNoRoom = fmt.Errorf("%w: not enough room on the disk for a verification", ledger.ErrUnavailable)

// newScratch returns empty projections of the log of an identity. Size is how many bytes
// of the disk they are expected to take. Errors: [ErrNoRoom], those of the disk.
func (s *Store) newScratch(identity string, size uint64) (_ *scratch, err error) {
	if s.scratchAbandoned.Load() >= maxScratchAbandoned {
		return nil, fmt.Errorf("%w: the disk failed under %d verifications of this process; start it again", ledger.ErrUnavailable, maxScratchAbandoned)
	}
	t := &scratch{parent: s, base: unsynced{s.disk()}, applied: rows.Checkpoint{Identity: identity, Schema: rows.Schema}}
	t.folder = t.base.PathJoin(s.config.Dir, scratchFolder+strconv.FormatInt(s.scratches.Add(1), 10))
	if err := t.checkRoom(size + size/4); err != nil {
		return nil, err
	}
	if err := t.base.MkdirAll(t.folder, 0o700); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	t.cache = pebble.NewCache(16 << 20)
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	t.database = &database{fault: newFault(t.folder), recent: newRecent()}
	o := t.options(t.base, t.cache, slog.New(slog.DiscardHandler))
	o.DisableWAL = true
	err = t.guarded(func() (err error) { t.DB, err = pebble.Open(t.folder, o); return err })
	if err == nil {
		err = t.guarded(t.putFirst)
	}
	if err != nil {
		return nil, err
	}
	t.begin()
	return t, nil
}

// putFirst writes the checkpoint of empty projections, as [Open] does.
func (t *scratch) putFirst() error {
	b := t.NewBatch()
	defer b.Close()
	if err := putCheckpoint(b, rows.Checkpoint{Schema: rows.Schema}); err != nil {
		return err
	}
	return b.Commit(pebble.NoSync)
}

// unsynced is a disk whose files are not synced: nobody reads them after a crash.
type unsynced struct{ vfs.FS }

// Create implements [vfs.FS].
func (u unsynced) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := u.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

// Unwrap returns the file system below.
func (u unsynced) Unwrap() vfs.FS { return u.FS }

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error                { return nil }
func (unsyncedFile) SyncData() error            { return nil }
func (unsyncedFile) SyncTo(int64) (bool, error) { return false, nil }

// guarded runs work on the database. A failure of it says nothing of the store.
func (t *scratch) guarded(work func() error) error { return t.own(t.fault.guard(work)) }

// own returns an error of the scratch database as one of the verification: no damage of the
// store, nor of the log.
func (t *scratch) own(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: verify in %s: %v", ledger.ErrUnavailable, t.folder, err)
}

// checkRoom returns [ErrNoRoom] if the disk has not so many bytes free, and some that are left
// to the rest of the ledger.
func (t *scratch) checkRoom(bytes uint64) error {
	u, err := t.base.GetDiskUsage(t.parent.config.Dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("verify: free space: %w", err)
	}
	if u.AvailBytes < bytes+leftFree {
		return fmt.Errorf("%w: it makes the projections a second time, in %s, which needs %d MiB free; %d MiB are", ErrNoRoom, t.parent.config.Dir, (bytes+leftFree)>>20, u.AvailBytes>>20)
	}
	return nil
}

// begin begins a batch.
func (t *scratch) begin() {
	t.a = newApplier(t.database, t.parent.ledger, t.aside)
	t.a.decided = &t.decided
	t.records, t.bytes = 0, 0
}

// apply makes the rows of a record.
func (t *scratch) apply(p parsed) error {
	t.decided = decided{}
	err := t.a.apply(p)
	if fault := t.fault.get(); fault != nil {
		err = fault // what was read may be wrong
	}
	if err != nil {
		return t.own(fmt.Errorf("record %d: %w", p.Seq, err))
	}
	t.applied.Seq, t.applied.Hash = p.Seq, hashOf(p)
	t.records++
	t.bytes += len(p.Payload)
	if t.since += int64(len(p.Payload)); t.since >= checkRoomEvery {
		if err := t.checkRoom(0); err != nil {
			return err
		}
		t.since = 0
	}
	if t.records >= batchRecords || t.bytes >= batchBytes {
		return t.flush()
	}
	return nil
}

// flush commits the batch and begins another.
func (t *scratch) flush() error {
	if t.records == 0 {
		return nil
	}
	a := t.a
	t.a = nil // one that is parked keeps it
	if err := t.guarded(func() error { return errors.Join(a.commit(t.applied), a.close()) }); err != nil {
		return err
	}
	t.aside += len(a.asideChains)
	t.begin()
	return nil
}

// close closes the database and removes its folder.
func (t *scratch) close() error {
	var err error
	if t.a != nil {
		err = t.a.close()
	}
	parked := t.database != nil && t.fault.isParked()
	if t.database != nil && t.DB != nil && !parked {
		err = errors.Join(err, t.fault.guard(t.DB.Close))
		parked = t.fault.isParked()
	}
	if parked {
		t.parent.scratchAbandoned.Add(1)
		err = t.abandon()
	} else {
		t.cache.Unref()
	}
	return errors.Join(err, t.base.RemoveAll(t.folder))
}

// removeScratches removes what comparisons left when the process ended under them.
func (s *Store) removeScratches() error {
	if s.config.ReadOnly {
		return nil
	}
	fs := s.disk()
	names, err := fs.List(s.config.Dir)
	for _, name := range names {
		if strings.HasPrefix(name, scratchFolder) {
			err = errors.Join(err, fs.RemoveAll(fs.PathJoin(s.config.Dir, name)))
		}
	}
	if err != nil {
		return fmt.Errorf("open projections: %w", err)
	}
	return nil
}
