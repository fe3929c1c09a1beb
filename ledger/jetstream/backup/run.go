package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// Source is the ledger that is backed up: a client of the operator.
type Source interface {
	BackupState(context.Context) (*api.BackupState, error)
	ReadBackup(context.Context, api.ReadBackup) (*api.BackupRecords, error)
	BackupKeys(context.Context, ...turns.ID) (*api.BackedUpKeys, error)
}

// Config says what [Run] writes.
type Config struct {
	File string // made, or gone on with
	Keys string // file of the content keys; "": none is written
	// WithoutKeys allows a backup of a sealed ledger without Keys, which nobody can read without a
	// file of the keys from elsewhere.
	WithoutKeys bool
	Now         func() time.Time
	// Opened is called with the bytes of File that were read, Progress with the records that
	// are in it and those that will be. nil: nobody is told.
	Opened   func(bytes int)
	Progress func(done, total uint64)
}

// Result is what [Run] did.
type Result struct {
	End
	Records uint64 `json:"records"` // new ones
	Keys    int    `json:"keys"`    // keys in the file of keys, and marks of those that were destroyed
	// KeysKept counts the keys that the file had before and the ledger has no more, KeysMissing
	// those that events name and neither has.
	KeysKept    int `json:"keys_kept,omitzero"`
	KeysMissing int `json:"keys_missing,omitzero"`
	// Sealed: content keys belong to it. A daemon with seal off seals nothing, and the file
	// may have what was sealed before.
	Sealed bool `json:"sealed"`
}

// ErrNoKeys says that the ledger is sealed, and that no file for its content keys is named.
var ErrNoKeys = errors.New("the ledger is sealed, and without its content keys nobody can read the backup")

// Run backs a ledger up: it adds to a file what the ledger had acknowledged when Run
// began and the file lacks, and writes the content keys into another file. The end of the
// run is written last. What Run does not end, the next Run ends.
//
// Errors: [ErrNoKeys] and those of [WriteKeys], before anything is written; those of [Open]; [ledger.ErrConflict]: the file is of another
// ledger, or of this one before it was restored, or the ledger lost what the file has; those of
// the source.
func Run(ctx context.Context, from Source, c Config) (out Result, err error) {
	st, err := from.BackupState(ctx)
	if err != nil {
		return out, err
	}
	if st.Sealed && c.Keys == "" && !c.WithoutKeys {
		return out, ErrNoKeys
	}
	if c.Keys != "" { // before anything is written, and before hours of reading
		if err := mayWriteKeys(c.Keys, st.Ledger); err != nil {
			return out, err
		}
	}
	x, err := Open(ctx, c.File, c.Opened)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	r := run{from: from, file: x, Config: c, state: st}
	if err := r.isSame(ctx); err != nil {
		return out, err
	}
	isNew := x.totals.Log.Seq < st.Log.Seq || x.totals.BlobStream < st.BlobStream && st.Blobs.Seq > 0 || x.totals.Blobs.Seq < st.Blobs.Seq
	if !x.InRun() && (isNew || x.end == nil) {
		if err := x.StartRun(st.Ledger, time.Time(st.Created), st.Sealed, c.Now()); err != nil {
			return out, err
		}
	}
	before := x.totals
	if err := r.log(ctx); err != nil {
		return out, fmt.Errorf("back up the log: %w", err)
	}
	if err := r.blobs(ctx); err != nil {
		return out, fmt.Errorf("back up the blobs: %w", err)
	}
	if c.Keys != "" {
		if err = r.keys(ctx, &out); err != nil {
			return out, fmt.Errorf("back up the keys: %w", err)
		}
	}
	if x.InRun() {
		if _, err := x.EndRun(c.Now()); err != nil {
			return out, err
		}
	}
	out.End = *x.end
	out.Sealed = st.Sealed || out.Totals.Keys > 0
	out.Records = x.totals.LogRecords + x.totals.BlobRecords - before.LogRecords - before.BlobRecords
	return out, nil
}

// run is one Run.
type run struct {
	Config
	from  Source
	file  *File
	state *api.BackupState
}

