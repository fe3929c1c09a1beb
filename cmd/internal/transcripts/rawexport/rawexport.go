package rawexport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"nexus/cmd/internal/transcripts/tally"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Line is a line of an export, or of an archive: there a turn comes with what a
// person can read of it.
type Line struct {
	Archive *ArchiveHeader `json:"nexus_archive,omitempty,omitzero"`
	api.ExportRecord
	Turn turns.Raw `json:"turn,omitzero"`
}

// ArchiveHeader opens the archive of a compaction.
type ArchiveHeader struct {
	Version    int      `json:"version"`
	Ledger     string   `json:"ledger"`
	Session    turns.ID `json:"session"`
	Compaction turns.ID `json:"compaction"`
}

// MaxLine bounds a line of an export or an archive, in bytes: an event and all of what a
// person reads of it fit. Without a bound a small file that gzip made of zeros takes all of the
// memory.
const MaxLine = 256 << 20

// ReadLine returns the next line, with its end. At the end of the file it returns the rest
// and [io.EOF].
func ReadLine(r *bufio.Reader) (line []byte, err error) {
	for {
		chunk, err := r.ReadSlice('\n')
		if line = append(line, chunk...); !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > MaxLine {
			return nil, fmt.Errorf("the line is over %d bytes", MaxLine)
		}
	}
}

// Import imports an export of raw events.
func Import(ctx context.Context, c *client.Client, r *bufio.Reader, rep *tally.Report) error {
	b := Batches{Client: c, Report: rep}
	first := 1 // line of the first record that is not sent yet
	for line := 1; ; line++ {
		text, err := ReadLine(r)
		if len(text) > 1 {
			var x Line
			if err := turns.DecodeJSON(text, &x); err != nil {
				return fmt.Errorf("line %d: %w", line, err)
			}
			if x.Ledger != nil {
				rep.Sessions = append(rep.Sessions, x.Ledger.Session)
			}
			if err := b.Add(ctx, x.ExportRecord, len(text)); err != nil {
				return fmt.Errorf("lines %d to %d: %w", first, line-1, err)
			}
			if len(b.records) == 1 {
				first = line
			}
		}
		if err == io.EOF {
			if err := b.Send(ctx); err != nil {
				return fmt.Errorf("lines from %d on: %w", first, err)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// Batches sends the records of exports to a ledger, several in a request.
type Batches struct {
	Client  *client.Client
	Report  *tally.Report // what was stored is added to it
	records []api.ExportRecord
	size    int // bytes
}

// batchBytes is how large a request of several records is, in bytes. NATS servers take
// messages of 1 MiB by default.
const batchBytes = 256 << 10

// Add adds a record whose JSON has size bytes. It sends the records before it if a request
// has no room for all.
func (b *Batches) Add(ctx context.Context, r api.ExportRecord, size int) error {
	if b.size > 0 && b.size+size > batchBytes {
		if err := b.Send(ctx); err != nil {
			return err
		}
	}
	b.records, b.size = append(b.records, r), b.size+size
	return nil
}

// Send sends the records that are not sent yet.
func (b *Batches) Send(ctx context.Context) error {
	if len(b.records) == 0 {
		return nil
	}
	got, err := b.Client.Import(ctx, b.records)
	if err == nil {
		b.Report.Stored += int(got.Stored)
		b.Report.Existing += int(got.Existing)
	}
	b.records, b.size = nil, 0
	return err
}
