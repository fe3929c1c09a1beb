package backup

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"nexus/ledger"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/turns"
)

// Checker checks the frames of a file in their order. It holds about 160 bytes of each
// chain, and 16 of each content key that events name. Not safe for concurrent use.
//
// Invariant: what it counts is what the frames hold that it accepted.
type Checker struct {
	begin  Begin
	totals Totals
	end    *End // of the last complete run; nil: there is none
	inRun  bool
	sum    hash.Hash // of every byte that it accepted
	bytes  int64
	chains map[string]chainEnd // by subject
	keys   map[turns.ID]struct{}
	last   blocks.Record // shares the memory of the frame
	stream Stream        // of last
	// broken is called with an event that does not continue its chain, the newest event
	// before it, and how many are missing between the two. nil: nobody is told.
	broken func(subject string, before chainEnd, seq, missed uint64)
}

// chainEnd is the newest event of a chain.
type chainEnd struct {
	hash   turns.Hash
	index  uint64
	seq    uint64 // position in the log
	broken bool   // an event was lost: nothing says what follows
}

// NewChecker returns a checker that has seen the beginning of a file.
func NewChecker() *Checker {
	c := &Checker{sum: sha256.New(), chains: make(map[string]chainEnd), keys: make(map[turns.ID]struct{})}
	c.accept([]byte(magic))
	return c
}

func (c *Checker) accept(b []byte) {
	_, _ = c.sum.Write(b)
	c.bytes += int64(len(b))
}

// Begin returns how the file, or its newest run, begins; the zero value if nothing did.
func (c *Checker) Begin() Begin { return c.begin }

// Keys returns the ids of the content keys that events name, sorted.
func (c *Checker) Keys() []turns.ID {
	out := make([]turns.ID, 0, len(c.keys))
	for id := range c.keys {
		out = append(out, id)
	}
	slices.SortFunc(out, compareIDs)
	return out
}

func compareIDs(a, b turns.ID) int { return bytes.Compare(a[:], b[:]) }

// isWhole reports whether the last frame ended a run.
func (c *Checker) isWhole() bool { return c.end != nil && !c.inRun }

// Frame checks the next frame. After an error the checker is as before it.
// [ledger.ErrCorrupt]: it does not belong there, or is not what was stored.
func (c *Checker) Frame(frame []byte) error {
	var err error
	switch frame[0] {
	case beginKind:
		err = c.beginRun(frame)
	case endKind:
		err = c.endRun(frame)
	case logKind, blobKind:
		err = c.record(frame)
	default:
		err = fmt.Errorf("%w: a frame of kind %q", ledger.ErrCorrupt, frame[:1])
	}
	if err == nil {
		c.accept(frame)
	}
	return err
}

func (c *Checker) beginRun(frame []byte) error {
	var b Begin
	if err := turns.DecodeJSON(frame[headSize:], &b); err != nil {
		return fmt.Errorf("%w: the beginning of a run: %w", ledger.ErrCorrupt, err)
	}
	switch {
	case c.inRun:
		return fmt.Errorf("%w: run %d begins within run %d", ledger.ErrCorrupt, b.Run, c.begin.Run)
	case b.Run != c.begin.Run+1 || b.Ledger == "":
		return fmt.Errorf("%w: run %d follows run %d", ledger.ErrCorrupt, b.Run, c.begin.Run)
	case c.begin.Run > 0 && (b.Ledger != c.begin.Ledger || !b.Created.Equal(c.begin.Created)):
		return fmt.Errorf("%w: run %d is of another ledger than the one before", ledger.ErrCorrupt, b.Run)
	}
	c.begin, c.inRun = b, true
	return nil
}

func (c *Checker) endRun(frame []byte) error {
	var e End
	if err := turns.DecodeJSON(frame[headSize:], &e); err != nil {
		return fmt.Errorf("%w: the end of a run: %w", ledger.ErrCorrupt, err)
	}
	if want := c.makeEnd(); !c.inRun || !want.isEnd(e) {
		return fmt.Errorf("%w: the end of run %d does not fit what is before it", ledger.ErrCorrupt, e.Run)
	}
	c.end, c.inRun = &e, false
	return nil
}

// makeEnd returns the end of a run that ends here.
func (c *Checker) makeEnd() End {
	return End{Run: c.begin.Run, Begin: c.begin, Totals: c.totals, Bytes: c.bytes, Digest: turns.Hash(c.sum.Sum(nil))}
}

