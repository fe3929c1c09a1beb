package compare

import (
	"bytes"
	"cmp"
	"context"

	"nexus/ledger"
	"nexus/projections/apply"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Difference is a row that is not what follows from the log.
type Difference struct {
	Kind    Kind
	Of      string   // what it is a row of
	Tenant  string   // "" if it is not known
	Session turns.ID // of whose event it is, zero if it is of none, or that is not known
	Seq     uint64   // of the event, or of the last of its chain; 0 if neither is known
	Event   turns.ID // zero if it is not known

	key []byte
}

// Kind says in what a row differs.
type Kind int

// The kinds of differences.
const (
	Missing Kind = iota // there is no such row
	Differs             // it has another value
	Extra               // it follows from no event
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
	snap  *db.Snapshot
	anew  *scratch
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

// all reads both sides by key.
func (d *differences) all(ctx context.Context) error {
	it, err := d.anew.NewIter(nil)
	if err != nil {
		return d.anew.Own(err)
	}
	defer it.Close()
	more := it.First()
	err = d.snap.Sweep(ctx, func(k, v []byte) error {
		for ; more && bytes.Compare(it.Key(), k) < 0; more = it.Next() {
			d.add(Missing, it.Key())
		}
		if !more || !bytes.Equal(it.Key(), k) {
			d.add(Extra, k)
			return nil
		}
		want, err := it.ValueAndErr()
		if err != nil {
			return d.anew.Own(err)
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
	return cmp.Or(err, d.anew.Own(it.Error()))
}

// some looks up the next n rows of the chains, and reports whether any are left. Rows of memories
// are not compared, as other chains lead to them too, nor is the checkpoint.
func (d *differences) some(ctx context.Context, n int) (more bool, err error) {
	if d.ended {
		return false, nil
	}
	it, err := d.anew.NewIter(nil)
	if err != nil {
		return false, d.anew.Own(err)
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
			return false, d.anew.Own(err)
		}
		err = d.snap.Use(func() error {
			v, ok, err := db.Get(d.snap, k)
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
	return false, d.anew.Own(it.Error())
}

// add takes in a difference of the row of a key.
func (d *differences) add(kind Kind, k []byte) {
	r, made, was := rows.Describe(k), d.anew.a.View, apply.ViewOf(d.snap)
	if kind == Extra {
		made = was
	}
	x := Difference{Kind: kind, Of: r.Of, Event: r.Event, key: bytes.Clone(k)}
	if rows.TreeHashes.Begins(k) && len(k) == 10 && k[1] == 0 {
		x.Seq = rows.NumberAt(k, 2) + 1
	}
	if rows.Records.Begins(k) && len(k) == 9 {
		x.Seq = rows.NumberAt(k, 1)
		if of, err := made.Record(x.Seq); err == nil {
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
