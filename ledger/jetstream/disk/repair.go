package disk

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nexus/ledger"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/mark"
	"nexus/ledger/tlog"
	"nexus/turns"
)

// A Copy returns the record at a position from another copy of the stream:
// [ledger.ErrNotFound] if it has none. Any error but that of ctx means the copy can't help.
type Copy func(ctx context.Context, seq uint64) (blocks.Record, error)

// RepairConfig says what [Repair] works with.
type RepairConfig struct {
	Data string    // data folder, locked
	Mark mark.Mark // what was acknowledged
	// Log and Blobs are the other copies, nil if there is none; LogLast and BlobsLast
	// are the last positions that they hold.
	Log, Blobs         Copy
	LogLast, BlobsLast uint64
	// Leaf returns the leaf of a record in the tree of hashes, zero if it is not known. nil: none is.
	Leaf func(seq uint64) turns.Hash
	// Aside is a new folder for the damaged files, under Data.
	Aside string
	// AcceptLoss puts a record that says "lost" at each position of which no copy is
	// sound. Without it such a position stops the repair before anything is changed.
	AcceptLoss bool
}

// Repaired is what was done to one stream.
type Repaired struct {
	Stream   string
	Damage   []string // what was wrong, as [blocks.Damage] says it
	Restored []uint64 // positions that were written again from the other copy
	Lost     []Lost   // positions of which no copy is sound
	Broken   []Lost   // sound records that do not continue their chain: what was before them is lost
	Files    []string // that were written anew, under the stream's folder
}

// Lost is a position of which no copy is sound.
type Lost struct {
	Seq     uint64
	Subject string // as far as the damaged bytes tell; "" if they tell nothing
	Why     string
}

// LossError says that positions can't be repaired. Nothing was changed. Unwrap gives
// [ledger.ErrCorrupt].
type LossError struct {
	Stream string
	Lost   []Lost
}

func (e *LossError) Error() string {
	l := e.Lost[0]
	s := fmt.Sprintf("stream %s: no sound copy of record %d", e.Stream, l.Seq)
	if l.Subject != "" {
		s += " of " + l.Subject
	}
	if n := len(e.Lost) - 1; n > 0 {
		s += fmt.Sprintf(" and %d others", n)
	}
	return s + ": " + l.Why
}

// Unwrap gives ErrCorrupt.
func (e *LossError) Unwrap() error { return ledger.ErrCorrupt }

// Repair writes the damaged blocks of both streams again, from their sound records
// and from the other copies. Sound records keep their bytes. Positions stay as they
// are: none is left out, none is given out a second time, and the stream keeps its
// identity, so that the mark and the projections still fit it.
//
// Crash states: the new blocks lie in Aside until all are written and synced; the
// damaged files are copied there too. Then the server's index is removed and the
// blocks are renamed into place, one by one. A repair that is cut short can be run again.
//
// Errors: [*LossError]; those of the file system and of ctx.
func Repair(ctx context.Context, c RepairConfig) ([]Repaired, error) {
	streams := []*repair{
		{
			cfg: c, stream: jetstream.StreamName, acked: c.Mark.Log, copied: c.Log, last: max(c.Mark.Log.Seq, c.LogLast),
			sum: recordSum, chains: true,
		},
		{
			cfg: c, stream: jetstream.BlobsStream(c.Mark.BlobStream), acked: c.Mark.Blobs, copied: c.Blobs, last: max(c.Mark.Blobs.Seq, c.BlobsLast),
			sum: chunkSum,
		},
	}
	var done []Repaired
	for _, r := range streams { // both are staged before either is changed
		if err := r.stage(ctx); err != nil {
			return nil, fmt.Errorf("repair stream %s: %w", r.stream, err)
		}
		done = append(done, r.done)
		if len(r.done.Lost) > 0 && !c.AcceptLoss {
			return done, &LossError{Stream: r.stream, Lost: r.done.Lost}
		}
	}
	for _, r := range streams {
		if err := r.replace(); err != nil {
			return done, fmt.Errorf("repair stream %s: %w", r.stream, err)
		}
	}
	return done, nil
}

// repair is the repair of one stream.
type repair struct {
	cfg    RepairConfig
	stream string
	acked  mark.Place
	copied Copy
	last   uint64 // the last position that must be there
	sum    func(blocks.Record) (turns.Hash, error)
	chains bool // the records are events, each with the hash of the one before it

	dir    string
	plan   []planned // by number
	meta   bool      // the configuration is damaged too
	newest time.Time // when the record before was stored
	// tails has the hash of the newest event of each chain that was passed.
	tails map[string]turns.Hash
	// legible has the subjects of damaged records that can still be read.
	legible map[uint64]string
	done    Repaired
}