// isSame checks that the file is of this ledger, and that the ledger has what ends the file.
func (r *run) isSame(ctx context.Context) error {
	b, t, st := r.file.begin, r.file.totals, r.state
	switch {
	case b.Run == 0:
		return nil
	case b.Ledger != st.Ledger:
		return fmt.Errorf("%w: %s is of ledger %s, this one is %s", ledger.ErrConflict, r.File, b.Ledger, st.Ledger)
	case !b.Created.Equal(time.Time(st.Created)):
		return fmt.Errorf("%w: %s is of the ledger that began at %v, this one began at %v, as one that is restored does: begin another file",
			ledger.ErrConflict, r.File, b.Created, time.Time(st.Created).UTC())
	case t.Log.Seq > st.Log.Seq:
		return fmt.Errorf("%w: %s has %d records of the log, the ledger has %d: an older copy of its folder was put back, or it lost some; begin another file",
			ledger.ErrConflict, r.File, t.Log.Seq, st.Log.Seq)
	case st.BlobStream < t.BlobStream || st.BlobStream == t.BlobStream && st.Blobs.Seq < t.Blobs.Seq:
		return fmt.Errorf("%w: %s has %d chunks of blobs of stream %d, the ledger has %d of stream %d: begin another file", ledger.ErrConflict, r.File, t.Blobs.Seq, t.BlobStream, st.Blobs.Seq, st.BlobStream)
	}
	if t.Log.Seq > 0 {
		other := NewChecker()
		other.totals.Log.Seq = t.Log.Seq - 1
		if err := r.read(ctx, other, api.ReadBackup{Stream: "log", First: t.Log.Seq, Last: t.Log.Seq}); err != nil {
			return err
		}
		if other.totals.Log.Sum != t.Log.Sum {
			return fmt.Errorf("%w: record %d is %v in %s and %v in the ledger: they went different ways; begin another file", ledger.ErrConflict, t.Log.Seq, t.Log.Sum, r.File, other.totals.Log.Sum)
		}
	}
	if t.Blobs.Seq > 0 && st.BlobStream == t.BlobStream {
		other := NewChecker()
		other.totals.BlobStream, other.totals.Blobs.Seq = t.BlobStream, t.Blobs.Seq-1
		err := r.read(ctx, other, api.ReadBackup{Stream: "blobs", Number: t.BlobStream, First: t.Blobs.Seq, Last: t.Blobs.Seq})
		if errors.Is(err, ledger.ErrConflict) {
			return nil // a collection replaced the stream meanwhile: all of the new one is read
		}
		if err != nil {
			return err
		}
		if other.totals.Blobs.Sum != t.Blobs.Sum {
			return fmt.Errorf("%w: chunk %d of stream %d of the blobs is %v in %s and %v in the ledger: they went different ways; begin another file", ledger.ErrConflict, t.Blobs.Seq, t.BlobStream, t.Blobs.Sum, r.File, other.totals.Blobs.Sum)
		}
	}
	return nil
}

// read reads the one record that q names, with a checker that expects it.
func (r *run) read(ctx context.Context, c *Checker, q api.ReadBackup) error {
	got, err := r.page(ctx, q)
	if err != nil {
		return err
	}
	c.inRun = true
	frame, err := readFrame(bytes.NewReader(got.Frames), nil)
	if errors.Is(err, errShort) {
		return fmt.Errorf("%w: record %d: %w", ledger.ErrCorrupt, q.First, err)
	}
	if err != nil {
		return err
	}
	return c.Frame(frame)
}

// page reads a page. A record that is too large for a message is put together.
func (r *run) page(ctx context.Context, q api.ReadBackup) (*api.BackupRecords, error) {
	out, err := r.from.ReadBackup(ctx, q)
	for err == nil && out.NextOffset > 0 {
		if len(out.Frames) > maxFrame {
			return nil, fmt.Errorf("%w: record %d has more than %d bytes", ledger.ErrCorrupt, q.First, maxFrame)
		}
		q.Offset = out.NextOffset
		var more *api.BackupRecords
		if more, err = r.from.ReadBackup(ctx, q); err == nil {
			more.Frames = append(out.Frames, more.Frames...)
			out = more
		}
	}
	if err == nil && (out.Next <= q.First || len(out.Frames) == 0) {
		err = fmt.Errorf("%w: a page without a record", ledger.ErrCorrupt)
	}
	return out, err
}