// isEnd reports whether an end that was read is this one.
func (e End) isEnd(read End) bool {
	a, b := e.Begin, read.Begin
	return e.Run == read.Run && e.Totals == read.Totals && e.Bytes == read.Bytes && e.Digest == read.Digest &&
		a.Ledger == b.Ledger && a.Run == b.Run && a.Sealed == b.Sealed && a.Created.Equal(b.Created) && a.Began.Equal(b.Began)
}

func (c *Checker) record(frame []byte) error {
	s, r, err := parseRecord(frame)
	if err != nil {
		return err
	}
	if !c.inRun {
		return fmt.Errorf("%w: record %d is in no run", ledger.ErrCorrupt, r.Seq)
	}
	if s.Blobs {
		err = c.chunk(s, r)
	} else {
		err = c.event(s, r)
	}
	if err == nil {
		c.stream, c.last = s, r
	}
	return err
}

// chunk checks a record of a stream of blobs.
func (c *Checker) chunk(s Stream, r blocks.Record) error {
	next := c.totals.Blobs.Seq + 1
	if s.Number > c.totals.BlobStream { // a collection replaced the stream
		next = 1
	}
	if s.Number < c.totals.BlobStream || r.Seq != next {
		return fmt.Errorf("%w: chunk %d of stream %s, due is %d", ledger.ErrCorrupt, r.Seq, jetstream.BlobsStream(s.Number), next)
	}
	sum, err := jetstream.CheckChunk(r.Subject, r.Header, r.Payload)
	if err != nil {
		return err
	}
	c.totals.BlobStream, c.totals.Blobs = s.Number, Place{r.Seq, sum}
	c.totals.BlobRecords++
	return nil
}

// event checks a record of the log.
func (c *Checker) event(s Stream, r blocks.Record) error {
	if s.Number != 0 || r.Seq != c.totals.Log.Seq+1 {
		return fmt.Errorf("%w: record %d of the log, due is %d", ledger.ErrCorrupt, r.Seq, c.totals.Log.Seq+1)
	}
	rec, err := jetstream.CheckRecord(r.Seq, r.Subject, r.Header, r.Payload, r.Stored)
	if err != nil {
		return err
	}
	c.totals.Log, c.totals.LogRecords = Place{r.Seq, rec.Hash}, c.totals.LogRecords+1
	tail, known := c.chains[r.Subject]
	ev, err := turns.Decode(r.Payload)
	if err != nil { // a repair gave it up
		c.totals.Lost++
		tail.broken = true
	} else {
		follows := ev.Index == 0 && !known || known && ev.Index == tail.index+1 && ev.Prev == tail.hash
		if !follows && c.broken != nil {
			missed := ev.Index
			if known && tail.seq > 0 {
				missed = max(ev.Index, tail.index+1) - tail.index - 1
			}
			c.broken(r.Subject, tail, r.Seq, missed)
		}
		_, chain, err := ledger.ParseSubject(r.Subject)
		if tail.broken || !follows || err != nil || chain != ev.Chain {
			tail.broken = true
			c.totals.Broken++
		}
		tail.hash, tail.index, tail.seq = rec.Hash, ev.Index, r.Seq
		for _, id := range ev.Keys {
			c.keys[id] = struct{}{}
		}
		c.totals.Keys = uint64(len(c.keys))
	}
	if !known {
		c.totals.Chains++
	}
	c.chains[r.Subject] = tail
	return nil
}

// The states of a file.
const (
	Complete   = "complete"   // it ends with a complete run
	Incomplete = "incomplete" // something unfinished follows the last complete run, or there is none
	Damaged    = "damaged"
)

// Report is what a file holds.
type Report struct {
	State   string     `json:"state"`
	Ledger  string     `json:"ledger,omitzero"`
	Runs    uint64     `json:"runs"`            // complete ones
	Totals  Totals     `json:"totals"`          // of the complete runs
	Digest  turns.Hash `json:"digest,omitzero"` // of the last complete run
	Bytes   int64      `json:"bytes,string"`    // through the end of the last complete run
	Read    int64      `json:"read,string"`     // what is sound, unfinished bytes included
	Problem string     `json:"problem,omitempty"`
	// Salvage is what can be restored of a file that is not complete; nil: nobody looked, or nothing.
	Salvage *Salvage `json:"salvage,omitempty"`
}

