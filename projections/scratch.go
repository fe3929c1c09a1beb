package projections

import (
	"errors"
	"fmt"

	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// scratch is projections that a comparison makes anew. The applier writes them, as it writes the
// store's.
//
// For use by one goroutine.
type scratch struct {
	*db.Scratch
	own    *database // that of Scratch
	ledger turns.ID  // see Config.Ledger

	a        *applier
	decided  decided
	applied  rows.Checkpoint // with the batch
	aside    int             // chains set aside before the batch
	treeless bool            // the records are not all that there are: they make no tree
	records  int             // of the batch
	bytes    int             // of their payloads
	since    int64           // bytes of payloads since the room was checked
}

// checkRoomEvery is after how many bytes of payloads a comparison looks whether the disk has
// room for more.
const checkRoomEvery = 32 << 20

// newScratch returns empty projections of the log of an identity. Size is how many bytes
// of the disk they are expected to take. Errors: [db.ErrNoRoom], those of the disk.
//
// Of some records only, which treeless says, no tree is made.
func (s *Store) newScratch(identity string, size uint64, treeless bool) (*scratch, error) {
	d, err := s.folder.Scratch(size)
	if err != nil {
		return nil, err
	}
	t := &scratch{Scratch: d, own: newDatabase(d.DB), ledger: s.ledger, applied: rows.Checkpoint{Identity: identity, Schema: rows.Schema}, treeless: treeless}
	if err := t.begin(); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// begin begins a batch.
func (t *scratch) begin() error {
	size := t.applied.Seq
	if t.treeless {
		size = 0
	}
	a, err := newApplier(t.own, t.ledger, t.aside, size)
	if err != nil {
		return t.Own(err)
	}
	if t.treeless {
		a.tree = nil
	}
	t.a, a.decided = a, &t.decided
	t.records, t.bytes = 0, 0
	return nil
}

// apply makes the rows of a record.
func (t *scratch) apply(p parsed) error {
	t.decided = decided{}
	err := t.a.apply(p)
	if fault := t.Fault(); fault != nil {
		err = fault // what was read may be wrong
	}
	if err != nil {
		return t.Own(fmt.Errorf("record %d: %w", p.Seq, err))
	}
	t.applied.Seq, t.applied.Hash = p.Seq, hashOf(p)
	t.records++
	t.bytes += len(p.Payload)
	if t.since += int64(len(p.Payload)); t.since >= checkRoomEvery {
		if err := t.CheckRoom(0); err != nil {
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
	if err := t.Guard(func() error { return errors.Join(a.commit(t.applied), a.close()) }); err != nil {
		return err
	}
	t.aside += len(a.asideChains)
	return t.begin()
}

// close closes the database and removes its folder.
func (t *scratch) close() error {
	var err error
	if t.a != nil {
		err = t.a.close()
	}
	return errors.Join(err, t.Close())
}
