package projections

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/fxamacker/cbor/v2"

	"nexus/ledger"
	"nexus/turns"
)

// shadow makes the rows of the log a second time, with the applier that makes them, and
// gives them to a sink. It holds in memory the rows that later events may change, which
// are as few as sessions, labels, memories and channels. It does not hold those of which each event
// has one: the few that the applier reads again, it reads from the rows that are compared.
//
// Invariant: what it reads there is what it has made itself. A row that is of a later
// record is not read, and one that differs is held in memory as it follows from the log.
type shadow struct {
	compared pebble.Reader // a snapshot of the rows that are compared
	ledger   turns.ID
	held     *database // in memory
	cache    *pebble.Cache
	sink     sink

	a         *applier
	decided   decided
	at        uint64     // the record that is applied
	applied   Checkpoint // what is in held; the newest record too, once flushed
	records   int        // of the batch
	bytes     int        // of their payloads
	marks     []mark     // of the batch
	aside     int        // chains set aside so far
	differing int        // rows that are held because those compared differ

	// Rows that were looked up in the batch and are of no record before: mostly that of an
	// event whose id is new, which is written next.
	looked map[string][]byte
}

// decided is what became of a record.
type decided struct {
	ledger.Admitted
	refused error // why nothing follows from it; nil if something does
}

// mark is where the rows of a record end in the batches, and which record it is.
type mark struct {
	rows, side uint32
	source
}

// source is the record that a row follows from.
type source struct {
	seq     uint64
	event   turns.ID
	subject string
}

// sink takes the rows of a [shadow].
type sink interface {
	// set takes a row. If one with its key was set before, gone has been called for that.
	set(f *family, k, v []byte, from *source) error
	// gone takes a row that is there no more.
	gone(f *family, k, v []byte)
}

// maxHeldDiffering bounds the held rows that differ from those compared, to about 40 MB.
const maxHeldDiffering = 100_000

func newShadow(compared pebble.Reader, ledger turns.ID, identity string, to sink) (*shadow, error) {
	cache := pebble.NewCache(8 << 20)
	o := &pebble.Options{FS: vfs.NewMem(), Cache: cache, Logger: pebbleLog{slog.New(slog.DiscardHandler), newFault("memory")}, DisableWAL: true,
		FormatMajorVersion: pebble.FormatValueSeparation}
	db, err := pebble.Open("", o)
	if err != nil {
		cache.Unref()
		return nil, fmt.Errorf("open rows in memory: %w", err)
	}
	sh := &shadow{compared: compared, ledger: ledger, held: &database{DB: db, recent: newRecent()}, cache: cache, sink: to,
		applied: Checkpoint{Identity: identity, Schema: Schema}, looked: make(map[string][]byte)}
	sh.begin()
	return sh, nil
}

func (sh *shadow) close() error {
	err := errors.Join(sh.a.close(), sh.held.Close())
	sh.cache.Unref()
	return err
}

// begin begins a batch.
func (sh *shadow) begin() {
	sh.a = newApplier(sh.held, sh.ledger, sh.aside)
	sh.a.r, sh.a.view.side = comparedReader{sh.a.r, sh}, comparedReader{sh.a.view.side, sh}
	sh.a.decided = &sh.decided
	sh.records, sh.bytes, sh.marks = 0, 0, sh.marks[:0]
	clear(sh.looked)
}

// apply makes the rows of a record, the next one of its chain.
func (sh *shadow) apply(p parsed) error {
	sh.at, sh.decided = p.Seq, decided{}
	if err := sh.a.apply(p); err != nil {
		return fmt.Errorf("record %d: %w", p.Seq, err)
	}
	m := mark{sh.a.batch.Count(), sh.a.side.Count(), source{seq: p.Seq, subject: p.Subject}}
	if p.event != nil {
		m.event = p.event.ID
	}
	sh.marks = append(sh.marks, m)
	sh.applied.Seq, sh.applied.Hash = p.Seq, hashOf(p)
	sh.records++
	if sh.bytes += len(p.Payload); sh.records >= batchRecords || sh.bytes >= batchBytes {
		return sh.flush()
	}
	return nil
}

// flush gives the rows of the batch to the sink, and begins another.
func (sh *shadow) flush() error {
	if sh.applied.Seq == 0 {
		return sh.flushEmpty()
	}
	if sh.records == 0 {
		return nil
	}
	b := sh.held.NewIndexedBatch()
	defer b.Close()
	rows := func(r batchrepr.Reader, end func(*mark) uint32) error {
		at := 0
		for n := uint32(0); ; n++ {
			kind, k, v, ok, err := r.Next()
			if err != nil || !ok {
				return err
			}
			for at < len(sh.marks)-1 && n >= end(&sh.marks[at]) {
				at++
			}
			if err := sh.write(b, kind, k, v, &sh.marks[at].source); err != nil {
				return err
			}
		}
	}
	err := rows(sh.a.batch.Reader(), func(m *mark) uint32 { return m.rows })
	for id, c := range sh.a.changes.chains {
		v, merr := cbor.Marshal(&c.session)
		if err = errors.Join(err, merr); err == nil {
			err = sh.write(b, pebble.InternalKeyKindSet, key(pSession, id), v, &source{seq: c.session.Tail.Seq, subject: c.session.Subject()})
		}
	}
	if err == nil {
		err = rows(sh.a.side.Reader(), func(m *mark) uint32 { return m.side })
	}
	v, merr := cbor.Marshal(sh.applied)
	if err = errors.Join(err, merr); err == nil {
		err = sh.write(b, pebble.InternalKeyKindSet, []byte{pCheckpoint}, v, &sh.marks[len(sh.marks)-1].source)
	}
	if err == nil {
		err = b.Commit(pebble.NoSync)
	}
	if err != nil {
		return err
	}
	sh.held.recent.drop(sh.a.changes)
	sh.held.recent.add(sh.a.changes)
	sh.aside += len(sh.a.asideChains)
	if err := sh.a.close(); err != nil {
		return err
	}
	sh.begin()
	return nil
}

