package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"nexus/ledger"
	"nexus/ledger/jetstream/blocks"
)

// readFiles yields the records up to end from the stream's block files. It is for a log that
// [groupsync.Stream] syncs: what is on the disk is whole in the files, and the server, which
// has no reason to rewrite them, goes on at their end. A consumer would take the server and
// both connections several times what the projections do with a record. And a server that is
// asked for a record it can't read truncates the file there; readFiles leaves it for the repair.
//
// Errors: a [*blocks.Damage], and [ledger.ErrCorrupt] for a record that is missing;
// [ledger.ErrUnavailable] where the fsync of end failed; those of the file system and of ctx.
func (r *reader) readFiles(ctx context.Context, end uint64) error {
	if err := r.log.onDisk(ctx, end); err != nil {
		return err
	}
	for m, err := range blocks.Records(ctx, r.log.sync.Dir(), r.next) {
		if d := (*blocks.Damage)(nil); errors.As(err, &d) && 0 < d.Last && d.Last < r.next {
			continue // its block begins with records that were read before
		}
		if err != nil {
			return err
		}
		if m.Seq != r.next {
			return fmt.Errorf("%w: the log has no record from %d to %d", ledger.ErrCorrupt, r.next, m.Seq-1)
		}
		if err := r.yieldNext(ctx, recordOf(m.Seq, m.Subject, bytes.Clone(m.Payload), hashBeside(m.Header), m.Stored)); err != nil {
			return err
		}
		if r.next > end {
			return nil
		}
	}
	return fmt.Errorf("%w: the files end at %d, record %d was synced", ledger.ErrCorrupt, r.next-1, end)
}

// hashBeside returns the hash in a record's header, as [Log.Append] writes it on the wire; ""
// if it is not there. To decode the whole header costs as much as the payload's hash.
func hashBeside(header []byte) string {
	_, rest, _ := bytes.Cut(header, []byte("\r\n"+hashHeader+": "))
	hash, _, _ := bytes.Cut(rest, []byte("\r\n"))
	return string(hash)
}