// Err returns nil for a complete file. [ledger.ErrCorrupt] for any other: its
// message says which.
func (r *Report) Err() error {
	if r.State == Complete {
		return nil
	}
	if s := r.Salvage; s != nil && s.Bytes > 0 {
		return fmt.Errorf("%w: the backup is %s: %s; %s lost through position %d", ledger.ErrCorrupt, r.State, r.Problem, cmp.Or(lost(s.LostEvents, s.LostChunks), "nothing is known to be"), s.Through())
	}
	return fmt.Errorf("%w: the backup is %s: %s; it is complete through position %d (%d bytes)", ledger.ErrCorrupt, r.State, r.Problem, r.Totals.Log.Seq, r.Bytes)
}

// Visit is called with each record of a file that is sound. The record shares memory
// that the next one takes.
type Visit func(Stream, blocks.Record) error

// Check reads a file to its end, or to the first fault, which is in the report. visit may be
// nil. The checker has what is before the fault. Errors are those of r, visit and ctx;
// [ledger.ErrUnsupported]: it is no such file.
func Check(ctx context.Context, r io.Reader, visit Visit) (Report, *Checker, error) {
	in := bufio.NewReaderSize(r, 256<<10)
	start := make([]byte, len(magic))
	if n, err := io.ReadFull(in, start); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		if string(start[:n]) != magic[:n] {
			return Report{}, nil, fmt.Errorf("%w: it is no backup", ledger.ErrUnsupported)
		}
		return Report{State: Incomplete, Problem: "it is empty"}, NewChecker(), nil
	} else if err != nil {
		return Report{}, nil, err
	}
	if string(start) != magic {
		return Report{}, nil, fmt.Errorf("%w: it is no backup of version 1, or its first bytes are damaged", ledger.ErrUnsupported)
	}
	c := NewChecker()
	var report Report
	var frame []byte
	var end int64 // of the last complete run
	for {
		if err := ctx.Err(); err != nil {
			return report, c, err
		}
		var err error
		frame, err = readFrame(in, frame)
		if errors.Is(err, ledger.ErrCorrupt) {
			err = torn(in, frame, err)
		} else if err == nil {
			err = c.Frame(frame)
		}
		switch {
		case errors.Is(err, io.EOF) && c.isWhole():
			report.State = Complete
		case errors.Is(err, io.EOF), errors.Is(err, errShort):
			report.State, report.Problem = Incomplete, fmt.Sprintf("it ends in run %d, at byte %d", max(c.begin.Run, 1), c.bytes)
		case errors.Is(err, ledger.ErrCorrupt):
			report.State, report.Problem = Damaged, fmt.Sprintf("at byte %d: %v", c.bytes, err)
		case err != nil:
			return report, c, err
		case frame[0] == endKind:
			end = c.bytes
			continue
		case frame[0] == beginKind:
			continue
		default:
			if visit != nil {
				if err := visit(c.stream, c.last); err != nil {
					return report, c, err
				}
			}
			continue
		}
		report.Ledger, report.Bytes, report.Read = c.begin.Ledger, end, c.bytes
		if c.end != nil {
			report.Runs, report.Totals, report.Digest = c.end.Run, c.end.Totals, c.end.Digest
		}
		return report, c, nil
	}
}

// torn returns errShort for a damaged frame if it ends in zeros and nothing else follows:
// that is what a power cut leaves of bytes that no fsync had covered. A complete run ends in
// no zero, so none is taken for it. Otherwise it returns damage, or the error of r.
func torn(r io.Reader, frame []byte, damage error) error {
	if frame[len(frame)-1] != 0 {
		return damage
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		switch {
		case len(bytes.TrimLeft(buf[:n], "\x00")) > 0:
			return damage
		case errors.Is(err, io.EOF):
			return errShort
		case err != nil:
			return err
		}
	}
}

// ReadBegin returns how a file begins. Errors: [ledger.ErrUnsupported]: it is no such
// file; [ledger.ErrCorrupt]; those of r.
func ReadBegin(r io.Reader) (Begin, error) {
	start := make([]byte, len(magic))
	if _, err := io.ReadFull(r, start); err != nil || string(start) != magic {
		return Begin{}, fmt.Errorf("%w: it is no backup of version 1, or its first bytes are damaged", ledger.ErrUnsupported)
	}
	c := NewChecker()
	frame, err := readFrame(r, nil)
	if errors.Is(err, io.EOF) || errors.Is(err, errShort) {
		err = fmt.Errorf("%w: the backup is %s: it has no run", ledger.ErrCorrupt, Incomplete)
	}
	if err == nil {
		err = c.Frame(frame)
	}
	if err == nil && frame[0] != beginKind {
		err = fmt.Errorf("%w: it does not begin with a run", ledger.ErrCorrupt)
	}
	return c.begin, err
}