// flushEmpty gives the one row of an empty ledger to the sink: the checkpoint that [Open] writes.
func (sh *shadow) flushEmpty() error {
	v, err := cbor.Marshal(Checkpoint{Schema: Schema})
	if err != nil {
		return err
	}
	return sh.sink.set(familyOf([]byte{pCheckpoint}), []byte{pCheckpoint}, v, new(source))
}

// write takes in one write of the applier. b has those before it.
func (sh *shadow) write(b *pebble.Batch, kind pebble.InternalKeyKind, k, v []byte, from *source) error {
	f := familyOf(k)
	switch {
	case f == nil:
		return fmt.Errorf("a row of no family, with the key %x", k)
	case f.once && kind == pebble.InternalKeyKindSet:
		if f.read {
			if err := sh.hold(b, k, v); err != nil {
				return err
			}
		}
		return sh.sink.set(f, k, v, from)
	case f.once || kind != pebble.InternalKeyKindSet && kind != pebble.InternalKeyKindDelete:
		return fmt.Errorf("a row that is written once, with the key %x, is written by %s", k, kind)
	}
	old, ok, err := get(b, k)
	if err != nil {
		return err
	}
	if ok {
		sh.sink.gone(f, k, old)
	}
	if kind == pebble.InternalKeyKindDelete {
		return b.Delete(k, nil)
	}
	if err := sh.sink.set(f, k, v, from); err != nil {
		return err
	}
	return b.Set(k, v, nil)
}

// hold holds a row that later events may read, if the one that is compared differs.
func (sh *shadow) hold(b *pebble.Batch, k, v []byte) error {
	is, ok := sh.looked[string(k)]
	if !ok {
		var err error
		if is, ok, err = get(sh.compared, k); err != nil {
			return err
		}
	}
	if ok && bytes.Equal(is, v) {
		return nil
	}
	if sh.differing++; sh.differing > maxHeldDiffering {
		return nil // what needs it is refused, and its chain is not followed further
	}
	return b.Set(k, v, nil)
}

// comparedReader reads what a shadow holds, and else the rows that are compared, as far
// as they are of records before the one that is applied.
type comparedReader struct {
	pebble.Reader
	sh *shadow
}

// Get implements [pebble.Reader].
func (c comparedReader) Get(k []byte) ([]byte, io.Closer, error) {
	v, closer, err := c.Reader.Get(k)
	if f := familyOf(k); !errors.Is(err, pebble.ErrNotFound) || f == nil || !f.read {
		return v, closer, err
	}
	b, ok, err := get(c.sh.compared, k)
	if err != nil {
		return nil, nil, err
	}
	if ok {
		ok, err = c.sh.isBefore(k, b)
	}
	if err == nil && !ok {
		if b != nil {
			c.sh.looked[string(k)] = b
		}
		err = pebble.ErrNotFound
	}
	return b, nothing{}, err
}

// NewIter implements [pebble.Reader]. The greatest id of a session's events may then be
// one of a later event: an id is looked up though it is new.
func (c comparedReader) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	if f := familyOf(o.LowerBound); f != nil && f.read {
		return c.sh.compared.NewIter(o)
	}
	return c.Reader.NewIter(o)
}

type nothing struct{}

func (nothing) Close() error { return nil }

// isBefore reports whether a row that is compared says that it is of a record before the
// one that is applied.
func (sh *shadow) isBefore(k, v []byte) (bool, error) {
	rest := k[1:]
	if k[0] == pNode {
		if len(rest) != 32 {
			return false, nil
		}
		t, err := decodeTurn(turns.Ref{Session: turns.ID(rest[:16]), Turn: turns.ID(rest[16:])}, v)
		return err == nil && t.Seq < sh.at, nil
	}
	if len(v) != 8 {
		return false, nil
	}
	index := binary.BigEndian.Uint64(v)
	if k[0] == pID {
		s, err := sh.a.Session(idAt(k, 1))
		if errors.Is(err, ledger.ErrNotFound) {
			return false, nil
		}
		return err == nil && index <= s.Tail.Index, err
	}
	tenant, rest, _ := bytes.Cut(rest, []byte{0}) // of an event of a channel
	channel, _, _ := bytes.Cut(rest, []byte{0})
	ch, err := sh.a.Channel(string(tenant), string(channel))
	return err == nil && index < ch.Count, err
}
