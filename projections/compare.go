package projections

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/maphash"
	"math/bits"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/fxamacker/cbor/v2"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/turns"
)

// Comparison compares every row of the projections, as they were when it began, with what
// follows from the log up to there. Its caller gives it the records one after the other, and
// learns of each what [ledger.Admit] decides. It writes nothing.
//
// Both sides are added up: a keyed hash of each row into one of [parts] sums, by a hash of
// its key. Where two sums differ, a second pass over the log finds which rows do. So a comparison holds
// no row of most turns in memory, and knows no kind of row by name: whatever row
// the applier makes is compared.
//
// For use by one goroutine.
type Comparison struct {
	snap     *snapshot
	ledger   turns.ID
	identity string     // of the log
	end      Checkpoint // of the rows that are compared
	shadow   *shadow

	// Of a comparison of the whole log.
	log   *sums
	swept chan sweepResult // the sums of the rows
	stop  context.CancelFunc

	// Of a comparison of some chains.
	some  *points
	short bool // see StopShort
}

type sweepResult struct {
	sums *sums
	err  error
}

// Compare begins a comparison of all rows with the log of an identity. Errors:
// [ledger.ErrUnavailable], those of the disk; [ledger.ErrCorrupt] if the rows do not say how
// far they go.
func (s *Store) Compare(identity string) (*Comparison, error) {
	c, err := s.compare(identity)
	if err != nil {
		return nil, err
	}
	if c.log, err = newSums(); err == nil {
		c.shadow, err = newShadow(c.snap.Snapshot, s.ledger, c.identity, c.log)
	}
	if err != nil {
		return nil, errors.Join(err, c.snap.close())
	}
	ctx, stop := context.WithCancel(context.Background())
	c.swept, c.stop = make(chan sweepResult, 1), stop
	own := c.log.another()
	go func() {
		err := c.snap.sweep(ctx, func(k, v []byte) error { own.add(k, v, 1); return nil })
		c.swept <- sweepResult{own, err}
	}()
	return c, nil
}

// CompareSome begins a comparison of the rows of some chains of sessions: those that
// follow from their events. It does not find rows that follow from nothing.
func (s *Store) CompareSome() (*Comparison, error) {
	c, err := s.compare("")
	if err != nil {
		return nil, err
	}
	c.some = &points{c: c}
	if c.shadow, err = newShadow(c.snap.Snapshot, s.ledger, c.identity, c.some); err != nil {
		return nil, errors.Join(err, c.snap.close())
	}
	return c, nil
}