// records adds the records of a stream. While a page is written, the next one is on its way.
func (r *run) records(ctx context.Context, q api.ReadBackup) error {
	if q.First > q.Last {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	type answer struct {
		page *api.BackupRecords
		err  error
	}
	answers := make(chan answer, 1)
	fetch := func(q api.ReadBackup) {
		page, err := r.page(ctx, q)
		answers <- answer{page, err}
	}
	go fetch(q)
	pending := true
	defer func() { // no fetch outlives the call
		if cancel(); pending {
			<-answers
		}
	}()
	for {
		a := <-answers
		if pending = false; a.err != nil {
			return a.err
		}
		if q.First = a.page.Next; q.First <= q.Last {
			pending = true
			go fetch(q)
		}
		if err := r.file.Add(a.page.Frames); err != nil {
			return err
		}
		if r.Progress != nil {
			r.Progress(r.file.totals.Log.Seq+r.file.totals.Blobs.Seq, r.state.Log.Seq+r.state.Blobs.Seq)
		}
		if !pending {
			return nil
		}
	}
}

func (r *run) log(ctx context.Context) error {
	if err := r.records(ctx, api.ReadBackup{Stream: "log", First: r.file.totals.Log.Seq + 1, Last: r.state.Log.Seq}); err != nil {
		return err
	}
	if have, want := r.file.totals.Log, r.state.Log; have.Seq != want.Seq || have.Sum != want.Hash {
		return fmt.Errorf("%w: record %d is %v, acknowledged was %v at %d", ledger.ErrCorrupt, have.Seq, have.Sum, want.Hash, want.Seq)
	}
	return nil
}

// maxCollections is how often a collection may replace the stream of the blobs under a run.
const maxCollections = 10

// blobs adds the blobs. They come after the log, so that each event's are there. A collection
// drops none that an event names; all of the stream that it made is read.
func (r *run) blobs(ctx context.Context) error {
	for try := 0; ; try++ {
		t, st := r.file.totals, r.state
		first := t.Blobs.Seq + 1
		if st.BlobStream != t.BlobStream {
			first = 1
		}
		err := r.records(ctx, api.ReadBackup{Stream: "blobs", Number: st.BlobStream, First: first, Last: st.Blobs.Seq})
		if err == nil {
			return r.hasBlobs()
		}
		if !errors.Is(err, ledger.ErrConflict) || try == maxCollections {
			return err
		}
		now, err := r.from.BackupState(ctx)
		if err != nil {
			return err
		}
		st.BlobStream, st.Blobs = now.BlobStream, now.Blobs // the log ends where it did
	}
}

// hasBlobs checks that the blobs in the file end as those of the ledger. A stream that a
// collection left empty is not in the file: the one before it still is.
func (r *run) hasBlobs() error {
	t, st := r.file.totals, r.state
	if st.Blobs.Seq > 0 && (t.BlobStream != st.BlobStream || t.Blobs.Seq != st.Blobs.Seq || t.Blobs.Sum != st.Blobs.Hash) {
		return fmt.Errorf("%w: chunk %d of stream %d of the blobs is %v, acknowledged was %v at %d of stream %d", ledger.ErrCorrupt, t.Blobs.Seq, t.BlobStream, t.Blobs.Sum, st.Blobs.Hash, st.Blobs.Seq, st.BlobStream)
	}
	return nil
}

// keyPage is how many keys a request asks for.
const keyPage = 1000

// keys writes the file of the keys: those that events in the file name, the ledger's own, and
// those that the file of keys has. A key that the ledger lost stays in the file, one that it
// destroyed does not.
func (r *run) keys(ctx context.Context, out *Result) error {
	old, err := keysToReplace(r.Keys, r.state.Ledger)
	if err != nil {
		return err
	}
	rows := make(map[turns.ID]KeyRow, len(old.Rows))
	for _, row := range old.Rows {
		rows[row.ID] = row
	}
	wanted := r.file.Keys()
	if r.state.Sealed {
		wanted = append(wanted, r.state.Key)
	}
	for _, id := range wanted {
		if _, ok := rows[id]; !ok {
			rows[id] = KeyRow{ID: id}
		}
	}
	ids := slices.SortedFunc(maps.Keys(rows), compareIDs)
	for page := range slices.Chunk(ids, keyPage) {
		got, err := r.from.BackupKeys(ctx, page...)
		if err != nil {
			return err
		}
		lost := make(map[turns.ID]bool, len(page))
		for _, id := range page {
			lost[id] = true
		}
		for _, k := range got.Keys {
			if len(rows[k.ID].Remains) == 0 || len(k.Key) == 0 { // else turns were redacted, and stay so
				rows[k.ID] = KeyRow{ID: k.ID, Key: k.Key, Remains: k.Remains}
			}
			delete(lost, k.ID)
		}
		for _, id := range got.Erased {
			rows[id] = KeyRow{ID: id, Erased: true}
			delete(lost, id)
		}
		for id := range lost {
			_, named := r.file.Checker.keys[id]
			switch row := rows[id]; {
			case len(row.Key)+len(row.Remains) > 0:
				out.KeysKept++
			case named && !row.Erased:
				out.KeysMissing++
			}
		}
	}
	next := Keys{Ledger: r.state.Ledger}
	for _, id := range ids {
		next.Rows = append(next.Rows, rows[id])
		if len(rows[id].Key)+len(rows[id].Remains) > 0 || rows[id].Erased {
			out.Keys++
		}
	}
	return WriteKeys(r.Keys, next)
}
