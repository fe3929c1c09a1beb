package compare

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"nexus/ledger"
	"nexus/ledger/tlog"
	"nexus/lineage"
	"nexus/projections/apply"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Pass compares every row of the projections, as they were when it began, with what
// follows from the log up to there. Its caller gives it the records one after the other, and
// learns of each what [ledger.Admit] decides.
//
// It makes the projections anew, in a [scratch], with the applier that made the store's. At the
// end both are read side by side. So it knows no kind of row by name: whatever row the applier
// makes is compared, and it believes no row of the store.
//
// For use by one goroutine.
type Pass struct {
	snap *db.Snapshot
	end  rows.Checkpoint // of the rows that are compared
	anew *scratch
	some bool         // the rows of some chains are compared
	cut  bool         // see Cut
	diff *differences // what was found so far; nil: no row was compared
}

// All begins a comparison of all rows with the log of an identity. The caller calls
// Close. Errors: [db.ErrNoRoom], [ledger.ErrUnavailable], those of the disk; [ledger.ErrCorrupt]
// if the rows do not say how far they go.
func All(r Rows, identity string) (*Pass, error) { return begin(r, identity, false) }

// Some begins a comparison of the rows of some chains of sessions, of which the caller
// gives it all records, those of ancestors first. It does not find rows that follow from nothing.
func Some(r Rows) (*Pass, error) { return begin(r, "", true) }

func begin(r Rows, identity string, some bool) (*Pass, error) {
	snap, err := r.Database.Snapshot()
	if err != nil {
		return nil, err
	}
	c, size := &Pass{snap: snap, some: some}, uint64(0)
	err = snap.Use(func() (err error) {
		if c.end, err = db.Checkpoint(snap); err == nil && c.end.Seq < r.Applied {
			err = fmt.Errorf("%w: the checkpoint of the projections is at %d, but they are at %d", ledger.ErrCorrupt, c.end.Seq, r.Applied)
		}
		if !some {
			size = r.Database.Metrics().DiskSpaceUsage()
		}
		return err
	})
	if err == nil {
		c.anew, err = newScratch(r, identity, size, some)
	}
	if err != nil {
		return nil, errors.Join(snap.Damage(err), snap.Close())
	}
	return c, nil
}

// Last returns the position of the last record that the rows follow from.
func (c *Pass) Last() uint64 { return c.end.Seq }

// Cut says that the log could not be read to the end. Then no rows are compared: those
// of the records that are left follow from what is not known.
func (c *Pass) Cut() { c.cut = true }

// Close ends the comparison.
func (c *Pass) Close() error { return errors.Join(c.anew.close(), c.snap.Close()) }

// Apply takes the next record, with its event, or with what is bad about it. It returns what
// the event leads to, or why it is refused, as it was at that position: a chain with a
// refused event is set aside. Err is of the disk.
//
// A bad record says nothing of what was applied. If the projections went on with a sound
// copy of it, the comparison does.
func (c *Pass) Apply(r ledger.Record, e *turns.Event, bad error) (next ledger.Admitted, refused, err error) {
	if err := c.snap.Err(); err != nil {
		return next, nil, err
	}
	p := apply.Parsed{Record: r, Event: e, Bad: bad}
	if p.Tenant, _, p.NoSubject = ledger.ParseSubject(r.Subject); p.NoSubject != nil || bad != nil {
		p.Event = nil
		if p, err = c.copyOf(p); err != nil {
			return next, nil, c.snap.Damage(err)
		}
	}
	err = c.anew.apply(p)
	if bad != nil {
		return next, bad, err
	}
	return c.anew.decided.Admitted, c.anew.decided.Refused, err
}

// copyOf returns the projections' copy of a bad record, and the record itself if it was bad
// when it was applied: then they set its chain aside there.
func (c *Pass) copyOf(bad apply.Parsed) (own apply.Parsed, err error) {
	own = bad
	err = c.snap.Use(func() error {
		was := apply.ViewOf(c.snap)
		r, err := was.Record(bad.Seq)
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
		if p := apply.Parse(r); p.NoSubject == nil && p.Bad == nil {
			own = p
		}
		return nil
	})
	return own, err
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
func (c *Pass) Turn(ref turns.Ref) (rows.Turn, error) { return c.anew.a.Turn(ref) }

// Node implements [lineage.Reader], for the records so far.
func (c *Pass) Node(ref turns.Ref) (lineage.Node, error) { return c.anew.a.Node(ref) }

// TreeHashes returns what is stored of the tree of hashes that follows from the log. Not after [Pass.Cut],
// nor of a comparison of some chains. The caller has called [Pass.Differences].
func (c *Pass) TreeHashes() tlog.Hashes { return apply.TreeHashes(c.anew.DB) }

// CompareSomeRows compares the next n rows of some chains, of which all records were applied, and
// reports whether any are left; [Pass.Differences] compares those too. Errors: those of
// Differences.
func (c *Pass) CompareSomeRows(ctx context.Context, n int) (more bool, err error) {
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

func (c *Pass) beginDifferences() error {
	if err := c.anew.flush(); err != nil {
		return err
	}
	given, err := c.givenUp()
	c.diff = &differences{snap: c.snap, anew: c.anew, given: given}
	return err
}

// Differences ends the comparison and returns the rows that differ, by the position of their
// events as far as that is known. more is how many others there are. After [Pass.Cut] it
// returns none. Errors: [*db.DamagedError] if a file of the store does not hold what was written;
// those of the disk.
func (c *Pass) Differences(ctx context.Context) (found []Difference, more uint64, err error) {
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

// givenUp returns the chains that the log breaks where the projections went on with them: they
// applied another record. What they have of these chains follows from nothing that is left. An
// agent's chain is among them if one of its sessions' is, from which it may have memories.
func (c *Pass) givenUp() (map[tenantChain]bool, error) {
	given := make(map[tenantChain]bool)
	if c.anew.aside == 0 {
		return given, nil
	}
	for a, err := range db.AllAside(c.anew.DB) {
		if err != nil {
			return nil, c.anew.Own(err)
		}
		err = c.snap.Use(func() error {
			was := apply.ViewOf(c.snap)
			tail, err := was.Tail(a.Subject)
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
