package projections

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Comparison compares every row of the projections, as they were when it began, with what
// follows from the log up to there. Its caller gives it the records one after the other, and
// learns of each what [ledger.Admit] decides.
//
// It makes the projections anew, in a [scratch], with the applier that made the store's. At the
// end both are read side by side. So it knows no kind of row by name: whatever row the applier
// makes is compared, and it believes no row of the store.
//
// For use by one goroutine.
type Comparison struct {
	snap *db.Snapshot
	end  rows.Checkpoint // of the rows that are compared
	anew *scratch
	some bool         // the rows of some chains are compared
	cut  bool         // see Cut
	diff *differences // what was found so far; nil: no row was compared
}

// Compare begins a comparison of all rows with the log of an identity. The caller calls
// Close. Errors: [db.ErrNoRoom], [ledger.ErrUnavailable], those of the disk; [ledger.ErrCorrupt]
// if the rows do not say how far they go.
func (s *Store) Compare(identity string) (*Comparison, error) {
	return s.compare(identity, false)
}

// CompareSome begins a comparison of the rows of some chains of sessions, of which the caller
// gives it all records, those of ancestors first. It does not find rows that follow from nothing.
func (s *Store) CompareSome() (*Comparison, error) { return s.compare("", true) }

func (s *Store) compare(identity string, some bool) (*Comparison, error) {
	s.mu.Lock()
	d, applied := s.db(), s.applied.Seq
	s.mu.Unlock()
	snap, err := d.Snapshot()
	if err != nil {
		return nil, err
	}
	c, size := &Comparison{snap: snap, some: some}, uint64(0)
	err = snap.Use(func() (err error) {
		if c.end, err = db.Checkpoint(snap); err == nil && c.end.Seq < applied {
			err = fmt.Errorf("%w: the checkpoint of the projections is at %d, but they are at %d", ledger.ErrCorrupt, c.end.Seq, applied)
		}
		if !some {
			size = d.Metrics().DiskSpaceUsage()
		}
		return err
	})
	if err == nil {
		c.anew, err = s.newScratch(identity, size, some)
	}
	if err != nil {
		return nil, errors.Join(snap.Damage(err), snap.Close())
	}
	return c, nil
}

// Last returns the position of the last record that the rows follow from.
func (c *Comparison) Last() uint64 { return c.end.Seq }

// Cut says that the log could not be read to the end. Then no rows are compared: those
// of the records that are left follow from what is not known.
func (c *Comparison) Cut() { c.cut = true }

// Close ends the comparison.
func (c *Comparison) Close() error { return errors.Join(c.anew.close(), c.snap.Close()) }

// Apply takes the next record, with its event, or with what is bad about it. It returns what
// the event leads to, or why it is refused, as it was at that position: a chain with a
// refused event is set aside. Err is of the disk.
//
// A bad record says nothing of what was applied. If the projections went on with a sound
// copy of it, the comparison does.
func (c *Comparison) Apply(r ledger.Record, e *turns.Event, bad error) (next ledger.Admitted, refused, err error) {
	if err := c.snap.Err(); err != nil {
		return next, nil, err
	}
	p := parsed{Record: r, event: e, bad: bad}
	if p.tenant, _, p.named = ledger.ParseSubject(r.Subject); p.named != nil || bad != nil {
		p.event = nil
		if p, err = c.copyOf(p); err != nil {
			return next, nil, c.snap.Damage(err)
		}
	}
	err = c.anew.apply(p)
	if bad != nil {
		return next, bad, err
	}
	return c.anew.decided.Admitted, c.anew.decided.refused, err
}

