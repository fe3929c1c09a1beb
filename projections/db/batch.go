package db

import (
	"github.com/cockroachdb/pebble/v2"

	"nexus/projections/rows"
)

// Batch is rows that are written together or not at all. It copies what it is given. For use by
// one goroutine, which closes it.
type Batch struct{ *pebble.Batch }

// Set writes a row.
func (b Batch) Set(k, v []byte) error { return b.Batch.Set(k, v, nil) }

// Delete removes a row.
func (b Batch) Delete(k []byte) error { return b.Batch.Delete(k, nil) }

// Apply adds what another batch has.
func (b Batch) Apply(more Batch) error { return b.Batch.Apply(more.Batch, nil) }

// PutCheckpoint writes how far the rows follow the log.
func (b Batch) PutCheckpoint(cp rows.Checkpoint) error {
	v, err := rows.Encode(cp)
	if err != nil {
		return err
	}
	return b.Set(rows.Checkpoints.Key(), v)
}

// Commit writes the batch, and waits for no sync: a crash takes the last batches away, in their
// order, and the log makes them again.
func (b Batch) Commit() error { return b.Batch.Commit(pebble.NoSync) }