// planned is one block: what it will hold, in order.
type planned struct {
	number  uint32
	exists  bool
	changed bool
	size    int64
	pieces  []piece
}

// piece is bytes of the block as it is, or a record that is written again.
type piece struct {
	offset, bytes int64
	seq           uint64 // 0: bytes of the block
	stored        time.Time
}

// stage finds what is wrong, and writes the new blocks into the folder aside.
func (r *repair) stage(ctx context.Context) error {
	r.dir, r.done.Stream = embed.StreamDir(r.cfg.Data, r.stream), r.stream
	report, err := blocks.Check(ctx, r.dir, blocks.Options{Acked: r.last, Valid: r.valid})
	if err != nil {
		return err
	}
	if report.Err() == nil {
		return nil
	}
	for _, d := range report.Damage {
		if d.Kind == blocks.Meta && !r.meta {
			if err := checkMeta(r.cfg.Data, r.stream); err != nil {
				return fmt.Errorf("%w, and its copy can't be used: %w: restore it from a backup of the folder", d, err)
			}
			r.meta, r.done.Files = true, append(r.done.Files, metaFiles[:]...)
		}
		r.done.Damage = append(r.done.Damage, d.Error())
	}
	if err := r.read(ctx, report.Damage); err != nil {
		return err
	}
	if err := r.layOut(ctx, report); err != nil {
		return err
	}
	for i := range r.plan {
		if r.plan[i].changed {
			if err := r.write(ctx, &r.plan[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// valid reports whether a record whose bytes are sound is what was stored.
func (r *repair) valid(rec blocks.Record) error {
	sum, err := r.sum(rec)
	if err == nil && rec.Seq == r.acked.Seq && sum != r.acked.Sum {
		err = fmt.Errorf("%w: it hashes to %v, acknowledged was %v", ledger.ErrCorrupt, sum, r.acked.Sum)
	}
	return err
}

// read reads the subjects of damaged records. Only those are taken that another
// record has too: a flipped bit must not set an innocent chain aside.
func (r *repair) read(ctx context.Context, damage []*blocks.Damage) error {
	subjects := make(map[string][]uint64)
	for _, d := range damage {
		if d.First == 0 || d.Bytes == 0 {
			continue
		}
		s, err := blocks.SubjectAt(r.dir, d)
		if err != nil {
			return err
		}
		if s != "" {
			subjects[s] = append(subjects[s], d.First)
		}
	}
	r.legible = make(map[uint64]string)
	for rec, err := range blocks.Records(ctx, r.dir, 0) {
		if d := (*blocks.Damage)(nil); err != nil && !errors.As(err, &d) {
			return err
		}
		if err == nil {
			for _, seq := range subjects[rec.Subject] {
				r.legible[seq] = rec.Subject
			}
		}
	}
	return nil
}

// follows reports whether a record of the log continues its chain, and notes it as
// the chain's newest. It is asked for each record, in order.
func (r *repair) follows(rec blocks.Record) error {
	if !r.chains {
		return nil
	}
	e, err := turns.Decode(rec.Payload)
	if err != nil {
		return nil // another record than an event, as LostRecord makes
	}
	if r.tails == nil {
		r.tails = make(map[string]turns.Hash)
	}
	tail := r.tails[rec.Subject]
	r.tails[rec.Subject] = turns.HashEvent(rec.Payload)
	if e.Prev != tail {
		return fmt.Errorf("%w: it follows the event %v of its chain, before it is %v", ledger.ErrCorrupt, e.Prev, tail)
	}
	return nil
}

// layOut decides which record goes into which block. A record that is written again
// goes behind the one before it, or into a block that is missing, as the server filled
// them.
func (r *repair) layOut(ctx context.Context, report blocks.Report) error {
	for _, b := range report.Blocks {
		for n := r.nextNumber(); n < b.Number; n++ {
			r.plan = append(r.plan, planned{number: n})
		}
		r.plan = append(r.plan, planned{number: b.Number, exists: true})
	}
	at, next := 0, uint64(1)
	for rec, err := range blocks.Records(ctx, r.dir, 0) {
		if d := (*blocks.Damage)(nil); errors.As(err, &d) {
			continue // the positions that are missing tell what to write again
		}
		if err != nil {
			return err
		}
		if rec.Seq < next || rec.Seq > max(r.last, report.Last) || r.valid(rec) != nil {
			continue
		}
		if next < rec.Seq {
			if err := r.fill(ctx, &at, next, rec.Seq-1, rec.Stored, r.indexOf(rec.Block)); err != nil {
				return err
			}
		}
		if err := r.follows(rec); err != nil {
			r.done.Broken = append(r.done.Broken, Lost{Seq: rec.Seq, Subject: rec.Subject, Why: err.Error()})
		}
		at = max(at, r.indexOf(rec.Block))
		b := &r.plan[at]
		b.pieces = append(b.pieces, piece{offset: rec.Offset, bytes: rec.Bytes})
		b.size += rec.Bytes
		next, r.newest = rec.Seq+1, rec.Stored
	}
	if next <= r.last {
		if err := r.fill(ctx, &at, next, r.last, time.Time{}, len(r.plan)); err != nil {
			return err
		}
	}
	r.plan = slices.DeleteFunc(r.plan, func(p planned) bool { return !p.exists && len(p.pieces) == 0 }) // a number that the server left out
	for i := range r.plan {
		if r.plan[i].changed = r.differs(report, &r.plan[i]); r.plan[i].changed {
			r.done.Files = append(r.done.Files, blocks.Path(r.plan[i].number))
		}
	}
	return nil
}

// leaf returns the leaf of a record of the log; zero: it is not known.
func (r *repair) leaf(seq uint64) turns.Hash {
	if !r.chains || r.cfg.Leaf == nil {
		return turns.Hash{}
	}
	return r.cfg.Leaf(seq)
}

func (r *repair) isLost(seq uint64) bool {
	return slices.ContainsFunc(r.done.Lost, func(l Lost) bool { return l.Seq == seq })
}

// LostRecord is what a repair, or a restore of a damaged backup, stores at a position of which no copy is sound, so that
// the position is not given out again. It is no event: a chain on whose subject it is
// stored can't be read past it. subject is that of the lost record; "" if nobody knows it.
//
// leaf is what the lost record had in the tree of hashes, which so stays as it was; zero: nobody knows it.
func LostRecord(stream, subject string, seq uint64, stored time.Time, leaf turns.Hash) blocks.Record {
	payload := tlog.LostPayload(seq, leaf)
	r := blocks.Record{Seq: seq, Subject: subject, Payload: payload, Stored: stored}
	if stream == jetstream.StreamName {
		r.Header, r.Subject = jetstream.LogHeader(payload), cmp.Or(subject, "nexus.log.lost")
	} else {
		r.Header, r.Subject = jetstream.ChunkHeader(payload), cmp.Or(subject, jetstream.LostChunk)
	}
	return r
}

func (r *repair) nextNumber() uint32 {
	if len(r.plan) == 0 {
		return 1
	}
	return r.plan[len(r.plan)-1].number + 1
}

// indexOf returns the place of a block that exists, in the plan.
func (r *repair) indexOf(number uint32) int {
	i, _ := slices.BinarySearchFunc(r.plan, number, func(p planned, n uint32) int { return cmp.Compare(p.number, n) })
	return i
}

// fill plans the records from first to last, which are to be written again before
// block until. They go into block at as long as they fit, then into those that are
// missing, then into new ones.
func (r *repair) fill(ctx context.Context, at *int, first, last uint64, before time.Time, until int) error {
	stored := r.newest
	if stored.IsZero() {
		stored = before
	}
	if stored.IsZero() {
		stored = time.Now()
	}
	for seq := first; seq <= last; seq++ {
		rec, err := r.choose(ctx, seq, stored)
		if err != nil {
			return err
		}
		bytes := rec.Size()
		isFull := func() bool { return r.plan[*at].size > 0 && r.plan[*at].size+bytes > blocks.MaxBlock }
		for *at < min(until, len(r.plan)) && (isFull() || *at < until-1 && r.isDue(*at, until, last-seq+1)) {
			*at++
		}
		if *at == len(r.plan) { // behind the newest block
			r.plan = append(r.plan, planned{number: r.nextNumber()})
			until = len(r.plan)
		}
		b := &r.plan[*at]
		b.pieces = append(b.pieces, piece{seq: seq, stored: stored})
		b.size += bytes
	}
	return nil
}

// isDue reports whether the next block must begin so that each missing block up to
// until gets one of the records that are left.
func (r *repair) isDue(at, until int, records uint64) bool {
	missing := uint64(0)
	for _, b := range r.plan[at+1 : until] {
		if !b.exists {
			missing++
		}
	}
	return missing > 0 && missing >= records && len(r.plan[at].pieces) > 0
}

// choose returns the record to write at seq: that of the other copy, or, if there is
// none, one that says that it is lost.
func (r *repair) choose(ctx context.Context, seq uint64, stored time.Time) (blocks.Record, error) {
	rec, err := r.fromCopy(ctx, seq, stored)
	if err == nil {
		err = r.follows(rec)
	}
	if err == nil {
		r.done.Restored = append(r.done.Restored, seq)
		return rec, nil
	}
	if ctx.Err() != nil {
		return rec, err
	}
	r.done.Lost = append(r.done.Lost, Lost{Seq: seq, Subject: r.legible[seq], Why: err.Error()})
	return LostRecord(r.stream, r.legible[seq], seq, stored, r.leaf(seq)), nil
}

func (r *repair) fromCopy(ctx context.Context, seq uint64, stored time.Time) (blocks.Record, error) {
	if r.copied == nil {
		return blocks.Record{}, fmt.Errorf("%w: there is no other copy", ledger.ErrNotFound)
	}
	rec, err := r.copied(ctx, seq)
	if err != nil {
		return rec, err
	}
	if rec.Seq = seq; rec.Stored.IsZero() {
		rec.Stored = stored
	}
	return rec, r.valid(rec)
}

// differs reports whether a block must be written anew.
func (r *repair) differs(report blocks.Report, p *planned) bool {
	if !p.exists {
		return true
	}
	var at int64
	for _, piece := range p.pieces {
		if piece.seq != 0 || piece.offset != at {
			return true
		}
		at += piece.bytes
	}
	i := slices.IndexFunc(report.Blocks, func(b blocks.Block) bool { return b.Number == p.number })
	return report.Blocks[i].Size != at
}

func (r *repair) staged(number uint32) string {
	return filepath.Join(r.cfg.Aside, "repaired", r.stream, blocks.Path(number))
}

// write writes a planned block into the folder aside.
func (r *repair) write(ctx context.Context, p *planned) (err error) {
	name := r.staged(p.number)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	encoder, err := blocks.NewEncoder(r.stream, p.number)
	if err != nil {
		return err
	}
	var old *os.File
	if p.exists {
		if old, err = os.Open(filepath.Join(r.dir, blocks.Path(p.number))); err != nil {
			return err
		}
		defer old.Close()
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for _, piece := range p.pieces {
		if piece.seq == 0 {
			if _, err := io.Copy(w, io.NewSectionReader(old, piece.offset, piece.bytes)); err != nil {
				return err
			}
			continue
		}
		rec, err := r.fromCopy(ctx, piece.seq, piece.stored)
		if r.isLost(piece.seq) {
			rec, err = LostRecord(r.stream, r.legible[piece.seq], piece.seq, piece.stored, r.leaf(piece.seq)), nil
		}
		if err != nil {
			return err
		}
		raw, err := encoder.Append(nil, rec)
		if err != nil {
			return err
		}
		if _, err := w.Write(raw); err != nil {
			return err
		}
	}
	return errors.Join(w.Flush(), f.Sync())
}

// replace copies the damaged files aside and puts the new ones in their place.
func (r *repair) replace() error {
	if len(r.done.Files) == 0 {
		return nil
	}
	aside := filepath.Join(r.cfg.Aside, "damaged", r.stream, "msgs")
	staged := filepath.Dir(r.staged(1))
	if err := errors.Join(os.MkdirAll(aside, 0o700), os.MkdirAll(staged, 0o700)); err != nil {
		return err
	}
	if r.meta {
		for _, name := range metaFiles {
			if err := copyFile(filepath.Join(r.dir, name), filepath.Join(filepath.Dir(aside), name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			if err := copyFile(filepath.Join(metaDir(r.cfg.Data, r.stream), name), filepath.Join(r.dir, name)); err != nil {
				return err
			}
		}
	}
	msgs := filepath.Join(r.dir, "msgs")
	entries, err := os.ReadDir(msgs)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if path := "msgs/" + e.Name(); slices.Contains(r.done.Files, path) || !strings.HasSuffix(path, ".blk") {
			if err := copyFile(filepath.Join(msgs, e.Name()), filepath.Join(aside, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(mark.SyncDir(aside), mark.SyncDir(staged)); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(msgs, "index.db")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := mark.SyncDir(msgs); err != nil {
		return err
	}
	for _, p := range r.plan {
		if p.changed {
			if err := os.Rename(r.staged(p.number), filepath.Join(r.dir, blocks.Path(p.number))); err != nil {
				return err
			}
		}
	}
	return mark.SyncDir(msgs)
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}