// copyOf returns the projections' copy of a bad record, and the record itself if it was bad
// when it was applied: then they set its chain aside there.
func (c *Comparison) copyOf(bad parsed) (own parsed, err error) {
	own = bad
	err = c.snap.Use(func() error {
		was := c.was()
		r, err := was.record(bad.Seq)
		if errors.Is(err, ledger.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, subject := range []string{bad.Subject, r.Subject} {
			if at, ok, err := asideAt(c.snap, subject); err != nil || ok && at <= bad.Seq {
				return err
			}
		}
		if p := parse(r, func(turns.Hash) *turns.Event { return nil }); p.named == nil && p.bad == nil {
			own = p
		}
		return nil
	})
	return own, err
}

// was returns the rows that are compared.
func (c *Comparison) was() view {
	return view{r: c.snap, side: c.snap, recent: newRecent()}
}

// asideAt returns where a chain was set aside.
func asideAt(r db.Reader, subject string) (seq uint64, ok bool, err error) {
	b, ok, err := db.Get(r, rows.AsideChains.TextKey(subject))
	if err != nil || !ok || len(b) < 8 {
		return 0, false, err
	}
	return rows.NumberAt(b, 0), true, nil
}

// Turn returns the row of a turn of the records so far, as it follows from the log.
// Errors: [lineage.ErrUnknown].
func (c *Comparison) Turn(ref turns.Ref) (rows.Turn, error) { return c.anew.a.Turn(ref) }

// Node implements [lineage.Reader], for the records so far.
func (c *Comparison) Node(ref turns.Ref) (lineage.Node, error) { return c.anew.a.Node(ref) }

// Difference is a row that is not what follows from the log.
type Difference struct {
	Kind    DifferenceKind
	Of      string   // what it is a row of
	Tenant  string   // "" if it is not known
	Session turns.ID // of whose event it is, zero if it is of none, or that is not known
	Seq     uint64   // of the event, or of the last of its chain; 0 if neither is known
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

// differences collects them.
type differences struct {
	c     *Comparison
	given map[tenantChain]bool
	found []Difference
	more  uint64
	next  []byte // the row of some chains that is compared next; nil: the first one
	ended bool   // all rows of some chains were compared
}

type tenantChain struct {
	tenant string
	chain  turns.Chain
}

// CompareSomeRows compares the next n rows of some chains, of which all records were applied, and
// reports whether any are left; [Comparison.Differences] compares those too. Errors: those of
// Differences.
func (c *Comparison) CompareSomeRows(ctx context.Context, n int) (more bool, err error) {
	if c.cut {
		return false, nil
	}
	if c.diff == nil {
		if err := c.beginDifferences(); err != nil {
			return false, err
		}
	}
	if more, err = c.diff.some(ctx, n); err != nil {
		err = c.snap.Damage(err)
	}
	return more, err
}

func (c *Comparison) beginDifferences() error {
	if err := c.anew.flush(); err != nil {
		return err
	}
	given, err := c.givenUp()
	c.diff = &differences{c: c, given: given}
	return err
}

// Differences ends the comparison and returns the rows that differ, by the position of their
// events as far as that is known. more is how many others there are. After [Comparison.Cut] it
// returns none. Errors: [*db.DamagedError] if a file of the store does not hold what was written;
// those of the disk.
func (c *Comparison) Differences(ctx context.Context) (found []Difference, more uint64, err error) {
	if c.cut {
		return nil, 0, nil
	}
	if c.some {
		_, err = c.CompareSomeRows(ctx, math.MaxInt)
	} else if err = c.beginDifferences(); err == nil {
		if err = c.diff.all(ctx); err != nil {
			err = c.snap.Damage(err)
		}
	}
	if err != nil {
		return nil, 0, err
	}
	d := c.diff
	slices.SortStableFunc(d.found, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), bytes.Compare(a.key, b.key))
	})
	return d.found, d.more, nil
}

// all reads both sides by key.
func (d *differences) all(ctx context.Context) error {
	it, err := d.c.anew.NewIter(nil)
	if err != nil {
		return d.c.anew.Own(err)
	}
	defer it.Close()
	more := it.First()
	err = d.c.snap.Sweep(ctx, func(k, v []byte) error {
		for ; more && bytes.Compare(it.Key(), k) < 0; more = it.Next() {
			d.add(Missing, it.Key())
		}
		if !more || !bytes.Equal(it.Key(), k) {
			d.add(Extra, k)
			return nil
		}
		want, err := it.ValueAndErr()
		if err != nil {
			return d.c.anew.Own(err)
		}
		if !bytes.Equal(rows.Derived(k, want), rows.Derived(k, v)) {
			d.add(Differs, k)
		}
		more = it.Next()
		return nil
	})
	for ; err == nil && more; more = it.Next() {
		d.add(Missing, it.Key())
	}
	return cmp.Or(err, d.c.anew.Own(it.Error()))
}

