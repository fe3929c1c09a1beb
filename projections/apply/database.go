package apply

import (
	"slices"

	"nexus/ledger"
	"nexus/ledger/tlog"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Database is one opening of the database, with what is in memory of it. Safe for concurrent use;
// one goroutine at a time applies to it.
type Database struct {
	*db.DB
	recent *recent
	tree   tlog.Frontier // of the last batch that was committed; of who applies alone
}

// NewDatabase returns d with nothing in memory.
func NewDatabase(d *db.DB) *Database { return &Database{DB: d, recent: newRecent()} }

// View returns the rows of the database, as it advances. ledger is the ledger's own id, which no
// session may have; zero: it is not known.
func (d *Database) View(ledger turns.ID) View {
	return View{r: d.DB, side: d.DB, ledger: ledger, recent: d.recent}
}

// Empty removes all rows but a checkpoint.
func (d *Database) Empty(cp rows.Checkpoint) error {
	if err := d.Guard(func() error { return d.DB.Empty(cp) }); err != nil {
		return err
	}
	d.recent.clear()
	return nil
}

// Expect gives the database an event whose payload, made by [turns.Event.Encode] from e, has a hash, and
// what [ledger.Admit] made of it on a subject. [Database.Parse] of that payload does not decode it, since the
// hash proves the bytes, and [Batch.Apply] does not ask Admit there if the chain is the same. A copy of e's
// header is kept, of small events only.
func (d *Database) Expect(subject string, hash turns.Hash, e *turns.Event, a *ledger.Admitted) {
	if e.Kind != turns.KindTurn || len(e.Blobs) > 0 {
		return
	}
	x := &expected{event: *e, subject: subject, chain: &chain{session: a.Session}, node: a.Node}
	x.event.Body = nil
	if e.Usage != nil {
		u := *e.Usage
		x.event.Usage = &u
	}
	x.event.Keys = slices.Clone(e.Keys)
	r := d.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events.add(hash, x)
}

// Parse is the other [Parse]. It decodes no event that was expected.
func (d *Database) Parse(r ledger.Record) Parsed { return parse(r, d.recent.takeEvent) }
