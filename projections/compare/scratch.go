package compare

import (
	"errors"
	"fmt"

	"nexus/projections/apply"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Rows is what a comparison reads.
type Rows struct {
	Database *apply.Database
	Applied  uint64     // position of the last record that is known to be in them
	Folder   *db.Folder // where the rows are made anew
	Ledger   turns.ID   // the ledger's own id; zero: not known
}

// scratch is projections that a comparison makes anew. The applier writes them, as it writes the
// store's.
//
// For use by one goroutine.
type scratch struct {
	*db.Scratch
	own    *apply.Database // that of Scratch
	ledger turns.ID        // see Rows.Ledger

	a        *apply.Batch
	decided  apply.Decision
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
func newScratch(r Rows, identity string, size uint64, treeless bool) (*scratch, error) {
	d, err := r.Folder.Scratch(size)
	if err != nil {
		return nil, err
	}
	t := &scratch{Scratch: d, own: apply.NewDatabase(d.DB), ledger: r.Ledger, applied: rows.Checkpoint{Identity: identity, Schema: rows.Schema}, treeless: treeless}
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
	a, err := apply.Begin(t.own, t.ledger, t.aside, size)
	if err != nil {
		return t.Own(err)
	}
	if t.treeless {
		a.OmitTree()
	}
	t.a, a.Decided = a, &t.decided
	t.records, t.bytes = 0, 0
	return nil
}

// apply makes the rows of a record.
func (t *scratch) apply(p apply.Parsed) error {
	t.decided = apply.Decision{}
	err := t.a.Apply(p)
	if fault := t.Fault(); fault != nil {
		err = fault // what was read may be wrong
	}
	if err != nil {
		return t.Own(fmt.Errorf("record %d: %w", p.Seq, err))
	}
	t.applied.Seq, t.applied.Hash = p.Seq, p.EventHash()
	t.records++
	t.bytes += len(p.Payload)
	if t.since += int64(len(p.Payload)); t.since >= checkRoomEvery {
		if err := t.CheckRoom(0); err != nil {
			return err
		}
		t.since = 0
	}
	if t.records >= apply.BatchRecords || t.bytes >= apply.BatchBytes {
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
	if err := t.Guard(func() error { return errors.Join(a.Commit(t.applied), a.Close()) }); err != nil {
		return err
	}
	t.aside += len(a.Aside())
	return t.begin()
}

// close closes the database and removes its folder.
func (t *scratch) close() error {
	var err error
	if t.a != nil {
		err = t.a.Close()
	}
	return errors.Join(err, t.Close())
}
