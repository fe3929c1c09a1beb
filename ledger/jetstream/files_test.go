package jetstream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"nexus/ledger"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/ledgertest"
	"nexus/turns"
)

// readAll returns what Read yields from a position to the end, and its error.
func readAll(ctx context.Context, l *Log, from uint64) (records []ledger.Record, err error) {
	for r, err := range l.Read(ctx, from, false) {
		if err != nil {
			return records, err
		}
		records = append(records, r)
	}
	return records, nil
}

// A read of the files yields what the server has, record by record, over several blocks.
func TestAReadOfTheFilesIsOneOfTheServer(t *testing.T) {
	ctx, l := ledgertest.Within(t), grouped(t)
	tail := uint64(0)
	for n := range 40 {
		tail = appended(t, ctx, l, tail, append(fmt.Append(nil, "record ", n), make([]byte, 500<<10)...))
	}
	numbers, err := blocks.Numbers(l.sync.Dir())
	if err != nil || len(numbers) < 2 {
		t.Fatalf("%d blocks (%v), want several", len(numbers), err)
	}
	for _, from := range []uint64{1, 2, 17, 40, 41} {
		records, err := readAll(ctx, l, from)
		if err != nil || len(records) != int(41-from) {
			t.Fatalf("from %d: %d records, %v", from, len(records), err)
		}
		for i, r := range records {
			want, err := l.Get(ctx, from+uint64(i))
			if err != nil {
				t.Fatal(err)
			}
			if r.Seq != want.Seq || r.Subject != want.Subject || string(r.Payload) != string(want.Payload) || r.Hash != want.Hash || !r.Stored.Equal(want.Stored) {
				t.Errorf("record %d of the files differs from the server's", want.Seq)
			}
		}
	}
	wantNoConsumer(t, ctx, l)
}

// Damage ends a read where it is, is named by its file, and stays for the repair: the server,
// asked for such a record, would cut the file there. Reads from behind it do not need it.
func TestAReadOfDamagedFilesIsCorruptAndChangesNothing(t *testing.T) {
	ctx, l := ledgertest.Within(t), grouped(t)
	tail := uint64(0)
	for n := range 10 {
		tail = appended(t, ctx, l, tail, fmt.Append(nil, "record ", n, " of ten"))
	}
	name := filepath.Join(l.sync.Dir(), blocks.Path(1))
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var fourth blocks.Record
	for r, err := range blocks.Records(ctx, l.sync.Dir(), 4) {
		if err != nil {
			t.Fatal(err)
		}
		fourth = r
		break
	}
	damaged := append([]byte(nil), whole...)
	damaged[fourth.Offset+fourth.Bytes/2] ^= 1
	if err := os.WriteFile(name, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	records, err := readAll(ctx, l, 1)
	var d *blocks.Damage
	if len(records) != 3 || !errors.Is(err, ledger.ErrCorrupt) || !errors.As(err, &d) || d.First != 4 {
		t.Errorf("%d records before %v, want three before damage of record 4", len(records), err)
	}
	if records, err := readAll(ctx, l, 5); err != nil || len(records) != 6 {
		t.Errorf("behind the damage: %d records, %v", len(records), err)
	}
	if after, err := os.ReadFile(name); err != nil || string(after) != string(damaged) {
		t.Errorf("the file has %d bytes, had %d (%v)", len(after), len(damaged), err)
	}
}

// A file that can't be read ends a read that follows, after some tries, with the file's name: a
// bad sector does not heal, and a rebuild that waits for it would say nothing.
func TestAFileThatCannotBeReadEndsAReadThatFollows(t *testing.T) {
	ctx, l := ledgertest.Within(t), grouped(t)
	appended(t, ctx, l, 0, []byte("record"))
	bad, n := &fs.PathError{Op: "read", Path: "1.blk", Err: syscall.EIO}, 0
	r := &reader{log: l, next: 1, follow: true, pause: newPause(time.Millisecond, time.Millisecond)}
	err := r.until(ctx, 1, func() error { n++; return fmt.Errorf("read msgs/1.blk: %w", bad) })
	if file := (*fs.PathError)(nil); !errors.As(err, &file) || n != tries || ctx.Err() != nil {
		t.Errorf("after %d tries: %v, want the error of the file after %d", n, err, tries)
	}
}

// A record whose hash is not the one beside it is yielded with that one, so that whoever
// reads can say which event is damaged.
func TestAReadOfTheFilesKeepsTheHashBesideAPayload(t *testing.T) {
	ctx, l := ledgertest.Within(t), grouped(t)
	beside := turns.HashEvent([]byte("another payload"))
	if _, err := l.send(ctx, subjectA, 0, []byte("payload"), beside.String()); err != nil {
		t.Fatal(err)
	}
	records, err := readAll(ctx, l, 1)
	if err != nil || len(records) != 1 || records[0].Hash != beside || string(records[0].Payload) != "payload" {
		t.Errorf("read %+v, %v", records, err)
	}
}