func (s *Store) compare(identity string) (*Comparison, error) {
	s.mu.Lock()
	d, applied := s.db(), s.applied.Seq
	s.mu.Unlock()
	snap, err := d.snapshot()
	if err != nil {
		return nil, err
	}
	c := &Comparison{snap: snap, ledger: s.ledger, identity: identity}
	err = snap.use(func() (err error) {
		if c.end, err = checkpoint(snap.Snapshot); err == nil && c.end.Seq < applied {
			err = fmt.Errorf("%w: the checkpoint of the projections is at %d, but they are at %d", ledger.ErrCorrupt, c.end.Seq, applied)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, snap.close())
	}
	return c, nil
}

// StopShort says that a chain could not be read to its end: the rows that its last events
// lead to, and those of the other chains, are not compared.
func (c *Comparison) StopShort() { c.short = true }

// Last returns the position of the last record that the rows follow from.
func (c *Comparison) Last() uint64 { return c.end.Seq }

// Close ends the comparison.
func (c *Comparison) Close() error {
	if c.stop != nil {
		c.stop()
		r := <-c.swept
		c.swept <- r // Close may be called again
		c.stop = nil
	}
	return errors.Join(c.shadow.close(), c.snap.close())
}

// Apply takes the next record, with its event, or with what is bad about it. It returns what
// the event leads to, or why it is refused, as it was at that position: a chain with a
// refused event is set aside. Err is of the store.
//
// A bad record says nothing of what was applied. If the projections went on with a sound
// copy of it, the comparison does.
func (c *Comparison) Apply(r ledger.Record, e *turns.Event, bad error) (next ledger.Admitted, refused, err error) {
	err = c.snap.use(func() error {
		p := parsed{Record: r, event: e, bad: bad}
		if p.tenant, _, p.named = ledger.ParseSubject(r.Subject); p.named != nil || bad != nil {
			p.event = nil
			if own, ok := c.copyOf(r.Seq, r.Subject); ok {
				p = own
			}
		}
		return c.shadow.apply(p)
	})
	if damaged := (*DamagedError)(nil); errors.As(c.snap.d.fault.get(), &damaged) {
		return next, nil, damaged // what the rows are said to lack may be there
	}
	if bad != nil {
		return next, bad, err
	}
	return c.shadow.decided.Admitted, c.shadow.decided.refused, err
}

// copyOf returns the projections' copy of a record whose chain they did not set aside there.
func (c *Comparison) copyOf(seq uint64, subject string) (parsed, bool) {
	was := view{r: c.snap.Snapshot, side: c.snap.Snapshot, recent: newRecent()}
	r, err := was.record(seq)
	if err != nil {
		return parsed{}, false
	}
	for _, subject := range []string{subject, r.Subject} {
		if b, ok, err := get(c.snap.Snapshot, textKey(pAside, subject)); err != nil || ok && len(b) >= 8 && binary.BigEndian.Uint64(b) <= seq {
			return parsed{}, false
		}
	}
	p := parse(r, func(turns.Hash) *turns.Event { return nil })
	return p, p.named == nil && p.bad == nil
}

// ApplyCopies takes the projections' own copies of the records that are left, for those that
// the log does not give.
func (c *Comparison) ApplyCopies(ctx context.Context) error {
	for seq := c.shadow.at + 1; seq <= c.end.Seq; seq++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := c.snap.use(func() error {
			if p, ok := c.copyOf(seq, ""); ok {
				return c.shadow.apply(p)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Turn returns the row of a turn of the records so far, as it follows from the log.
// Errors: [lineage.ErrUnknown].
func (c *Comparison) Turn(ref turns.Ref) (t Turn, err error) {
	err = c.snap.use(func() (err error) { t, err = c.shadow.a.Turn(ref); return err })
	return t, err
}

// Node implements [lineage.Reader], for the records so far.
func (c *Comparison) Node(ref turns.Ref) (lineage.Node, error) {
	t, err := c.Turn(ref)
	return t.Node, err
}

// Difference is a row that is not what follows from the log.
type Difference struct {
	Kind    DifferenceKind
	Of      string   // what it is a row of
	Tenant  string   // "" if it is not known
	Session turns.ID // of whose event it is, zero if it is of none
	Subject string   // of that event's chain, "" if it is not known
	Seq     uint64   // of the event, 0 if it is not known
	Event   turns.ID // zero if it is not known

	key []byte
}

// DifferenceKind says in what a row differs.
type DifferenceKind int

// The kinds of differences.
const (
	Missing DifferenceKind = iota // there is no such row
	Differs                       // it has another value
	Extra                         // it follows from no event
)

func (d *Difference) String() string {
	switch d.Kind {
	case Missing:
		return "the projections lack the row of " + d.Of
	case Differs:
		return "the projections' row of " + d.Of + " differs from the log"
	}
	return "the projections have a row of " + d.Of + ", which follows from no event of the log"
}

// maxDifferences bounds the differences that a comparison names.
const maxDifferences = 10_000

// Differences ends the comparison and returns the rows that differ, by the position of their
// events. more is how many others there are, or more of them. It reads the log again if
// any row differs.
func (c *Comparison) Differences(ctx context.Context, log ledger.Log) (found []Difference, more uint64, err error) {
	if err := c.snap.use(c.shadow.flush); err != nil {
		return nil, 0, err
	}
	if c.some != nil {
		if err := c.compareHeld(); err != nil {
			return nil, 0, err
		}
		found, more = c.some.found, c.some.more
	} else {
		var r sweepResult
		select {
		case r = <-c.swept:
			c.swept <- r
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
		if r.err != nil {
			return nil, 0, r.err
		}
		if found, more, err = c.name(ctx, log, r.sums); err != nil {
			return nil, 0, err
		}
	}
	err = c.snap.use(func() error {
		found = slices.DeleteFunc(found, func(d Difference) bool { return c.isGivenUp(d.Subject) })
		return nil
	})
	slices.SortStableFunc(found, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), bytes.Compare(a.key, b.key))
	})
	return found, more, err
}

// isGivenUp reports whether the log breaks a chain where the projections went on with it: they
// applied another record. What they have of the chain then follows from nothing that is
// left.
func (c *Comparison) isGivenUp(subject string) bool {
	if subject == "" {
		return false
	}
	b, ok, err := get(c.shadow.held, textKey(pAside, subject))
	if err != nil || !ok {
		return false
	}
	was := view{r: c.snap.Snapshot, side: c.snap.Snapshot, recent: newRecent()}
	tail, err := was.tail(subject)
	return err == nil && tail >= binary.BigEndian.Uint64(b)
}

// difference returns a difference with what is known of its row.
func (c *Comparison) difference(kind DifferenceKind, k []byte, from *source) Difference {
	r := rowAt(k)
	d := Difference{Kind: kind, Of: r.of, Tenant: r.tenant, Session: r.session, Subject: r.subject, key: bytes.Clone(k)}
	if from != nil {
		d.Seq, d.Event, d.Subject = from.seq, from.event, from.subject
	}
	if tenant, chain, err := ledger.ParseSubject(d.Subject); err == nil {
		d.Tenant = tenant
		d.Session, _ = chain.Session()
	} else if k[0] == pSeq && len(k) == 9 {
		d.Seq = binary.BigEndian.Uint64(k[1:])
	} else if !d.Session.IsZero() {
		if s, err := c.shadow.a.Session(d.Session); err == nil {
			d.Tenant, d.Subject = s.Tenant, s.Subject()
		}
	}
	return d
}

// sums are the sums of rows. Not safe for concurrent use.
type sums struct {
	secret [32]byte // nobody can make rows whose sums are those of others
	seed   maphash.Seed
	hash   hash.Hash
	sum    [sha256.Size]byte
	parts  []part
}

// parts is how many sums the rows are in. Of ten million turns a part has a thousand rows.
const parts = 1 << 16

// part is the sum of the hashes of some rows, and how many these are.
type part struct {
	hi, lo uint64
	rows   int64
}

func newSums() (*sums, error) {
	s := &sums{seed: maphash.MakeSeed(), hash: sha256.New(), parts: make([]part, parts)}
	_, err := rand.Read(s.secret[:])
	return s, err
}

// another returns sums of no rows, to be compared with s.
func (s *sums) another() *sums {
	return &sums{secret: s.secret, seed: s.seed, hash: sha256.New(), parts: make([]part, parts)}
}

// of returns the part of a key.
func (s *sums) of(k []byte) int { return int(maphash.Bytes(s.seed, k) % parts) }

// digest returns the hash of a row.
func (s *sums) digest(k, v []byte) (hi, lo uint64) {
	head := binary.BigEndian.AppendUint64(s.sum[:0], uint64(len(k)))
	s.hash.Reset()
	s.hash.Write(s.secret[:])
	s.hash.Write(head)
	s.hash.Write(k)
	s.hash.Write(following(k, v))
	sum := s.hash.Sum(s.sum[:0])
	return binary.BigEndian.Uint64(sum), binary.BigEndian.Uint64(sum[8:])
}

// add adds a row n times: 1 or -1.
func (s *sums) add(k, v []byte, n int64) {
	hi, lo := s.digest(k, v)
	p, carry := &s.parts[s.of(k)], uint64(0)
	if p.rows += n; n > 0 {
		p.lo, carry = bits.Add64(p.lo, lo, 0)
		p.hi, _ = bits.Add64(p.hi, hi, carry)
	} else {
		p.lo, carry = bits.Sub64(p.lo, lo, 0)
		p.hi, _ = bits.Sub64(p.hi, hi, carry)
	}
}

func (s *sums) set(_ *family, k, v []byte, _ *source) error { s.add(k, v, 1); return nil }
func (s *sums) gone(_ *family, k, v []byte)                 { s.add(k, v, -1) }

// A sweep reads so many rows, or bytes, before it lets the database be closed.
const sweepRows, sweepBytes = 1000, 4 << 20

// sweep visits all rows.
func (s *snapshot) sweep(ctx context.Context, visit func(k, v []byte) error) error {
	for lo := []byte{0}; lo != nil; {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := s.use(func() (err error) { lo, err = s.sweepFrom(lo, visit); return err })
		if err != nil {
			return err
		}
	}
	return nil
}

// sweepFrom visits some rows from a key on, and returns where the next ones begin, nil
// if there is none.
func (s *snapshot) sweepFrom(lo []byte, visit func(k, v []byte) error) (next []byte, err error) {
	it, err := s.NewIter(&pebble.IterOptions{LowerBound: lo})
	if err != nil {
		return nil, readError(err)
	}
	defer func() {
		if cerr := it.Close(); err == nil && cerr != nil {
			err = readError(cerr)
		}
	}()
	rows, size := 0, 0
	for ok := it.First(); ok; ok = it.Next() {
		if rows >= sweepRows || size >= sweepBytes {
			return bytes.Clone(it.Key()), nil
		}
		v, err := it.ValueAndErr()
		if err != nil {
			return nil, readError(err)
		}
		if err := visit(it.Key(), v); err != nil {
			return nil, err
		}
		rows, size = rows+1, size+len(v)
	}
	if err := it.Error(); err != nil {
		return nil, readError(err)
	}
	return nil, nil
}

// maxNamed bounds the rows of the parts that a second pass looks at, to about 50 MB.
const maxNamed = 200_000

// name finds the rows that differ, in the parts whose sums do.
func (c *Comparison) name(ctx context.Context, log ledger.Log, swept *sums) (found []Difference, more uint64, err error) {
	looked, rows := make(map[int]bool), int64(0)
	for i := range c.log.parts {
		a, b := c.log.parts[i], swept.parts[i]
		if a == b {
			continue
		}
		if n := a.rows + b.rows; len(looked) == 0 || rows+n <= maxNamed {
			looked[i] = true
			rows += n
		} else {
			more++ // one row of it, or more
		}
	}
	if len(looked) == 0 {
		return nil, 0, nil
	}
	want := &collected{sums: c.log, parts: looked, rows: make(map[string]collectedRow)}
	if err := c.foldAgain(ctx, log, want); err != nil {
		return nil, 0, err
	}
	add := func(kind DifferenceKind, k []byte, from *source) {
		if len(found) >= maxDifferences {
			more++
			return
		}
		found = append(found, c.difference(kind, k, from))
	}
	err = c.snap.sweep(ctx, func(k, v []byte) error {
		if !looked[c.log.of(k)] {
			return nil
		}
		row, ok := want.rows[string(k)]
		hi, lo := c.log.digest(k, v)
		switch {
		case !ok:
			add(Extra, k, nil)
		case row.hi != hi || row.lo != lo:
			add(Differs, k, &row.source)
		}
		delete(want.rows, string(k))
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	for k, row := range want.rows {
		add(Missing, []byte(k), &row.source)
	}
	return found, more, nil
}

// foldAgain makes the rows of the log once more, for another sink.
func (c *Comparison) foldAgain(ctx context.Context, log ledger.Log, to sink) error {
	sh, err := newShadow(c.snap.Snapshot, c.ledger, c.identity, to)
	if err != nil {
		return err
	}
	second := &Comparison{snap: c.snap, end: c.end, shadow: sh}
	for r, err := range log.Read(ctx, 1, false) {
		if errors.Is(err, ledger.ErrCorrupt) || err == nil && r.Seq > c.end.Seq {
			break
		}
		if err == nil {
			p := parse(r, func(turns.Hash) *turns.Event { return nil })
			_, _, err = second.Apply(r, p.event, p.bad)
		}
		if err != nil {
			return errors.Join(err, sh.close())
		}
	}
	err = second.ApplyCopies(ctx)
	if err == nil {
		err = c.snap.use(sh.flush)
	}
	return errors.Join(err, sh.close())
}

// collected are the rows of some parts.
type collected struct {
	sums  *sums
	parts map[int]bool
	rows  map[string]collectedRow
}

type collectedRow struct {
	hi, lo uint64
	source
}

func (c *collected) set(_ *family, k, v []byte, from *source) error {
	if c.parts[c.sums.of(k)] {
		hi, lo := c.sums.digest(k, v)
		c.rows[string(k)] = collectedRow{hi, lo, *from}
	}
	return nil
}

func (c *collected) gone(_ *family, k, _ []byte) { delete(c.rows, string(k)) }

// points compares row by row, at once those that are written once.
type points struct {
	c     *Comparison
	found []Difference
	more  uint64
}

func (p *points) set(f *family, k, v []byte, from *source) error {
	if !f.once {
		return nil
	}
	return p.compare(k, v, from)
}

func (p *points) gone(*family, []byte, []byte) {}

func (p *points) compare(k, v []byte, from *source) error {
	is, ok, err := get(p.c.snap.Snapshot, k)
	if err != nil || ok && bytes.Equal(following(k, is), following(k, v)) {
		return err
	}
	kind := Differs
	if !ok {
		kind = Missing
	}
	if len(p.found) >= maxDifferences {
		p.more++
		return nil
	}
	p.found = append(p.found, p.c.difference(kind, k, from))
	return nil
}

// compareHeld compares the rows of the sessions that their last events lead to. Of memories,
// whose agents' other events were not applied, it compares whether they are there.
func (c *Comparison) compareHeld() error {
	if c.short {
		return nil // the last events of a chain were not applied
	}
	return c.snap.use(func() error {
		for e, err := range scan(c.shadow.held, []byte{0}, []byte{0xff}) {
			if err != nil {
				return err
			}
			from := source{}
			switch {
			case bytes.HasPrefix(e.key, []byte{pMemory, mMemory}):
				if _, ok, err := get(c.snap.Snapshot, e.key); err != nil || ok {
					if err != nil {
						return err
					}
					continue
				}
				var m ledger.Memory
				if cbor.Unmarshal(e.value, &m) == nil {
					from.seq = m.Seq
				}
			case e.key[0] == pSession:
				var s ledger.Session
				if cbor.Unmarshal(e.value, &s) == nil {
					from.seq, from.subject = s.Tail.Seq, s.Subject()
				}
			case !slices.Contains([]byte{pUpdated, pTimed, pAside, pLoss, pAfter, pAfterChild}, e.key[0]):
				continue
			}
			if err := c.some.compare(e.key, e.value, &from); err != nil {
				return err
			}
		}
		return nil
	})
}