// some looks up the next n rows of the chains, and reports whether any are left. Rows of memories
// are not compared, as other chains lead to them too, nor is the checkpoint.
func (d *differences) some(ctx context.Context, n int) (more bool, err error) {
	if d.ended {
		return false, nil
	}
	it, err := d.c.anew.NewIter(nil)
	if err != nil {
		return false, d.c.anew.Own(err)
	}
	defer it.Close()
	for more = it.SeekGE(d.next); more; more = it.Next() {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		k := it.Key()
		if n--; n < 0 {
			d.next = bytes.Clone(k)
			return true, nil
		}
		if rows.Checkpoints.Begins(k) || rows.Memories.Begins(k) && !rows.MemoryIDs.Begins(k) {
			continue
		}
		want, err := it.ValueAndErr()
		if err != nil {
			return false, d.c.anew.Own(err)
		}
		err = d.c.snap.Use(func() error {
			v, ok, err := db.Get(d.c.snap, k)
			switch {
			case err != nil:
				return err
			case !ok:
				d.add(Missing, k)
			case !rows.Memories.Begins(k) && !bytes.Equal(rows.Derived(k, want), rows.Derived(k, v)):
				d.add(Differs, k)
			}
			return nil
		})
		if err != nil {
			return false, err
		}
	}
	d.ended = it.Error() == nil
	return false, d.c.anew.Own(it.Error())
}

// add takes in a difference of the row of a key.
func (d *differences) add(kind DifferenceKind, k []byte) {
	r, made, was := rows.Describe(k), d.c.anew.a.view, d.c.was()
	if kind == Extra {
		made = was
	}
	x := Difference{Kind: kind, Of: r.Of, Event: r.Event, key: bytes.Clone(k)}
	if rows.TreeHashes.Begins(k) && len(k) == 10 && k[1] == 0 {
		x.Seq = rows.NumberAt(k, 2) + 1
	}
	if rows.Records.Begins(k) && len(k) == 9 {
		x.Seq = rows.NumberAt(k, 1)
		if of, err := made.record(x.Seq); err == nil {
			r.Tenant, r.Chain, _ = ledger.ParseSubject(of.Subject)
		}
	}
	if id, ok := r.Chain.Session(); ok {
		x.Session = id
		if s, err := made.Session(id); err == nil {
			r.Tenant, x.Seq = s.Tenant, cmp.Or(x.Seq, s.Tail.Seq)
		}
		if t, err := made.Turn(turns.Ref{Session: id, Turn: x.Event}); err == nil {
			x.Seq = t.Seq
		}
	}
	x.Tenant = r.Tenant
	if d.given[tenantChain{r.Tenant, r.Chain}] {
		return
	}
	if len(d.found) >= maxDifferences {
		d.more++
		return
	}
	d.found = append(d.found, x)
}

// givenUp returns the chains that the log breaks where the projections went on with them: they
// applied another record. What they have of these chains follows from nothing that is left. An
// agent's chain is among them if one of its sessions' is, from which it may have memories.
func (c *Comparison) givenUp() (map[tenantChain]bool, error) {
	given := make(map[tenantChain]bool)
	if c.anew.aside == 0 {
		return given, nil
	}
	for a, err := range db.AllAside(c.anew.DB) {
		if err != nil {
			return nil, c.anew.Own(err)
		}
		err = c.snap.Use(func() error {
			was := c.was()
			tail, err := was.tail(a.Subject)
			tenant, chain, perr := ledger.ParseSubject(a.Subject)
			if err != nil || perr != nil || tail < a.Seq {
				return nil // what it has of the chain is compared
			}
			if id, ok := chain.Session(); ok {
				if s, err := was.Session(id); err == nil {
					given[tenantChain{tenant, turns.Chain{Entity: turns.AgentEntity, ID: s.Agent}}] = true
				}
			}
			given[tenantChain{tenant, chain}] = true
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return given, nil
}
